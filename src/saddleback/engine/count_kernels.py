"""How often features were active, and what a target policy would do on the rows of a log."""

from __future__ import annotations

import math

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray, IntArray

GREEDY = 0.95
"""A row counts as greedy if one action is at least so likely."""


@compiled
def count_visits(phi_index: IndexArray, visits: FloatArray) -> None:
    """Count the steps on which each feature was active."""
    for j in range(len(phi_index)):
        visits[phi_index[j]] += 1.0


@compiled
def count_mass(next_index: IndexArray, next_b: FloatArray, mass: FloatArray) -> None:
    """Add up |b| of each feature, the bootstrap of the states that were met."""
    for j in range(len(next_index)):
        mass[next_index[j]] += abs(next_b[j])


@compiled
def count_policy(
    pi: FloatArray,
    here: IntArray,
    chances: FloatArray,
    shape: FloatArray,
) -> None:
    """Add up a policy's probabilities by action, [K]; and entropy and greedy rows, shape[0:2]."""
    for i in range(len(here)):
        most = 0.0
        for a in range(pi.shape[1]):
            p = pi[here[i], a]
            chances[a] += p
            most = max(most, p)
            if p > 0.0:
                shape[0] -= p * math.log(p)
        if most >= GREEDY:
            shape[1] += 1.0


@compiled
def count_ratios(
    pi: FloatArray,
    mu: FloatArray,
    here: IntArray,
    actions: IntArray,
    propensity: FloatArray,
    cell: IntArray,
    ratios: FloatArray,
    least: FloatArray,
    shape: FloatArray,
) -> None:
    """Add up x = π(1{A=a}/μ − 1), x², π²(1/μ − 1) where a was taken and π², [4, cells, K].

    ``mu`` is [0, K] where only the propensity of the action taken is known. π's probability on
    actions that could not be taken is added to shape[2].
    """
    for i in range(len(here)):
        taken, c = actions[i], cell[i]
        least[taken] = min(least[taken], propensity[i])
        for a in range(pi.shape[1]):
            p = pi[here[i], a]
            possible = a == taken or propensity[i] < 1.0
            if len(mu):
                possible = mu[here[i], a] > 0.0
            x = p / propensity[i] if a == taken else 0.0
            if not possible:
                shape[2] += p
                p = 0.0
            x -= p
            ratios[0, c, a] += x
            ratios[1, c, a] += x * x
            if a == taken:
                ratios[2, c, a] += p * x
            ratios[3, c, a] += p * p


@compiled
def count_known(
    mu: FloatArray, here: IntArray, actions: IntArray, cell: IntArray, known: FloatArray
) -> None:
    """Add up 1{A=a} − μ and its variance μ(1 − μ), [2, cells, K]."""
    for i in range(len(here)):
        for a in range(mu.shape[1]):
            m = mu[here[i], a]
            known[0, cell[i], a] += (1.0 if a == actions[i] else 0.0) - m
            known[1, cell[i], a] += m * (1.0 - m)
