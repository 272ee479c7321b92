"""Importance sampling: by enumeration, against plain loops, and where it must not be believed."""

import math
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import saddleback as sb
from helpers.importance_sampling import as_log, dr_estimates, importance_estimates, small, table
from helpers.logs import ENDS, columns, mixed
from oracles.importance_sampling import (
    GAMMA,
    effective_sizes,
    episodes,
    influences,
    mean_estimates,
    ratio_estimates,
    some_q,
    target,
    trajectories,
)
from saddleback import errors
from saddleback.log import Log, LogError, row_source
from saddleback.ope import confidence_bounds, doubly_robust, importance_sampling
from saddleback.ope.cumulative_weights import RowStore, WeightedRows

CAR = sb.problems.mountain_car()


# By enumeration.


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(4))
def test_is_and_pdis_are_unbiased(seed):
    mdp, pi, mu = small(seed)
    probabilities, every = zip(*trajectories(mdp, mu), strict=True)
    assert math.fsum(probabilities) == pytest.approx(1.0, abs=1e-14)
    assert {len(episode) for episode in every} == {1, 2, 3}
    estimates = importance_estimates(as_log(every, mu), pi)
    truth = float(mdp.start @ mdp.v(pi))
    for name in ("IS", "PDIS"):
        assert np.array(probabilities) @ estimates.episode_values(name) == pytest.approx(
            truth, rel=1e-12
        )
    assert np.var(estimates.episode_values("IS")) != pytest.approx(
        np.var(estimates.episode_values("PDIS"))
    )
    assert np.array(probabilities) @ np.exp(estimates.log_weights) == pytest.approx(1.0, rel=1e-12)


def test_ratios_after_a_reward_do_not_matter_in_the_mean():
    """Lemma 1 of the paper's appendix A: E[ρ_{t:h−1} R_{t+k}] = E[ρ_{t:t+k−1} R_{t+k}] = E_π R."""
    mdp, pi, mu = small(5)
    logged = list(trajectories(mdp, mu))
    own = list(trajectories(mdp, pi))
    for k in range(3):
        all_ratios = past_ratios = 0.0
        for probability, episode in logged:
            if k < len(episode):
                rho = [pi[s, a] / mu[s, a] for s, a, _ in episode]
                all_ratios += probability * math.prod(rho) * episode[k][2]
                past_ratios += probability * math.prod(rho[: k + 1]) * episode[k][2]
        truth = math.fsum(
            probability * episode[k][2] for probability, episode in own if k < len(episode)
        )
        assert all_ratios == pytest.approx(truth, abs=1e-13)
        assert past_ratios == pytest.approx(truth, abs=1e-13)
        # The same of the library, with no other reward than R_k and no discount.
        only = [
            [(s, a, r * (t == k)) for t, (s, a, r) in enumerate(episode)] for _, episode in logged
        ]
        estimates = importance_estimates(as_log(only, mu), pi, gamma=1.0)
        for name in ("IS", "PDIS"):
            mean = np.array([probability for probability, _ in logged]) @ estimates.episode_values(
                name
            )
            assert mean == pytest.approx(truth, abs=1e-13)


@pytest.mark.parametrize("q", ["none", "wrong", "true"])
def test_doubly_robust_estimates_are_unbiased_with_any_q(q):
    mdp, pi, mu = small(1)
    probabilities, every = zip(*trajectories(mdp, mu), strict=True)
    rng = np.random.default_rng(0)
    values = {"none": 0.0, "wrong": rng.normal(size=(7, 2)), "true": mdp.q(pi)}[q]
    estimates = dr_estimates(as_log(every, mu), table(np.zeros((7, 2)) + values), pi)
    truth = float(mdp.start @ mdp.v(pi))
    assert np.array(probabilities) @ estimates.totals == pytest.approx(truth, rel=1e-12)
    if q == "none":
        plain = importance_estimates(as_log(every, mu), pi)
        np.testing.assert_array_equal(estimates.totals, plain.totals)
        assert estimates.normalised == plain.normalised


