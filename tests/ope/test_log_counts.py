"""Counts over a log: target policies, returns and lengths of episodes."""

from __future__ import annotations

from types import SimpleNamespace

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
from saddleback.ope.log_counts import ActionSupport, LogCounts, OutsideBox, merge_lengths
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


@pytest.mark.slow
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


# Parts of the counts, one at a time.


def counts_of(**parts):
    """Return counts that are empty but for some parts."""
    none = {
        "visits": np.zeros(2), "mass": np.zeros((1, 2)), "returns": np.zeros((1, 3)),
        "rewards": np.array([-1.0, 2.0]), "truncated_weight": np.zeros(1),
        "lengths": np.zeros((0, 2), dtype=int), "altered": np.zeros(14, dtype=int),
        "by_target": (),
    }  # fmt: skip
    return LogCounts(**none | parts)


@pytest.mark.parametrize(
    ("rewards", "gamma", "truncated", "expected"),
    [
        ((-1.0, 2.0), 0.5, 0.0, (-1.75, 3.5)),  # 1 + ½ + ¼
        ((-1.0, 2.0), 1.0, 0.0, (-3.0, 6.0)),
        ((-1.0, 2.0), 0.5, 0.25, (-2.0, 4.0)),
        ((-1.0, 2.0), 1.0, 0.25, (-np.inf, np.inf)),
        ((0.0, 2.0), 1.0, 0.25, (0.0, np.inf)),
        ((-2.0, 0.0), 1.0, 0.25, (-np.inf, 0.0)),
        ((1.0, 2.0), 0.5, 0.0, (0.0, 3.5)),
        ((-2.0, -0.5), 0.5, 0.0, (-3.5, 0.0)),
        ((0.5, 0.5), 0.5, 0.0, (0.0, 0.875)),
    ],
)
def test_returns_are_within_those_of_the_smallest_and_largest_reward(
    rewards, gamma, truncated, expected
):
    """Over the three steps of the longest episode; without end if one was truncated."""
    counts = counts_of(
        rewards=np.array(rewards), truncated_weight=np.array([truncated]),
        lengths=np.array([[1, 5], [3, 1]]),
    )  # fmt: skip
    assert counts.attainable_returns(gamma) == pytest.approx(expected)
    assert counts_of(rewards=np.array(rewards)).attainable_returns(gamma) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("lengths", "share"),
    [
        ({6: 4, 1: 1}, 4 / 5),
        ({6: 3, 1: 1}, 0.0),
        ({7: 3, 1: 1}, 3 / 4),
        ({7: 2, 1: 1}, 0.0),  # two may be chance
        ({5: 9, 1: 1}, 0.0),  # five lengths are compared with
        ({6: 9}, 0.0),  # all alike
        ({20: 9, 19: 3}, 0.0),
        ({20: 10, 19: 3}, 10 / 13),
        ({20: 10, 15: 4, 17: 2}, 0.0),
        ({20: 10, 14: 40}, 10 / 50),
        ({}, 0.0),
    ],
)
def test_many_more_than_with_five_shorter_lengths_are_a_time_limit(lengths, share):
    pairs = np.array(sorted(lengths.items())).reshape(-1, 2)
    longest = max(lengths, default=0)
    assert counts_of(lengths=pairs).time_limit == (longest, pytest.approx(share))


def test_lengths_merge_to_one_pair_each():
    one = np.array([[2, 1], [5, 4], [3, 2], [5, 10]])
    assert merge_lengths(one).tolist() == [[2, 1], [3, 2], [5, 14]]


def test_attributes_of_truncated_episodes_are_discounted_from_their_end():
    lengths, gamma = [4, 9, 1, 12], 0.9
    counts = ends_of(lengths, "truncated")
    assert counts.truncated_weight[0] == pytest.approx(sum(gamma**n for n in lengths))


def support(table, rows, actions, mu=None, *, parts=1):
    """Return the support of π [states, K] on rows of states and actions, added in parts."""
    seen = ActionSupport("new", ("a", "b", "c"))
    for part in np.array_split(np.arange(len(rows)), parts):
        segment = SimpleNamespace(states=np.array(rows)[part], actions=np.array(actions)[part])
        seen.add(segment, np.array(table), None if mu is None else np.array(mu))
    return seen


