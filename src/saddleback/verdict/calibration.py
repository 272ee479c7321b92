"""Do the logged propensities agree with the actions that were taken?"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray
from saddleback.evaluation.log_counts import Portrait

SURE = 5.0
"""Standard errors from which propensities count as wrong."""


def calibration(seen: Portrait, rows: int) -> tuple[float, float] | None:
    """How sure it is that propensities are wrong, in standard errors, and on what share of rows.

    Ratios tell of the propensities of the actions taken, and all of μ, where it is known, of
    itself; either may be wrong. None if no propensities are known.
    """
    if not np.isfinite(seen.least).any():
        return None
    found = [of_ratios(seen.ratios, seen.least, rows)]
    if seen.known.any():
        found.append(of_known(seen.known, rows))
    return max(z for z, _ in found), max(share for _, share in found)


def uncovered(seen: Portrait) -> float:
    """Σ of π on actions that could not be taken; without all of μ also on those never taken."""
    never = 0.0 if seen.known.any() else float(seen.chances[~np.isfinite(seen.least)].sum())
    return max(float(seen.shape[2]), never)


def of_ratios(sums: FloatArray, least: FloatArray, rows: int) -> tuple[float, float]:
    """Return how far ratios are from what they should be: z, and the share of rows.

    ``sums`` [4, cells, K] are those of x = π(1{A=a}/μ − 1), which given the past has mean 0; of x²;
    of its variance π²(1/μ − 1) over rows where the action was taken, and so μ is known; and of π².
    ``least`` is the smallest propensity with which each action was taken, [K].

    Sums of squares alone are no variance where surprises are rare: an action that is due in 97 of
    100 rows may be taken in all of them, one that is due in a thousandth in none, and the squares
    tell of neither. So the greater of the first two is taken; and for sums below 0 at least the
    variance of propensities as small as any.
    """
    x, square, known, pi = _with_totals(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        unseen = np.where(np.isfinite(least), pi * (1.0 / least - 1.0), np.inf)
        variance = np.maximum(np.maximum(square, known), np.where(x < 0, unseen, 0.0))
        z = np.where(variance > 0, np.abs(x) / np.sqrt(variance), 0.0)
    return _surest(z, x, rows)


def of_known(sums: FloatArray, rows: int) -> tuple[float, float]:
    """Return how far actions are from all of μ: z, and the share of rows.

    ``sums`` [2, cells, K] are those of 1{A=a} − μ and of its variance μ(1 − μ). Bernstein's term
    keeps one rare action from being a great surprise.
    """
    x, variance = _with_totals(sums)
    variance = variance + np.abs(x) / 3.0
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(variance > 0, np.abs(x) / np.sqrt(variance), 0.0)
    return _surest(z, x, rows)


def _surest(z: FloatArray, x: FloatArray, rows: int) -> tuple[float, float]:
    """Return the largest z, and the share of rows in excess where it is sure, by cells or totals.

    Errors may cancel over states, so the sums of cells count where they are sure themselves.
    """
    sure = np.where(z > SURE, np.abs(x), 0.0)
    share = max(float(sure[:-1].sum()), float(sure[-1].sum())) / max(1, rows)
    return float(z.max(initial=0.0)), share


def _with_totals(sums: FloatArray) -> FloatArray:
    """Return sums by cell and action, and below them those by action alone, [·, cells + 1, K]."""
    return np.concatenate([sums, sums.sum(axis=1, keepdims=True)], axis=1)
