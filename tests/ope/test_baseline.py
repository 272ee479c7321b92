"""The logged policy: its observed value and the self-check."""

from __future__ import annotations

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    CELLS,
    FOURIER,
    discounted_returns,
    logged_baseline,
    rare_dose_log,
    table_log,
)
from helpers.logs import columns
from saddleback.features import Custom, OneHot
from saddleback.log import BehaviourTarget
from saddleback.log.behaviour_target import NAME
from saddleback.ope.baseline import Baseline, excess_over
from saddleback.ope.sandwich import block_scores, student_interval


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [1 << 16, 5, 1])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_returns_are_those_that_were_logged(segment, gamma):
    """Whatever the features, which are poor here, and however episodes come in parts."""
    log = sb.Log(columns([1, 7, 12, 3, 1, 30, 2, 6], "terminated"), segment=segment)
    baseline, _ = logged_baseline(log, FOURIER, gamma, sb.GES(0.3))
    np.testing.assert_allclose(
        baseline.interval.value + baseline.influence,
        discounted_returns(log, gamma),
        rtol=1e-9,
        atol=1e-9,
    )
    returns = discounted_returns(log, gamma)
    assert baseline.interval.value == pytest.approx(returns.mean())
    assert baseline.interval.error == pytest.approx(returns.std(ddof=1) / np.sqrt(8))
    assert baseline.self_check == pytest.approx(baseline.estimate - returns.mean())


@pytest.mark.kernel
def test_returns_of_truncated_episodes_are_bootstrapped():
    data = columns([3, 4, 2], ["terminated", "truncated", "truncated"])
    log, gamma = sb.Log(data), 0.9
    baseline, scored = logged_baseline(log, FOURIER, gamma, sb.GES(0.0))
    mu = np.column_stack([data[f"next_mu_{a}"] for a in range(3)])
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    returns = discounted_returns(log, gamma)
    for episode, (row, length) in enumerate([(6, 4), (8, 2)], start=1):
        phi = np.outer(FOURIER(after[row][None])[0], mu[row]).ravel()
        returns[episode] += gamma**length * phi @ scored.theta
    np.testing.assert_allclose(baseline.interval.value + baseline.influence, returns, rtol=1e-9)
    cut, _ = logged_baseline(log, FOURIER, gamma, sb.GES(0.0), cut=True)
    assert cut.interval.value == scored.value
    np.testing.assert_array_equal(cut.influence, scored.influence)


def test_the_self_check_is_exact_for_one_decision():
    """The residuals of least squares with a constant sum to zero."""
    baseline, _ = logged_baseline(rare_dose_log(n=500), CELLS, 0.0, sb.GES(0.0))
    assert baseline.self_check == pytest.approx(0.0, abs=1e-9)


def test_the_self_check_is_exact_with_lambda_one_and_time_in_the_state():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, 60)
    time = np.concatenate([np.arange(n) for n in lengths])
    log = table_log(
        time, rng.integers(0, 2, len(time)), rng.normal(size=len(time)), lengths, K=2
    )  # fmt: skip
    baseline, _ = logged_baseline(log, OneHot(7), 0.9, sb.GES(1.0))
    assert baseline.estimate == pytest.approx(discounted_returns(log, 0.9).mean(), rel=1e-9)
    assert baseline.self_check == pytest.approx(0.0, abs=1e-9)


def test_the_self_check_detects_features_that_confuse_states():
    """Only the first step pays, and the features are constant."""
    n = 300
    log = table_log(
        np.tile([0, 1, 1, 1], n), np.tile([0, 1], 2 * n), np.tile([1.0, 0, 0, 0], n), [4] * n
    )
    blind = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    baseline, _ = logged_baseline(log, blind, 0.9, sb.GES(0.0))
    assert baseline.interval.value == pytest.approx(1.0)
    assert abs(baseline.self_check) > 0.1
    sharp, _ = logged_baseline(log, OneHot(2), 0.9, sb.GES(0.0))
    assert sharp.self_check == pytest.approx(0.0, abs=1e-9)


def test_a_self_check_counts_beyond_two_standard_errors():
    def gap(difference, error):
        return Baseline(None, np.zeros(1), 1.0, 0.0, difference, error).gap

    assert gap(-1.0, 0.3) == pytest.approx(0.4)
    assert gap(1.0, 0.6) == 0.0
    assert gap(None, None) is None


def block_sums(ends, *, has_target=True, rewards=None):
    """Return statistics of 14 episodes in blocks, and the discounted returns of those that end."""
    lengths = [3, 5, 2, 4, 6, 1, 4, 4, 2, 5, 3, 7, 2, 3]
    data = columns(lengths, ends, mu=False)
    data = data if rewards is None else data | {"reward": np.full(51, rewards)}
    log = sb.Log(data)
    targets = {"new": "uniform"} | ({NAME: BehaviourTarget.of(log)} if has_target else {})
    sums = sb.Statistics.of(log, sb.GES(0.3), targets, features=FOURIER, gamma=0.9, blocks=6)
    ended = np.broadcast_to(np.array(ends) == "terminated", 14)
    return sums, discounted_returns(log, 0.9)[ended]