@pytest.mark.kernel
@pytest.mark.parametrize("q", [None, "wrong"])
def test_normalised_estimates_of_the_exact_distribution_are_exact(q):
    """Every trajectory as often as it happens: all the data there can be."""
    mdp, pi, mu = small(2, steps=2)
    every = [(probability, episode) for probability, episode in trajectories(mdp, mu)]
    copies = [round(probability * 4**5) for probability, _ in every]
    assert sum(copies) == 4**5
    logged = [
        episode for count, (_, episode) in zip(copies, every, strict=True) for _ in range(count)
    ]
    truth = float(mdp.start @ mdp.v(pi))
    values = None if q is None else table(np.random.default_rng(1).normal(size=(5, 2)))
    log = as_log(logged, mu)
    estimates = importance_estimates(log, pi) if q is None else dr_estimates(log, values, pi)
    for name in estimates.names:
        assert estimates.value(name) == pytest.approx(truth, rel=1e-12)


def test_normalised_estimates_approach_the_truth_with_more_episodes():
    mdp, pi, mu = small(2)
    probabilities, every = zip(*trajectories(mdp, mu), strict=True)
    truth = float(mdp.start @ mdp.v(pi))
    rng = np.random.default_rng(3)
    off = []
    for n in (100, 10_000):
        picked = rng.choice(len(every), p=probabilities, size=(10, n))
        runs = [
            importance_estimates(as_log([every[i] for i in indices], mu), pi) for indices in picked
        ]
        off.append([np.mean([abs(r.value(x) - truth) for r in runs]) for x in ("WIS", "PDWIS")])
    assert (np.array(off[1]) < 0.3 * np.array(off[0])).all()


def test_importance_sampling_on_bandits_equals_ipw():
    """With one step and no discount, IS and WIS are inverse propensity weighting."""
    rng = np.random.default_rng(0)
    data = columns(np.ones(200, dtype=int), "terminated", seed=1)
    estimates = importance_estimates(Log(data), gamma=0.0)
    x = np.column_stack([data["obs_0"], data["obs_1"]])
    w = target(x)[np.arange(200), data["action"]] / data["behavior_prob"]
    ipw = (w * data["reward"]).mean()
    snipw = (w * data["reward"]).sum() / w.sum()
    assert estimates.value("IS") == pytest.approx(ipw, rel=1e-13)
    assert estimates.value("PDIS") == pytest.approx(ipw, rel=1e-13)
    assert estimates.value("WIS") == pytest.approx(snipw, rel=1e-13)
    assert estimates.value("PDWIS") == pytest.approx(snipw, rel=1e-13)
    error = np.sqrt((w**2 * (data["reward"] - snipw) ** 2).sum()) / w.sum()
    one = estimates.estimate("WIS")
    half = stats.t.ppf(0.975, 199) * error * np.sqrt(200 / 199)
    assert [one.low, one.high] == pytest.approx([snipw - half, snipw + half], rel=1e-12)
    truncated = Log(columns(np.ones(9, dtype=int), rng.permutation(["truncated"] * 9), seed=1))
    assert importance_estimates(truncated, gamma=0.0).estimand == "V^π"
    assert not importance_estimates(truncated, gamma=0.1).comparable


@pytest.mark.kernel
def test_doubly_robust_has_no_variance_with_the_true_q_and_no_noise():
    rng = np.random.default_rng(0)
    P = np.zeros((4, 2, 4))
    P[0, 0, 1] = P[0, 1, 2] = P[1, 0, 2] = P[1, 1, 3] = P[2, :, 3] = P[3, :, 3] = 1.0
    mdp = sb.FiniteMDP(P, rng.normal(size=(4, 2)), 0.9, start=[1.0, 0, 0, 0], terminal=[3])
    pi, mu = np.tile([0.3, 0.7], (4, 1)), np.tile([0.6, 0.4], (4, 1))
    picked = [item for _, item in trajectories(mdp, mu)] * 5
    estimates = dr_estimates(as_log(picked, mu), table(mdp.q(pi)), pi)
    truth = float(mdp.start @ mdp.v(pi))
    np.testing.assert_allclose(estimates.totals, truth, rtol=1e-13)
    for item in estimates.estimates():
        assert [item.value, item.low, item.high] == pytest.approx([truth] * 3, rel=1e-12)
    assert np.ptp(importance_estimates(as_log(picked, mu), pi).totals) > 0.1


# Against plain loops, and for any segmentation of the log.


