"""Counts over a log: target policies, returns and lengths of episodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saddleback as sb
from helpers.decision_logs import (
    FOURIER,
    always,
    bandit,
    discounted_returns,
    random_decisions,
)
from helpers.logs import columns
from saddleback.features import Custom
from saddleback.ope.policy_counts import PolicyCounts, PolicySummary
from saddleback.ope.statistics_io import load_statistics, save_statistics


def test_the_policy_summary_describes_the_target():
    log = random_decisions(0, episodes=50)
    seen = PolicyCounts.empty(2)
    table = np.array([[1.0, 0.0], [0.5, 0.5], [0.96, 0.04], [0.2, 0.8], [0.9, 0.1]])
    for piece in log.with_options(segment=3).segments():
        seen.add(piece, table[piece.observations[:, 0].astype(int)])
    row_pi = table[log.data["obs_0"].astype(int)]
    summary = PolicySummary.of(seen, ("a", "b"), len(row_pi))
    assert summary.mass == pytest.approx({"a": row_pi[:, 0].mean(), "b": row_pi[:, 1].mean()})
    assert summary.greedy == pytest.approx(np.isin(log.data["obs_0"], [0, 2]).mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(row_pi > 0, row_pi * np.log2(row_pi), 0).sum(axis=1)
    assert summary.entropy == pytest.approx(entropy.mean())


@pytest.mark.kernel
@pytest.mark.parametrize("full_mu", [True, False])
def test_policy_counts_equal_plain_array_sums(full_mu):
    """Ratios, μ itself and uncovered actions against plain array sums, for any segmentation."""
    log = bandit(1, 60, [0.2, 0.8], full_mu=full_mu)
    data = dict(log.data)
    sure = np.arange(60) % 5 == 0
    data["behavior_prob"] = np.where(sure, 1.0, data["behavior_prob"])
    if full_mu:
        for k in range(2):
            data[f"mu_{k}"] = np.where(sure, data["action"] == k, data[f"mu_{k}"])
    log = sb.Log(data, actions=["0", "1"])
    pi = np.array([0.97, 0.03])
    counts = []
    for segment in (1 << 16, 7):
        seen = PolicyCounts.empty(2, 2)
        for piece in log.with_options(segment=segment).segments():
            cell = (piece.observations[piece.states, 0] > 0).astype(np.int64)
            seen.add(piece, np.tile(pi, (len(piece.observations), 1)), cell)
        counts.append(seen)
    taken = data["action"][:, None] == np.arange(2)
    mu = data["behavior_prob"][:, None]
    possible = taken | (mu < 1.0)
    covered = np.where(possible, pi, 0.0)
    x = taken * pi / mu - covered
    cell = (data["obs_0"] > 0).astype(int)
    for seen in counts:
        np.testing.assert_allclose(seen.action_mass, 60 * pi)
        assert seen.greedy_rows == 60
        assert seen.uncovered_mass == pytest.approx(np.where(possible, 0.0, pi).sum())
        terms = (x, x**2, np.where(taken, covered * x, 0.0), covered**2)
        for row, term in zip(seen.ratios, terms, strict=True):
            expected = [term[cell == c].sum(axis=0) for c in range(2)]
            np.testing.assert_allclose(row, expected, atol=1e-12)
        np.testing.assert_array_equal(
            seen.min_propensity, [mu[taken[:, k], 0].min(initial=np.inf) for k in range(2)]
        )
        all_of = np.column_stack([data["mu_0"], data["mu_1"]]) if full_mu else None
        surprise = np.zeros((60, 2)) if all_of is None else taken - all_of
        variance = np.zeros((60, 2)) if all_of is None else all_of * (1 - all_of)
        for row, term in zip(seen.residuals, (surprise, variance), strict=True):
            expected = [term[cell == c].sum(axis=0) for c in range(2)]
            np.testing.assert_allclose(row, expected, atol=1e-12)
    for one, two in zip(vars(counts[0]).values(), vars(counts[1]).values(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_policy_counts_merge_and_survive_a_file(tmp_path):
    log = random_decisions(0, episodes=50)
    plain = Custom(lambda seen: np.ones((len(seen), 1)), 1)

    def statistics_of(item):
        return sb.Statistics.of(item, sb.GES(0.0), always(0.3, 0.7), features=plain, gamma=0.9)

    first = log.data["episode_id"] < 20
    halves = [sb.Log({k: v[part] for k, v in log.data.items()}) for part in (first, ~first)]
    both = statistics_of(halves[0]).merge(statistics_of(halves[1]))
    loaded = load_statistics(save_statistics(both, tmp_path / "both.stats"))
    for item in (both, loaded):
        (seen,), (expected,) = item.counts.by_target, statistics_of(log).counts.by_target
        for one, two in zip(vars(seen).values(), vars(expected).values(), strict=True):
            np.testing.assert_allclose(one, two)


def ends_of(lengths, ends="terminated", task=False, segment=1 << 16):
    """Return the counts of episodes of these lengths."""
    limit = "task" if task else "artifact"
    log = sb.Log(columns(lengths, ends, actions=2), segment=segment, time_limit=limit)
    plain = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    sums = sb.Statistics.of(log, sb.GES(0.0), always(0.5, 0.5), features=plain, gamma=0.9)
    return sums.counts


@pytest.mark.parametrize("segment", [1 << 16, 7])
def test_a_spike_at_the_maximum_length_is_a_time_limit(segment):
    lengths = [*range(3, 20), *[30] * 10]
    assert ends_of(lengths, segment=segment).time_limit == (30, pytest.approx(10 / 27))


@pytest.mark.parametrize(
    "lengths",
    [
        [*range(3, 31)],  # just the longest of many
        [30] * 20,  # all alike: the task is that long
        [*range(1, 6), *[5] * 20],  # too short to decide
        [*range(10, 30), *[29] * 3, *[30] * 6],  # many just below it too
    ],
)
def test_lengths_without_a_spike_are_not_a_time_limit(lengths):
    longest, share = ends_of(lengths).time_limit
    assert longest == max(lengths)
    assert share <= 0.05


def test_truncated_episodes_do_not_count_as_terminated():
    lengths, ends = [*range(3, 20), *[30] * 10], ["terminated"] * 17 + ["truncated"] * 10
    counts = ends_of(lengths, ends)
    assert counts.time_limit == (19, 0.0)
    assert counts.lengths[:, 1].sum() == 17


def test_a_time_limit_that_is_part_of_the_task_terminates():
    counts = ends_of([4, 9, 9, 9], "truncated", task=True)
    assert counts.lengths.tolist() == [[4, 1], [9, 3]]
    assert counts.truncated_weight[0] == 0.0


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(1, 15))
@settings(deadline=None, max_examples=40)
def test_lengths_do_not_depend_on_segmentation(lengths, segment):
    ends = np.resize(["terminated", "truncated", "stops"], len(lengths))
    one, two = ends_of(lengths, ends), ends_of(lengths, ends, segment=segment)
    np.testing.assert_array_equal(one.lengths, two.lengths)
    expected = [n for n, end in zip(lengths, ends, strict=True) if end == "terminated"]
    assert [n for n, count in one.lengths for _ in range(count)] == sorted(expected)


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [1 << 16, 5])
def test_log_counts_equal_plain_sums_and_merge(segment):
    lengths, ends = [4, 9, 1, 12, 3, 7], ["terminated", "truncated"] * 3
    log = sb.Log(columns(lengths, ends), segment=segment)
    gamma, rule, target = 0.9, sb.GES(0.3), always(0.2, 0.3, 0.5)
    options = {"features": FOURIER, "gamma": gamma, "blocks": 2}
    sums = sb.Statistics.of(log, rule, target, **options)
    counts, data = sums.counts, log.data
    returns = discounted_returns(log, gamma)[::2]
    counted = counts.returns.sum(axis=0)
    np.testing.assert_allclose(counted, [3, returns.sum(), (returns**2).sum()], rtol=1e-12)
    assert counts.truncated_weight[0] == pytest.approx(sum(gamma**n for n in lengths[1::2]))
    np.testing.assert_array_equal(counts.rewards, [data["reward"].min(), data["reward"].max()])
    taken = np.bincount(data["action"], minlength=3)
    np.testing.assert_array_equal(counts.visits, np.tile(taken, FOURIER.size))
    share = counts.mass.reshape(-1, 3).sum(axis=0)
    np.testing.assert_allclose(share / share.sum(), [0.2, 0.3, 0.5])
    half = [
        sb.Statistics.of(sb.Log(_some(data, keep)), rule, target, **options).counts
        for keep in ([0, 1, 2], [3, 4, 5])
    ]
    both = half[0].merge(half[1])
    for name in ("visits", "mass", "returns", "rewards", "truncated_weight", "lengths"):
        np.testing.assert_allclose(getattr(both, name), getattr(counts, name), rtol=1e-12)


def _some(data, episodes):
    keep = np.isin(data["episode_id"], np.unique(data["episode_id"])[episodes])
    return {name: column[keep] for name, column in data.items()}
