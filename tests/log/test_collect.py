"""Collected logs contain the steps of environments and simulators, with their propensities."""

import sys

import gymnasium
import numpy as np
import pytest

from helpers.log_cases import error_matching
from helpers.logs import assert_same_content, content
from saddleback import errors, policies, problems
from saddleback.log import Log, LogError, collect

PUMP = policies.pump(0.98)


def rows(log):
    """Return all rows of a collected log, by column."""
    return {name: log.data[name].to_numpy(zero_copy_only=False) for name in log.data.column_names}


@pytest.fixture(scope="module")
def gym_car():
    env = gymnasium.make("MountainCar-v0")
    return collect(env, PUMP, episodes=30, rng=0)


@pytest.fixture(scope="module")
def simulated_car():
    return collect(problems.mountain_car(), episodes=3000, rng=0)


# MountainCar.


def test_gymnasiums_mountain_car_follows_its_dynamics(gym_car):
    data = rows(gym_car)
    x, v, action = data["obs_0"], data["obs_1"], data["action"]
    start = data["step"] == 0
    assert ((x[start] >= -0.6) & (x[start] <= -0.4) & (v[start] == 0)).all()
    # The dynamics, from single-precision observations.
    speed = np.clip(v + (action - 1) * 0.001 - 0.0025 * np.cos(3 * x), -0.07, 0.07)
    place = np.clip(x + speed, -1.2, 0.6)
    inner = np.flatnonzero(~start)
    wall = place[inner - 1] <= -1.2
    np.testing.assert_allclose(place[inner - 1], x[inner], atol=1e-6)
    np.testing.assert_allclose(np.where(wall, 0.0, speed[inner - 1]), v[inner], atol=1e-6)
    ends = data["terminated"]
    assert (place[ends] >= 0.5 - 1e-6).all()
    assert ends.sum() + data["truncated"].sum() == 30
    assert (data["step"][data["truncated"]] == 199).all()
    np.testing.assert_array_equal(
        data["behavior_prob"], PUMP(np.column_stack([x, v]))[np.arange(len(x)), action]
    )


def test_the_simulated_mountain_car_has_gymnasiums_statistics(simulated_car):
    """The reference means are those of 100,000 episodes of Gymnasium."""
    summary = simulated_car.summary(0.99)
    assert summary.terminated == 3000
    assert summary.findings == ()
    assert summary.rows / 3000 == pytest.approx(135.8, abs=4 * 30.6 / np.sqrt(3000))
    assert summary.mean_return == pytest.approx(-73.13, abs=4 * 9.0 / np.sqrt(3000))
    assert summary.reward == (-1.0, -1.0, -1.0)
    data = rows(simulated_car)
    length = data["step"][data["terminated"]] + 1
    assert length.min() >= 84
    assert length.max() <= 250
    assert (length <= 120).mean() == pytest.approx(0.35, abs=4 * 0.48 / np.sqrt(3000))
    assert summary.propensity == (pytest.approx(0.01), pytest.approx(0.98, abs=1e-3))


def test_the_simulated_mountain_car_follows_gymnasiums_dynamics(simulated_car):
    """The same actions from the same place lead to the same observations, to single precision."""
    env = gymnasium.make("MountainCar-v0").unwrapped
    data = rows(simulated_car)
    for k in range(5):
        episode = data["episode_id"] == k
        env.reset(seed=0)
        env.state = (data["obs_0"][episode][0], data["obs_1"][episode][0])
        seen = [env.step(int(a)) for a in data["action"][episode]]
        place = np.array([outcome[0] for outcome in seen])
        np.testing.assert_allclose(place[:-1, 0], data["obs_0"][episode][1:], atol=1e-6)
        np.testing.assert_allclose(place[:-1, 1], data["obs_1"][episode][1:], atol=1e-6)
        assert [outcome[2] for outcome in seen] == data["terminated"][episode].tolist()


def test_limits_truncate_simulated_episodes():
    log = collect(problems.mountain_car(), episodes=400, limit=120, rng=1)
    summary = log.summary()
    assert summary.truncated == summary.with_next
    assert summary.terminated / 400 == pytest.approx(0.35, abs=4 * 0.48 / 20)
    data = rows(log)
    assert data["step"].max() == 119
    assert (data["step"][data["truncated"]] == 119).all()
    # The limit does not change the rows before it.
    unlimited = rows(collect(problems.mountain_car(), episodes=400, rng=1))
    kept = unlimited["step"] < 120
    np.testing.assert_array_equal(data["obs_0"], unlimited["obs_0"][kept])
    cut = np.flatnonzero(unlimited["step"] == 120)
    np.testing.assert_array_equal(data["next_obs_0"][data["truncated"]], unlimited["obs_0"][cut])


