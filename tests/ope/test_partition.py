"""Cells of observations and named parts of columns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from saddleback.ope.partition import Cells, Column

TABLES = arrays(
    np.float64, st.tuples(st.integers(1, 60), st.integers(1, 3)),
    elements=st.one_of(st.sampled_from([0.0, 1.0, 0.1, -2.5]), st.floats(-1e3, 1e3)),
)  # fmt: skip


def locate_cell(cells, point):
    """Follow the splits one by one; return the cell and its box."""
    node, low, high = 0, np.full(len(point), -np.inf), np.full(len(point), np.inf)
    while cells.below[node] >= 0:
        k, cut = cells.column[node], cells.cut[node]
        if point[k] > cut:
            low[k], node = max(low[k], cut), cells.above[node]
        else:
            high[k], node = min(high[k], cut), cells.below[node]
    return cells.leaf[node], low, high


@given(TABLES, st.integers(1, 20))
@settings(deadline=None)
def test_every_observation_falls_into_exactly_one_cell(sample, most):
    cells = Cells.of(sample, most)
    assert 1 <= cells.size <= most
    assigned = cells.find(sample)
    boxes = {}
    for row, cell in zip(sample, assigned, strict=True):
        expected, low, high = locate_cell(cells, row)
        assert expected == cell
        boxes[cell] = (low, high)
    for row, cell in zip(sample, assigned, strict=True):
        inside = [c for c, (low, high) in boxes.items() if ((low < row) & (row <= high)).all()]
        assert inside == [cell]


@given(TABLES, st.integers(1, 20))
@settings(deadline=None)
def test_every_cell_contains_part_of_the_sample(sample, most):
    cells = Cells.of(sample, most)
    counts = np.bincount(cells.find(sample), minlength=cells.size)
    assert counts.min() > 0
    assert cells.size == min(most, len(np.unique(sample, axis=0)))


def test_cells_are_about_equally_full():
    sample = np.random.default_rng(0).normal(size=(4096, 3)) * [1.0, 100.0, 1e-3]
    counts = np.bincount(Cells.of(sample, 64).find(sample))
    assert counts.tolist() == [64] * 64


@pytest.mark.parametrize("constant", [0.1, 1.0, 98.6, -1e9 / 3])
def test_a_constant_column_does_not_keep_others_from_being_split(constant):
    rng = np.random.default_rng(0)
    sample = np.column_stack([rng.normal(size=1000), np.full(1000, constant)])
    cells = Cells.of(sample, 16)
    assert cells.size == 16
    assert not cells.column[cells.below >= 0].any()


def test_cells_are_features():
    sample = np.arange(32.0)[:, None]
    cells = Cells.of(sample, 8)
    which, size = cells.encode(sample)
    assert size is None
    assert which[:, 0].tolist() == np.repeat(np.arange(8), 4).tolist()
    outside = cells.find(np.array([[-1e9], [1e9]]))
    assert outside.tolist() == [0, 7]


@pytest.mark.parametrize(
    ("sample", "part", "above", "description"),
    [
        ([1, 2, 5], 1, None, "x = 2"),
        ([1, 2, 5], 1, True, "x ≥ 2"),
        ([1, 2, 5], 1, False, "x ≤ 2"),
        ([0, 1], 1, True, "x = 1"),
        ([0, 1], 0, False, "x = 0"),
        ([3.5], 0, None, "x = 3.5"),
        (np.arange(161), 0, None, "x ≤ 10"),
        (np.arange(161), 5, None, "50 < x ≤ 60"),
        (np.arange(161), 15, None, "150 < x"),
        (np.arange(161), 15, True, "x > 150"),
        (np.arange(161), 3, False, "x ≤ 40"),
    ],
)
def test_regions_are_named(sample, part, above, description):
    assert Column.of("x", np.array(sample, dtype=float)).describe(part, above) == description


@given(arrays(np.float64, st.integers(1, 80), elements=st.floats(-1e4, 1e4)))
@settings(deadline=None)
def test_descriptions_hold_for_the_values_of_a_part(sample):
    column = Column.of("x", sample)
    parts = column.find(sample)
    assert parts.min() >= 0
    assert parts.max() <= len(column.edges)
    for part in np.unique(parts):
        members = sample[parts == part]
        if column.values is not None:
            assert (members == column.values[part]).all()
            continue
        low = column.edges[part - 1] if part else -np.inf
        high = column.edges[part] if part < len(column.edges) else np.inf
        assert ((low < members) & (members <= high)).all()
