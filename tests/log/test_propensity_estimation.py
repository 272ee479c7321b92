"""Estimated propensities are accurate, calibrated, and recorded as estimated."""

import sys

import numpy as np
import pyarrow as pa
import pytest

from helpers.log_cases import error_matching
from helpers.logs import columns, content, mixed
from saddleback import GES, errors, features
from saddleback.log import Log, LogError, estimate_behaviour, propensity_estimation
from saddleback.log.episode_hashes import hash_ids
from saddleback.ope.statistics import Statistics


def follow_policy(true, observations, seed=0, **more):
    """Return a log of one-step episodes in which a policy was followed in given states."""
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


def held_out(behaviour, data):
    """Return μ̂ of each row of a log, as it was fitted without the row's fold."""
    states = np.column_stack([data[name] for name in data if name.startswith("obs_")])
    return behaviour.policy.of_episodes(states, hash_ids(pa.array(data["episode_id"])))


TABLE = np.random.default_rng(1).dirichlet(np.ones(3), 5)


def finite(observations):
    return TABLE[observations[:, 0].astype(int)]


def logistic(observations):
    z = np.exp(observations @ np.array([[0.0, 1.0, -0.5], [0.0, -1.0, 1.0]]) + [0.0, 0.3, 0.0])
    return z / z.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def states():
    return np.random.default_rng(2).integers(0, 5, (20_000, 1)).astype(float)


# Accuracy.


def test_counts_recover_the_policy_of_a_finite_log(states):
    behaviour = estimate_behaviour(Log(follow_policy(finite, states)), prior=0.0)
    visits = np.bincount(states[:, 0].astype(int))
    estimate = np.asarray(behaviour.policy(np.arange(5.0)[:, None]))
    error = np.abs(estimate - TABLE)
    assert (error <= 5 * np.sqrt(TABLE * (1 - TABLE) / visits[:, None])).all()
    # Without a prior the estimates are the shares.
    log = follow_policy(finite, states)
    share = np.bincount(log["action"][states[:, 0] == 3], minlength=3) / visits[3]
    np.testing.assert_allclose(estimate[3], share, rtol=1e-12)


def test_counts_in_a_grid_approximate_a_smooth_policy():
    seen = np.random.default_rng(3).normal(size=(40_000, 2))
    behaviour = estimate_behaviour(Log(follow_policy(logistic, seen)), bins=15)
    assert behaviour.description == "counts in a grid of 15 cells along each of 2 entries"
    error = np.abs(np.asarray(behaviour.policy(seen)) - logistic(seen))
    assert error.mean() < 0.04


def test_unseen_states_get_the_overall_shares(states):
    behaviour = estimate_behaviour(Log(follow_policy(finite, states)), bins=10)
    assert (np.asarray(behaviour.policy(states)) > 0).all()
    seen = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]] * 30)
    data = follow_policy(finite, seen)
    few = np.asarray(estimate_behaviour(Log(data)).policy(np.array([[0.0, 2.0]])))
    np.testing.assert_allclose(few[0], np.bincount(data["action"], minlength=3) / 90)


def test_logistic_regression_recovers_a_logistic_policy():
    seen = np.random.default_rng(3).normal(size=(20_000, 2))
    behaviour = estimate_behaviour(Log(follow_policy(logistic, seen)), "logistic")
    assert behaviour.description == "multinomial logistic regression"
    assert np.abs(np.asarray(behaviour.policy(seen)) - logistic(seen)).max() < 0.05


def steps(observations):
    """A policy with a corner, which is neither logistic nor aligned with quantiles."""
    first = np.where((observations[:, :1] > 0.3) & (observations[:, 1:] < -0.2), 0.9, 0.2)
    return np.hstack([first, 1 - first])


@pytest.mark.slow
def test_boosted_trees_recover_a_policy_with_corners():
    seen = np.random.default_rng(3).normal(size=(8000, 2))
    log = Log(follow_policy(steps, seen))
    errors = {}
    for method in ("logistic", "boosting"):
        behaviour = estimate_behaviour(log, method)
        errors[method] = np.abs(np.asarray(behaviour.policy(seen)) - steps(seen)).mean()
    assert behaviour.description == "gradient-boosted trees"
    assert errors["boosting"] < 0.05 < 0.1 < errors["logistic"]


