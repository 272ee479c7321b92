"""The states of a log in cells: to say where data are thin, and to look for what features miss.

A sample of states is split at medians, the fullest cell first, along the column that varies most in
it. Columns are also cut by themselves, so that a region can be named: ``lactate > 6``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray
from saddleback.features import Active
from saddleback.log import Log

SAMPLE = 4096
"""States that are kept of a log: between this many and twice as many."""

BINS = 16
"""Most parts into which a column is cut."""


@dataclass
class Thinned:
    """Every 2ʲ-th row of all that comes, with j such that enough remain and not too many."""

    most: int = 2 * SAMPLE
    _stride: int = 1
    _seen: int = 0
    _kept: list[tuple[FloatArray, ...]] = field(default_factory=list)

    def add(self, *rows: FloatArray) -> None:
        """Take in the next rows of several tables alike."""
        first = -self._seen % self._stride
        self._seen += len(rows[0])
        self._kept.append(tuple(each[first :: self._stride] for each in rows))
        while -(-self._seen // self._stride) > self.most:
            self._stride *= 2
            self._kept = [tuple(each[::2] for each in self.rows)]

    @property
    def rows(self) -> tuple[FloatArray, ...]:
        """What was kept of each table."""
        return tuple(np.concatenate(each) for each in zip(*self._kept, strict=True))


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of observations, as a tree of cuts; a feature for each.

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
    def of(cls, sample: FloatArray, most: int) -> Cells:
        """Cut a sample of observations [n, d] into at most so many cells."""
        spread = sample.std(axis=0)
        held = [np.arange(len(sample))]
        nodes: list[tuple[int, float, int, int]] = [(0, 0.0, -1, -1)]
        open_ = {0: held[0]}
        leaves = 1
        while leaves < most and open_:
            node = max(open_, key=lambda each: len(open_[each]))
            mine = open_.pop(node)
            found = _median_cut(sample[mine], spread)
            if found is None:
                continue
            column, cut = found
            high = sample[mine, column] > cut
            nodes[node] = (column, cut, len(nodes), len(nodes) + 1)
            for part in (mine[~high], mine[high]):
                open_[len(nodes)] = part
                nodes.append((0, 0.0, -1, -1))
            leaves += 1
        below = np.array([each[2] for each in nodes])
        leaf = np.cumsum(below < 0) - 1
        return cls(
            np.array([each[0] for each in nodes]), np.array([each[1] for each in nodes]), below,
            np.array([each[3] for each in nodes]), leaf, leaves, sample.shape[1],
        )  # fmt: skip

    def find(self, observations: FloatArray) -> IntArray:
        """Return the cell of each observation, [n]."""
        found = np.empty(len(observations), dtype=np.int64)
        _descend(self.column, self.cut, self.below, self.above, self.leaf, observations, found)
        return found

    def encode(self, observations: FloatArray) -> Active:
        """One feature for each cell, for the engine."""
        return Active(self.find(observations).astype(np.uint32)[:, None], None)


@compiled
def _descend(
    column: IntArray,
    cut: FloatArray,
    below: IntArray,
    above: IntArray,
    leaf: IntArray,
    observations: FloatArray,
    found: IntArray,
) -> None:
    """Walk from the root of a tree of cuts to the leaf in which each observation lies."""
    for i in range(len(observations)):
        node = 0
        while below[node] >= 0:
            high = observations[i, column[node]] > cut[node]
            node = above[node] if high else below[node]
        found[i] = leaf[node]


def _median_cut(points: FloatArray, spread: FloatArray) -> tuple[int, float] | None:
    """Return the column that varies most, relative to its spread, and where to cut it."""
    some = np.ptp(points, axis=0) > 0  # rounding gives constants a deviation, and cuts none
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
    """A column of the observation, cut into parts.

    Examples
    --------
    >>> column = Column.of("hr", np.arange(60.0, 160.0))
    >>> column.words(len(column.edges), above=True), column.words(0, above=False)
    ('hr > 152.8', 'hr ≤ 66.2')
    >>> Column.of("ward", np.array([1.0, 2.0, 2.0, 5.0])).words(1, above=None)
    'ward = 2'
    """

    name: str
    edges: FloatArray
    values: FloatArray | None

    @classmethod
    def of(cls, name: str, sample: FloatArray) -> Column:
        """Cut by the values of a sample, or by its quantiles if they are many."""
        values = np.unique(sample)
        if len(values) <= BINS:
            middle = (values[1:] + values[:-1]) / 2
            return cls(name, np.where(middle < values[1:], middle, values[:-1]), values)
        edges = np.quantile(sample, np.arange(1, BINS) / BINS)
        step = 10.0 ** np.floor(np.log10((values[-1] - values[0]) / 100))
        return cls(name, np.unique(np.round(edges / step) * step), None)

    def find(self, observations: FloatArray) -> IntArray:
        """Return the part in which each entry lies."""
        return np.searchsorted(self.edges, observations, side="left").astype(np.int64)

    def words(self, part: int, above: bool | None) -> str:
        """Name a part (``above`` None), all above its lower end, or all below its upper end."""
        if self.values is not None and (above is None or len(self.values) <= 2):
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


def sample_states(log: Log) -> tuple[FloatArray, FloatArray]:
    """Return states spread evenly over the rows, [n, d], and how often actions were taken, [K]."""
    kept, taken = Thinned(), np.zeros(log.n_actions)
    for piece in log.segments():
        kept.add(piece.rows.observations)
        taken += np.bincount(piece.rows.actions, minlength=log.n_actions)
    return kept.rows[0], taken
