"""`Portrait`: sums over the rows of a log that tell what a target policy would do there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import count_known, count_policy, count_ratios
from saddleback.log import Segment


@dataclass(frozen=True, eq=False)
class Portrait:
    """Sums for one target, in cells of the observation or all in one.

    Attributes
    ----------
    chances
        Σπ by action, [K].
    shape
        Σ of π's entropy, rows where it is greedy, and Σ of its probability on actions that could
        not be taken, [3].
    ratios
        Σ of x = π(1{A=a}/μ − 1), of x², of π²(1/μ − 1) where a was taken, and of π², [4, cells, K].
    known
        Σ of 1{A=a} − μ and of μ(1 − μ), where all of μ is known, [2, cells, K].
    least
        The smallest propensity with which each action was taken, [K]; infinite if never.
    """

    chances: FloatArray
    shape: FloatArray
    ratios: FloatArray
    known: FloatArray
    least: FloatArray

    @classmethod
    def begin(cls, n_actions: int, cells: int = 1) -> Self:
        """Return sums of nothing."""
        K = n_actions
        ratios, known = np.zeros((4, cells, K)), np.zeros((2, cells, K))
        return cls(np.zeros(K), np.zeros(3), ratios, known, np.full(K, np.inf))

    def add(self, piece: Segment, pi: FloatArray, cell: IntArray | None = None) -> None:
        """Take in the next piece, with π in all of its states [m, K], and the cell of each row."""
        at = np.zeros(len(piece), dtype=np.int64) if cell is None else cell
        mu = piece.tables.get("mu")
        count_policy(pi, piece.states, self.chances, self.shape)
        if piece.propensity is not None:
            count_ratios(
                pi, np.zeros((0, pi.shape[1])) if mu is None else mu, piece.states, piece.actions,
                piece.propensity, at, self.ratios, self.least, self.shape,
            )  # fmt: skip
        if mu is not None:
            count_known(mu, piece.states, piece.actions, at, self.known)

    def merge(self, other: Self) -> Self:
        """Return the sums over both logs."""
        return type(self)(
            self.chances + other.chances, self.shape + other.shape, self.ratios + other.ratios,
            self.known + other.known, np.minimum(self.least, other.least),
        )  # fmt: skip