def test_a_row_is_not_fitted_to_its_own_episode():
    """With a cell for every row a fit to all rows is certain, one to the others knows nothing."""
    seen = np.random.default_rng(0).permutation(200).reshape(-1, 1) * 1.0
    data = follow_policy(lambda x: np.full((len(x), 2), 0.5), seen)
    behaviour = estimate_behaviour(Log(data), bins=1000, prior=1e-9)
    taken = np.asarray(behaviour.policy(seen))[np.arange(200), data["action"]]
    np.testing.assert_allclose(taken, 1.0)
    assert (np.abs(content(behaviour.log)["propensity"] - 0.5) < 0.1).all()


@pytest.mark.parametrize("method", ["counts", "logistic", "boosting"])
def test_ids_of_episodes_do_not_matter(method):
    data = columns(np.full(40, 6), "terminated", mu=False)
    del data["behavior_prob"]
    renamed = data | {"episode_id": np.random.default_rng(0).permutation(99)[data["episode_id"]]}
    one, other = (estimate_behaviour(Log(rows), method) for rows in (data, renamed))
    assert len(np.unique(one.policy.fold)) == 5
    np.testing.assert_array_equal(content(one.log)["mu"], content(other.log)["mu"])


def test_the_grid_is_chosen_by_held_out_likelihood(states):
    noise = np.random.default_rng(4).normal(size=(300, 6))
    many = estimate_behaviour(Log(follow_policy(lambda x: np.full((len(x), 2), 0.5), noise)))
    assert many.description == "counts in a grid of 1 cell along each of 6 entries"
    few = estimate_behaviour(Log(follow_policy(finite, states)))
    assert few.description == "counts in a grid of 5 cells along each of 1 entry"


def test_an_action_of_a_single_episode_keeps_a_positive_propensity(states):
    data = follow_policy(finite, states[:300])
    data["action"][17] = 3
    for method in ("counts", "logistic", "boosting"):
        log = estimate_behaviour(Log(data), method).log
        assert not log.summary().errors


@pytest.mark.slow
def test_actions_never_taken_have_probability_zero(states):
    states = states[:2000]
    log = Log(follow_policy(finite, states), actions=["a", "b", "c", "d"])
    for method in ("counts", "logistic", "boosting"):
        probabilities = np.asarray(estimate_behaviour(log, method).policy(states[:10]))
        assert probabilities.shape == (10, 4)
        assert (probabilities[:, 3] == 0).all()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_long_logs_are_subsampled(states, monkeypatch):
    log = Log(follow_policy(finite, states), segment=1000)
    full = estimate_behaviour(log)
    monkeypatch.setattr(propensity_estimation, "MAX_ROWS", 7000)
    thin = estimate_behaviour(log)
    assert thin.description == full.description + ", from one row in 3"
    assert thin.calibration["pairs"].to_numpy().sum() == 3 * len(states[::3])
    sample = states[::3]
    log = follow_policy(finite, states)
    share = np.bincount(log["action"][::3][sample[:, 0] == 2], minlength=3)
    probabilities = np.asarray(thin.policy(np.array([[2.0]])))[0]
    np.testing.assert_allclose(probabilities, share / share.sum(), atol=2e-3)


# The calibration table.


@pytest.mark.parametrize("method", ["counts", "logistic"])
def test_the_calibration_table_compares_predicted_and_taken(method, states):
    behaviour = estimate_behaviour(Log(follow_policy(finite, states)), method)
    table = behaviour.calibration
    assert isinstance(table, pa.Table)
    assert table.column_names == ["from", "to", "pairs", "estimated", "taken"]
    pairs, predicted, taken = (table[name].to_numpy() for name in ("pairs", "estimated", "taken"))
    assert pairs.sum() == 3 * len(states)
    assert pairs @ predicted == pytest.approx(len(states))
    assert pairs @ taken == pytest.approx(len(states))
    filled = pairs > 0
    assert (predicted[filled] >= table["from"].to_numpy()[filled] - 1e-12).all()
    assert (predicted[filled] <= table["to"].to_numpy()[filled] + 1e-12).all()
    if method == "counts":
        error = np.sqrt(taken * (1 - taken) / np.maximum(pairs, 1))
        assert (np.abs(predicted - taken) <= 3 * error).all()


