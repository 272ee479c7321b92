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
    reliable_weights,
    shares,
    weight_tail,
)

CAR = sb.problems.mountain_car()


def test_the_shape_at_the_exponential_is_the_limit_of_those_beside_it():
    """Of these five, whose largest is five times the first quartile, b_13 is exactly 0."""
    x = np.arange(1.0, 6.0)
    near = [pareto_shape(np.append(x[:-1], 5.0 + change)) for change in (-1e-6, 1e-6)]
    assert pareto_shape(x) == pytest.approx(np.mean(near), rel=1e-6)


def test_pareto_shapes_of_known_samples():
    for k in (-0.4, 0.1, 0.5, 0.9, 1.5):
        x = np.sort(stats.genpareto.rvs(k, scale=2.0, size=(30, 2000), random_state=0), axis=1)
        shapes = [pareto_shape(sample) for sample in x]
        assert np.mean(shapes) == pytest.approx(k, abs=4 * np.std(shapes) / np.sqrt(30) + 0.01)
        raw = [pareto_k(np.log(sample)) for sample in x]
        tail = 3 * np.sqrt(2000)
        drawn = (tail * k + 5) / (tail + 10)
        assert np.mean(raw) == pytest.approx(drawn, abs=4 * np.std(raw) / np.sqrt(30) + 0.05)


@pytest.mark.parametrize(("n", "quartile"), [(40, 10), (41, 10), (42, 11), (7, 2)])
def test_pareto_shape_as_zhang_and_stephens_write_it(n, quartile):
    """Their k has the other sign; θ_j and its weights as in their equations, with m = 30 + √n."""
    x = np.sort(stats.genpareto.rvs(0.6, scale=2.0, size=n, random_state=1)).tolist()
    m = 30 + math.isqrt(n)

    def k(theta):
        return -sum(math.log(1 - theta * value) for value in x) / n

    theta = [
        1 / x[-1] + (1 - math.sqrt(m / (j - 0.5))) / (3 * x[quartile - 1]) for j in range(1, m + 1)
    ]
    length = [n * (math.log(value / k(value)) + k(value) - 1) for value in theta]
    weight = [1 / sum(math.exp(other - one) for other in length) for one in length]
    mean = sum(w * value for w, value in zip(weight, theta, strict=True))
    assert pareto_shape(np.array(x)) == pytest.approx(-k(mean), rel=1e-10)


def test_the_tail_is_that_of_the_largest_weights():
    """Of n weights the min(n/5, 3√n) largest; the prior draws k to ½."""
    for count, size in ((21, 5), (100, 20), (225, 45), (226, 46), (1000, 95), (10_000, 300)):
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


def test_weights_at_the_threshold_are_not_in_the_tail():
    """The prior is worth 10 weights; fewer than 5 above the threshold are no tail."""
    for above in (np.arange(1.0, 6.0) ** 2, np.arange(1.0, 7.0) ** 2):
        logs = np.log(np.append(np.ones(100 - len(above)), 1.0 + above))
        n = len(above)
        expected = (n * pareto_shape(above) + 10 * 0.5) / (n + 10)
        assert pareto_k(logs) == pytest.approx(expected, rel=1e-9)
    assert np.isnan(pareto_k(np.log(np.append(np.ones(96), [2.0, 3.0, 4.0, 5.0]))))


def test_bounded_weights_have_no_tail():
    tail = np.linspace(1.0, 2.0, 100)
    for equal, bounded in ((9, False), (10, True)):
        logs = np.log(np.append(tail[: 100 - equal], np.full(equal, 3.0)))
        assert np.isneginf(pareto_k(logs)) == bounded
    six = np.append(tail[:24], np.full(6, 3.0))  # all of the tail of 30 weights
    assert np.isneginf(pareto_k(np.log(six)))
    assert np.isfinite(pareto_k(np.log([*six[:-1], 3.5])))
    assert np.isfinite(pareto_k(np.log([2.9 if k == 24 else one for k, one in enumerate(six)])))
    ten_and_one = np.append(tail[:89], [*[3.0] * 10, 3.5])
    assert np.isfinite(pareto_k(np.log(ten_and_one)))
    assert np.isnan(pareto_k(np.append(np.full(99, -np.inf), 0.0)))


def test_limits_of_reliable_weights():
    assert [k_hat_threshold(n) for n in (0, 1, 9, 10)] == [0.0] * 4
    for n in (11, 100, 2000):
        assert k_hat_threshold(n) == pytest.approx(1 - math.log(10) / math.log(n), rel=1e-12)
    assert k_hat_threshold(2155) == k_hat_threshold(10**6) == 0.7
    for k_hat, ess, n, reliable in (
        (0.5, 20.0, 100, True), (0.501, 20.0, 100, False), (0.5, 19.99, 100, False),
        (0.7, 30.0, 10**5, True), (0.701, 30.0, 10**5, False), (np.nan, 30.0, 100, False),
        (-np.inf, 20.0, 25, True),
    ):  # fmt: skip
        assert reliable_weights(k_hat, ess, n) == reliable


def test_the_tail_has_each_weight_and_the_share_at_least_as_large():
    weights = [3.0, 0.0, 1.0, 1.0, 7.0, 3.0, 0.5, 3.0, 0.0, 0.25]
    mean = sum(weights) / 10
    expected = [
        (size / mean, sum(weight >= size for weight in weights) / 10)
        for size in sorted({*weights} - {0.0}, reverse=True)
    ]
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    np.testing.assert_allclose(weight_tail(logs + 5.0), expected, rtol=1e-12)
    for none in (np.zeros(0), np.full(4, -np.inf)):
        assert weight_tail(none).shape == (0, 2)


@pytest.mark.parametrize(("n", "points"), [(16, 5), (1000, 7), (100_000, None)])
def test_points_of_a_long_tail_are_evenly_spaced_in_the_logarithm_of_their_rank(n, points):
    options = {} if points is None else {"max_points": points}
    points = 80 if points is None else points
    ranks = sorted({round(n ** (k / (points - 1))) for k in range(points)})
    tail = weight_tail(np.log(np.arange(1.0, n + 1)), **options)
    np.testing.assert_allclose(tail[:, 1], np.array(ranks) / n, rtol=1e-12)
    np.testing.assert_allclose(tail[:, 0], (n + 1 - np.array(ranks)) * 2 / (n + 1), rtol=1e-9)
