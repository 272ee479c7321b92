"""Claims about matrices, which need no sampling."""

from __future__ import annotations

import numpy as np

from saddleback.learning import iterate
from saddleback.paper import Options, stability, theorem1
from saddleback.paper.claims import Claim, number, rounding, verdict
from saddleback.problems import baird, random_mdp, two_state
from saddleback.rules import GES, ExpectedSarsa
from saddleback.system import System


def exact_claims(options: Options) -> list[Claim]:
    """Return the claims about instability, Theorem 1, the estimators and the saddle point."""
    return [
        _instability(),
        _example_1(),
        _theorem_1(options),
        _unbiased_estimators(),
        _saddle_point(),
    ]


def _instability() -> Claim:
    system = System.exact(two_state(0.999), ExpectedSarsa(0.0))
    run = iterate(system, alpha=0.1, steps=2000, theta0=1.0)
    return Claim(
        "Off-line Expected Sarsa(λ) can be unstable",
        f"Two-state, γ = 0.999, λ = 0: the largest real part is {system.spectrum[0].real:.4f}; "
        f"the iterates {run.outcome}",
        verdict(not system.stable, not bool(run.ok)),
        "stability",
    )


def _example_1(gamma: float = 0.9, lam: float = 0.4) -> Claim:
    A = System.exact(two_state(gamma), ExpectedSarsa(lam)).A
    printed = np.array(
        [[(6 * gamma - gamma * lam - 5) / (2 * (1 - gamma * lam)), 0], [1.5 * gamma, -2.5]]
    )
    threshold = max(abs(stability.boundary(v) - 5 / (6 - v)) for v in (0.0, 0.5))
    return Claim(
        "Example 1: the matrix A, unstable for γ > 5/(6−λ)",
        f"The threshold is exact (error {rounding(threshold)}). The printed A is off by up to "
        f"{np.abs(printed - A).max():.2f} at γ = {gamma:g}, λ = {lam:g}; its eigenvalue 5/2 should "
        "be −5/4",
        verdict(threshold < 1e-6, bool(np.allclose(printed, A))),
        "stability",
    )


def _theorem_1(options: Options) -> Claim:
    singular = System.exact(baird(0.9, np.ones((7, 2))), ExpectedSarsa(0.0))
    run = iterate(singular, alpha=1.0, steps=20_000)
    residual = float(np.abs(singular.residual(run.theta)).max())
    rates = theorem1.growth_rates(options).values()
    agree = sum(group.agree for group in rates)
    points = sum(group.predicted.size for group in rates)
    error = max(group.error for group in rates)
    return Claim(
        "Theorem 1: stable if and only if Spec(A) ⊂ C₋",
        f"The iterates grow with the predicted sign at {agree} of {points} points (largest error "
        f"{number(error, 1)}), with a step size other than the printed one. On Baird's star A is "
        f"singular (rank {singular.rank} of {singular.p}), yet the update converges (residual "
        f"{rounding(residual)})",
        verdict(agree == points, residual > 1e-6),
        "theorem1",
    )


def _unbiased_estimators(gamma: float = 0.9, lam: float = 0.4) -> Claim:
    problem = two_state(gamma)
    A = System.exact(problem, ExpectedSarsa(lam)).A
    P = np.einsum("sat,tb->satb", problem.mdp.P, problem.target).reshape(4, 4)
    left, right = problem.Phi.T * problem.weights, (gamma * P - np.eye(4)) @ problem.Phi
    powers = [left @ np.linalg.matrix_power(gamma * lam * P, k) @ right for k in range(21)]
    bias = [float(np.abs(np.sum(powers[: t + 1], axis=0) - A).max()) for t in (0, 20)]
    return Claim(
        "The estimators Â_t, b̂_t, M̂_t are unbiased",
        f"E[Â_t] differs from A by {number(bias[0])} at t = 0 and {number(bias[1], 1)} at t = 20: "
        "unbiased in the limit only, and not conditionally on θ_t, ω_t",
        verdict(bias[0] < 1e-9, bias[1] < 1e-6),
    )


def _saddle_point() -> Claim:
    system = System.exact(random_mdp(0.9, rng=0), GES(0.3))
    theta = np.random.default_rng(0).normal(size=(100, system.p))
    error = np.abs(system.saddle(theta, system.best_dual(theta)) - system.mspbe(theta)).max()
    return Claim(
        "The MSPBE is the maximum of Ψ over ω; its minimiser is the saddle point",
        f"Largest difference over 100 random θ: {rounding(float(error))}",
        verdict(bool(error < 1e-9)),
    )
