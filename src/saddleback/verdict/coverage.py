"""Do the data cover what the target would do? By how many rows stand behind each prediction.

For least squares with M = Σφφᵀ over the rows of a log, the prediction at φ rests on

    n(φ) = 1 / φᵀM⁺φ

rows: with a feature for each state and action that is the number of visits; in general the number
of independent observations of φᵀθ itself that would say as much. What lies outside the span of the
features that were met rests on nothing. Coverage is the share of π's probability, over the states
of the log, that rests on enough rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import copies_of
from saddleback.evaluation.statistics import Statistics
from saddleback.features import Features
from saddleback.verdict.partition import Column

ENOUGH = 10.0
"""Rows that must stand behind a prediction."""

ROUNDING = 1e-6
"""Share of φ outside the span that is nothing but rounding."""

SMALLEST = 0.005
"""Share of π's probability from which a region is worth naming."""


COLUMNS = 12
"""Most columns of which coverage is told part by part: those covered worst somewhere."""


@dataclass(frozen=True)
class Part:
    """Coverage in a part of a column.

    Attributes
    ----------
    column, where
        Which column, and which part of it, in words.
    share
        Share of π's probability that lies there.
    coverage
        Share of that which rests on enough rows.
    rows
        Rows of the log there.
    """

    column: str
    where: str
    share: float
    coverage: float
    rows: int


@dataclass(frozen=True)
class Support:
    """How well a target is covered.

    Attributes
    ----------
    coverage
        Share of π's probability that rests on enough rows.
    unmet
        Share that rests on nothing: features, or combinations of them, that were never active.
    rows
        Harmonic mean of the rows behind what π does.
    action, where, taken, share
        The weakest region: an action and a condition on one column, how often it was taken there,
        and the share of π's probability that lies there.
    parts
        Coverage along each column.
    """

    coverage: float
    unmet: float
    rows: float
    action: str
    where: str
    taken: int
    share: float
    parts: tuple[Part, ...] = ()

    @property
    def words(self) -> str:
        """The weakest region in words."""
        rows = f"{self.taken:,} row{'' if self.taken == 1 else 's'}"
        return f"{self.action!r} {self.where} ({rows}, {self.share:.1%} of the target)"


def behind(
    features: Features, sums: Statistics, observations: FloatArray, n_actions: int
) -> tuple[FloatArray, FloatArray]:
    """Return 1/n(φ) and the share of φ outside the span of what was met, [n, K] each."""
    span = sums.span
    inverse, scale = span.inverse / float(sums.steps.sum()), np.diag(sums.M) / sums.steps.sum()
    idle = scale == 0
    copies = copies_of(n_actions, sums.setting.values, sums.setting.shared)
    which, size = features.encode(observations)
    part = np.ones(which.shape) if size is None else size
    C = copies.shape[1]
    hold, out = (np.empty((len(observations), len(copies))) for _ in range(2))
    for a, row in enumerate(copies):
        on = np.flatnonzero(row)
        at = (which[:, :, None].astype(np.int64) * C + on).reshape(len(which), -1)
        value = np.repeat(part, len(on), axis=1)
        hold[:, a] = _quadratic(inverse, at, value)
        square = value**2
        never = (square * idle[at]).sum(axis=1) / np.maximum(square.sum(axis=1), 1e-300)
        whole = (square / np.where(idle, np.inf, scale)[at]).sum(axis=1)
        outside = _quadratic(span.beyond, at, value) / np.maximum(whole, 1e-300)
        out[:, a] = never + (1.0 - never) * np.where(outside > ROUNDING, outside, 0.0)
    return hold, np.clip(out, 0.0, 1.0)


def _quadratic(inverse: FloatArray, at: IntArray, value: FloatArray) -> FloatArray:
    """Return φᵀ·inverse·φ of sparse rows."""
    active = at.shape[1]
    if active * active <= len(inverse):
        picked = inverse[at[:, :, None], at[:, None, :]]
        return np.asarray(np.einsum("ni,nij,nj->n", value, picked, value))
    dense = np.zeros((len(at), len(inverse)))
    np.put_along_axis(dense, at, value, axis=1)
    return np.asarray(((dense @ inverse) * dense).sum(axis=1))


def support(
    features: Features,
    sums: Statistics,
    sample: tuple[FloatArray, FloatArray],
    columns: list[Column],
    taken: list[FloatArray],
    actions: tuple[str, ...],
) -> Support:
    """Judge the coverage of a target from a sample of states [n, d] and π there [n, K]."""
    observations, pi = sample
    least, out = behind(features, sums, observations, len(actions))
    thin = least * ENOUGH > 1.0
    held = pi * np.where(thin, 0.0, 1.0 - out)
    covered = float(held.sum() / pi.sum())
    weak = pi * np.clip(least + out, 0.0, 1.0)
    mean = float(weak.sum() / pi.sum())
    action, where, count, share = _weakest(observations, pi, weak, columns, taken)
    return Support(
        covered, float((pi * out).sum() / pi.sum()), 1.0 / max(mean, 1e-12), actions[action],
        where, count, share, _parts(observations, pi, held, columns, taken),
    )  # fmt: skip


def _parts(
    observations: FloatArray,
    pi: FloatArray,
    held: FloatArray,
    columns: list[Column],
    taken: list[FloatArray],
) -> tuple[Part, ...]:
    """Tell coverage along columns, if there are many along those where some part has least."""
    found: list[tuple[float, list[Part]]] = []
    for k, column in enumerate(columns):
        part, size = column.find(observations[:, k]), len(column.edges) + 1
        mass = np.bincount(part, pi.sum(axis=1), size) / pi.sum()
        kept = np.bincount(part, held.sum(axis=1), size) / pi.sum()
        some = np.flatnonzero(mass > 0)
        mine = [
            Part(
                column.name, column.words(int(i), None), float(mass[i]), float(kept[i] / mass[i]),
                int(taken[k][i].sum()),
            )
            for i in some
        ]  # fmt: skip
        found.append((min(each.coverage for each in mine), mine))
    chosen = sorted(range(len(found)), key=lambda k: found[k][0])[:COLUMNS]
    return tuple(each for k in sorted(chosen) for each in found[k][1])


def _weakest(
    observations: FloatArray,
    pi: FloatArray,
    weak: FloatArray,
    columns: list[Column],
    taken: list[FloatArray],
) -> tuple[int, str, int, float]:
    """Find the action and the part of a column where what π does rests on least."""
    total, best = pi.sum(), (-np.inf, 0, "in all states", 0, 0.0)
    for k, column in enumerate(columns):
        part, parts, K = column.find(observations[:, k]), len(column.edges) + 1, pi.shape[1]
        mass, thin = (np.zeros((parts, K)) for _ in range(2))
        np.add.at(mass, part, pi)
        np.add.at(thin, part, weak)
        for above in (None, True, False):
            m, w, n = (_tails(each, above) for each in (mass, thin, taken[k]))
            with np.errstate(divide="ignore", invalid="ignore"):
                score = np.where(m >= SMALLEST * total, w / m, -np.inf)
            if above is not None:  # a tail must leave something, and is a shorter thing to say
                score[0 if above else -1] = -np.inf
                score *= 1.0001
            at, a = np.unravel_index(int(score.argmax()), score.shape)
            if score[at, a] > best[0]:
                words = f"when {column.words(int(at), above)}"
                best = (score[at, a], int(a), words, int(n[at, a]), float(m[at, a] / total))
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
