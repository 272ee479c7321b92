"""Coverage: do the data cover the decisions of the target policy?

For least squares with M = Σφφᵀ over the rows of a log, the prediction at φ has

    n(φ) = 1 / φᵀM⁺φ

effective rows: with one feature per state and action that is the number of visits; in general the
number of independent observations of φᵀθ that carry the same information. Outside the span of the
active features the number is 0. Coverage is the share of π's probability, over the states of the
log, with at least 10 effective rows; the rest is extrapolation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import copies_of
from saddleback.features import Features
from saddleback.log import Segment
from saddleback.ope.partition import Column
from saddleback.ope.statistics import Statistics

MIN_ROWS = 10.0
"""Effective rows from which a prediction counts as covered."""

ROUNDING = 1e-6
"""Share of φ outside the span that is attributed to rounding."""

MIN_REGION_SHARE = 0.005
"""Smallest share of π's probability for a region to be named."""

MAX_COLUMNS = 12
"""Largest number of columns with coverage by part: those with the least covered parts."""


@dataclass(frozen=True)
class ColumnCoverage:
    """Coverage in one part of a column."""

    # The column, and the part of it as text.
    column: str
    where: str
    share: float  # share of π's probability that lies there
    coverage: float  # share of that which is covered
    rows: int  # rows of the log there


@dataclass(frozen=True)
class Coverage:
    """Coverage of a target policy by the data."""

    coverage: float  # share of π's probability with at least 10 effective rows
    unvisited: float  # share without any: features, or combinations of them, that are never active
    rows: float  # harmonic mean of the effective rows of π's decisions
    # The region with the least data: an action (empty if actions are continuous) and a condition on
    # one column, the number of times it was taken there, and the share of π's probability in it.
    action: str
    where: str
    taken: int
    share: float
    parts: tuple[ColumnCoverage, ...]  # coverage along each column

    @property
    def description(self) -> str:
        """The region with the least data, as text."""
        rows = f"{self.taken:,} row{'' if self.taken == 1 else 's'}"
        share = f"{self.share:.1%} of the target's decisions"
        action = f"action {self.action!r}" if self.action else "decisions"
        return f"{action} {self.where} ({rows}; {share})"


def inverse_effective_rows(
    features: Features, sums: Statistics, observations: FloatArray, n_actions: int
) -> tuple[FloatArray, FloatArray]:
    """Return 1/n(φ) and the share of φ outside the span of the active features, [n, K] each."""
    span = sums.span
    inverse, scale = span.inverse / float(sums.steps.sum()), np.diag(sums.M) / sums.steps.sum()
    inactive = scale == 0
    copies = copies_of(n_actions, sums.setting.values, sums.setting.shared)
    which, size = features.encode(observations)
    part = np.ones(which.shape) if size is None else size
    C = copies.shape[1]
    inverse_rows, outside = (np.empty((len(observations), len(copies))) for _ in range(2))
    for a, row in enumerate(copies):
        on = np.flatnonzero(row)
        at = (which[:, :, None].astype(np.int64) * C + on).reshape(len(which), -1)
        value = np.repeat(part, len(on), axis=1)
        inverse_rows[:, a] = _quadratic(inverse, at, value)
        square = value**2
        never = (square * inactive[at]).sum(axis=1) / np.maximum(square.sum(axis=1), 1e-300)
        total = (square / np.where(inactive, np.inf, scale)[at]).sum(axis=1)
        part_outside = _quadratic(span.null_projector, at, value) / np.maximum(total, 1e-300)
        significant = np.where(part_outside > ROUNDING, part_outside, 0.0)
        outside[:, a] = never + (1.0 - never) * significant
    return inverse_rows, np.clip(outside, 0.0, 1.0)


def _quadratic(inverse: FloatArray, at: IntArray, value: FloatArray) -> FloatArray:
    """Return φᵀ·inverse·φ of sparse rows; the values of an index that is repeated add up."""
    active = at.shape[1]
    if active * active <= len(inverse):
        picked = inverse[at[:, :, None], at[:, None, :]]
        return np.asarray(np.einsum("ni,nij,nj->n", value, picked, value))
    dense = np.zeros((len(at), len(inverse)))
    np.add.at(dense, (np.arange(len(at))[:, None], at), value)
    return np.asarray(((dense @ inverse) * dense).sum(axis=1))


