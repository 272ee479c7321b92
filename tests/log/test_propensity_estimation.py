"""Propensities that were not logged: near the truth, calibrated, and said to be estimated."""

import re
import sys

import numpy as np
import pyarrow as pa
import pytest

from helpers.logs import columns, content, mixed
from saddleback import GES, errors, features
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Log, LogError, estimate_behaviour, propensity_estimation


def made(true, observations, seed=0, **more):
    """Return a log in which a policy was followed in given states, one-step episodes."""
    rng = np.random.default_rng(seed)
    mu = true(observations)
    action = (rng.random((len(mu), 1)) > np.cumsum(mu, axis=1)[:, :-1]).sum(axis=1)
    n = len(mu)
    return {
        "episode_id": np.arange(n),
        **{f"obs_{j}": column for j, column in enumerate(observations.T)},
        "action": action,
        "reward": rng.normal(size=n),
        "terminated": np.ones(n, dtype=bool),
        "truncated": np.zeros(n, dtype=bool),
        **more,
    }


TABLE = np.random.default_rng(1).dirichlet(np.ones(3), 5)


def finite(observations):
    return TABLE[observations[:, 0].astype(int)]


def logistic(observations):
    z = np.exp(observations @ np.array([[0.0, 1.0, -0.5], [0.0, -1.0, 1.0]]) + [0.0, 0.3, 0.0])
    return z / z.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def states():
    return np.random.default_rng(2).integers(0, 5, (20_000, 1)).astype(float)


def complaint(kind, *parts):
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))


# Near the truth.


def test_counts_find_the_policy_of_a_finite_log(states):
    found = estimate_behaviour(Log(made(finite, states)), prior=0.0)
    visits = np.bincount(states[:, 0].astype(int))
    estimate = np.asarray(found.policy(np.arange(5.0)[:, None]))
    error = np.abs(estimate - TABLE)
    assert (error <= 5 * np.sqrt(TABLE * (1 - TABLE) / visits[:, None])).all()
    # They are the shares themselves.
    log = made(finite, states)
    share = np.bincount(log["action"][states[:, 0] == 3], minlength=3) / visits[3]
    np.testing.assert_allclose(estimate[3], share, rtol=1e-12)


def test_counts_in_a_grid():
    seen = np.random.default_rng(3).normal(size=(40_000, 2))
    found = estimate_behaviour(Log(made(logistic, seen)), bins=15)
    assert found.description == "counts in a grid of 15 cells along each of 2 entries"
    error = np.abs(np.asarray(found.policy(seen)) - logistic(seen))
    assert error.mean() < 0.04


def test_states_never_seen_get_the_overall_shares(states):
    found = estimate_behaviour(Log(made(finite, states)), bins=10)
    assert (np.asarray(found.policy(states)) > 0).all()
    seen = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]] * 30)
    data = made(finite, seen)
    few = np.asarray(estimate_behaviour(Log(data)).policy(np.array([[0.0, 2.0]])))
    np.testing.assert_allclose(few[0], np.bincount(data["action"], minlength=3) / 90)


def test_logistic_regression_finds_a_logistic_policy():
    seen = np.random.default_rng(3).normal(size=(20_000, 2))
    found = estimate_behaviour(Log(made(logistic, seen)), "logistic")
    assert found.description == "multinomial logistic regression"
    assert np.abs(np.asarray(found.policy(seen)) - logistic(seen)).max() < 0.05


