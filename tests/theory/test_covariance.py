"""The long-run covariance of noise, and the error floor of small steps."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import REWARDED, problem_for, rule_named
from saddleback import System, mean_square, problems
from saddleback.theory import newey_west, noise_covariance, small_step_floor
from saddleback.theory.noise_chain import noise_chain


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "lam", "kind"),
    [
        ("GES", 0.0, {}),
        ("GES", 0.3, {}),
        ("TD", 0.3, {"termination": 0.3}),
        ("Sarsa", 0.5, {}),
        ("VTrace", 0.6, {}),
    ],
)
def test_the_noise_covariance_is_that_of_samples(name, lam, kind):
    problem, rule = problem_for(name, seed=11, off_policy=0.4, **kind), rule_named(name, lam)
    exact = noise_covariance(problem, rule)
    system = System.estimate(problem, rule, steps=1_000_000, rng=0, batches=1000, keep_batches=True)
    np.testing.assert_allclose(
        noise_covariance(system), exact, atol=0.15 * np.diag(exact).max(), rtol=0
    )
    assert abs(np.trace(noise_covariance(system)) / np.trace(exact) - 1) < 0.1


def test_independent_noise_has_another_covariance():
    noise = noise_chain(REWARDED, sb.GES(0.4))
    h = noise.delta[:, None] * noise.e
    plain = (h * (noise.weight[noise.source] * noise.probability)[:, None]).T @ h
    ratio = np.trace(noise_covariance(REWARDED, sb.GES(0.4))) / np.trace(plain)
    assert abs(ratio - 1) > 0.1


def test_newey_west_sums_the_lags():
    steps = np.random.default_rng(0).normal(size=200_001)
    series = np.stack([steps[1:] + steps[:-1], steps[1:] - steps[:-1]], axis=1)
    np.testing.assert_allclose(newey_west(series, lags=100), [[4, 0], [0, 0]], atol=0.3)
    np.testing.assert_allclose(newey_west(series[:, :1]), [[4]], atol=0.5)


# The error floor.


@pytest.mark.parametrize("rule", [sb.GES(0.4), sb.GQ(0.2), sb.ExpectedSarsa(0.0)], ids=str)
def test_the_small_step_floor_is_the_limit_of_the_exact_one(rule):
    gaps = []
    for alpha in (1e-2, 1e-3):
        exact = mean_square(REWARDED, rule, alpha=alpha, beta=2 * alpha).floor
        gaps.append(abs(small_step_floor(REWARDED, rule, alpha=alpha, beta=2 * alpha) / exact - 1))
    assert gaps[1] < gaps[0] < 0.1
    assert gaps[1] < 0.01


def test_the_floor_from_samples():
    problem, rule = problems.random_mdp(0.9, rng=3), sb.GES(0.0)
    system = System.estimate(problem, rule, steps=400_000, rng=0, batches=400, keep_batches=True)
    exact = small_step_floor(problem, rule, alpha=0.001, beta=0.001)
    np.testing.assert_allclose(small_step_floor(system, alpha=0.001, beta=0.001), exact, rtol=0.15)
