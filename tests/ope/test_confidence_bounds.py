"""Intervals of weighted episodes: coverage, explicit formulas, and rejected arguments."""

import math

import numpy as np
import pytest
from scipy import stats

from helpers.importance_sampling import as_log, dr_estimates, importance_estimates, small, table
from helpers.logs import mixed
from oracles.importance_sampling import GAMMA, trajectories
from saddleback import errors
from saddleback.log import Log
from saddleback.ope import confidence_bounds


@pytest.mark.statistical
def test_intervals_with_mild_ratios_have_nominal_coverage():
    mdp, pi, mu = small(2)
    pi = 0.5 * pi + 0.5 * mu
    probabilities, every = zip(*trajectories(mdp, mu), strict=True)
    truth = float(mdp.start @ mdp.v(pi))
    rng = np.random.default_rng(0)
    runs, n = 400, 150
    inside = dict.fromkeys(("IS", "PDIS", "WIS", "PDWIS", "DR", "WDR"), 0)
    q = table(rng.normal(size=(7, 2)))
    for picked in rng.choice(len(every), p=probabilities, size=(runs, n)):
        log = as_log([every[i] for i in picked], mu)
        for estimate in (
            *importance_estimates(log, pi).estimates(),
            *dr_estimates(log, q, pi).estimates(),
        ):
            inside[estimate.name] += estimate.low <= truth <= estimate.high
    low, high = stats.binom.ppf([0.0005, 0.9995], runs, 0.945)
    for name, count in inside.items():
        assert low <= count <= high, (name, count / runs)


@pytest.mark.statistical
def test_bernstein_intervals_cover_and_are_wider():
    mdp, pi, mu = small(2)
    probabilities, every = zip(*trajectories(mdp, mu), strict=True)
    truth = float(mdp.start @ mdp.v(pi))
    most = float((pi / mu).max()) ** 3
    span = (float(mdp.rewards.min()), float(mdp.rewards.max()))
    rng = np.random.default_rng(0)
    widths = []
    for n in (200, 20_000):
        estimates = importance_estimates(
            as_log([every[i] for i in rng.choice(len(every), p=probabilities, size=n)], mu), pi
        )
        for name in ("IS", "PDIS"):
            one = estimates.bernstein(name, rewards=span, max_weight=most, horizon=3)
            plain = estimates.estimate(name)
            assert one.low < plain.low < plain.high < one.high
            assert one.low < truth < one.high
            widths.append(one.high - one.low)
            assert one.interval == "95% empirical Bernstein"
            less = estimates.bernstein(name, rewards=span, horizon=3, level=0.9)
            assert less.low < truth
            assert less.high == np.inf
            assert less.interval.startswith("90% lower bound, empirical Bernstein, truncated at ")
            assert estimates.bernstein(name, rewards=span, horizon=3, truncate=9.0).low < truth
    assert widths[2] < 0.2 * widths[0]
    assert less.low > truth - 1.0  # n is large, so the bound is worth something


def test_shifted_values_have_the_mean_of_the_equations():
    """Numbers ≥ 0 with mean V − least·Σγ^t, enumerated: shifting rewards moves V as it should."""
    mdp, pi, mu = small(3)
    probabilities, every = zip(*trajectories(mdp, mu), strict=True)
    estimates = importance_estimates(as_log(every, mu), pi)
    truth = float(mdp.start @ mdp.v(pi))
    for horizon in (3, 7, None):
        total = 1 / (1 - GAMMA) if horizon is None else (1 - GAMMA**horizon) / (1 - GAMMA)
        for name in ("IS", "PDIS"):
            shifted = estimates.shifted_values(name, -4.0, total)
            assert (shifted >= 0).all()
            assert np.array(probabilities) @ shifted == pytest.approx(
                truth + 4.0 * total, rel=1e-12
            )


def test_bounds_equal_a_calculation_by_hand():
    x = np.array([0.0, 0.5, 1.0, 0.25])
    log = math.log(2 / 0.05)
    half = math.sqrt(2 * x.var(ddof=1) * log / 4) + 7 * 10 * log / (3 * 3)
    assert confidence_bounds.bernstein(x, -5.0, 5.0, 0.9) == (-5.0, 5.0)
    assert confidence_bounds.bernstein(x, -500.0, -490.0, 0.9)[0] == pytest.approx(x.mean() - half)
    cut = np.minimum(np.tile(x, 200), 0.5)
    less = math.sqrt(2 * cut.var(ddof=1) * log / 800) + 7 * 0.5 * log / (3 * 799)
    bound, at = confidence_bounds.truncated(np.tile(x, 200), 0.95, 0.5)
    assert (bound, at) == (pytest.approx(cut.mean() - less), 0.5)
    assert confidence_bounds.truncated(np.zeros(100), 0.95) == (0.0, 1.0)