def agrees(estimates, expected, gamma=GAMMA):
    IS, PDIS = mean_estimates(expected, gamma)
    WIS, PDWIS = ratio_estimates(expected, gamma)
    names = estimates.names
    mean, ratio = names[len(names) // 2 - 1], names[-1]
    np.testing.assert_allclose(estimates.episode_values(mean), PDIS, rtol=1e-10, atol=1e-12)
    assert estimates.value(mean) == pytest.approx(np.mean(PDIS), rel=1e-11)
    assert estimates.value(ratio) == pytest.approx(PDWIS, rel=1e-11)
    slopes = influences(expected, gamma)
    np.testing.assert_allclose(estimates.scores, slopes[1], rtol=1e-6, atol=1e-6)
    assert estimates.scores.mean() == pytest.approx(0.0, abs=1e-12)
    if not estimates.has_q:
        np.testing.assert_allclose(estimates.episode_values("IS"), IS, rtol=1e-10, atol=1e-13)
        assert estimates.value("WIS") == pytest.approx(WIS, rel=1e-11)
        assert estimates.episode_values("WIS").mean() == pytest.approx(WIS, rel=1e-11)
        np.testing.assert_allclose(
            estimates.episode_values("WIS") - WIS, slopes[0], rtol=1e-6, atol=1e-6
        )
    np.testing.assert_allclose(estimates.ess_by_step, effective_sizes(expected), rtol=1e-11)
    assert estimates.ess == pytest.approx(estimates.ess_by_step[-1], rel=1e-12)
    for name in names:
        low, high = confidence_bounds.student(estimates.episode_values(name), 0.9)
        one = estimates.estimate(name, 0.9)
        assert (one.low, one.high) == (low, high)
        assert one.low <= one.value <= one.high
        assert one.n == len(expected)


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(3))
def test_importance_sampling_equals_plain_loops(seed):
    data = mixed(seed=seed)
    agrees(importance_estimates(Log(data)), episodes(data))
    agrees(importance_estimates(Log(data), gamma=1.0), episodes(data, gamma=1.0), gamma=1.0)


@pytest.mark.kernel
@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("task", [False, True])
def test_doubly_robust_equals_plain_loops(bootstrap, task):
    data = mixed(seed=4)
    log = Log(data, time_limit="task" if task else "artifact")
    estimates = dr_estimates(log, bootstrap_truncated=bootstrap)
    agrees(estimates, episodes(data, q=some_q, bootstrap_truncated=bootstrap, task=task))
    count = sum(not item for item in (data["terminated"] | (data["truncated"] & task))[ends(data)])
    assert estimates.truncated == count
    cut = f"{count} of 18 episodes were truncated"
    kind = "V^π, bootstrapped with Q" if bootstrap else "finite-horizon value"
    assert estimates.estimand == f"{kind} ({cut})"
    assert [item.comparable for item in estimates.estimates()] == [bootstrap, bootstrap]


def ends(data):
    return np.append(np.flatnonzero(np.diff(data["episode_id"])), len(data["episode_id"]) - 1)


def same(one, other):
    """Assert that two results are equal to the bit."""
    for name in one.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("bootstrap", [False, pytest.param(True, marks=pytest.mark.kernel)])
def test_results_do_not_depend_on_the_segmentation_of_the_log(bootstrap, tmp_path, monkeypatch):
    lengths = [1, 6, 3, 1, 7, 2, 1, 5, 12, 4, 2, 6]
    data = columns(lengths, [*ENDS, "terminated"] * 3, seed=7)
    log = Log(data)
    fit = {"features": sb.features.Fourier((-3, -3), (3, 3), order=1), "folds": 3, "q": None}
    plain, given, fitted = (
        importance_estimates(log),
        dr_estimates(log, bootstrap_truncated=bootstrap),
        dr_estimates(log, bootstrap_truncated=bootstrap, **fit),
    )
    assert (plain.scores != 0).all()
    rows = pa.table(data)
    for k in range(3):
        pq.write_table(rows.slice(17 * k, 17 if k < 2 else None), tmp_path / f"{k}.parquet")
    for batch, segment in ((1 << 17, 3), (5, 1 << 16), (7, 4), (1, 1)):
        monkeypatch.setattr(row_source, "BATCH", batch)
        for source in (data, str(tmp_path / "*.parquet")):
            cut = Log(source, segment=segment)
            same(importance_estimates(cut), plain)
            same(dr_estimates(cut, bootstrap_truncated=bootstrap), given)
            refitted = dr_estimates(cut, bootstrap_truncated=bootstrap, **fit)
            np.testing.assert_allclose(refitted.totals, fitted.totals, rtol=1e-8)
            np.testing.assert_allclose(refitted.scores, fitted.scores, rtol=1e-7, atol=1e-8)


