"""Readings of the paper's MountainCar, and the value error on each."""

from __future__ import annotations

from functools import cache

import numpy as np

from saddleback.engine import Simulation
from saddleback.paper.comparison import Metric
from saddleback.paper.estimated_system import ReferenceValues
from saddleback.paper.mountain_car_reference import Effort, reference_values
from saddleback.problems import mountain_car
from saddleback.rules import Rule

PI = ((0.8, 0.1, 0.1), (0.1, 0.1, 0.8))
MU = ((0.98, 0.01, 0.01), (0.01, 0.01, 0.98))
GREEDY = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))


@cache
def reading(gamma: float = 0.99, swapped: bool = False, greedy: bool = False) -> Simulation:
    """Return MountainCar with other policies or another discount."""
    target, behaviour = (MU, PI) if swapped else (GREEDY if greedy else PI, MU)
    return mountain_car(gamma, target=target, behaviour=behaviour)


@cache
def _values(car: Simulation, pairs: int, returns: int, seed: int) -> ReferenceValues:
    effort = Effort(starts=0, steps=0, pairs=pairs, returns=returns, sample=0)
    return reference_values(car, effort, np.random.SeedSequence([seed, 98]))


def error(problem: Simulation, rule: Rule, pairs: int, returns: int, seed: int) -> Metric:
    """Mean square error of the values ÷ their mean square."""
    return _values(problem, pairs, returns, seed).mse
