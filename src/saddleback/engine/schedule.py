"""Step-size schedules: α_t = c / (t + offset)^power, with t = 1 for the first update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter


class StepSizes(NamedTuple):
    """A schedule as kernels read it, with one scale per learner."""

    scale: FloatArray
    power: float
    offset: float


@dataclass(frozen=True, eq=False)
class Schedule:
    """Step sizes α_t = c / (t + offset)^power for a number or an array of scales c.

    Without an offset the first steps are by far the largest, and a c small enough for them may be
    too small for all later steps.

    Examples
    --------
    >>> Schedule([1.0, 2.0], power=1).at(4)
    array([0.25, 0.5 ])
    >>> float(Schedule(10.0, power=1, offset=96).at(4))
    0.1
    """

    scale: FloatArray
    power: float
    offset: float

    def __init__(self, scale: ArrayLike, power: float = 0.0, offset: float = 0.0) -> None:
        object.__setattr__(self, "scale", _validate.floats("step sizes", scale))
        object.__setattr__(self, "power", _validate.non_negative("Schedule", "power", power))
        object.__setattr__(self, "offset", _validate.non_negative("Schedule", "offset", offset))

    @property
    def step_sizes(self) -> StepSizes:
        """The schedule as kernels read it."""
        return StepSizes(self.scale, self.power, self.offset)

    def at(self, t: int) -> FloatArray:
        """Step sizes of the t-th update, t = 1, 2, …"""
        return np.asarray(self.scale * (t + self.offset) ** -self.power)


StepSize: TypeAlias = ArrayLike | Schedule


def inverse_sqrt(c: ArrayLike) -> Schedule:
    """Return the schedule α_t = c/√t.

    Examples
    --------
    >>> float(inverse_sqrt(0.5).at(25))
    0.1
    """
    return Schedule(c, power=0.5)


def inverse(c: ArrayLike) -> Schedule:
    """Return the schedule α_t = c/t.

    Examples
    --------
    >>> float(inverse(0.5).at(5))
    0.1
    """
    return Schedule(c, power=1.0)


def as_schedule(name: str, value: StepSize) -> Schedule:
    """Turn numbers into a constant schedule, and refuse invalid step sizes."""
    schedule = value if isinstance(value, Schedule) else Schedule(_validate.floats(name, value))
    bad = ~(np.isfinite(schedule.scale) & (schedule.scale >= 0))
    if bad.any():
        worst = np.atleast_1d(schedule.scale)[np.atleast_1d(bad)][0]
        raise InvalidParameter(f"{name} must be finite step sizes >= 0, got {worst:g}.")
    if not schedule.scale.size:
        raise InvalidParameter(f"{name} is empty: give at least one step size.")
    return schedule
