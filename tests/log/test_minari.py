"""Minari datasets: in and out, wholly offline, and with each propensity where it belongs."""

import re
import sys

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

from helpers.logs import alike, columns, content, mixed
from saddleback import GES, errors, features, problems
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Log, LogError, collect, estimate_behaviour, from_minari, to_minari

FORMATS = ["hdf5", "arrow", "parquet"]
KEY = "behavior_prob"


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def usable(log):
    """Return all that is used of a log, whatever its episodes are called."""
    found = content(log)
    for name in ("ids", "unfinished", "first"):
        found.pop(name)
    return found


def complaint(kind, *parts):
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))


# Out and in.


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("following", [True, False])
@pytest.mark.parametrize("segment", [3, 1000])
def test_round_trip(data_format, following, segment):
    log = Log(mixed(seed=2, following=following), segment=segment)
    written = to_minari(log, "clinic/visits-v0", data_format=data_format, author="us")
    assert written.total_steps == len(content(log)["rewards"])
    for dataset in (written, "clinic/visits-v0"):
        again = from_minari(dataset)
        assert again.action_names == ("0", "1", "2")
        one, other = usable(again), usable(log)
        if not following:
            # The last row of an episode cut short has become the observation that follows.
            np.testing.assert_array_equal(one["mu after"], other["mu after"])
        alike(one, other)
        assert again.summary().lost == 0


def test_terminations_and_truncations():
    data = columns([3, 2, 4, 1], ["terminated", "truncated", "stops", "terminated"])
    written = to_minari(Log(data), "ends-v0")
    flags = [
        (e.terminations.tolist(), e.truncations.tolist(), len(e.observations), len(e.infos[KEY]))
        for e in written.iterate_episodes()
    ]
    assert flags == [
        ([False, False, True], [False] * 3, 4, 4),
        ([False, False], [False, True], 3, 3),
        ([False] * 3, [False, False, True], 4, 4),
        ([True], [False], 2, 2),
    ]
    truncated = written[1]
    np.testing.assert_array_equal(
        truncated.observations[-1], [data["next_obs_0"][4], data["next_obs_1"][4]]
    )
    assert np.isnan(truncated.infos["behavior_prob"][-1])
    np.testing.assert_array_equal(
        truncated.infos["behavior_probs"][-1], [data[f"next_mu_{a}"][4] for a in range(3)]
    )
    card = from_minari(written).summary()
    assert (card.terminated, card.truncated, card.with_next, card.stops) == (2, 2, 2, 0)


def test_limits_that_are_the_task_become_terminations():
    log = Log(columns([3, 2], "truncated"), time_limit="task")
    alike(usable(from_minari(to_minari(log, "task-v0"))), usable(log))


def test_without_propensities():
    data = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    again = from_minari(to_minari(Log(data), "bare-v0"))
    assert again.propensity == ""
    alike(usable(again), usable(Log(data)))

    def mu(observations):
        return np.full((len(observations), 3), 1 / 3)

    assert set(content(from_minari("bare-v0", behaviour=mu))["propensity"]) == {1 / 3}


def test_estimated_propensities_stay_estimated():
    data = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    found = estimate_behaviour(Log(data), bins=2)
    again = from_minari(to_minari(found.log, "guess-v0"))
    assert again.estimated == found.description
    alike(usable(again), usable(found.log))


# Made elsewhere.


class Walk(gymnasium.Env):
    """A walk on a line, with actions from 5 on, that ends at 3 or after six steps."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2, start=5)


def mu_of(observations):
    first = 1 / (1 + np.exp(-observations[:, :1]))
    return np.hstack([first, 1 - first])


def made(name, align, key="mu_prob", whole=False, edge=np.nan, episodes=8):
    """Return a dataset with propensities in row t or t + 1 of the infos, and its data."""
    rng = np.random.default_rng(0)
    buffers, everything = [], []
    for i in range(episodes):
        steps = int(rng.integers(2, 7))
        observations = rng.normal(size=(steps + 1, 2))
        mu = mu_of(observations)
        actions = (rng.random(steps) > mu[:-1, 0]).astype(int)
        taken = mu[np.arange(steps), actions]
        ends = np.arange(steps) == steps - 1
        if whole:
            row = np.full((1, 2), edge)
            infos = {key: np.vstack([mu[:-1], row] if align == "t" else [row, mu[:-1]])}
        else:
            infos = {key: np.append(taken, edge) if align == "t" else np.append(edge, taken)}
        buffers.append(
            EpisodeBuffer(
                id=i, observations=observations, actions=actions + 5,
                rewards=rng.normal(size=steps), terminations=ends & (i % 2 == 0),
                truncations=ends & (i % 2 == 1), infos=infos,
            )
        )  # fmt: skip
        everything.append((observations, actions, taken, mu))
    dataset = minari.create_dataset_from_buffers(
        name, buffers, observation_space=Walk.observation_space, action_space=Walk.action_space,
        author="us", author_email="us@here", code_permalink="here", algorithm_name="walk",
        description="a walk", data_format="hdf5", eval_env=None,
    )  # fmt: skip
    return dataset, everything


@pytest.fixture(autouse=True)
def quiet():
    """Minari asks for an environment, which made-up data have none of."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="env_spec is None|`eval_env` is set to None")
        yield


