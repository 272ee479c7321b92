"""The saddle point: Fact 1, Proposition 1 and the primal-dual gap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import saddleback as sb
from helpers.problems import REWARDED, system_from_arrays
from saddleback import System, problems
from saddleback.theory import primal_dual_gap, projected_descent
from saddleback.theory.noise_chain import noise_chain
from saddleback.theory.primal_dual_gap import GapRun, gap_constant


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


def test_the_constant_of_the_bound():
    """C² = 4 (2R_ω)² C_1² + (2R_θ)² C_2², from norms of root mean squares of the samples."""
    noise, r_theta, r_omega = noise_chain(REWARDED, sb.GES(0.0)), 0.3, 0.7
    share = noise.weight[noise.source] * noise.probability
    star = noise.system.fixed_point @ noise.basis

    def size(left, right):
        squares = np.zeros((2, 2))
        for weight, u, v in zip(share, left, right, strict=True):
            squares += weight * np.outer(u, v).T @ np.outer(u, v)
        return np.sqrt(np.linalg.norm(squares, 2))

    rewards = [delta - d @ star for delta, d in zip(noise.delta, noise.d, strict=True)]
    b = np.sqrt(sum(w * (r**2) * (e @ e) for w, r, e in zip(share, rewards, noise.e, strict=True)))
    c_1 = size(noise.e, noise.d) * r_theta + b + size(noise.phi, noise.phi) * r_omega
    c_2 = size(noise.d, noise.e) * r_omega
    expected = np.sqrt(4 * (2 * r_omega) ** 2 * c_1**2 + (2 * r_theta) ** 2 * c_2**2)
    assert gap_constant(noise, r_theta, r_omega) == pytest.approx(expected)


def test_bounds_of_a_run():
    run = GapRun(np.array([0, 1, 20]), np.zeros((3, 1)), 3.0)
    np.testing.assert_allclose(run.bound, [3 * np.sqrt(5), 3 * np.sqrt(5), 1.5])
    factor = 8 + 2 * np.log(2 / 0.1)
    np.testing.assert_allclose(run.high_probability_bound(0.1), run.bound * factor)


def test_the_gap_without_balls():
    """Along Aᵀω = 0 the minimum over θ is that of a constant; a large ω leaves no minimum."""
    A, M, b = np.array([[-2.0, 0.0], [1.0, 0.0]]), np.array([[3.0, 1.0], [1.0, 2.0]]), [1.0, -1.0]
    system = system_from_arrays(A, M, b=np.array(b))
    theta, omega = np.array([0.5, 2.0]), np.array([1.0, 2.0])
    residual = A @ theta + b
    most = 0.5 * residual @ np.linalg.solve(M, residual)
    least = omega @ b - 0.5 * omega @ M @ omega
    assert primal_dual_gap(system, theta, omega) == pytest.approx(most - least)
    assert primal_dual_gap(system, theta, omega + 1e-6) == np.inf
    # Far inside its ball the maximum is that without a ball, and at 0 it is 0.
    assert primal_dual_gap(system, theta, omega, omega_radius=50.0) == pytest.approx(most - least)
    square = system_from_arrays(np.eye(2), M, b=np.zeros(2))
    assert primal_dual_gap(square, [0.0, 0.0], [0.0, 0.0], omega_radius=2.0) == 0.0


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