@pytest.mark.parametrize("name", ["IS", "PDIS"])
def test_the_range_of_bernstein_is_that_of_weighted_returns(name):
    """Maurer and Pontil's formula, for rewards from −5 to 4 in 3 steps, and weights up to 200."""
    mdp, pi, mu = small(2)
    every = [trajectory for _, trajectory in trajectories(mdp, mu)]
    estimates = importance_estimates(as_log(every * 60, mu), pi)
    plain = estimates.estimate(name)
    one = estimates.bernstein(name, rewards=(-5.0, 4.0), max_weight=200.0, horizon=3)
    error = (plain.high - plain.value) / stats.t.ppf(0.975, plain.n - 1)
    log, width = math.log(2 / 0.025), 200 * 9 * (1 + GAMMA + GAMMA**2)
    half = math.sqrt(2 * log) * error + 7 * width * log / (3 * (plain.n - 1))
    assert (one.low, one.high) == pytest.approx((plain.value - half, plain.value + half))


def maurer_pontil(values, width, risk):
    """Return half the width of the interval of one side, by sums."""
    n, mean = len(values), math.fsum(values) / len(values)
    variance = math.fsum((x - mean) ** 2 for x in values) / (n - 1)
    log = math.log(2 / risk)
    return mean, math.sqrt(2 * variance * log / n) + 7 * width * log / (3 * (n - 1))


@pytest.mark.parametrize(("n", "level"), [(2, 0.5), (3, 0.95), (30, 0.8)])
def test_student_intervals_are_those_of_the_distribution(n, level):
    x = np.sin(np.arange(n)) + 3.0
    expected = stats.t.interval(level, n - 1, x.mean(), stats.sem(x))
    assert confidence_bounds.student(x, level) == pytest.approx(expected)
    x[0] = np.inf
    assert np.isnan(confidence_bounds.student(x, level)).all()


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.25, 6.0)])
@pytest.mark.parametrize("level", [0.9, 0.6])
def test_bernstein_intervals_are_within_the_bounds(low, high, level):
    x = np.tile([0.25, 0.5, 1.0], 30)
    mean, half = maurer_pontil(x, high - low, (1 - level) / 2)
    expected = (max(low, mean - half), min(high, mean + half))
    assert confidence_bounds.bernstein(x, low, high, level) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("n", "level"), [(21, 0.8), (40, 0.95), (399, 0.3), (4001, 0.95), (4000, 0.5)]
)
def test_the_truncation_point_is_best_for_every_twentieth_value(n, level):
    """Each positive pilot is tried: the bound that its truncated pilots predict for the others."""
    x = np.abs(np.tan(np.arange(n) * 1.7)) * (np.arange(n) % 40 != 20)
    pilot = [x[k] for k in range(0, n, 20)]
    others = [x[k] for k in range(n) if k % 20]
    m, log = len(others), math.log(2 / (1 - level))

    def predicted(cut):
        values = [min(one, cut) for one in pilot]
        spread = math.sqrt(2 * np.var(values, ddof=1) * log / m)
        return np.mean(values) - spread - 7 * cut * log / (3 * (m - 1))

    candidates = [one for one in pilot if one > 0]
    if not candidates:
        candidates = [1.0]
    point = max(candidates, key=predicted)
    mean, half = maurer_pontil([min(one, point) for one in others], point, 1 - level)
    bound, at = confidence_bounds.truncated(x, level)
    assert at == point
    assert bound == pytest.approx(max(0.0, mean - half))


def test_the_truncation_point_is_finite_and_positive():
    x = np.where(np.arange(60) == 20, np.inf, 0.5)
    x[0] = -1.0
    assert confidence_bounds.truncated(x, 0.95)[1] == 0.5


def test_twenty_episodes_are_too_few_to_choose_the_truncation_point():
    words = r"20 episodes are too few to choose the truncation point \(at least 21\)"
    with pytest.raises(errors.InvalidParameter, match=words):
        confidence_bounds.truncated(np.ones(20), 0.95)
    assert confidence_bounds.truncated(np.ones(21), 0.95)[1] == 1.0