def test_actions_never_taken(states):
    log = Log(made(finite, states), actions=["a", "b", "c", "d"])
    for method in ("counts", "logistic"):
        found = np.asarray(estimate_behaviour(log, method).policy(states[:10]))
        assert found.shape == (10, 4)
        assert (found[:, 3] == 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_long_logs_are_thinned(states, monkeypatch):
    log = Log(made(finite, states), segment=1000)
    whole = estimate_behaviour(log)
    monkeypatch.setattr(propensity_estimation, "MAX_ROWS", 7000)
    thin = estimate_behaviour(log)
    assert thin.description == whole.description + ", from one row in 3"
    assert thin.calibration["pairs"].to_numpy().sum() == 3 * len(states[::3])
    each = states[::3]
    log = made(finite, states)
    share = np.bincount(log["action"][::3][each[:, 0] == 2], minlength=3)
    found = np.asarray(thin.policy(np.array([[2.0]])))[0]
    np.testing.assert_allclose(found, share / share.sum(), atol=2e-3)


# The calibration table.


@pytest.mark.parametrize("method", ["counts", "logistic"])
def test_calibration(method, states):
    found = estimate_behaviour(Log(made(finite, states)), method)
    table = found.calibration
    assert isinstance(table, pa.Table)
    assert table.column_names == ["from", "to", "pairs", "estimated", "taken"]
    pairs, said, taken = (table[name].to_numpy() for name in ("pairs", "estimated", "taken"))
    assert pairs.sum() == 3 * len(states)
    assert pairs @ said == pytest.approx(len(states))
    assert pairs @ taken == pytest.approx(len(states))
    some = pairs > 0
    assert (said[some] >= table["from"].to_numpy()[some] - 1e-12).all()
    assert (said[some] <= table["to"].to_numpy()[some] + 1e-12).all()
    if method == "counts":
        np.testing.assert_allclose(said, taken, atol=1e-2)


# The stamp.


def test_the_stamp_is_on_all_that_follows():
    data = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    found = estimate_behaviour(Log(data), bins=3)
    log = found.log
    assert (
        log.estimated == found.description == "counts in a grid of 3 cells along each of 2 entries"
    )
    assert repr(log) == "Log(rows=110, observation=2, actions=3, propensities estimated)"
    card = log.summary()
    assert card.estimated == found.description
    assert "behavior_prob (estimated)  min" in card.text
    assert card.text.endswith(f"propensities were estimated: {found.description}")
    box = features.Polynomial((-4.0, -4.0), (4.0, 4.0), 1)
    sums = Statistics.of(log, GES(0.5), "uniform", features=box, gamma=0.9)
    assert sums.estimated == found.description
    assert repr(sums).endswith(", propensities estimated)")
    np.testing.assert_array_equal(
        content(log)["propensity"],
        np.asarray(found.policy(content(log)["here"]))[
            np.arange(len(content(log)["actions"])), content(log)["actions"]
        ],
    )


def test_propensities_that_are_there_are_not_used():
    data = mixed()
    bare = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    one, other = (estimate_behaviour(Log(each), bins=3).log for each in (data, bare))
    np.testing.assert_array_equal(content(one)["propensity"], content(other)["propensity"])
    assert one.propensity == "mu"


def test_bad_propensities_are_replaced():
    """What the message of E102 says can be done."""
    data = columns([4, 4, 4], "terminated")
    data["behavior_prob"][3] = np.nan
    with complaint(LogError, "E102", "replace all of them by estimates: estimate_behaviour(log)."):
        content(Log(data))
    found = estimate_behaviour(Log(data), bins=2)
    assert np.isfinite(content(found.log)["propensity"]).all()
    renamed = data | {"p": data["behavior_prob"]}
    del renamed["behavior_prob"]
    log = Log(renamed, columns={"behavior_prob": "p"})
    assert not estimate_behaviour(log, bins=2).log.summary().errors


# What is refused.


def test_what_cannot_be_estimated(monkeypatch):
    log = Log(mixed())
    with complaint(errors.UnknownName, "unknown method 'count'. Did you mean 'counts'?"):
        estimate_behaviour(log, "count")
    with complaint(errors.InvalidParameter, "log must be a Log, got dict"):
        estimate_behaviour({})
    with complaint(errors.InvalidParameter, "bins must be a whole number >= 1, got 0"):
        estimate_behaviour(log, bins=0)
    with complaint(errors.InvalidParameter, "prior must be a finite number >= 0, got -1"):
        estimate_behaviour(log, prior=-1)
    same = mixed(mu=False) | {"action": np.zeros(110, dtype=int)}
    with complaint(errors.InvalidParameter, "every row has the same action; there is nothing to"):
        estimate_behaviour(Log(same), "logistic")
    wide = columns([40], "terminated", d=30)
    with complaint(
        errors.InvalidParameter, "estimate_behaviour: a grid over 30 entries has too many cells; "
        'use fewer bins, or method="logistic".'
    ):  # fmt: skip
        estimate_behaviour(Log(wide))
    bad = columns([4], "terminated")
    bad["reward"][1] = np.nan
    with complaint(LogError, "E120 reward is NaN"):
        estimate_behaviour(Log(bad))
    with complaint(LogError, "E122 every episode (1) contains NaN or infinities"):
        estimate_behaviour(Log(bad, drop_bad="episode"))
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with complaint(
        errors.InvalidParameter, "estimate_behaviour: method='logistic' needs scikit-learn: pip "
        "install 'saddleback[sklearn]'."
    ):  # fmt: skip
        estimate_behaviour(log, "logistic")