# Other environments.


def test_cart_pole():
    env = gymnasium.make("CartPole-v1")
    log = collect(env, lambda o: np.full((len(o), 2), 0.5), episodes=20, limit=15, rng=3)
    data = rows(log)
    assert log.dimensions == 4
    assert (data["reward"] == 1).all()
    assert data["truncated"].sum() + data["terminated"].sum() == 20
    assert (data["step"][data["truncated"]] == 14).all()
    assert np.isfinite(data["next_obs_3"]).sum() == data["truncated"].sum() > 0
    tilted = (np.abs(data["obs_2"]) > 0.2095) | (np.abs(data["obs_0"]) > 2.4)
    assert not tilted.any()
    assert not log.summary().findings  # 1/2 for each of two actions


def test_frozen_lake():
    env = gymnasium.make("FrozenLake-v1", map_name="4x4")
    chain = env.unwrapped.P
    table = np.random.default_rng(0).dirichlet(np.ones(4), 16)
    log = collect(env, lambda o: table[o[:, 0].astype(int)], episodes=300, rng=4)
    data = rows(log)
    state, action = data["obs_0"].astype(int), data["action"]
    holes_and_goal = {5, 7, 11, 12, 15}
    assert not holes_and_goal & set(state.tolist())
    for t in np.flatnonzero(~data["terminated"] & ~data["truncated"]):
        assert state[t + 1] in {s for p, s, _, _ in chain[state[t]][action[t]] if p > 0}
    np.testing.assert_array_equal(
        np.column_stack([data[f"mu_{a}"] for a in range(4)]), table[state]
    )
    assert set(state[data["reward"] == 1]) <= {14}
    for s in range(5):
        seen = action[state == s]
        for a in range(4):
            share, n = table[s, a], max(1, len(seen))
            assert abs((seen == a).mean() - share) <= 5 * np.sqrt(share * (1 - share) / n) + 1 / n


class Shifted(gymnasium.Env):
    """Actions 3 and 4; the observation is a picture of 2 by 2."""

    action_space = gymnasium.spaces.Discrete(2, start=3)
    observation_space = gymnasium.spaces.Box(0, 1, (2, 2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = []
        return np.zeros((2, 2)), {}

    def step(self, action):
        assert action in (3, 4)
        self.taken.append(action)
        return np.full((2, 2), len(self.taken)), float(action), len(self.taken) == 3, False, {}


def test_action_spaces_may_start_above_0():
    log = collect(Shifted(), lambda o: np.tile([0.25, 0.75], (len(o), 1)), episodes=4, rng=0)
    data = rows(log)
    assert log.dimensions == 4
    assert set(data["action"]) == {0, 1}
    np.testing.assert_array_equal(data["reward"], data["action"] + 3)
    np.testing.assert_array_equal(data["obs_3"], data["step"])


# Numbers of steps, and seeds.


def test_a_number_of_steps_can_be_collected():
    env = gymnasium.make("MountainCar-v0")
    for log in (
        collect(env, PUMP, steps=250, limit=100, rng=5),
        collect(problems.mountain_car(), steps=250, rng=5),
        collect(problems.two_state(), steps=250, rng=5),
    ):
        data = rows(log)
        assert log.rows == 250
        assert data["truncated"][-1] or data["terminated"][-1]
        summary = log.summary()
        assert summary.lost == summary.stops == 0
        assert not summary.errors


def test_finite_problems():
    problem = problems.random_mdp(0.9, rng=0, states=4, actions=2, termination=0.2)
    log = collect(problem, episodes=500, rng=6)
    data = rows(log)
    state, action = data["obs_0"].astype(int), data["action"]
    np.testing.assert_array_equal(data["behavior_prob"], problem.behaviour[state, action])
    assert log.summary().terminated == 500
    P = problem.mdp.P
    for s in range(4):
        for a in range(2):
            at = np.flatnonzero((state == s) & (action == a) & ~data["terminated"])
            share = np.bincount(state[at + 1], minlength=len(P))[: P.shape[2]] / len(at)
            assert np.abs(share - P[s, a]).max() <= 0.25


@pytest.mark.parametrize("make", [problems.mountain_car, problems.two_state])
def test_the_same_seed_gives_the_same_log(make):
    one, other, third = (collect(make(), steps=300, rng=seed) for seed in (7, 7, 8))
    assert_same_content(content(one), content(other))
    assert not np.array_equal(content(one)["actions"], content(third)["actions"])


def test_the_same_seed_gives_the_same_log_of_an_environment(gym_car):
    repeated = collect(gymnasium.make("MountainCar-v0"), PUMP, episodes=3, rng=0)
    one, other = rows(repeated), rows(gym_car)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name][: len(one[name])])


