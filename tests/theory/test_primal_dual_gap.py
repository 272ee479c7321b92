"""The saddle point: Fact 1, Proposition 1 and the primal-dual gap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import saddleback as sb
from helpers.problems import REWARDED
from saddleback import System, problems
from saddleback.theory import primal_dual_gap, projected_descent
from saddleback.theory.noise_chain import noise_chain
from saddleback.theory.primal_dual_gap import gap_constant


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_fact_1_on_quadratics(seed):
    """f = ½xᵀHx: ∇f* = H⁻¹ inverts ∇f; f* is 1/α-smooth and 1/β-strongly convex."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(3, 3))
    H = half @ half.T + 0.2 * np.eye(3)
    y = rng.normal(size=3)
    conjugate = -minimize(lambda x: 0.5 * x @ H @ x - y @ x, np.zeros(3), tol=1e-12).fun
    np.testing.assert_allclose(conjugate, 0.5 * y @ np.linalg.solve(H, y), rtol=1e-5)
    curvatures = np.linalg.eigvalsh(H)
    dual = np.linalg.eigvalsh(np.linalg.inv(H))
    np.testing.assert_allclose([dual[-1], dual[0]], [1 / curvatures[0], 1 / curvatures[-1]])


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_proposition_1(seed):
    """max_ω Ψ(θ, ω) = MSPBE(θ), and the saddle point minimises it."""
    system = System.exact(problems.random_mdp(0.9, rng=seed), sb.GES(0.3))
    theta = np.random.default_rng(seed).normal(size=4)
    np.testing.assert_allclose(
        system.saddle(theta, system.best_dual(theta)), system.mspbe(theta), rtol=1e-8
    )
    np.testing.assert_allclose(system.best_dual(system.fixed_point), 0.0, atol=1e-7)
    assert system.mspbe(system.fixed_point) <= system.mspbe(theta)


@pytest.mark.slow
def test_the_gap_is_what_an_optimiser_finds():
    system = System.exact(problems.random_mdp(0.9, rng=5, features=2), sb.GES(0.2))
    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, 2001)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    disc = (np.linspace(0, 1, 400)[:, None, None] * circle).reshape(-1, 2)
    for _ in range(5):
        theta, omega = rng.normal(size=(2, 2))
        for radius in (0.05, 3.0):
            most = system.saddle(theta, radius * disc).max()
            least = system.saddle(2.0 * disc, omega).min()
            gap = primal_dual_gap(system, theta, omega, theta_radius=2.0, omega_radius=radius)
            np.testing.assert_allclose(gap, most - least, rtol=2e-3)
    assert primal_dual_gap(system, theta, omega) == np.inf
    np.testing.assert_allclose(primal_dual_gap(system, theta, np.zeros(2)), system.mspbe(theta))
    star = primal_dual_gap(
        system, system.fixed_point, np.zeros(2), theta_radius=50.0, omega_radius=50.0
    )
    np.testing.assert_allclose(star, 0.0, atol=1e-12)


@pytest.mark.slow
def test_the_gap_falls_like_the_root_of_time():
    """Independent samples, projection, averages: E ε ≤ C√(5/T), a line of slope −½."""
    run = projected_descent(
        REWARDED, sb.GES(0.0), theta_radius=2.0, omega_radius=2.0, steps=300_000, runs=100, rng=0,
        record=[3000, 30_000, 300_000],
    )  # fmt: skip
    mean = run.gap.mean(axis=1)
    assert (mean <= run.bound).all()
    assert (np.quantile(run.gap, 0.95, axis=1) <= run.high_probability_bound(0.05)).all()
    slope = np.polyfit(np.log(run.steps), np.log(mean), 1)[0]
    assert -0.65 < slope < -0.35


@pytest.mark.kernel
def test_projected_descent_step_by_step():
    """Steps 2/(C√(5t)) in units of the balls: each variable moves by its own radius squared."""
    steps, radii = 3000, (0.3, 0.25)
    noise = noise_chain(REWARDED, sb.GES(0.0))
    constant = gap_constant(noise, *radii)
    share = np.cumsum(noise.weight[noise.source] * noise.probability)
    rewards = noise.delta - noise.d @ (noise.system.fixed_point @ noise.basis)
    draws = np.random.default_rng(3).random((steps, 1))[:, 0] * share[-1]
    theta, omega = np.zeros(noise.k), np.zeros(noise.k)
    sums, total, on_edge = np.zeros((2, noise.k)), 0.0, [0, 0]
    for t, draw in enumerate(draws, 1):
        i, step = int(np.searchsorted(share, draw, "right")), 2 / (constant * np.sqrt(5 * t))
        sums += step * np.array([theta, omega])
        total += step
        error = rewards[i] + noise.d[i] @ theta
        moved = step * radii[1] ** 2 * (error * noise.e[i] - (noise.phi[i] @ omega) * noise.phi[i])
        theta = theta - step * radii[0] ** 2 * (noise.e[i] @ omega) * noise.d[i]
        omega = omega + moved
        for k, (value, radius) in enumerate(zip((theta, omega), radii, strict=True)):
            size = np.linalg.norm(value)
            on_edge[k] += size > radius
            value *= min(1.0, radius / size) if size else 1.0
    run = projected_descent(
        REWARDED, sb.GES(0.0), theta_radius=radii[0], omega_radius=radii[1], steps=steps,
        record=[steps], rng=3,
    )  # fmt: skip
    assert min(on_edge) > 0  # both projections are exercised
    averages = sums / total @ noise.basis.T
    expected = primal_dual_gap(
        noise.system, *averages, theta_radius=radii[0], omega_radius=radii[1]
    )
    np.testing.assert_allclose(run.gap[-1, 0], expected, rtol=1e-10)