def test_several_targets_at_once_equal_one_by_one():
    log = Log(mixed(seed=8))
    given = {"π": target, "even": "uniform", "μ": "logged"}
    both = importance_sampling(log, given, gamma=GAMMA)
    for name, policy in given.items():
        one = importance_sampling(log, {name: policy}, gamma=GAMMA)[name]
        same(one, both[name])
    features = sb.features.Fourier((-3, -3), (3, 3), order=1)
    more = doubly_robust(log, given, features=features, gamma=GAMMA, shared=True)
    assert list(more) == list(given)
    one = doubly_robust(log, {"even": "uniform"}, features=features, gamma=GAMMA, shared=True)
    np.testing.assert_allclose(more["even"].totals, one["even"].totals, rtol=1e-12)
    assert one["even"].ids.tolist() == more["π"].ids.tolist()


@pytest.mark.parametrize("shared", [False, True])
def test_q_of_an_episode_is_fitted_to_the_other_folds(shared):
    data = mixed(seed=9)
    features = sb.features.Fourier((-3, -3), (3, 3), order=2)
    options = {"features": features, "gamma": GAMMA, "shared": shared, "rule": sb.GES(0.0)}
    estimates = doubly_robust(Log(data), {"π": target}, ridge=1e-7, folds=3, **options)["π"]
    numbers = np.unique(data["episode_id"])
    for fold in range(3):
        in_fold = estimates.ids % np.uint64(3) == fold
        rest = np.isin(data["episode_id"], numbers[~in_fold])
        other = Log({name: column[rest] for name, column in data.items()})
        fitted = sb.LSTD(target=target, **options, ridge=1e-7).fit(other)
        expected = mean_estimates(episodes(data, q=fitted.predict))[1]
        # The ridge is in units of the M of all folds, so agreement is to the order of the ridge.
        np.testing.assert_allclose(
            estimates.totals[in_fold], np.array(expected)[in_fold], rtol=2e-3
        )


def test_q_is_clipped_to_attainable_returns():
    """Action 1 changes nothing but in one episode: without it, Q is its cost over the ridge."""
    action = np.tile([1, 0], 20)
    log = Log(
        {
            "episode_id": np.repeat(np.arange(20), 2), "step": np.tile([0, 1], 20),
            "obs_0": np.zeros(40), "action": action, "behavior_prob": np.full(40, 0.5),
            "reward": np.where(action == 1, -0.1, 1.0),
            "terminated": action == 0, "truncated": np.zeros(40, dtype=bool),
        }
    )  # fmt: skip
    log.data["terminated"][0], log.data["reward"][0] = True, 1.0
    kept = np.arange(40) != 1
    log = Log({name: column[kept] for name, column in log.data.items()})
    weighed = doubly_robust(log, "always:1", gamma=1.0, features=sb.features.OneHot(1))["always:1"]
    low, high = -0.2, 2.0  # of two steps
    assert (low <= weighed.starts).all()
    assert (weighed.starts <= high).all()
    assert weighed.starts.min() == low  # the fold without that episode


@pytest.mark.kernel
def test_weights_of_the_logged_policy_are_one():
    data = mixed(seed=10)
    estimates = importance_estimates(Log(data), "logged")
    np.testing.assert_array_equal(estimates.log_weights, 0.0)
    assert estimates.mean_weight == 1.0
    assert replace(estimates, log_weights=np.log([0.25, 1.25])).mean_weight == pytest.approx(0.75)
    assert np.isfinite(replace(estimates, log_weights=np.full(10**5, 1e6)).mean_weight)
    gains = [item["gain"] for item in episodes(data)]
    for item in estimates.estimates():
        assert item.value == pytest.approx(np.mean(gains), rel=1e-13)
        assert item.ess == pytest.approx(18)
        assert item.max_share == pytest.approx(1 / 18)
        np.testing.assert_allclose(item.ess_by_step, 18)
    many = Log(columns(np.full(100, 2), "terminated"))
    one = importance_estimates(many, "logged").estimate("PDIS")
    assert (one.k_hat, one.note, one.comparable) == (-np.inf, "ok", True)
    assert one.as_dict()["k_hat"] is None
    assert one.as_dict()["ess_by_step"] == pytest.approx([100, 100])


# Weights.


