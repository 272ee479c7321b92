"""Samples of the states of a log."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saddleback as sb
from helpers.logs import columns, mixed
from saddleback.log.sample import SAMPLE_SIZE, StridedSample


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 24))
@settings(deadline=None)
def test_a_strided_sample_does_not_depend_on_segmentation(lengths, most):
    rows = np.arange(sum(lengths), dtype=float)[:, None]
    parts, at_once = StridedSample(max_size=2 * most), StridedSample(max_size=2 * most)
    for part in np.split(rows, np.cumsum(lengths)[:-1]) if lengths else []:
        parts.add(part, -part)
    at_once.add(rows, -rows)
    if lengths:
        np.testing.assert_array_equal(parts.rows[0], at_once.rows[0])
    kept = at_once.rows[0][:, 0]
    np.testing.assert_array_equal(at_once.rows[1][:, 0], -kept)
    assert min(len(rows), most) <= len(kept) <= 2 * most
    assert len(set(np.diff(kept))) <= 1


def test_a_strided_sample_does_not_keep_the_rows_it_was_given():
    rows = np.zeros((1000, 2))
    freed = weakref.ref(rows)
    sample = StridedSample(max_size=2000)
    sample.add(rows[:, :1])
    del rows
    assert freed() is None


@pytest.mark.parametrize("cached", [False, True])
def test_states_are_sampled_evenly(cached):
    log = sb.Log(columns([9000, 3, 20_000], "terminated", actions=2))
    sample = (log.cached() if cached else log).sample()
    seen = np.column_stack([log.data["obs_0"], log.data["obs_1"]])
    assert SAMPLE_SIZE <= len(sample.states) <= 2 * SAMPLE_SIZE
    np.testing.assert_array_equal(sample.states, seen[::4])
    np.testing.assert_array_equal(sample.low, seen.min(axis=0))
    np.testing.assert_array_equal(sample.high, seen.max(axis=0))
    assert sample.action_counts.tolist() == np.bincount(log.data["action"]).tolist()


def test_rows_without_a_valid_decision_are_left_out():
    data = mixed(seed=2)
    data["obs_1"] = data["obs_1"].copy()
    data["obs_1"][[3, 5]] = np.nan, np.inf
    sample = sb.Log(data).sample()
    assert len(sample.states) == len(data["obs_1"]) - 2
    assert np.isfinite(sample.states).all()
    assert sample.action_counts.sum() == len(sample.states)


@pytest.mark.parametrize("options", [{"drop_bad": "episode"}, {}])
def test_dropped_rows_are_not_sampled(options):
    data = columns([3, 4], "terminated")
    data["obs_0"] = np.array([0.1, 1000.0, np.nan, 0.2, 0.3, 0.4, 0.5])
    sample = sb.Log(data, **options).sample()
    assert sample.high[0] == (0.5 if options else 1000.0)


def test_a_log_without_any_valid_decision_raises_its_own_errors():
    data = columns([3, 4], "terminated")
    data["obs_0"] = np.full(7, np.nan)
    with pytest.raises(sb.LogError, match="E120"):
        sb.Log(data).sample()
