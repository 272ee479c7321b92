"""A partition of the states of a log into cells, and of single columns into named parts.

A sample of states is split at medians, the fullest cell first, along the column that varies most in
it. Single columns are also partitioned, so that a region can be named: ``lactate > 6``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray
from saddleback.features import Active

MAX_PARTS = 16
"""Largest number of parts of a column."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of observations, as a tree of cuts; one feature per cell.

    Examples
    --------
    >>> cells = Cells.of(np.arange(8.0)[:, None], 4)
    >>> cells.size, cells.find(np.array([[0.0], [3.0], [4.0], [9.0]])).tolist()
    (4, [0, 1, 2, 3])
    """

    column: IntArray
    cut: FloatArray
    below: IntArray
    above: IntArray
    leaf: IntArray
    size: int
    dimensions: int

    @classmethod
    def of(cls, sample: FloatArray, max_size: int) -> Cells:
        """Partition a sample of observations [n, d] into at most ``max_size`` cells."""
        spread = sample.std(axis=0)
        nodes: list[tuple[int, float, int, int]] = [(0, 0.0, -1, -1)]
        open_ = {0: np.arange(len(sample))}
        leaves = 1
        while leaves < max_size and open_:
            node = max(open_, key=lambda candidate: len(open_[candidate]))
            members = open_.pop(node)
            split = _median_cut(sample[members], spread)
            if split is None:
                continue
            column, cut = split
            high = sample[members, column] > cut
            nodes[node] = (column, cut, len(nodes), len(nodes) + 1)
            for part in (members[~high], members[high]):
                open_[len(nodes)] = part
                nodes.append((0, 0.0, -1, -1))
            leaves += 1
        below = np.array([node[2] for node in nodes])
        leaf = np.cumsum(below < 0) - 1
        return cls(
            np.array([node[0] for node in nodes]), np.array([node[1] for node in nodes]), below,
            np.array([node[3] for node in nodes]), leaf, leaves, sample.shape[1],
        )  # fmt: skip

    def find(self, observations: FloatArray) -> IntArray:
        """Return the cell of each observation, [n]."""
        cell = np.empty(len(observations), dtype=np.int64)
        _descend(self.column, self.cut, self.below, self.above, self.leaf, observations, cell)
        return cell

    def encode(self, observations: FloatArray) -> Active:
        """Encode observations with one feature per cell."""
        return Active(self.find(observations).astype(np.uint32)[:, None], None)


@compiled
def _descend(
    column: IntArray,
    cut: FloatArray,
    below: IntArray,
    above: IntArray,
    leaf: IntArray,
    observations: FloatArray,
    cell: IntArray,
) -> None:
    """Descend from the root of the tree to the leaf that contains each observation."""
    for i in range(len(observations)):
        node = 0
        while below[node] >= 0:
            high = observations[i, column[node]] > cut[node]
            node = above[node] if high else below[node]
        cell[i] = leaf[node]


def _median_cut(points: FloatArray, spread: FloatArray) -> tuple[int, float] | None:
    """Return the column that varies most, relative to its spread, and where to cut it."""
    some = np.ptp(points, axis=0) > 0  # rounding gives constants a positive deviation
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(points.std(axis=0) / spread)
    column = int(np.where(some, relative, -1.0).argmax())
    if not some[column]:
        return None
    values = np.unique(points[:, column])
    middle = min(int(np.searchsorted(values, np.median(points[:, column]))), len(values) - 2)
    if middle and values[middle] > np.median(points[:, column]):
        middle -= 1
    below, above = values[middle : middle + 2]
    cut = (below + above) / 2
    return column, float(cut if cut < above else below)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the observation, partitioned.

    Examples
    --------
    >>> column = Column.of("hr", np.arange(60.0, 160.0))
    >>> column.describe(len(column.edges), above=True), column.describe(0, above=False)
    ('hr > 152.8', 'hr ≤ 66.2')
    >>> Column.of("ward", np.array([1.0, 2.0, 2.0, 5.0])).describe(1, above=None)
    'ward = 2'
    >>> Column.of("ward=icu", np.array([0.0, 1.0, 0.0])).describe(0, above=False)
    'ward ≠ icu'
    """

    name: str
    edges: FloatArray
    values: FloatArray | None

    @classmethod
    def of(cls, name: str, sample: FloatArray) -> Column:
        """Partition by the values of a sample, or by its quantiles if it has many values."""
        values = np.unique(sample)
        if len(values) <= MAX_PARTS:
            middle = (values[1:] + values[:-1]) / 2
            return cls(name, np.where(middle < values[1:], middle, values[:-1]), values)
        edges = np.quantile(sample, np.arange(1, MAX_PARTS) / MAX_PARTS)
        step = 10.0 ** np.floor(np.log10((values[-1] - values[0]) / 100))
        return cls(name, np.unique(np.round(edges / step) * step), None)

    def find(self, observations: FloatArray) -> IntArray:
        """Return the part that contains each entry."""
        return np.searchsorted(self.edges, observations, side="left").astype(np.int64)

    def describe(self, part: int, above: bool | None) -> str:
        """Describe a part (``above`` None), all above its lower end, or all below its upper end."""
        if self.values is not None and (above is None or len(self.values) <= 2):
            name, is_category, category = self.name.partition("=")
            if is_category and len(self.values) <= 2:
                return f"{name} {'=' if self.values[part] else '≠'} {category}"
            return f"{self.name} = {self.values[part]:.10g}"
        if above is None:
            low = f"{self.edges[part - 1]:.10g} < " if part else ""
            high = f" ≤ {self.edges[part]:.10g}" if part < len(self.edges) else ""
            return f"{low}{self.name}{high}"
        if self.values is not None:
            return f"{self.name} {'≥' if above else '≤'} {self.values[part]:.10g}"
        return (
            f"{self.name} > {self.edges[part - 1]:.10g}"
            if above
            else (f"{self.name} ≤ {self.edges[part]:.10g}")
        )