@pytest.mark.parametrize("has_target", [True, False])
def test_statistics_of_ended_episodes_have_their_mean_return(has_target):
    sums, returns = block_sums("terminated", has_target=has_target)
    baseline = Baseline.of_statistics(sums, sb.GES(0.3), 0.01)
    n, total, squares = sums.counts.returns.T
    assert (n.sum(), total.sum()) == (14, pytest.approx(returns.sum()))
    assert squares.sum() == pytest.approx((returns**2).sum())
    mean = returns.mean()
    blocks = [(count, part) for count, part in zip(n, total, strict=True) if count]
    influence = [(part - count * mean) * len(blocks) / 14 for count, part in blocks]
    assert baseline.influence == pytest.approx(influence)
    expected = student_interval(mean, np.array(influence), "V^μ", "blocks of episodes")
    assert baseline.interval.value == pytest.approx(mean)
    assert baseline.interval.error == pytest.approx(expected.error)
    assert baseline.spread == pytest.approx(returns.std(ddof=1))
    if not has_target:
        assert (baseline.estimate, baseline.self_check, baseline.gap) == (None, None, None)
        return
    value, scores = block_scores(sums, sb.GES(0.3), NAME, 0.01)
    assert (baseline.estimate, baseline.self_check) == (value, pytest.approx(value - mean))
    difference = scores - influence
    error = np.sqrt((difference**2).sum() / (len(difference) * (len(difference) - 1)))
    assert baseline.self_check_error == pytest.approx(error)


@pytest.mark.parametrize("truncated", [1, 12, 13, 14])
def test_truncated_episodes_have_the_bootstrapped_value(truncated):
    """The deviation is that of the returns that are known, if there are two."""
    ends = ["truncated"] * truncated + ["terminated"] * (14 - truncated)
    sums, returns = block_sums(ends)
    baseline = Baseline.of_statistics(sums, sb.GES(0.3), 0.01)
    value, scores = block_scores(sums, sb.GES(0.3), NAME, 0.01)
    assert baseline.interval.value == baseline.estimate == value
    assert np.array_equal(baseline.influence, scores)
    assert (baseline.self_check, baseline.self_check_error) == (None, None)
    spread = baseline.interval.error * np.sqrt(14)
    if truncated <= 12:
        spread = returns.std(ddof=1)
    assert baseline.spread == pytest.approx(spread)
    assert Baseline.of_statistics(block_sums(ends, has_target=False)[0], sb.GES(0.3), 0.01) is None


def test_equal_returns_vary_by_a_hundredth_of_their_size():
    sums, _ = block_sums("terminated", rewards=0.0)
    counts = sums.counts.returns.copy()
    counts[:, 1:] = counts[:, :1] * [-5.0, 25.0]
    object.__setattr__(sums.counts, "returns", counts)
    assert Baseline.of_statistics(sums, sb.GES(0.3), 0.01).spread == pytest.approx(0.05)
    counts[:, 2] -= 1e-9  # by rounding, squares may be less than those of the mean
    assert Baseline.of_statistics(sums, sb.GES(0.3), 0.01).spread == pytest.approx(0.05)


def test_scores_compare_returns_episode_by_episode():
    log = sb.Log(columns([3, 5, 2, 4, 6, 1], "terminated"))
    baseline, scored = logged_baseline(log, FOURIER, 0.9, sb.GES(0.3))
    returns = discounted_returns(log, 0.9)
    paired = scored.influence - (returns - returns.mean())
    assert baseline.self_check_error == pytest.approx(np.sqrt((paired**2).sum() / 30))
    assert baseline.spread == pytest.approx(returns.std(ddof=1))


def test_another_policy_is_compared_in_pairs():
    rng = np.random.default_rng(0)
    own, other = rng.normal(size=(2, 9))
    own, other = own - own.mean(), other - other.mean()
    baseline = Baseline(student_interval(2.0, own, "", ""), own, 1.0)
    better = baseline.improvement(5.0, other, 0.25, False)
    paired = student_interval(3.0, other - own, "", "")
    assert (better.difference, better.error) == (3.0, paired.error)
    assert (better.low, better.high) == (paired.low - 0.25, paired.high + 0.25)
    assert (better.baseline, better.baseline_low) == (2.0, baseline.interval.low)
    assert better.outcome == "better"
    assert baseline.improvement(5.0, other, 0.25, True).outcome == "worse"


def test_an_excess_is_beyond_some_errors():
    assert [excess_over(x, 0.5, 2.0) for x in (-3.0, 1.5, 1.0, 0.5)] == [2.0, 0.5, 0.0, 0.0]
    assert np.isnan(excess_over(np.nan, 0.5, 2.0))
    assert np.isnan(excess_over(1.0, np.nan, 2.0))
