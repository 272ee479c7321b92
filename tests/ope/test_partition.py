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


def cut_by_hand(points, spread):
    """The column that varies most, relative to its spread, and a cut next to its median."""
    best = None
    for column in range(points.shape[1]):
        values = sorted({*points[:, column].tolist()})
        relative = points[:, column].std() / spread[column] if len(values) > 1 else -1.0
        if len(values) > 1 and (best is None or relative > best[0]):
            best = (relative, column, values)
    if best is None:
        return None
    _, column, values = best
    below = max(v for v in values[:-1] if v <= max(np.median(points[:, column]), values[0]))
    above = min(v for v in values if v > below)
    return column, (below + above) / 2


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_the_fullest_cell_is_cut_next_to_the_median_of_its_widest_column(seed, most):
    rng = np.random.default_rng(seed)
    sample = np.column_stack([
        rng.integers(0, 4, 37), rng.normal(size=37).round(1), 100.0 * rng.exponential(size=37) ** 3,
        np.full(37, 0.1),
    ])  # fmt: skip
    parts, uncut = [np.arange(37)], []
    while parts and len(parts) + len(uncut) < most:
        part = parts.pop(max(range(len(parts)), key=lambda k: len(parts[k])))
        cut = cut_by_hand(sample[part], sample.std(axis=0))
        if cut is None:
            uncut.append(part)
            continue
        high = sample[part, cut[0]] > cut[1]
        parts += [part[~high], part[high]]
    cells = Cells.of(sample, most)
    actual = cells.find(sample)
    assert cells.size == len(parts) + len(uncut)
    assert cells.dimensions == 4
    expected = {tuple(sorted(part.tolist())) for part in [*parts, *uncut]}
    assert {tuple(np.flatnonzero(actual == k).tolist()) for k in range(cells.size)} == expected
    outer = cut_by_hand(sample, sample.std(axis=0))
    if most > 1:
        assert (cells.column[0], cells.cut[0]) == (outer[0], pytest.approx(outer[1], rel=1e-12))


@pytest.mark.parametrize("low", [1.0, 1.0 + 2.0**-52, -3.0, 5e-324])
def test_neighbouring_numbers_are_told_apart(low):
    """Their mean is rounded to one of them, which must be the lower one."""
    values = [low, np.nextafter(low, np.inf)]
    sample = np.array([values[0], values[1], values[1]])
    cells = Cells.of(sample[:, None], 4)
    assert cells.size == 2
    assert cells.find(sample[:, None]).tolist() == [0, 1, 1]
    column = Column.of("x", sample)
    assert column.find(sample).tolist() == [0, 1, 1]


def test_up_to_sixteen_values_are_parts_of_their_own():
    few, many = (Column.of("x", np.arange(n) ** 2.0) for n in (16, 17))
    assert few.values.tolist() == [n**2 for n in range(16)]
    assert few.edges.tolist() == [(n**2 + (n + 1) ** 2) / 2 for n in range(15)]
    assert many.values is None


@pytest.mark.parametrize(("unit", "step"), [(1.0, 1.0), (0.5, 0.1), (7.0, 10.0), (1e-4, 1e-4)])
def test_edges_are_sixteenths_rounded_to_a_hundredth_of_the_range(unit, step):
    """Of 0 to 160 units: rounded to the power of ten below 1.6 units."""
    column = Column.of("x", unit * np.arange(161))
    expected = [round(10 * k * unit / step) * step for k in range(1, 16)]
    np.testing.assert_allclose(column.edges, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "sample", "part", "above", "description"),
    [
        ("ward=icu", [0, 1], 1, None, "ward = icu"),
        ("ward=icu", [0, 1], 0, True, "ward ≠ icu"),
        ("ward=icu", [0, 1, 2], 1, None, "ward=icu = 1"),
        ("ward=icu", [0, 1, 2], 1, True, "ward=icu ≥ 1"),
        ("x", [1.5, 2.5, 3.5], 0, False, "x ≤ 1.5"),
        ("x", [0.1 + 0.2, 7], 0, None, "x = 0.3"),
        ("x", np.arange(161), 1, True, "x > 10"),
        ("x", np.arange(161), 0, False, "x ≤ 10"),
        ("x", np.arange(161), 14, None, "140 < x ≤ 150"),
        ("x", np.arange(161), 1, None, "10 < x ≤ 20"),
    ],
)
def test_regions_of_categories_and_values_are_named(name, sample, part, above, description):
    assert Column.of(name, np.array(sample, dtype=float)).describe(part, above) == description


def test_the_range_is_from_the_smallest_to_the_largest_value():
    """Of 0 to 100, edges are rounded to a hundredth of that: 1."""
    column = Column.of("x", np.arange(101.0))
    assert column.edges.tolist() == [np.round(6.25 * k) for k in range(1, 16)]
