"""Step-size schedules: α_t = c / t^power, with t = 1 for the first update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class Schedule:
    """Step sizes c / t^power for an array of scales c.

    Examples
    --------
    >>> Schedule(np.array([1.0, 2.0]), power=1.0).at(4)
    array([0.25, 0.5 ])
    """

    scale: FloatArray
    power: float = 0.0

    def at(self, t: int) -> FloatArray:
        """Step sizes of the t-th update, t = 1, 2, …"""
        return self.scale * t**-self.power


StepSize: TypeAlias = ArrayLike | Schedule


def inverse_sqrt(c: ArrayLike) -> Schedule:
    """Return the schedule c/√t.

    Examples
    --------
    >>> float(inverse_sqrt(0.5).at(25))
    0.1
    """
    return Schedule(np.asarray(c, dtype=np.float64), power=0.5)


def inverse(c: ArrayLike) -> Schedule:
    """Return the schedule c/t.

    Examples
    --------
    >>> float(inverse(0.5).at(5))
    0.1
    """
    return Schedule(np.asarray(c, dtype=np.float64), power=1.0)


def as_schedule(name: str, value: StepSize) -> Schedule:
    """Turn numbers into a constant schedule, and refuse negative or non-finite step sizes."""
    schedule = value if isinstance(value, Schedule) else Schedule(_validate.floats(name, value))
    bad = ~(np.isfinite(schedule.scale) & (schedule.scale >= 0))
    if bad.any():
        worst = np.atleast_1d(schedule.scale)[np.atleast_1d(bad)][0]
        raise InvalidParameter(f"{name} must be finite step sizes >= 0, got {worst:g}.")
    return schedule
