"""Calibration of propensities, and actions without support."""

from __future__ import annotations

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    CELLS,
    always,
    bandit,
    rare_dose_log,
)
from helpers.logs import columns
from helpers.verdicts import gate_of
from saddleback.features import Custom
from saddleback.ope.policy_counts import (
    PolicyCounts,
    PolicySummary,
    behaviour_deviation,
    calibration,
    ratio_deviation,
    uncovered,
)

pytestmark = pytest.mark.usefixtures("no_opinion")


def gate(log, pi, code="PROPENSITIES"):
    """Return one gate of an evaluation with a constant and the observation as features."""
    line = Custom(lambda seen: np.column_stack([np.ones(len(seen)), seen]), 2)
    result = sb.evaluate(
        log,
        always(*pi),
        features=line,
        gamma=0.0,
        rule=sb.GES(0.0),
        methods=(),
        allow_uncovered=True,
    )
    return next(item for item in result.verdicts[0].gates if item.code == code)


@pytest.mark.slow
@pytest.mark.parametrize("full_mu", [True, False])
@pytest.mark.parametrize(
    ("mu", "pi"),
    [
        ([0.5, 0.5], [0.2, 0.8]),
        ([0.2, 0.3, 0.5], [0.6, 0.2, 0.2]),
        ([0.97, 0.02, 0.01], [0.9, 0.05, 0.05]),
        ([0.995, 0.003, 0.002], [0.98, 0.01, 0.01]),
    ],
    ids=["even", "three", "rare", "rarer"],
)
def test_correct_propensities_pass(mu, pi, full_mu):
    levels = [gate(bandit(seed, 600, mu, full_mu=full_mu), pi).level for seed in range(20)]
    assert levels.count("usable") >= 19


@pytest.mark.parametrize("full_mu", [True, False])
def test_propensities_of_another_policy_are_detected(full_mu):
    for seed in range(5):
        log = bandit(seed, 1000, [0.5, 0.3, 0.2], full_mu=full_mu)
        data = dict(log.data)
        data["behavior_prob"] = np.array([0.2, 0.3, 0.5])[data["action"]]
        if full_mu:
            data |= {f"mu_{a}": np.full(1000, p) for a, p in enumerate([0.2, 0.3, 0.5])}
        assert not gate(sb.Log(data), [0.3, 0.3, 0.4]).passed


def test_propensities_of_the_wrong_rows_are_detected():
    """Even if full μ is logged and correct: the estimate uses the propensity of the action."""
    for full_mu in (True, False):
        log = bandit(0, 1000, [0.7, 0.2, 0.1], full_mu=full_mu)
        data = log.data | {"behavior_prob": np.roll(log.data["behavior_prob"], 1)}
        assert not gate(sb.Log(data), [0.3, 0.3, 0.4]).passed


@pytest.mark.parametrize("full_mu", [True, False])
def test_a_deterministic_log_fails_support_and_not_calibration(full_mu):
    n = 500
    log = bandit(0, n, [0.5, 0.5], full_mu=False)
    sure = (log.data["obs_0"] > 0).astype(int)
    data = log.data | {"action": sure, "behavior_prob": np.ones(n)}
    if full_mu:
        data |= {"mu_0": 1.0 - sure, "mu_1": sure.astype(float)}
    log = sb.Log(data, actions=["0", "1"])
    assert gate(log, [0.4, 0.6]).level == "usable"
    support = gate(log, [0.4, 0.6], "SUPPORT")
    assert support.level == "refused"
    assert support.value == pytest.approx(np.where(sure, 0.4, 0.6).mean())


