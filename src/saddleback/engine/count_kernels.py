"""Counting kernels over the rows of a log: active features, and a target policy's actions."""

from __future__ import annotations

import math
from typing import NamedTuple

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray, IntArray

GREEDY = 0.95
"""A row counts as greedy if one action has at least this probability."""

ENTROPY, GREEDY_ROWS, UNCOVERED_MASS = range(3)
"""Entries of a policy's totals: Σ entropy, greedy rows, probability of actions μ cannot take."""


class TakenActions(NamedTuple):
    """State, action, propensity and cell of each row, [n]."""

    states: IntArray
    actions: IntArray
    propensity: FloatArray
    cell: IntArray


@compiled
def count_visits(phi_index: IndexArray, visits: FloatArray) -> None:
    """Count the steps on which each feature was active."""
    for j in range(len(phi_index)):
        visits[phi_index[j]] += 1.0


@compiled
def count_mass(next_index: IndexArray, next_b: FloatArray, mass: FloatArray) -> None:
    """Add |b| of each feature, over the bootstraps of the next states."""
    for j in range(len(next_index)):
        mass[next_index[j]] += abs(next_b[j])


@compiled
def count_policy(
    pi: FloatArray,
    states: IntArray,
    action_mass: FloatArray,
    totals: FloatArray,
) -> None:
    """Add a policy's probabilities by action, [K], and its entropy and greedy rows."""
    for i in range(len(states)):
        largest = 0.0
        for a in range(pi.shape[1]):
            p = pi[states[i], a]
            action_mass[a] += p
            largest = max(largest, p)
            if p > 0.0:
                totals[ENTROPY] -= p * math.log(p)
        if largest >= GREEDY:
            totals[GREEDY_ROWS] += 1.0


@compiled
def count_ratios(
    pi: FloatArray,
    mu: FloatArray,
    taken: TakenActions,
    ratios: FloatArray,
    smallest: FloatArray,
    totals: FloatArray,
) -> None:
    """Add x = π(1{A=a}/μ − 1), x², π²(1/μ − 1) where a was taken and π², [4, cells, K].

    ``mu`` is [0, K] if only the propensity of the action taken is known. ``smallest`` keeps the
    smallest propensity of each action, and ``totals`` the probability of impossible actions.
    """
    for i in range(len(taken.states)):
        s, action, m, c = taken.states[i], taken.actions[i], taken.propensity[i], taken.cell[i]
        smallest[action] = min(smallest[action], m)
        for a in range(pi.shape[1]):
            p = pi[s, a]
            possible = a == action or m < 1.0
            if len(mu):
                possible = mu[s, a] > 0.0
            x = p / m if a == action else 0.0
            if not possible:
                totals[UNCOVERED_MASS] += p
                p = 0.0
            x -= p
            ratios[0, c, a] += x
            ratios[1, c, a] += x * x
            if a == action:
                ratios[2, c, a] += p * x
            ratios[3, c, a] += p * p


@compiled
def count_calibration(
    mu: FloatArray, states: IntArray, actions: IntArray, cell: IntArray, residuals: FloatArray
) -> None:
    """Add the residual 1{A=a} − μ and its variance μ(1 − μ), [2, cells, K]."""
    for i in range(len(states)):
        for a in range(mu.shape[1]):
            m = mu[states[i], a]
            residuals[0, cell[i], a] += (1.0 if a == actions[i] else 0.0) - m
            residuals[1, cell[i], a] += m * (1.0 - m)
