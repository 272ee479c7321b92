"""Minari datasets: import and export, offline, with correctly aligned propensities."""

import sys

import gymnasium
import minari
import numpy as np
import pytest
from minari.data_collector import EpisodeBuffer

from helpers.log_cases import error_matching
from helpers.logs import assert_same_content, columns, content, mixed
from saddleback import GES, errors, features, problems
from saddleback.log import Log, LogError, collect, estimate_behaviour, from_minari, to_minari
from saddleback.log.minari_source import Alignment
from saddleback.ope.statistics import Statistics

FORMATS = ["hdf5", "arrow", "parquet"]
KEY = "behavior_prob"


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


def usable(log):
    """Return the transitions of a log, without the ids of its episodes."""
    transitions = content(log)
    for name in ("ids", "unfinished", "first"):
        transitions.pop(name)
    return transitions


# Export and import.


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("following", [True, False])
@pytest.mark.parametrize("segment", [3, 1000])
def test_a_round_trip_keeps_the_transitions(data_format, following, segment):
    log = Log(mixed(seed=2, following=following), segment=segment)
    written = to_minari(log, "clinic/visits-v0", data_format=data_format, author="us")
    assert written.total_steps == len(content(log)["rewards"])
    for dataset in (written, "clinic/visits-v0"):
        imported = from_minari(dataset)
        assert imported.action_names == ("0", "1", "2")
        one, other = usable(imported), usable(log)
        if not following:
            # The last row of a truncated episode has become the next observation.
            np.testing.assert_array_equal(one["mu after"], other["mu after"])
        assert_same_content(one, other)
        assert imported.summary().lost == 0


def test_flags_are_exported_as_terminations_and_truncations():
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
    summary = from_minari(written).summary()
    assert (summary.terminated, summary.truncated, summary.with_next, summary.stops) == (2, 2, 2, 0)


def test_time_limits_of_the_task_become_terminations():
    log = Log(columns([3, 2], "truncated"), time_limit="task")
    assert_same_content(usable(from_minari(to_minari(log, "task-v0"))), usable(log))


def test_logs_without_propensities_can_be_exported():
    data = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    imported = from_minari(to_minari(Log(data), "bare-v0"))
    assert imported.propensity == ""
    assert_same_content(usable(imported), usable(Log(data)))

    def mu(observations):
        return np.full((len(observations), 3), 1 / 3)

    assert set(content(from_minari("bare-v0", behaviour=mu))["propensity"]) == {1 / 3}


def test_estimated_propensities_stay_estimated():
    data = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    behaviour = estimate_behaviour(Log(data), bins=2)
    imported = from_minari(to_minari(behaviour.log, "guess-v0"))
    assert imported.estimated == behaviour.description
    assert_same_content(usable(imported), usable(behaviour.log))


# Datasets from elsewhere.


class Walk(gymnasium.Env):
    """A walk on a line, with actions from 5 on, that ends at 3 or after six steps."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2, start=5)


def mu_of(observations):
    first = 1 / (1 + np.exp(-observations[:, :1]))
    return np.hstack([first, 1 - first])


def walk_dataset(name, align, key="mu_prob", all_actions=False, edge=np.nan, episodes=8):
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
        if all_actions:
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
    """Silence Minari about the missing environment of synthetic data."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="env_spec is None|`eval_env` is set to None")
        yield