@pytest.mark.parametrize("align", ["t", "t+1"])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("how", ["NaN", "behaviour", "said"])
def test_each_propensity_is_found_where_it_is(align, whole, how):
    edge = np.nan if how == "NaN" else 0.5
    dataset, everything = made("walk-v0", align, whole=whole, edge=edge)
    options = {"NaN": {}, "behaviour": dict(behaviour=mu_of), "said": dict(prob_align=align)}[how]
    log = from_minari(dataset, "mu_prob", **options)
    found = content(log)
    np.testing.assert_array_equal(
        found["actions"], np.concatenate([a for _, a, _, _ in everything])
    )
    np.testing.assert_allclose(
        found["propensity"], np.concatenate([t for _, _, t, _ in everything]), rtol=1e-12
    )
    np.testing.assert_array_equal(found["here"], np.concatenate([o[:-1] for o, *_ in everything]))
    assert log.n_actions == 2
    if whole and how != "behaviour":
        np.testing.assert_array_equal(
            found["mu"], np.concatenate([m[:-1] for _, _, _, m in everything])
        )
    assert not log.summary().errors
    # What follows a truncated row is the observation after it, and nothing is dropped.
    assert found["continues"].sum() == len(found["rewards"]) - 4
    assert log.summary().with_next == 4


def test_the_place_must_be_said_if_it_cannot_be_found():
    dataset, everything = made("walk-v0", "t+1", edge=1.0)
    with complaint(
        errors.InvalidParameter, "from_minari: infos 'mu_prob' has one row more than there are "
        'actions, and both alignments are possible. Set prob_align="t" (action t is in row t, '
        'infos written by hand) or prob_align="t+1" (row t+1, infos from env.step), or pass '
        "behaviour=function to determine it."
    ):  # fmt: skip
        from_minari(dataset, "mu_prob")
    right = np.concatenate([t for _, _, t, _ in everything])
    wrong = content(from_minari(dataset, "mu_prob", prob_align="t"))["propensity"]
    assert (wrong != right).mean() > 0.9
    # With the policy at hand, the wrong choice is noticed all the same.
    log = from_minari(dataset, "mu_prob", prob_align="t", behaviour=mu_of)
    assert any("mu of step t-1 on 100.0% of rows" in str(f) for f in log.summary().findings)


def test_a_policy_that_is_not_the_one():
    dataset, _ = made("walk-v0", "t+1", edge=1.0)
    with complaint(
        LogError, "E151 infos 'mu_prob' agrees with the behaviour policy neither in row t (0.0% of "
        "steps) nor in row t+1 (0.0%). Check the policy and the key, or set prob_align=\"t\" or "
        '"t+1".'
    ):  # fmt: skip
        from_minari(dataset, "mu_prob", behaviour=lambda o: np.full((len(o), 2), 0.5))


def test_keys():
    dataset, everything = made("walk-v0", "t+1", key="behavior_prob")
    found = content(from_minari(dataset))
    np.testing.assert_array_equal(
        found["propensity"], np.concatenate([t for _, _, t, _ in everything])
    )
    with complaint(
        errors.InvalidParameter,
        "from_minari: episode 0 has no infos 'mu'. Available: behavior_prob.",
    ):
        from_minari(dataset, "mu")
    odd, _ = made("odd-v0", "t", key="mu")
    for each in (0, 1):
        assert len(odd[each].infos["mu"]) == len(odd[each]) + 1
    with complaint(errors.UnknownName, "unknown prob_align 'next'. Known: auto, t, t+1."):
        from_minari(dataset, prob_align="next")