def test_calibration_equals_a_calculation_by_hand():
    """Two cells: 3 of 4 rows against 0.5, and 1 of 2; with all of μ, and with ratios."""
    z, share = behaviour_deviation(np.array([[[1.0], [0.0]], [[1.0], [0.5]]]), 6)
    assert z == pytest.approx(1 / np.sqrt(1 + 1 / 3))
    assert share == 0.0  # not sure
    over = np.array([[[2.0], [0.0]], [[4.0], [1.0]], [[2.0], [1.0]], [[4.0], [1.0]]])
    assert ratio_deviation(over, np.array([0.5]), 6) == pytest.approx((1.0, 0.0))
    apart = np.array([[[90.0], [-80.0]], [[100.0], [100.0]]])  # cancels but for 10
    z, share = behaviour_deviation(apart, 1000)
    assert z == pytest.approx(90 / np.sqrt(100 + 30))
    assert share == pytest.approx(170 / 1000)
    under = np.concatenate([-over[:1], over[1:]])
    assert ratio_deviation(under, np.array([0.1]), 6)[0] == pytest.approx(1 / 3)
    never = np.array([[[-50.0]], [[50.0]], [[0.0]], [[50.0]]])
    assert ratio_deviation(never, np.array([np.inf]), 50)[0] == 0.0


def test_actions_with_zero_propensity_are_uncovered():
    log = rare_dose_log(rare=0.0, n=1000)
    result = sb.evaluate(
        log, always(0.2, 0.8), features=CELLS, gamma=0.0, methods=(), allow_uncovered=True
    )
    sure = (log.data["lactate"] > 6).mean()
    assert result.verdicts[0].evidence.uncovered == pytest.approx(0.8 * sure)


@pytest.mark.parametrize("full_mu", [True, False])
def test_actions_never_taken_are_uncovered(full_mu):
    """With all of μ it is known that they might have been, else not."""
    support = gate(bandit(0, 600, [0.7, 0.3, 0.0], full_mu=full_mu), [0.3, 0.2, 0.5], "SUPPORT")
    assert support.value == pytest.approx(0.5)
    assert support.level == "refused"


@pytest.mark.parametrize("shared", [False, True])
def test_actions_never_taken_are_uncovered_without_propensities(shared):
    """5% of the target on an unknown action was usable."""
    log = columns([6] * 100, "terminated", actions=2, d=1)
    data = {name: values for name, values in log.items() if "mu" not in name}
    del data["behavior_prob"]
    for probabilities, expected in (([0.5, 0.44, 0.06], "refused"), ([0.5, 0.5, 0], "not checked")):
        result = sb.evaluate(
            sb.Log(data, actions=["0", "1", "2"]), always(*probabilities), gamma=0.9, methods=(),
            features="polynomial:1", rule="GTB:0.5", shared=shared, allow_uncovered=True,
        )  # fmt: skip
        support = gate_of(result.verdicts[0], "SUPPORT")
        assert support.level == expected
        assert support.value == (pytest.approx(0.06) if expected == "refused" else None)


@pytest.mark.parametrize("seed", range(4))
def test_deviations_are_those_of_plain_sums(seed):
    rng, rows = np.random.default_rng(seed), 500
    x = 40 * rng.normal(size=(3, 2))
    variance = rng.exponential(size=(3, 2)) * 20
    variance[0, 1] = x[0, 1] = 0.0
    sums = np.array([x, variance])

    def largest(excess, spread):
        """The largest z, and the share of rows in cells, or in their sum, with z above 5."""
        z = np.array([
            [abs(a) / s**0.5 if s > 0 else 0.0 for a, s in zip(one, two, strict=True)]
            for one, two in zip(excess, spread, strict=True)
        ])  # fmt: skip
        counted = [
            sum(abs(a) for a, at in zip(one, own, strict=True) if at > 5)
            for one, own in zip(excess, z, strict=True)
        ]
        return z.max(), max(sum(counted[:-1]), counted[-1]) / rows

    def with_sums(part):
        return np.vstack([part, part.sum(axis=0)])

    excess = with_sums(x)
    expected = largest(excess, with_sums(variance) + np.abs(excess) / 3)
    assert behaviour_deviation(sums, rows) == pytest.approx(expected)
    assert expected[1] > 0
    square, own, pi = (rng.exponential(size=(3, 2)) * size for size in (20, 10, 30))
    least = np.array([0.25, np.inf])
    spread = np.maximum(with_sums(square), with_sums(own))
    for k, c in np.argwhere(excess < 0):
        unobserved = with_sums(pi)[k, c] * (1 / least[c] - 1) if c == 0 else np.inf
        spread[k, c] = max(spread[k, c], unobserved)
    expected = largest(excess, spread)
    assert ratio_deviation(np.array([x, square, own, pi]), least, rows) == pytest.approx(expected)