@pytest.mark.parametrize("parts", [1, 3])
def test_actions_that_are_never_taken_are_named(parts):
    """Without μ, those of no row; with it, those of probability 0, state by state."""
    pi = [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]
    rows, taken = [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]
    actual = support(pi, rows, taken, parts=parts).finding(True)
    assert actual.code == "W110"
    assert actual.fix is None
    # Action c has 2·¼ + 3·½ of the probability, in all rows.
    assert actual.message == (
        "target 'new' takes actions that the logged policy never takes: 40.0% of its probability "
        "(action 'c' in 5 rows). Importance-weighted estimates are biased."
    )
    mu = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    actual = support(pi, rows, taken, mu, parts=parts).finding(False)
    assert (actual.code, actual.fix.parameter, actual.fix.value) == (
        "E110",
        "allow_uncovered",
        True,
    )
    # Action c in two rows with ¼ each, and action b in three with ½ each.
    assert "40.0% of its probability (action 'b' in 3 rows)" in actual.message
    zero = [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25]]
    once = support(pi, [0, 1, 1, 1], [0, 1, 1, 2], zero).finding(False)
    assert "6.2% of its probability (action 'c' in 1 row)" in once.message


def test_actions_that_are_taken_or_negligible_are_covered():
    pi = [[0.5, 0.25, 0.25]]
    assert support(pi, [0, 0, 0], [0, 1, 2]).finding(False) is None
    assert support(pi, [0, 0], [0, 0], [[0.5, 0.4, 0.1]]).finding(False) is None
    assert support([[1.0, 0.0, 0.0]], [0], [0], [[1.0, 0.0, 0.0]]).finding(False) is None
    for size, is_covered in ((0.9e-6, True), (1.1e-6, False)):
        few = [[1.0 - size, 0.0, size]]
        actual = support(few, [0, 0, 0], [0, 1, 0]).finding(False)
        assert (actual is None) == is_covered


def outside(x, y, *, low=(0.0, -1.0), high=(1.0, 3.0), segment=1 << 16):
    """Return the counts of rows outside a box, of a log of decisions with two observations."""
    data = {
        "obs_0": np.array(x), "obs_1": np.array(y), "action": np.zeros(len(x), int),
        "reward": np.zeros(len(x)),
    }  # fmt: skip
    log = sb.Log(data, bandit=True, segment=segment)
    box = OutsideBox(SimpleNamespace(low=low, high=high), ("obs_0", "obs_1"))
    for piece in log.segments():
        box.add(piece)
    return box


@pytest.mark.parametrize("segment", [1 << 16, 7])
def test_rows_outside_the_box_are_counted(segment):
    inside = [0.5] * 197
    for values, rows, warns in (
        ([1.0 + 2e-9, 0.0, 1.0], 1, False),
        ([-1.0, 2.0, 1.0], 2, False),
        ([-1.0, 2.0, 3.0], 3, True),
        ([1.0 + 0.5e-9, -0.5e-9, 1.0], 0, False),
    ):
        box = outside([*inside, *values], [1.0] * 200, segment=segment)
        assert box.rows == rows
        assert (box.finding() is not None) == warns
    y = [1.0] * 195 + [3.5, 4.0, -1.5, 9.0, 3.0 + 2e-9]
    box = outside([*inside, 2.0, 2.0, 2.0], y, segment=segment)
    assert box.rows == 5
    message = box.finding().message
    assert message.startswith("obs_1 is not between -1 and 3, the box of the features, in 4 rows")
    assert message.endswith(": observations are clipped to the box.")


def test_features_without_a_box_of_two_ends_have_no_rows_outside():
    for low, high in ((None, None), ((0.0,), (1.0,)), ((0.0, 0.0), None)):
        box = outside([9.0] * 5, [9.0] * 5, low=low, high=high)
        assert (box.rows, box.finding()) == (0, None)