def test_shapes_of_infos():
    buffer = EpisodeBuffer(
        id=0, observations=np.zeros((3, 2)), actions=np.array([5, 6]), rewards=np.ones(2),
        terminations=np.array([False, True]), truncations=np.zeros(2, dtype=bool),
        infos={"mu": np.full((3, 3), 1 / 3), "column": np.array([[0.5], [0.5], [np.nan]])},
    )  # fmt: skip
    dataset = minari.create_dataset_from_buffers(
        "odd-v0", [buffer], observation_space=Walk.observation_space,
        action_space=Walk.action_space, author="us", author_email="us@here",
        code_permalink="here", algorithm_name="walk", description="a walk",
    )  # fmt: skip
    with complaint(
        errors.InvalidParameter, "from_minari: infos 'mu' of episode 0 has shape [3, 3]; expected "
        "[3] for the logged action, or [3, 2] for all actions."
    ):  # fmt: skip
        from_minari(dataset, "mu")
    assert content(from_minari(dataset, "column"))["propensity"].tolist() == [0.5, 0.5]


def test_observations_that_are_numbers_or_dicts():
    space = gymnasium.spaces.Dict(
        {"place": gymnasium.spaces.Discrete(5), "speed": gymnasium.spaces.Box(-1, 1, (2,))}
    )
    for name, observation_space, observations in (
        ("number-v0", gymnasium.spaces.Discrete(5), np.array([0, 1, 2])),
        ("dict-v0", space, {"place": np.array([0, 1, 2]), "speed": np.zeros((3, 2))}),
    ):
        buffer = EpisodeBuffer(
            id=0, observations=observations, actions=np.array([0, 1]), rewards=np.ones(2),
            terminations=np.array([False, False]), truncations=np.array([False, True]), infos={},
        )  # fmt: skip
        dataset = minari.create_dataset_from_buffers(
            name, [buffer], observation_space=observation_space,
            action_space=gymnasium.spaces.Discrete(2), author="us", author_email="us@here",
            code_permalink="here", algorithm_name="walk", description="a walk",
        )  # fmt: skip
        log = from_minari(dataset)
        found = content(log)
        assert found["here"][:, 0].tolist() == [0, 1]
        assert found["after"][:, 0].tolist() == [1, 2]
        assert log.dimensions == (1 if name == "number-v0" else 3)


# What is refused.


def test_what_is_no_dataset():
    with complaint(
        errors.InvalidParameter,
        "from_minari: no local dataset 'walk-v9'. Available: none.",
    ):
        from_minari("walk-v9")
    made("walk-v0", "t")
    with complaint(errors.InvalidParameter, "Available: walk-v0."):
        from_minari("walk-v9")
    with complaint(
        errors.InvalidParameter,
        "from_minari: expected a MinariDataset or the id of one, got dict.",
    ):
        from_minari({})


def test_continuous_actions():
    class Continuous:
        action_space = gymnasium.spaces.Box(-1, 1, (1,))

        def iterate_episodes(self):
            return iter(())

    with complaint(
        errors.InvalidParameter, "from_minari: actions must be Discrete, got Box(",
        "continuous actions are not supported.",
    ):  # fmt: skip
        from_minari(Continuous())


def test_datasets_that_are_there_already():
    log = Log(columns([3], "terminated"))
    to_minari(log, "walk-v0")
    with complaint(errors.InvalidParameter, "to_minari: A Minari dataset with ID walk-v0 already"):
        to_minari(log, "walk-v0")
    with complaint(errors.InvalidParameter, "to_minari: "):
        to_minari(log, "walk-v1", data_format="csv")
    with complaint(errors.InvalidParameter, "to_minari: the log has no usable transitions."):
        to_minari(Log(columns([1], "stops", following=False)), "none-v0")


@pytest.mark.parametrize("act", [lambda: from_minari("a-v0"), lambda: to_minari(None, "a-v0")])
def test_without_minari(act, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with complaint(
        errors.InvalidParameter, "_minari needs Minari: pip install 'saddleback[minari]'"
    ):
        act()


def test_a_log_of_ours_by_way_of_minari():
    car = problems.mountain_car()
    log = collect(car, episodes=20, limit=100, rng=0)
    again = from_minari(to_minari(log, "mountain-car/paper-v0"))
    tiles = features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=4, tilings=2)
    one, other = (
        Statistics.of(each, GES(0.5), "pump:0.8", features=tiles, gamma=0.99, blocks=1)
        for each in (log, again)
    )
    np.testing.assert_array_equal(one.A, other.A)
    np.testing.assert_array_equal(one.starts, other.starts)