@pytest.mark.parametrize("align", ["t", "t+1"])
@pytest.mark.parametrize("all_actions", [False, True])
@pytest.mark.parametrize("how", ["NaN", "behaviour", "argument"])
def test_the_alignment_of_propensities_is_determined(align, all_actions, how):
    edge = np.nan if how == "NaN" else 0.5
    dataset, everything = walk_dataset("walk-v0", align, all_actions=all_actions, edge=edge)
    arguments = {"behaviour": dict(behaviour=mu_of), "argument": dict(prob_align=align)}
    options = arguments.get(how, {})
    log = from_minari(dataset, "mu_prob", **options)
    transitions = content(log)
    np.testing.assert_array_equal(
        transitions["actions"], np.concatenate([a for _, a, _, _ in everything])
    )
    np.testing.assert_allclose(
        transitions["propensity"], np.concatenate([t for _, _, t, _ in everything]), rtol=1e-12
    )
    np.testing.assert_array_equal(
        transitions["here"], np.concatenate([o[:-1] for o, *_ in everything])
    )
    assert log.n_actions == 2
    if all_actions and how != "behaviour":
        np.testing.assert_array_equal(
            transitions["mu"], np.concatenate([m[:-1] for _, _, _, m in everything])
        )
    assert not log.summary().errors
    # A truncated row leads to the observation after it, and nothing is dropped.
    assert transitions["continues"].sum() == len(transitions["rewards"]) - 4
    assert log.summary().with_next == 4


def test_an_ambiguous_alignment_is_an_error():
    dataset, everything = walk_dataset("walk-v0", "t+1", edge=1.0)
    with error_matching(
        errors.InvalidParameter, "from_minari: infos 'mu_prob' has one row more than there are "
        'actions, and both alignments are possible. Set prob_align="t" (action t is in row t, '
        'infos written by hand) or prob_align="t+1" (row t+1, infos from env.step), or pass '
        "behaviour=function to determine it."
    ):  # fmt: skip
        from_minari(dataset, "mu_prob")
    right = np.concatenate([t for _, _, t, _ in everything])
    wrong = content(from_minari(dataset, "mu_prob", prob_align="t"))["propensity"]
    assert (wrong != right).mean() > 0.9
    # With a behaviour policy, the wrong choice gives a warning.
    log = from_minari(dataset, "mu_prob", prob_align="t", behaviour=mu_of)
    assert any("mu of step t-1 on 100.0% of rows" in str(f) for f in log.summary().findings)


def test_a_behaviour_policy_that_disagrees_is_an_error():
    dataset, _ = walk_dataset("walk-v0", "t+1", edge=1.0)
    with error_matching(
        LogError, "E151 infos 'mu_prob' agrees with the behaviour policy neither in row t (0.0% of "
        "steps) nor in row t+1 (0.0%). Check the policy and the key."
    ):  # fmt: skip
        from_minari(dataset, "mu_prob", behaviour=lambda o: np.full((len(o), 2), 0.5))


@pytest.mark.parametrize("align", ["t", "t+1"])
def test_where_most_propensities_agree_that_row_is_suggested(align):
    alignment = Alignment(lambda o: np.full((len(o), 2), 0.5), 2)
    alignment._legal, alignment._steps = [True, True], 10
    alignment._agree = np.array([8.0, 1.0] if align == "t" else [1.0, 8.0])
    with error_matching(LogError, f'Or take the more likely row: prob_align="{align}".'):
        alignment.shift("auto", "mu_prob")


def test_propensity_keys_are_checked():
    dataset, everything = walk_dataset("walk-v0", "t+1", key="behavior_prob")
    transitions = content(from_minari(dataset))
    np.testing.assert_array_equal(
        transitions["propensity"], np.concatenate([t for _, _, t, _ in everything])
    )
    with error_matching(
        errors.InvalidParameter,
        "from_minari: episode 0 has no infos 'mu'. Available: behavior_prob.",
    ):
        from_minari(dataset, "mu")
    odd, _ = walk_dataset("odd-v0", "t", key="mu")
    for index in (0, 1):
        assert len(odd[index].infos["mu"]) == len(odd[index]) + 1
    with error_matching(errors.UnknownName, "unknown prob_align 'next'. Known: auto, t, t+1."):
        from_minari(dataset, prob_align="next")