def test_intervals_need_two_episodes_and_a_level_between_0_and_1():
    assert confidence_bounds.require_two_episodes(2) == 2
    for n in (0, 1):
        with pytest.raises(errors.InvalidParameter, match=f"two episodes, the log has {n}: "):
            confidence_bounds.require_two_episodes(n)
    assert confidence_bounds.check_level(0.5) == 0.5
    for level in (0.0, 1.0):
        with pytest.raises(errors.InvalidParameter, match=f"between 0 and 1, got {level}"):
            confidence_bounds.check_level(level)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_discounted_horizons_are_sums_of_powers(gamma):
    for horizon in (1, 2, 5):
        expected = sum(gamma**t for t in range(horizon))
        assert confidence_bounds.discounted_horizon(gamma, horizon) == expected
    if gamma < 1:
        expected = sum(gamma**t for t in range(60))
        assert confidence_bounds.discounted_horizon(gamma, None) == pytest.approx(expected)


def test_bounds_of_returns_contain_0():
    assert confidence_bounds.return_bounds((-1.5, -0.5), 3.0) == (-4.5, 0.0)
    assert confidence_bounds.return_bounds((0.5, 1.5), 3.0) == (0.0, 4.5)


def test_declared_bounds_of_rewards_must_contain_those_of_the_log():
    bounds = confidence_bounds.reward_bounds
    assert bounds((-1, 2), (-1.0, 2.0)) == (-1.0, 2.0)
    assert bounds((3, 3), (3.0, 3.0)) == (3.0, 3.0)
    for observed in ((-1.1, 2.0), (-1.0, 2.1)):
        words = f"rewards from {observed[0]:g} to {observed[1]:g}"
        with pytest.raises(errors.InvalidParameter, match=words):
            bounds((-1.0, 2.0), observed)
    for declared in ((0.0, math.nan), (math.nan, 0.0), (-math.inf, 1.0), (0.0, 1.0, 2.0), (1.0,)):
        with pytest.raises(errors.InvalidParameter, match="must be two numbers"):
            bounds(declared, (0.0, 0.0))
    words = "has -0.5 to 1.5, another may exceed them"
    with pytest.raises(errors.InvalidParameter, match=words):
        bounds(None, (-0.5, 1.5))


# What is refused.

REWARDS = (-9.0, 9.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"Bernstein needs reward bounds, which cannot be inferred from data \(this log has "),
        (
            {"rewards": (1.0, 0.0)},
            r"rewards must be two numbers, \(min, max\), got \(",
        ),
        (
            {"rewards": (0.0, 1.0)},
            r"rewards=\(0.0, 1.0\) is declared, but the log has rewards fr",
        ),
        ({"rewards": REWARDS, "horizon": 2}, "horizon=2 is declared, but the log has an episode o"),
        (
            {"rewards": REWARDS, "max_weight": 1e-3},
            "max_weight=0.001 is declared, but the log has",
        ),
        ({"rewards": REWARDS, "max_weight": -1.0}, "max_weight must be a finite number > 0, got"),
        (
            {"rewards": REWARDS},
            r"18 episodes are too few to choose the truncation point \(at least 21",
        ),
        ({"rewards": REWARDS, "truncate": 0.0}, "truncate must be a finite number > 0, got 0.0"),
        ({"rewards": REWARDS, "level": 1.0}, "level must lie between 0 and 1, got 1.0"),
        (
            {"name": "WIS"},
            r"Bernstein applies to bounded means over independent episodes.* got 'WIS'. Use estim",
        ),
    ],
)
def test_bernstein_rejects_bad_arguments(options, words):
    estimates = importance_estimates(Log(mixed(seed=1)))
    with pytest.raises(errors.InvalidParameter, match=words):
        estimates.bernstein(**options)


def test_bernstein_uses_the_reward_bounds_of_the_log(tmp_path):
    path = Log(mixed(seed=1)).write(tmp_path / "log.parquet", reward_bounds=[-9, 9])
    estimates = importance_estimates(Log(path))
    assert estimates.bernstein("PDIS", truncate=100.0).low < estimates.value("PDIS")
    with pytest.raises(
        errors.InvalidParameter,
        match="these trajectories are weighted with a Q, but PDIS uses none",
    ):
        dr_estimates(Log(path)).bernstein("PDIS")
    with pytest.raises(errors.InvalidParameter, match="with γ = 1, returns are bounded only"):
        importance_estimates(Log(path), gamma=1.0).bernstein("PDIS")
    assert (
        importance_estimates(Log(path), gamma=1.0).bernstein("IS", horizon=30, truncate=9.0).n == 18
    )
