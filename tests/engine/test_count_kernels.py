"""Counts over the rows of a log, against sums by NumPy."""

import numpy as np
import pytest

from saddleback.engine.count_kernels import count_calibration

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