# Writing.


def test_logs_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["saddleback.log.collect"], "FLUSH", 200)
    for name, source, options in (
        ("ours", problems.mountain_car(), dict(episodes=5)),
        ("gym", gymnasium.make("MountainCar-v0"), dict(policy=PUMP, episodes=5)),
    ):
        path = tmp_path / f"{name}.parquet"
        log = collect(source, rng=9, out=path, **options)
        assert log.data == path
        assert_same_content(content(Log(path)), content(collect(source, rng=9, **options)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gym.parquet", "ours.parquet"]


def test_failed_collections_leave_no_file(tmp_path):
    def nan_later(observations):
        probabilities = PUMP(observations)
        return probabilities if observations[0, 0] < -0.3 else probabilities * np.nan

    env = gymnasium.make("MountainCar-v0")
    with error_matching(LogError, "E144 behaviour policy gives NaN for 1 of 1 observations"):
        collect(env, nan_later, episodes=3, rng=0, out=tmp_path / "log.parquet")
    with error_matching(
        errors.InvalidParameter, f"cannot write {tmp_path / 'no' / 'log.parquet'}: "
    ):
        collect(problems.two_state(), steps=10, out=tmp_path / "no" / "log.parquet")
    assert not list(tmp_path.iterdir())


# Errors.


class Dictionary(Shifted):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"a": 1}, {}


CAR = gymnasium.make("MountainCar-v0")


@pytest.mark.parametrize(
    ("message", "arguments", "options"),
    [
        ("collect: pass either episodes=… or steps=…", (CAR, PUMP), {}),
        ("collect: pass either episodes=… or steps=…", (CAR, PUMP), dict(episodes=1, steps=1)),
        ("episodes must be a whole number >= 1, got 0", (CAR, PUMP), dict(episodes=0)),
        ("limit must be a whole number >= 1, got 0", (CAR, PUMP), dict(episodes=1, limit=0)),
        ("collect: an environment needs a policy, a function from observations [n, d] to probabilities [n, K]; got None.", (CAR,), dict(episodes=1)),
        ("collect: a problem or simulation includes a behaviour policy; do not pass policy.", (problems.two_state(), PUMP), dict(steps=1)),
        ("collect: this problem has no episodes; pass steps=… instead.", (problems.two_state(),), dict(episodes=1)),
        ("collect: for a problem or simulation, limit=… requires episodes=… rather than steps=…", (problems.mountain_car(),), dict(steps=9, limit=3)),
        ("collect: source must be a Gymnasium environment, a simulation or a finite problem, got str.", ("MountainCar-v0",), dict(steps=1)),
        ("collect: the environment's action space must be Discrete, got Box(", (gymnasium.make("Pendulum-v1"), PUMP), dict(steps=1)),
        ("collect: the environment's action space must be Discrete, got MultiDiscrete(", (gymnasium.make_vec("CartPole-v1", 2), PUMP), dict(steps=1)),
        ("E141 behaviour policy returned shape (n, 3); expected (n, 2), one probability per row and action of the log.", (gymnasium.make("CartPole-v1"), PUMP), dict(steps=1)),
        ("collect: observations must be arrays of numbers of fixed size, got dict. Flatten them: gymnasium.wrappers.FlattenObservation(env).", (Dictionary(), PUMP), dict(steps=1)),
        ("rng must be a whole number >= 0", (CAR, PUMP), dict(steps=1, rng=-1)),
    ],
)  # fmt: skip
def test_bad_arguments_are_rejected(message, arguments, options):
    with error_matching(errors.SaddlebackError, message):
        collect(*arguments, **options)
