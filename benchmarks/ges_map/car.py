"""Readings of the paper's MountainCar, and the measures on each."""

from __future__ import annotations

from functools import cache

import numpy as np

from saddleback._threads import ThreadSafeCache
from saddleback._typing import FloatArray
from saddleback.engine import Simulation
from saddleback.paper.comparison import Metric
from saddleback.paper.estimated_system import ReferenceValues, from_experience
from saddleback.paper.mountain_car_reference import (
    Effort,
    Objective,
    by_rollouts,
    gram,
    half_inverse,
    reference_values,
)
from saddleback.paper.rollout_systems import rollout_systems
from saddleback.problems import mountain_car
from saddleback.rules import GES, Expected, Rule, Saddle, Trace

PI = ((0.8, 0.1, 0.1), (0.1, 0.1, 0.8))
MU = ((0.98, 0.01, 0.01), (0.01, 0.01, 0.98))
GREEDY = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))

LAMBDAS = (0.2, 0.4, 0.6, 0.8, 0.99)
"""λ of the map, except 0; their systems share rollouts of π."""


@cache
def reading(gamma: float = 0.99, swapped: bool = False, greedy: bool = False) -> Simulation:
    """Return MountainCar with other policies or another discount."""
    target, behaviour = (MU, PI) if swapped else (GREEDY if greedy else PI, MU)
    return mountain_car(gamma, target=target, behaviour=behaviour)


def _values(key: tuple[Simulation, int, int, int]) -> ReferenceValues:
    car, pairs, returns, seed = key
    effort = Effort(starts=0, steps=0, pairs=pairs, returns=returns, sample=0)
    return reference_values(car, effort, np.random.SeedSequence([seed, 98]))


def _by_rollouts(key: tuple[Simulation, int, int]) -> dict[float, Objective]:
    car, starts, seed = key
    systems = rollout_systems(car, LAMBDAS, starts, np.random.SeedSequence([seed, 97]))
    half = half_inverse(systems[LAMBDAS[0]].system.M)  # that of every λ
    return {lam: Objective(own.system, half) for lam, own in systems.items()}


def _half(key: tuple[Simulation, int, int]) -> FloatArray:
    car, steps, seed = key
    return half_inverse(gram(car, steps, np.random.SeedSequence([seed, 96])))


def _by_steps(key: tuple[Simulation, Trace, int, int]) -> Objective:
    car, trace, steps, seed = key
    rule, entropy = Rule(trace, Saddle(), Expected()), np.random.SeedSequence([seed, 96])
    (system,) = from_experience(car, [rule], steps, entropy)
    return Objective(system, HALVES((car, steps, seed)))


VALUES, ROLLOUTS = ThreadSafeCache(_values), ThreadSafeCache(_by_rollouts)
HALVES, SAMPLED = ThreadSafeCache(_half), ThreadSafeCache(_by_steps)


def error(problem: Simulation, rule: Rule, pairs: int, returns: int, seed: int) -> Metric:
    """Mean square error of the values ÷ their mean square."""
    return VALUES((problem, pairs, returns, seed)).mse


def mspbe(problem: Simulation, rule: Rule, starts: int, experience: int, seed: int) -> Metric:
    """MSPBE of the rule; importance traces by rollouts of π, others by experience of μ."""
    if by_rollouts(rule.trace):
        return ROLLOUTS((problem, starts, seed))[float(rule.trace.parameter or 0.0)].mspbe
    return SAMPLED((problem, rule.trace, experience, seed)).mspbe


def mspbe_common(
    problem: Simulation, rule: Rule, lam: float, starts: int, experience: int, seed: int
) -> Metric:
    """MSPBE of GES, which is the same function of θ for every rule."""
    return mspbe(problem, GES(lam), starts, experience, seed)