@pytest.mark.kernel
@pytest.mark.parametrize("way", ["up", "down", "up, then down"])
def test_weights_beyond_the_range_of_floats_are_handled(way):
    """Weights of e^±1000 and more, against numbers of sixty digits."""
    data = columns([120, 112, 10, 120, 105, 120], "terminated", seed=3, mu=False)
    n, t = len(data["step"]), data["step"]
    up = {"up": t >= 0, "down": t < 0, "up, then down": t < 60}[way]
    jitter = np.random.default_rng(0).uniform(0.8, 1.0, n)
    data |= {"obs_1": np.where(up, 1.0, -1.0), "action": data["action"] % 2}
    data["behavior_prob"] = np.where(up, 1e-9, 0.9) * jitter

    def policy(observations):
        rare = np.tile([1e-8, 1e-8, 1 - 2e-8], (len(observations), 1))
        return np.where(observations[:, 1:] > 0, [[0.5, 0.5, 0.0]], rare)

    estimates = importance_estimates(
        Log(data, actions=["a", "b", "c"]), policy, allow_uncovered=True
    )
    assert estimates.peaks.max() > 1000 or estimates.log_weights.min() < -1000
    expected = episodes(data, lambda x: np.full((len(x), 3), np.nan))  # for rewards
    pi = policy(np.column_stack([data["obs_0"], data["obs_1"]]))
    pi = pi[np.arange(n), data["action"]]
    with localcontext(prec=60):
        for k, record in enumerate(expected):
            rows = np.flatnonzero(data["episode_id"] == k + 10).tolist()
            weight, record["w"] = Decimal(1), []
            for i in rows:
                weight *= Decimal(float(pi[i])) / Decimal(float(data["behavior_prob"][i]))
                record["w"].append(weight)
            record["y"] = [Decimal(float(data["reward"][i])) for i in rows]
            record |= {"v": Decimal(0), "gain": Decimal(record["gain"])}
        exact = [float(record) for record in ratio_estimates(expected, Decimal(GAMMA))]
        slopes = influences(expected, Decimal(GAMMA), Decimal("1e-6"))
    assert [estimates.value("WIS"), estimates.value("PDWIS")] == pytest.approx(exact, rel=1e-10)
    np.testing.assert_allclose(estimates.scores, slopes[1].astype(float), rtol=1e-8, atol=1e-9)
    if way == "up":
        for name in ("IS", "PDIS"):
            assert not np.isfinite(estimates.value(name))
            assert "overflow" in estimates.estimate(name).note
    if way == "down":
        assert estimates.value("IS") == pytest.approx(0.0, abs=1e-70)
    assert np.isfinite(estimates.value("PDIS")) == (way == "down")


def test_estimates_are_undefined_if_the_target_excludes_every_episode():
    data = columns([3] * 30, "terminated", actions=2, seed=1)
    data["action"][1::3] = 0
    estimates = importance_estimates(Log(data), "always:1")
    assert estimates.value("IS") == 0.0
    for name in ("WIS", "PDWIS"):
        one = estimates.estimate(name)
        assert np.isnan([one.value, one.low, one.high]).all()
        assert one.note.startswith(
            "undefined: the target could not have produced any of the logged"
        )
        assert one.as_dict()["value"] is None
    assert estimates.ess == 0.0


# Where it must not be believed.


def test_importance_sampling_fails_on_mountain_car_and_warns():
    log = sb.collect(CAR, episodes=500, rng=0)
    estimates = importance_sampling(log, "pump:0.8", gamma=0.99)["pump:0.8"]
    one = estimates.estimate("PDIS")
    assert -79.83 < -40 < one.low < one.high < one.low + 20  # narrow, and far from the truth
    assert one.estimand == "V^π"
    for estimate in estimates.estimates():
        assert estimate.ess < 10
        assert estimate.k_hat > 0.7
        assert estimate.max_share > 0.2
        assert "neither the value nor the interval is reliable" in estimate.note
        assert estimate.ess_by_step[0] > 100
        assert estimate.ess_by_step[100] < 10
    assert "ESS 2.3 of 500" in repr(one)
    assert "ESS 2.3" in repr(estimates)


@pytest.mark.slow
def test_doubly_robust_is_close_to_the_truth_on_mountain_car():
    log = sb.collect(CAR, episodes=2000, rng=0)
    estimates = doubly_robust(log, "pump:0.8", features=CAR.features, gamma=0.99)["pump:0.8"]
    assert estimates.value("DR") == pytest.approx(-79.83, abs=6)
    assert estimates.names == ("DR", "WDR")


# Errors and notes.