# Estimated propensities are recorded.


def test_estimated_propensities_are_recorded_in_all_results():
    data = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    behaviour = estimate_behaviour(Log(data), bins=3)
    log = behaviour.log
    assert (
        log.estimated
        == behaviour.description
        == "counts in a grid of 3 cells along each of 2 entries"
    )
    assert repr(log) == "Log(rows=110, observation=2, actions=3, propensities estimated)"
    summary = log.summary()
    assert summary.estimated == behaviour.description
    assert "behavior_prob (estimated)  min" in summary.text
    assert summary.text.endswith(f"propensities were estimated: {behaviour.description}")
    box = features.Polynomial((-4.0, -4.0), (4.0, 4.0), 1)
    sums = Statistics.of(log, GES(0.5), "uniform", features=box, gamma=0.9)
    assert sums.estimated == behaviour.description
    assert repr(sums).endswith(", propensities estimated)")
    rows = [segment.rows for segment in log.segments()]
    propensity = np.concatenate([part.propensity for part in rows])
    taken = held_out(behaviour, data)[np.arange(110), data["action"]]
    np.testing.assert_array_equal(propensity, taken)


def test_logged_propensities_are_ignored():
    data = mixed()
    bare = {k: v for k, v in mixed(mu=False).items() if k != "behavior_prob"}
    one, other = (estimate_behaviour(Log(rows), bins=3).log for rows in (data, bare))
    np.testing.assert_array_equal(content(one)["propensity"], content(other)["propensity"])
    assert one.propensity == "mu"


def test_missing_propensities_are_filled_in():
    """The fix that the message of E102 suggests works."""
    data = columns([4, 4, 4], "terminated")
    data["behavior_prob"][3] = np.nan
    with error_matching(
        LogError, "E102", "or estimate those that are missing: estimate_behaviour(log)."
    ):
        content(Log(data))
    behaviour = estimate_behaviour(Log(data), bins=2)
    assert np.isfinite(content(behaviour.log)["propensity"]).all()
    renamed = data | {"p": data["behavior_prob"]}
    del renamed["behavior_prob"]
    log = Log(renamed, columns={"behavior_prob": "p"})
    assert not estimate_behaviour(log, bins=2).log.summary().errors


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("bad", [37.5, -0.25])
def test_propensities_that_are_no_probabilities_are_replaced(bad, missing):
    """All of them: those between 0 and 1 may be percentages as well."""
    data = columns([4, 4, 4], "terminated", mu=False)
    bare = {name: column for name, column in data.items() if name != "behavior_prob"}
    data["behavior_prob"][3] = bad
    data["behavior_prob"][[5] * missing] = np.nan
    with error_matching(LogError, "E102", "replace all of them by estimates: estimate_behaviour("):
        content(Log(data))
    one, other = (estimate_behaviour(Log(rows), bins=2).log for rows in (data, bare))
    np.testing.assert_array_equal(content(one)["propensity"], content(other)["propensity"])


# Errors.


