"""What the second pass over a log shows: of a target policy, of its ratios, of how episodes end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.log import Piece
from saddleback.verdict.cells import Cells, Column, Thinned

NEAR = 5
"""Lengths just below the greatest with which it is compared."""

GREEDY = 0.95
"""A row counts as greedy if one action is at least so likely."""


@dataclass(frozen=True)
class Portrait:
    """The policy that was really evaluated, over the rows of the log.

    Attributes
    ----------
    mass
        Share of its probability on each action, by name.
    entropy
        Mean entropy, as a share of that of the uniform policy.
    greedy
        Share of rows where one action has nearly all of the probability.
    """

    mass: dict[str, float]
    entropy: float
    greedy: float


class TargetLook:
    """Sums over the rows of a log for one target."""

    def __init__(self, actions: tuple[str, ...], cells: Cells) -> None:
        K = len(actions)
        self._actions, self._cells = actions, cells
        self._rows, self._entropy, self._greedy = 0, 0.0, 0
        self._mass = np.zeros(K)
        self.ratios, self.known = (np.zeros((2, cells.size, K)) for _ in range(2))
        self.uncovered = 0.0
        self.kept = Thinned()

    def add(self, piece: Piece, pi: FloatArray) -> None:
        """Take in the next piece, with π in all of its states [m, K]."""
        here = pi[piece.here]
        self._rows += len(here)
        self._mass += np.ones(len(here)) @ here
        with np.errstate(divide="ignore", invalid="ignore"):
            self._entropy -= float(np.where(here > 0, here * np.log(here), 0.0).sum())
        self._greedy += int((here.max(axis=1, initial=0.0) >= GREEDY).sum())
        self.kept.add(piece.observations[piece.here], here)
        cell = self._cells.find(piece.observations[piece.here])
        taken = np.zeros_like(here)
        rows = np.arange(len(here))
        mu = piece.tables.get("mu")
        if piece.propensity is not None:
            taken[rows, piece.actions] = here[rows, piece.actions] / piece.propensity
            _sum(self.ratios, cell, taken - here)
            if mu is None:
                sure = piece.propensity >= 1.0
                self.uncovered += float((1.0 - here[sure, piece.actions[sure]]).sum())
        if mu is not None:
            there = mu[piece.here]
            self.uncovered += float(np.where(there == 0, here, 0.0).sum())
            taken[:] = 0.0
            taken[rows, piece.actions] = 1.0
            _sum(self.known, cell, taken - there)

    @property
    def rows(self) -> int:
        """Transitions seen."""
        return self._rows

    @property
    def portrait(self) -> Portrait:
        """The policy, as it was asked."""
        n = max(1, self._rows)
        uniform = np.log(max(2, len(self._actions)))
        return Portrait(
            dict(zip(self._actions, (self._mass / n).tolist(), strict=True)),
            float(self._entropy / n / uniform), self._greedy / n,
        )  # fmt: skip


def _sum(total: FloatArray, cell: IntArray, x: FloatArray) -> None:
    """Add x [n, K] and its square to sums by cell, [2, cells, K]."""
    for a in range(x.shape[1]):
        total[0, :, a] += np.bincount(cell, x[:, a], total.shape[1])
        total[1, :, a] += np.bincount(cell, x[:, a] ** 2, total.shape[1])


def calibration(sums: FloatArray, rows: int) -> tuple[float, float]:
    """Return how far sums [2, cells, K] of what should have mean 0 are from it: z, and the share.

    Given the past each term has mean 0, so sums of squares are their variances, whatever the
    dependence. z is the largest over all cells and actions, and over actions alone; the share is
    Σ|sum over rows of an action|/rows.
    """
    total = sums.sum(axis=1)
    each = np.concatenate([sums.reshape(2, -1), total], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(each[1] > 0, np.abs(each[0]) / np.sqrt(each[1]), 0.0)
    return float(z.max(initial=0.0)), float(np.abs(total[0]).sum() / max(1, rows))


class RowLook:
    """Sums over the rows of a log that no target matters to."""

    def __init__(self, n_actions: int, columns: list[Column], task: bool) -> None:
        self._columns, self._task = columns, task
        self.taken = [np.zeros((len(each.edges) + 1, n_actions)) for each in columns]
        self._length = 0
        self.ends: dict[int, int] = {}
        self.cuts = 0

    def add(self, piece: Piece) -> None:
        """Take in the next piece."""
        seen = piece.observations[piece.here]
        K = self.taken[0].shape[1] if self.taken else 1
        for k, column in enumerate(self._columns):
            at = column.find(seen[:, k]) * K + piece.actions
            counted = np.bincount(at, minlength=self.taken[k].size)
            self.taken[k] += counted.reshape(self.taken[k].shape)
        self._lengths(piece)

    def _lengths(self, piece: Piece) -> None:
        rows = piece.rows
        begins = np.flatnonzero(rows.starts)
        bounds = np.concatenate([[0], begins[begins > 0], [len(rows)]])
        lengths = np.diff(bounds)
        if not rows.starts[0]:
            lengths[0] += self._length
        self._length = int(lengths[-1]) if piece.goes_on else 0
        last = bounds[1:] - 1
        ended = rows.terminated[last] | (rows.truncated[last] & self._task)
        if piece.goes_on:
            lengths, ended = lengths[:-1], ended[:-1]
        for length, count in zip(*np.unique(lengths[ended], return_counts=True), strict=True):
            self.ends[int(length)] = self.ends.get(int(length), 0) + int(count)
        self.cuts += int((~ended).sum())

    def limit(self) -> tuple[int, float]:
        """Return the greatest length of terminated episodes, and what share of all ends there.

        Where lengths vary, and many more episodes have the very greatest one than those just below
        it, a time limit was perhaps logged as an end; else the share is 0.
        """
        longest = max(self.ends, default=0)
        before = [self.ends.get(longest - k, 0) for k in range(1, NEAR + 1)]
        if longest <= NEAR or self.ends[longest] <= 3 * max(before) or len(self.ends) < 2:
            return longest, 0.0
        return longest, self.ends[longest] / (sum(self.ends.values()) + self.cuts)