def test_five_standard_errors_are_not_significant():
    """x = 5 and a variance of 1 with the ratios; more is."""
    for x, share in ((5.0, 0.0), (5.001, 0.5001)):
        sums = np.array([[[x]], [[1.0]], [[0.0]], [[0.0]]])
        assert ratio_deviation(sums, np.ones(1), 10)[1] == pytest.approx(share)
    nothing = np.zeros((4, 1, 1))
    assert behaviour_deviation(nothing[:2], 5) == (0.0, 0.0)
    assert ratio_deviation(nothing, np.ones(1), 0) == (0.0, 0.0)
    one = np.array([[[7.0]], [[1.0]], [[0.0]], [[0.0]]])
    assert ratio_deviation(one, np.ones(1), 0) == (7.0, 7.0)
    one[0] *= -1.0
    assert ratio_deviation(one, np.full(1, 0.5), 10) == (7.0, 0.7)


def counts_of(**parts):
    none = {
        "action_mass": np.array([2.0, 3.0, 4.0]), "totals": np.array([0.5, 2.0, 1.5]),
        "ratios": np.zeros((4, 1, 3)), "residuals": np.zeros((2, 1, 3)),
        "min_propensity": np.array([0.5, 0.25, 1.0]),
    }  # fmt: skip
    return PolicyCounts(**none | parts)


def test_the_larger_of_both_deviations_counts():
    ratios, residuals = np.zeros((4, 1, 3)), np.zeros((2, 1, 3))
    ratios[:2, 0, 0], residuals[:, 0, 1] = (8.0, 1.0), (12.0, 2.0)
    by_ratio, by_mu = (8.0, 0.8), (12 / 6**0.5, 0.0)
    assert calibration(counts_of(ratios=ratios), 10) == pytest.approx(by_ratio)
    both = calibration(counts_of(ratios=ratios, residuals=residuals), 10)
    assert both == pytest.approx(by_ratio)
    assert calibration(counts_of(residuals=residuals), 10) == pytest.approx(by_mu)
    assert calibration(counts_of(min_propensity=np.full(3, np.inf)), 10) is None


def test_actions_never_taken_are_uncovered_unless_all_of_mu_is_known():
    never = np.array([0.5, np.inf, np.inf])
    assert uncovered(counts_of()) == 1.5
    assert uncovered(counts_of(min_propensity=never)) == 7.0
    residuals = np.full((2, 1, 3), 0.25)
    assert uncovered(counts_of(min_propensity=never, residuals=residuals)) == 1.5


@pytest.mark.parametrize(("actions", "entropy"), [(("a",), 1.0), (("a", "b"), 1.0), ("abc", 1.0)])
def test_entropy_is_relative_to_that_of_the_uniform_policy(actions, entropy):
    """That of one action is taken relative to two."""
    uniform = np.log(max(len(actions), 2))
    totals = np.array([4 * entropy * uniform, 3.0, 0.0])
    summary = PolicySummary.of(
        counts_of(action_mass=np.arange(len(actions)) + 1.0, totals=totals), tuple(actions), 4
    )
    assert (summary.entropy, summary.greedy) == (pytest.approx(entropy), 0.75)
    assert summary.mass == {name: (k + 1) / 4 for k, name in enumerate(actions)}
