"""Counts over the rows of a log, against sums by NumPy."""

import numpy as np
import pytest

from saddleback.engine.count_kernels import (
    TakenActions,
    count_calibration,
    count_mass,
    count_policy,
    count_ratios,
    count_visits,
)

pytestmark = pytest.mark.kernel


def test_residuals_of_propensities_are_added_by_cell_and_action():
    rng = np.random.default_rng(0)
    mu = rng.dirichlet(np.ones(3), size=5)
    states, actions, cell = (rng.integers(n, size=40) for n in (5, 3, 2))
    residuals = np.zeros((2, 2, 3))
    count_calibration(mu, states, actions, cell, residuals)
    taken = np.eye(3)[actions] - mu[states]
    spread = mu[states] * (1 - mu[states])
    for k in range(2):
        np.testing.assert_allclose(residuals[0, k], taken[cell == k].sum(axis=0))
        np.testing.assert_allclose(residuals[1, k], spread[cell == k].sum(axis=0))


def test_features_and_bootstraps_are_counted():
    index = np.array([4, 1, 4, 4], dtype=np.uint32)
    visits, mass = np.ones(6), np.ones(6)
    count_visits(index, visits)
    assert visits.tolist() == [1, 2, 1, 1, 4, 1]
    count_mass(index, np.array([0.5, -2.0, -0.25, 1.0]), mass)
    assert mass.tolist() == [1, 3, 1, 1, 2.75, 1]


def test_the_actions_of_a_policy_are_counted():
    """A row is greedy from 95% on, and an action of probability 0 has no entropy."""
    pi = np.array([[0.95, 0.05, 0.0], [0.5, 0.25, 0.25], [0.9499, 0.0501, 0.0], [0.0, 0.0, 1.0]])
    states = np.array([0, 1, 1, 2, 3])
    mass, totals = np.full(3, 0.5), np.array([1.0, 1.0, 1.0])
    count_policy(pi, states, mass, totals)
    np.testing.assert_allclose(mass, 0.5 + pi[states].sum(axis=0))
    entropy = -sum(p * np.log(p) for p in pi[states].ravel() if p > 0)
    np.testing.assert_allclose(totals, [1 + entropy, 1 + 2, 1])


@pytest.mark.parametrize("full", [True, False])
def test_ratios_are_counted_by_cell_and_action(full):
    """Where μ is given its zeros are impossible; otherwise the others, if one has all of it."""
    rng, n = np.random.default_rng(1), 60
    mu = rng.dirichlet(np.ones(3), size=5)
    mu[4], mu[3, 2] = [0.0, 1.0, 0.0], 0.0
    mu[3] /= mu[3].sum()
    pi = rng.dirichlet(np.ones(3), size=5)
    states, cell = rng.integers(5, size=n), rng.integers(2, size=n)
    actions = np.array([rng.choice(3, p=mu[s]) for s in states])
    m = mu[states, actions]
    smallest, totals, ratios = np.full(3, 0.9), np.array([0.0, 0.0, 0.5]), np.ones((4, 2, 3))
    given = mu if full else mu[:0]
    count_ratios(pi, given, TakenActions(states, actions, m, cell), ratios, smallest, totals)
    expected, impossible = np.ones((4, 2, 3)), 0.5
    for s, action, propensity, c in zip(states, actions, m, cell, strict=True):
        for a in range(3):
            none = mu[s, a] == 0 if full else (propensity == 1 and a != action)
            p = 0.0 if none else pi[s, a]
            impossible += pi[s, a] - p
            x = p * ((a == action) / propensity - 1)
            expected[:, c, a] += [x, x**2, p * x if a == action else 0.0, p**2]
    np.testing.assert_allclose(ratios, expected)
    assert totals.tolist() == [0, 0, pytest.approx(impossible)]
    assert impossible > 0.5
    least = [min([0.9, *m[actions == a]]) for a in range(3)]
    assert smallest.tolist() == least
