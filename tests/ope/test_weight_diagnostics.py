"""Diagnostics of importance weights: effective sample size and Pareto k-hat."""

import math

import numpy as np
import pytest
from scipy import stats

import saddleback as sb
from saddleback.ope.weight_diagnostics import (
    effective_sample_size,
    k_hat_threshold,
    pareto_k,
    pareto_shape,
    shares,
)

CAR = sb.problems.mountain_car()


def test_pareto_shapes_of_known_samples():
    for k in (-0.4, 0.1, 0.5, 0.9, 1.5):
        x = np.sort(stats.genpareto.rvs(k, scale=2.0, size=(30, 2000), random_state=0), axis=1)
        shapes = [pareto_shape(sample) for sample in x]
        assert np.mean(shapes) == pytest.approx(k, abs=4 * np.std(shapes) / np.sqrt(30) + 0.01)
        raw = [pareto_k(np.log(sample)) for sample in x]
        tail = 3 * np.sqrt(2000)
        drawn = (tail * k + 5) / (tail + 10)
        assert np.mean(raw) == pytest.approx(drawn, abs=4 * np.std(raw) / np.sqrt(30) + 0.05)


def test_pareto_shape_as_zhang_and_stephens_write_it():
    """Their k has the other sign; θ_j and its weights as in their equations, with m = 30 + √n."""
    x = np.sort(stats.genpareto.rvs(0.6, scale=2.0, size=40, random_state=1)).tolist()
    n, m = 40, 36

    def k(theta):
        return -sum(math.log(1 - theta * value) for value in x) / n

    theta = [1 / x[-1] + (1 - math.sqrt(m / (j - 0.5))) / (3 * x[9]) for j in range(1, m + 1)]
    length = [n * (math.log(value / k(value)) + k(value) - 1) for value in theta]
    weight = [1 / sum(math.exp(other - one) for other in length) for one in length]
    mean = sum(w * value for w, value in zip(weight, theta, strict=True))
    assert pareto_shape(np.array(x)) == pytest.approx(-k(mean), rel=1e-10)
    # The tail of n weights is that of their min(n/5, 3√n) largest; the prior draws k to ½.
    for count, size in ((100, 20), (10_000, 300)):
        w = np.sort(stats.genpareto.rvs(0.6, size=count, random_state=2))
        shape = pareto_shape(w[-size:] - w[-size - 1])
        assert pareto_k(np.log(w)) == pytest.approx((size * shape + 5) / (size + 10), rel=1e-9)


def test_weight_diagnostics_are_scale_invariant():
    logs = np.random.default_rng(0).normal(size=300)
    for shift in (-1e5, 1e5):
        np.testing.assert_allclose(shares(logs + shift), shares(logs), rtol=1e-9)
        assert effective_sample_size(logs + shift) == pytest.approx(
            effective_sample_size(logs), rel=1e-9
        )
        assert pareto_k(logs + shift) == pytest.approx(pareto_k(logs), rel=1e-6)
    assert effective_sample_size(np.full(3, -np.inf)) == 0.0
    assert np.isnan(pareto_k(logs[:20]))
    assert np.isnan(pareto_k(np.full(99, -np.inf)))
    assert np.isnan(pareto_k(np.append(np.zeros(100), [1.0, 2.0])))
    assert k_hat_threshold(5) == 0.0
