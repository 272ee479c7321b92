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


@pytest.mark.parametrize(
    ("problem", "rule"),
    [
        (REWARDED, sb.GES(0.4)),
        (problem_for("GES", 2, termination=0.3, states=4, features=3), sb.GES(0.0)),
        (problem_for("Sarsa", 5, states=3, features=3), sb.Sarsa(0.0)),
        (problem_for("VTrace", 6, states=3, features=2), rule_named("VTrace", 0.0)),
        (problem_for("TD", 7, termination=0.4, states=3, features=2), sb.TD(0.0)),
    ],
    ids=str,
)
def test_the_noise_covariance_is_that_of_the_chain_of_events(problem, rule):
    """All lags at once: with F the flow between nodes, Σ_l Fˡ is (I − F + 1w)⁻¹ less its limit."""
    noise = noise_chain(problem, rule)
    h = noise.delta[:, None] * noise.e @ noise.basis.T
    nodes, p = len(noise.weight), problem.p
    leaving, arriving, F = np.zeros((nodes, p)), np.zeros((nodes, p)), np.zeros((nodes, nodes))
    lag_0 = np.zeros((p, p))
    for i, j, q, x in zip(noise.source, noise.target, noise.probability, h, strict=True):
        leaving[i] += q * x
        arriving[j] += noise.weight[i] * q * x
        F[i, j] += q
        lag_0 += noise.weight[i] * q * np.outer(x, x)
    later = arriving.T @ np.linalg.solve(
        np.eye(nodes) - F + np.outer(np.ones(nodes), noise.weight), leaving
    )
    np.testing.assert_allclose(
        noise_covariance(problem, rule), lag_0 + later + later.T, rtol=1e-6, atol=1e-9
    )


def test_the_noise_of_batches_is_the_covariance_of_their_means():
    """Means over n steps of dependent noise have the covariance Σ_∞/n."""
    problem = problem_for("TD", 2, states=4, features=3)
    system = System.estimate(problem, sb.TD(0.4), steps=600, rng=0, batches=5, keep_batches=True)
    h = [batch.A @ system.fixed_point + batch.b for batch in system.batches]
    centre, total = sum(h) / 5, np.zeros((3, 3))
    for value in h:
        total += system.batch_steps * np.outer(value - centre, value - centre) / 4
    np.testing.assert_allclose(noise_covariance(system), total)


@pytest.mark.parametrize("rows", [2, 3, 20, 60])
@pytest.mark.parametrize("lags", [None, 1, 4, 30])
def test_newey_west_by_its_formula(rows, lags):
    x = np.random.default_rng(0).normal([1.0, -3.0], size=(rows, 2))
    h = x - sum(x) / rows
    most = int(np.floor(4 * (rows / 100) ** (2 / 9))) if lags is None else lags
    total = np.zeros((2, 2))
    for lag in range(-most, most + 1):
        for t in range(rows):
            if 0 <= t - lag < rows:
                total += (1 - abs(lag) / (most + 1)) * np.outer(h[t], h[t - lag]) / rows
    np.testing.assert_allclose(newey_west(x, lags=lags), total, rtol=1e-12, atol=1e-12)


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


@pytest.mark.parametrize("name", ["GES", "GQ", "TDRC", "ExpectedSarsa"])
def test_the_floor_solves_its_equation(name):
    """D C + C Dᵀ + N = 0, with D the mean step and N the covariance of one step's noise."""
    problem, rule = problem_for(name, 3, states=4, features=2), rule_named(name, 0.0)
    alpha, beta, system = 0.01, 0.04, System.exact(problem, rule)
    c, sigma = rule.form.coefficients, noise_covariance(problem, rule)
    T, W = c.saddle * system.A.T + c.correction * system.C, c.gram * system.M
    W = W + c.shrink * np.eye(2)
    D = alpha * np.block(
        [[c.td * system.A, -T], [beta / alpha * c.dual * system.A, -beta / alpha * W]]
    )
    both = np.array([[alpha * c.td], [beta * c.dual]])
    N = np.kron(both @ both.T, sigma)
    if not rule.form.has_dual:
        D, N = D[:2, :2], N[:2, :2]
    size = len(D)
    K = np.kron(D, np.eye(size)) + np.kron(np.eye(size), D)
    floor = np.trace(np.linalg.solve(K, -N.ravel()).reshape(size, size)[:2, :2])
    steps = {"alpha": alpha, "beta": beta if rule.form.has_dual else None}
    assert small_step_floor(problem, rule, **steps) == pytest.approx(floor)
    doubled = sb.Problem(
        problem.mdp, np.concatenate([problem.features] * 2, axis=-1) / np.sqrt(2), problem.target,
        problem.behaviour,
    )  # fmt: skip
    assert small_step_floor(doubled, rule, **steps) == pytest.approx(floor, rel=1e-6)