def test_bad_arguments_are_rejected(monkeypatch):
    log = Log(mixed())
    with error_matching(errors.UnknownName, "unknown method 'count'. Did you mean 'counts'?"):
        estimate_behaviour(log, "count")
    with error_matching(errors.InvalidParameter, "log must be a Log, got dict"):
        estimate_behaviour({})
    with error_matching(errors.InvalidParameter, "bins must be a whole number >= 1, got 0"):
        estimate_behaviour(log, bins=0)
    with error_matching(errors.InvalidParameter, "prior must be a finite number >= 0, got -1"):
        estimate_behaviour(log, prior=-1)
    same = mixed(mu=False) | {"action": np.zeros(110, dtype=int)}
    with error_matching(
        errors.InvalidParameter, "every row has the same action; there is nothing to"
    ):
        estimate_behaviour(Log(same), "logistic")
    high_dimensional = columns([40], "terminated", d=30)
    with error_matching(
        errors.InvalidParameter, "estimate_behaviour: a grid over 30 entries has too many cells; "
        'use fewer bins, or method="logistic" or "boosting".'
    ):  # fmt: skip
        estimate_behaviour(Log(high_dimensional), bins=10)
    bad = columns([4], "terminated")
    bad["reward"][1] = np.nan
    with error_matching(LogError, "E120 reward is NaN"):
        estimate_behaviour(Log(bad))
    with error_matching(LogError, "E122 every episode (1) contains NaN or infinities"):
        estimate_behaviour(Log(bad, drop_bad="episode"))
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for method in ("logistic", "boosting"):
        with error_matching(
            errors.InvalidParameter, f"estimate_behaviour: method={method!r} needs scikit-learn: "
            "pip install 'saddleback[sklearn]'."
        ):  # fmt: skip
            estimate_behaviour(log, method)


@pytest.mark.parametrize("kind", ["behavior_prob", "behavior_logp"])
def test_only_missing_propensities_are_estimated(kind):
    data = columns([5, 4, 7, 6], "truncated", mu=False)
    logged = np.full(22, 0.3)
    logged[[2, 9, 21]] = np.nan
    del data["behavior_prob"]
    values = logged if kind == "behavior_prob" else np.log(logged)
    log = Log(data | {kind: values})
    with pytest.raises(LogError, match="or estimate those that are missing: estimate_behaviour"):
        list(log.segments())
    behaviour = estimate_behaviour(log, bins=2)
    assert behaviour.description.startswith("counts in a grid of 2 cells")
    assert behaviour.log.estimated == f"{behaviour.description}"
    assert behaviour.description.endswith(", where none was logged")
    mu = held_out(behaviour, data)
    expected = np.where(np.isnan(logged), mu[np.arange(22), data["action"]], 0.3)
    rows = [segment.rows for segment in behaviour.log.segments()]
    propensity = np.concatenate([part.propensity for part in rows])
    np.testing.assert_allclose(propensity, expected, rtol=1e-14)
    full = np.concatenate([part.tables["mu"] for part in rows])
    np.testing.assert_allclose(full.sum(axis=1), 1.0, rtol=1e-14)
    for i, a in enumerate(data["action"]):  # the other actions keep their odds
        others = np.delete(full[i], a)
        odds = np.delete(mu[i], a)
        np.testing.assert_allclose(others / others.sum(), odds / odds.sum(), rtol=1e-12)
        assert full[i, a] == propensity[i]
    summary = behaviour.log.summary()
    assert summary.altered.estimated == 3
    assert "3 missing propensities estimated" in summary.text
    assert not {"W151", "W152"} & {finding.code for finding in summary.findings}


def test_complete_propensities_are_replaced_by_estimates():
    data = columns([5, 4, 7, 6], "truncated", mu=False)
    behaviour = estimate_behaviour(Log(data), bins=2)
    rows = [segment.rows for segment in behaviour.log.segments()]
    mu = held_out(behaviour, data)
    taken = mu[np.arange(22), data["action"]]
    np.testing.assert_array_equal(np.concatenate([part.propensity for part in rows]), taken)
    assert behaviour.log.summary().altered.estimated == 0


def test_calibration_is_of_episodes_that_the_fit_has_not_seen():
    """Each episode is in a cell of its own, of which a fit without it knows nothing."""
    n = 40
    data = {
        "episode_id": np.arange(n), "obs_0": np.arange(n) / n, "action": np.arange(n) % 2,
        "reward": np.zeros(n), "terminated": np.ones(n, bool), "truncated": np.zeros(n, bool),
    }  # fmt: skip
    behaviour = estimate_behaviour(Log(data), bins=n, prior=1.0)
    assert behaviour.policy(data["obs_0"][:, None]).max() == 0.75
    table = behaviour.calibration.to_pylist()
    assert sum(row["pairs"] for row in table if abs(row["estimated"] - 0.5) < 0.1) == 2 * n