def test_estimators_reject_bad_arguments():
    data = mixed(seed=1)
    log = Log(data)
    estimates = importance_estimates(log)
    with pytest.raises(errors.UnknownName, match="estimator 'DR'"):
        estimates.estimate("DR")
    with pytest.raises(errors.InvalidParameter, match="level must lie between 0 and 1"):
        estimates.estimates(level=0.0)
    with pytest.raises(errors.InvalidParameter, match="at least two episodes, the log has 1"):
        importance_estimates(Log(columns([5], "terminated")))
    bare = {
        name: column for name, column in data.items() if "mu" not in name and "prob" not in name
    }
    with pytest.raises(errors.InvalidParameter, match="importance sampling needs propensities"):
        importance_estimates(Log(bare, actions=["a", "b", "c"]))
    with pytest.raises(errors.InvalidParameter, match=r"gamma must be a number in \[0, 1\], got 2"):
        importance_estimates(log, gamma=2)
    with pytest.raises(errors.InvalidParameter, match="log must be a Log, got dict"):
        importance_sampling(data, "uniform", gamma=0.9)
    with pytest.raises(errors.InvalidParameter, match="either features to fit Q with, or q itself"):
        doubly_robust(log, "uniform", gamma=0.9)
    features = sb.features.Fourier((-3, -3), (3, 3), order=1)
    for options, words in (
        ({"rule": sb.TD(0.0)}, r"TD\(0\.?0?\) learns state values, but doubly robust"),
        ({"folds": 1}, "folds must be at least 2, otherwise Q would be fitted to the episodes"),
        ({"ridge": -1.0}, "ridge must be a finite number >= 0"),
    ):
        with pytest.raises(errors.SaddlebackError, match=words):
            doubly_robust(log, "uniform", gamma=0.9, features=features, **options)
    for q, words in (
        (3, r"q must be a function from observations \[n, d\] to values \[n, K\], got int"),
        ({"other": some_q}, "q has no entry for target 'uniform': other"),
        (lambda x: x[:, :1], r"must return one value for each row and action, \(\d+, 3\); got"),
        (lambda x: some_q(x) * np.nan, r"q of 'uniform'\[0, 0\] is nan"),
    ):
        with pytest.raises(errors.SaddlebackError, match=words):
            doubly_robust(log, "uniform", gamma=0.9, q=q)


def test_actions_never_logged_are_an_error_unless_allowed():
    data = columns([4] * 30, "terminated", seed=2, mu=False)
    data["action"] = data["action"] % 2
    log = Log(data, actions=["a", "b", "c"])
    with pytest.raises(
        LogError, match="E110 target 'uniform' takes actions that the logged policy never"
    ):
        importance_sampling(log, "uniform", gamma=0.9)
    estimates = importance_sampling(log, "uniform", gamma=0.9, allow_uncovered=True)["uniform"]
    assert (
        "takes actions that the logged policy never takes: 33.3%" in estimates.estimate("IS").note
    )


def test_estimated_propensities_are_noted():
    log = sb.estimate_behaviour(Log(columns([4] * 60, "terminated", seed=2))).log
    estimates = importance_sampling(log, "uniform", gamma=0.9)["uniform"]
    assert "propensities estimated: counts in a grid" in estimates.estimate("IS").note


def test_columns_of_the_log_need_not_know_what_truncated_rows_led_to():
    data = mixed(seed=3)
    pi = target(np.column_stack([data["obs_0"], data["obs_1"]]))
    more = {f"pi_{a}": pi[:, a] for a in range(3)}
    same(importance_estimates(Log(data | more), "columns"), importance_estimates(Log(data)))


def test_progress_covers_the_pass():
    seen = []
    importance_estimates(Log(mixed(seed=3)), progress=lambda fraction, phase: seen.append(fraction))
    assert seen == [1.0]


@pytest.mark.parametrize("limit", [0, 3, 6, 7, 100])
def test_weighted_rows_beyond_a_limit_are_read_from_a_file(limit):
    rng = np.random.default_rng(0)
    parts = [
        WeightedRows(rng.random(n) < 0.5, rng.normal(size=(3, n)), bool(n % 2)) for n in (3, 0, 4)
    ]
    store = RowStore(limit)
    for part in parts:
        store.add(part)
    for _ in range(2):
        read = list(store)
        assert all(one is other for one, other in zip(read, parts, strict=True)) == (limit >= 7)
        for one, other in zip(read, parts, strict=True):
            assert np.array_equal(one.starts, other.starts)
            assert np.array_equal(one.numbers, other.numbers)
            assert one.continues_in_next == other.continues_in_next
    store.close()
