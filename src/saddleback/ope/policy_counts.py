"""Counts of a target policy on the rows of a log, and what they tell.

Its summary; whether the log covers its actions; and the calibration of propensities: do they agree
with the logged actions?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import TakenActions, count_calibration, count_policy, count_ratios
from saddleback.log import Segment

SIGNIFICANT = 5.0
"""Standard errors above which propensities count as wrong."""


@dataclass(frozen=True, eq=False)
class PolicyCounts:
    """Sums over the rows of a log for one target policy, by cell of the observation or in total."""

    action_mass: FloatArray  # Σπ by action, [K]
    # Σ of π's entropy, number of greedy rows, and Σ of π's probability on actions with μ = 0, [3].
    totals: FloatArray
    # Σ of x = π(1{A=a}/μ − 1), of x², of π²(1/μ − 1) where a was taken, and of π², [4, cells, K].
    ratios: FloatArray
    residuals: FloatArray  # Σ of 1{A=a} − μ and of μ(1 − μ), where all of μ is known, [2, cells, K]
    # The smallest propensity with which each action was taken, [K]; infinite if never.
    min_propensity: FloatArray

    @classmethod
    def empty(cls, n_actions: int, cells: int = 1) -> Self:
        """Return counts of zero rows."""
        K = n_actions
        ratios, residuals = np.zeros((4, cells, K)), np.zeros((2, cells, K))
        return cls(np.zeros(K), np.zeros(3), ratios, residuals, np.full(K, np.inf))

    def add(self, segment: Segment, pi: FloatArray, cell: IntArray | None = None) -> None:
        """Add the next segment, with π in all of its states [m, K], and the cell of each row."""
        at = np.zeros(len(segment), dtype=np.int64) if cell is None else cell
        mu = segment.tables.get("mu")
        count_policy(pi, segment.states, self.action_mass, self.totals)
        if segment.propensity is not None:
            taken = TakenActions(segment.states, segment.actions, segment.propensity, at)
            full = np.zeros((0, pi.shape[1])) if mu is None else mu
            count_ratios(pi, full, taken, self.ratios, self.min_propensity, self.totals)
        if mu is not None:
            count_calibration(mu, segment.states, segment.actions, at, self.residuals)

    @property
    def entropy(self) -> float:
        """Σ of π's entropy over the rows."""
        return float(self.totals[0])

    @property
    def greedy_rows(self) -> float:
        """Number of rows where one action has nearly all of π's probability."""
        return float(self.totals[1])

    @property
    def uncovered_mass(self) -> float:
        """Σ of π's probability on actions with μ = 0."""
        return float(self.totals[2])

    def merge(self, other: Self) -> Self:
        """Return the counts of both logs together."""
        return type(self)(
            self.action_mass + other.action_mass,
            self.totals + other.totals,
            self.ratios + other.ratios,
            self.residuals + other.residuals,
            np.minimum(self.min_propensity, other.min_propensity),
        )


@dataclass(frozen=True)
class PolicySummary:
    """The target policy as evaluated on the rows of the log."""

    mass: dict[str, float]  # share of its probability on each action, by name
    entropy: float  # mean entropy, relative to that of the uniform policy
    greedy: float  # share of rows where one action has nearly all of the probability
    description: str = ""  # a policy of continuous actions, in words

    @classmethod
    def of(cls, counts: PolicyCounts, actions: Sequence[str], rows: int) -> PolicySummary:
        """Summarise counts over the rows."""
        uniform = np.log(max(2, len(actions)))
        mass = dict(zip(actions, (counts.action_mass / rows).tolist(), strict=True))
        return cls(mass, float(counts.entropy / rows / uniform), counts.greedy_rows / rows)


def calibration(counts: PolicyCounts, rows: int) -> tuple[float, float] | None:
    """Return the miscalibration of propensities in standard errors, and the share of rows affected.

    Ratios test the propensities of the actions taken; where all of μ is known, it is tested
    directly. The larger deviation counts. None if no propensities are known.
    """
    if not np.isfinite(counts.min_propensity).any():
        return None
    deviations = [ratio_deviation(counts.ratios, counts.min_propensity, rows)]
    if counts.residuals.any():
        deviations.append(behaviour_deviation(counts.residuals, rows))
    return max(z for z, _ in deviations), max(share for _, share in deviations)


def uncovered(counts: PolicyCounts) -> float:
    """Return Σ of π on actions with μ = 0; if μ is not fully known, also on actions never taken."""
    never = (
        0.0
        if counts.residuals.any()
        else float(counts.action_mass[~np.isfinite(counts.min_propensity)].sum())
    )
    return max(counts.uncovered_mass, never)


def ratio_deviation(sums: FloatArray, min_propensity: FloatArray, rows: int) -> tuple[float, float]:
    """Return the deviation of importance ratios from their expectation: z, and the share of rows.

    ``sums`` [4, cells, K] are those of x = π(1{A=a}/μ − 1), which given the past has mean 0; of x²;
    of its variance π²(1/μ − 1) over rows where the action was taken, and so μ is known; and of π².
    ``min_propensity`` is the smallest propensity with which each action was taken, [K].

    Sums of squares alone underestimate the variance where deviations are rare: an action of
    probability 0.97 may be taken in all of 100 rows, one of probability 0.001 in none, and the
    squares show neither. So the larger of the first two is used; and for sums below 0 at least the
    variance at the smallest propensity.
    """
    x, square, expected, pi = _with_totals(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        unobserved = np.where(
            np.isfinite(min_propensity), pi * (1.0 / min_propensity - 1.0), np.inf
        )
        variance = np.maximum(np.maximum(square, expected), np.where(x < 0, unobserved, 0.0))
        z = np.where(variance > 0, np.abs(x) / np.sqrt(variance), 0.0)
    return _significant_share(z, x, rows)


def behaviour_deviation(sums: FloatArray, rows: int) -> tuple[float, float]:
    """Return the deviation of actions from μ: z, and the share of rows.

    ``sums`` [2, cells, K] are those of 1{A=a} − μ and of its variance μ(1 − μ). Bernstein's term
    keeps a single rare action from being significant.
    """
    x, variance = _with_totals(sums)
    variance = variance + np.abs(x) / 3.0
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(variance > 0, np.abs(x) / np.sqrt(variance), 0.0)
    return _significant_share(z, x, rows)


def _significant_share(z: FloatArray, x: FloatArray, rows: int) -> tuple[float, float]:
    """Return the largest z, and the share of rows in excess where it is significant.

    Errors may cancel between states, so cells count where they are significant on their own.
    """
    excess = np.where(z > SIGNIFICANT, np.abs(x), 0.0)
    share = max(float(excess[:-1].sum()), float(excess[-1].sum())) / max(1, rows)
    return float(z.max(initial=0.0)), share


def _with_totals(sums: FloatArray) -> FloatArray:
    """Append the sums by action alone to those by cell and action, [·, cells + 1, K]."""
    return np.concatenate([sums, sums.sum(axis=1, keepdims=True)], axis=1)