def test_shapes_of_infos_are_checked():
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
    with error_matching(
        errors.InvalidParameter, "from_minari: infos 'mu' of episode 0 has shape [3, 3]; expected "
        "[3] for the logged action, or [3, 2] for all actions."
    ):  # fmt: skip
        from_minari(dataset, "mu")
    assert content(from_minari(dataset, "column"))["propensity"].tolist() == [0.5, 0.5]


def test_scalar_and_dict_observations_are_flattened():
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
        transitions = content(log)
        assert transitions["here"][:, 0].tolist() == [0, 1]
        assert transitions["after"][:, 0].tolist() == [1, 2]
        assert log.dimensions == (1 if name == "number-v0" else 3)


# Errors.


def test_unknown_datasets_are_rejected():
    with error_matching(
        errors.InvalidParameter,
        "from_minari: no local dataset 'walk-v9'. Available: none.",
    ):
        from_minari("walk-v9")
    walk_dataset("walk-v0", "t")
    with error_matching(errors.InvalidParameter, "Available: walk-v0."):
        from_minari("walk-v9")
    with error_matching(
        errors.InvalidParameter,
        "from_minari: expected a MinariDataset or the id of one, got dict.",
    ):
        from_minari({})


@pytest.mark.parametrize("data_format", FORMATS)
def test_continuous_actions_make_a_round_trip(data_format):
    data = columns([4, 1, 5, 3], "truncated", mu=False)
    rng = np.random.default_rng(0)
    del data["action"]
    data |= {f"action_{k}": rng.normal(size=13) for k in range(2)}
    data["behavior_prob"] = rng.uniform(0.1, 7.0, 13)  # densities
    log = Log(data)
    written = to_minari(log, "torque-v0", data_format=data_format, author="us")
    assert written.action_space.shape == (2,)
    imported = from_minari(written, prob_align="t")
    assert imported.has_continuous_actions
    assert imported.roles.actions == ("action_0", "action_1")
    one, other = content(imported, ["action"]), content(log, ["action"])
    for name in ("here", "after", "action", "rewards", "propensity"):
        np.testing.assert_array_equal(one[name], other[name])
    with error_matching(errors.InvalidParameter, "but the dataset has continuous actions. Set"):
        from_minari(written, behaviour=mu_of)


def test_other_spaces_of_actions_are_rejected():
    class Several:
        action_space = gymnasium.spaces.MultiDiscrete([2, 3])

        def iterate_episodes(self):
            return iter(())

    with error_matching(
        errors.InvalidParameter, "from_minari: actions must be Discrete, or a Box of floats, got "
        "MultiDiscrete("
    ):  # fmt: skip
        from_minari(Several())


def test_failed_exports_are_reported():
    log = Log(columns([3], "terminated"))
    to_minari(log, "walk-v0")
    with error_matching(
        errors.InvalidParameter, "to_minari: A Minari dataset with ID walk-v0 already"
    ):
        to_minari(log, "walk-v0")
    with error_matching(errors.InvalidParameter, "to_minari: "):
        to_minari(log, "walk-v1", data_format="csv")
    with error_matching(errors.InvalidParameter, "to_minari: the log has no usable transitions."):
        to_minari(Log(columns([1], "stops", following=False)), "none-v0")


@pytest.mark.parametrize("act", [lambda: from_minari("a-v0"), lambda: to_minari(None, "a-v0")])
def test_a_missing_minari_is_reported(act, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with error_matching(
        errors.InvalidParameter, "_minari needs Minari: pip install 'saddleback[minari]'"
    ):
        act()


def test_statistics_survive_a_round_trip():
    car = problems.mountain_car()
    log = collect(car, episodes=20, limit=100, rng=0)
    imported = from_minari(to_minari(log, "mountain-car/paper-v0"))
    tiles = features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=4, tilings=2)
    one, other = (
        Statistics.of(data, GES(0.5), "pump:0.8", features=tiles, gamma=0.99, blocks=1)
        for data in (log, imported)
    )
    np.testing.assert_array_equal(one.A, other.A)
    np.testing.assert_array_equal(one.starts, other.starts)
