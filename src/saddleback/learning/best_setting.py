"""The best setting of a run, and the definition of "best" in all comparisons of step sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from saddleback._typing import BoolArray, FloatArray

TAIL = 0.1
"""Fraction of the recorded points that counts as the end of a run."""


@dataclass(frozen=True)
class Best:
    """The setting with the smallest final value of a metric.

    Attributes
    ----------
    metric
        Name of the metric.
    value
        Mean of the metric over runs and the last tenth of the recorded points.
    error
        Standard error of that mean, over runs; None for a single run.
    index
        Index of the setting among the step sizes: ``run.alpha[best.index]``.
    alpha, beta
        Its step sizes; β is None if the rule has no ω.

    Examples
    --------
    >>> from saddleback import GES, learn, problems
    >>> problem = problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
    >>> run = learn(GES(0.3), problem, alpha=[0.01, 0.02], beta=0.02, steps=2000, rng=0)
    >>> best = run.best("mspbe")
    >>> best.alpha, best.beta, best.index, round(best.value, 4)
    (0.01, 0.02, (0,), 0.1654)
    """

    metric: str
    value: float
    error: float | None
    index: tuple[int, ...]
    alpha: float
    beta: float | None


def tail_length(points: int) -> int:
    """Return the number of recorded points at the end of a run: a tenth of them, at least one.

    Examples
    --------
    >>> tail_length(101), tail_length(3)
    (11, 1)
    """
    return max(1, math.ceil(TAIL * points))


def mean_over_runs(ends: FloatArray, diverged: BoolArray) -> FloatArray:
    """Return the mean of final values [run, …]; infinite if any run diverged.

    Examples
    --------
    >>> diverged = np.array([[False, False], [False, True]])
    >>> mean_over_runs(np.array([[1.0, 2.0], [3.0, 4.0]]), diverged)
    array([ 2., inf])
    """
    return np.where(diverged.any(axis=0), np.inf, ends.mean(axis=0))


def best_setting(
    metric: str, ends: FloatArray, diverged: BoolArray, alpha: FloatArray, beta: FloatArray
) -> Best | None:
    """Return the setting with the smallest mean of final values [run, …]; None if all diverged.

    ``alpha`` and ``beta`` are the step sizes of each setting; β is NaN for a rule without ω.
    """
    index = argmin_finite(mean_over_runs(ends, diverged))
    if index is None:
        return None
    values = np.moveaxis(ends, 0, -1)[index]
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    step = float(beta[index])
    return Best(
        metric, float(values.mean()), error, index, float(alpha[index]),
        None if np.isnan(step) else step,
    )  # fmt: skip


def argmin_finite(final: FloatArray) -> tuple[int, ...] | None:
    """Return the index of the smallest finite value; None if no value is finite.

    Examples
    --------
    >>> argmin_finite(np.array([[np.nan, 2.0], [1.0, np.inf]])), argmin_finite(np.array([np.inf]))
    ((1, 0), None)
    """
    finite = np.where(np.isfinite(final), final, np.inf)
    index = np.unravel_index(int(np.argmin(finite)), finite.shape)
    return tuple(map(int, index)) if np.isfinite(finite[index]) else None
