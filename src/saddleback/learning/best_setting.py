"""The best setting of a run, and what "best" means wherever step sizes are compared."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray

TAIL = 0.1
"""Share of the recorded points that are the end of a run."""


@dataclass(frozen=True)
class Best:
    """The setting that ends with the least value of a metric.

    Attributes
    ----------
    metric
        What was compared.
    value
        Its mean over runs and the last tenth of the recorded points.
    error
        Standard error of that over runs; None for a single run.
    index
        Where the setting is among the step sizes: ``run.alpha[best.index]``.
    alpha, beta
        Its step sizes; β is None where the rule moves no ω.

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
    """Return how many of so many recorded points are the end of a run: a tenth, at least one.

    Examples
    --------
    >>> tail_length(101), tail_length(3)
    (11, 1)
    """
    return max(1, math.ceil(TAIL * points))


def argmin_finite(final: FloatArray) -> tuple[int, ...] | None:
    """Return the index of the least finite value; None if there is none.

    Examples
    --------
    >>> argmin_finite(np.array([[np.nan, 2.0], [1.0, np.inf]])), argmin_finite(np.array([np.inf]))
    ((1, 0), None)
    """
    known = np.where(np.isfinite(final), final, np.inf)
    place = np.unravel_index(int(np.argmin(known)), known.shape)
    return tuple(map(int, place)) if np.isfinite(known[place]) else None