class ActionCounts:
    """Target-independent counts of actions along each column."""

    def __init__(self, n_actions: int, columns: list[Column]) -> None:
        self._columns = columns
        self.taken = [np.zeros((len(column.edges) + 1, n_actions)) for column in columns]

    def add(self, segment: Segment) -> None:
        """Add the next segment."""
        states = segment.observations[segment.states]
        K = self.taken[0].shape[1] if self.taken else 1
        for k, column in enumerate(self._columns):
            at = column.find(states[:, k]) * K + segment.actions
            added = np.bincount(at, minlength=self.taken[k].size)
            self.taken[k] += added.reshape(self.taken[k].shape)


def measure_coverage(
    features: Features,
    sums: Statistics,
    sample: tuple[FloatArray, FloatArray],
    columns: list[Column],
    taken: list[FloatArray],
    actions: tuple[str, ...],
) -> Coverage:
    """Measure the coverage of a target from a sample of states [n, d] and π there [n, K]."""
    observations, pi = sample
    inverse_rows, outside = inverse_effective_rows(features, sums, observations, len(actions))
    thin = inverse_rows * MIN_ROWS > 1.0
    covered_pi = pi * np.where(thin, 0.0, 1.0 - outside)
    covered = float(covered_pi.sum() / pi.sum())
    weak = pi * np.clip(inverse_rows + outside, 0.0, 1.0)
    mean = float(weak.sum() / pi.sum())
    action, where, count, share = _weakest(observations, pi, weak, columns, taken)
    return Coverage(
        covered, float((pi * outside).sum() / pi.sum()), 1.0 / max(mean, 1e-12), actions[action],
        where, count, share, _parts(observations, pi, covered_pi, columns, taken),
    )  # fmt: skip


def _parts(
    observations: FloatArray,
    pi: FloatArray,
    covered_pi: FloatArray,
    columns: list[Column],
    taken: list[FloatArray],
) -> tuple[ColumnCoverage, ...]:
    """Return coverage along columns; of many columns those with the least covered parts."""
    by_column: list[tuple[float, list[ColumnCoverage]]] = []
    for k, column in enumerate(columns):
        where, size = column.find(observations[:, k]), len(column.edges) + 1
        mass = np.bincount(where, pi.sum(axis=1), size) / pi.sum()
        kept = np.bincount(where, covered_pi.sum(axis=1), size) / pi.sum()
        some = np.flatnonzero(mass > 0)
        parts = [
            ColumnCoverage(
                column.name, column.describe(int(i), None), float(mass[i]),
                float(kept[i] / mass[i]), int(taken[k][i].sum()),
            )
            for i in some
        ]  # fmt: skip
        by_column.append((min(part.coverage for part in parts), parts))
    chosen = sorted(range(len(by_column)), key=lambda k: by_column[k][0])[:MAX_COLUMNS]
    return tuple(part for k in sorted(chosen) for part in by_column[k][1])


def _weakest(
    observations: FloatArray,
    pi: FloatArray,
    weak: FloatArray,
    columns: list[Column],
    taken: list[FloatArray],
) -> tuple[int, str, int, float]:
    """Find the action and the part of a column where π's decisions have the least data."""
    total, best = pi.sum(), (-np.inf, 0, "in all states", 0, 0.0)
    for k, column in enumerate(columns):
        part, parts, K = column.find(observations[:, k]), len(column.edges) + 1, pi.shape[1]
        mass, thin = (np.zeros((parts, K)) for _ in range(2))
        np.add.at(mass, part, pi)
        np.add.at(thin, part, weak)
        for above in (None, True, False):
            m, w, n = (_tails(table, above) for table in (mass, thin, taken[k]))
            with np.errstate(divide="ignore", invalid="ignore"):
                score = np.where(m >= MIN_REGION_SHARE * total, w / m, -np.inf)
            if above is not None:  # a tail must exclude something; it is preferred as shorter
                score[0 if above else -1] = -np.inf
                score *= 1.0001
            at, a = np.unravel_index(int(score.argmax()), score.shape)
            if score[at, a] > best[0]:
                where = f"where {column.describe(int(at), above)}"
                best = (score[at, a], int(a), where, int(n[at, a]), float(m[at, a] / total))
    if best[0] == -np.inf:
        most = int(pi.sum(axis=0).argmax())
        return (
            most,
            "in all states",
            int(taken[0][:, most].sum()) if taken else 0,
            float(pi[:, most].sum() / total),
        )
    return best[1], best[2], best[3], best[4]


def _tails(table: FloatArray, above: bool | None) -> FloatArray:
    """Sum parts from the top, from the bottom, or not at all."""
    if above is None:
        return table
    return np.cumsum(table[::-1], axis=0)[::-1] if above else np.cumsum(table, axis=0)
