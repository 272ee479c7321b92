"""Claims about matrices, which need no sampling."""

from __future__ import annotations

import numpy as np

from saddleback.learning import iterate
from saddleback.paper import Options, stability, theorem1
from saddleback.paper.claims import Claim, verdict
from saddleback.problems import baird, random_mdp, two_state
from saddleback.rules import GES, ExpectedSarsa
from saddleback.system import System


def exact_claims(options: Options) -> list[Claim]:
    """Claims about matrices, which need no sampling."""
    unstable = System.exact(two_state(0.999), ExpectedSarsa(0.0))
    run = iterate(unstable, alpha=0.1, steps=2000, theta0=1.0)
    found = [
        Claim(
            "Off-line Expected Sarsa(λ) can be unstable",
            f"two-state, γ = .999, λ = 0: largest real part {unstable.spectrum[0].real:.4f}; "
            f"iterates {run.outcome}",
            verdict(not unstable.stable, not bool(run.ok)),
            "stability",
        )
    ]
    gamma, lam = 0.9, 0.4
    A = System.exact(two_state(gamma), ExpectedSarsa(lam)).A
    printed = np.array(
        [[(6 * gamma - gamma * lam - 5) / (2 * (1 - gamma * lam)), 0], [1.5 * gamma, -2.5]]
    )
    threshold = max(abs(stability.boundary(v) - 5 / (6 - v)) for v in (0.0, 0.5))
    found.append(
        Claim(
            "Example 1: the matrix A, unstable for γ > 5/(6−λ)",
            f"threshold holds to {threshold:.0e}; the printed A is off by up to "
            f"{np.abs(printed - A).max():.2f} at γ = .9, λ = .4, and its eigenvalue 5/2 is −5/4",
            verdict(threshold < 1e-6, bool(np.allclose(printed, A))),
            "stability",
        )
    )
    singular = System.exact(baird(0.9, np.ones((7, 2))), ExpectedSarsa(0.0))
    ended = iterate(singular, alpha=1.0, steps=20_000)
    residual = float(np.abs(singular.residual(ended.theta)).max())
    counted = theorem1.measure_growth(theorem1.Theorem1Config()).values()
    agree = sum(each.agree for each in counted)
    points = sum(each.predicted.size for each in counted)
    gap = max(each.gap for each in counted)
    found.append(
        Claim(
            "Theorem 1: stable if and only if Spec(A) ⊂ C₋",
            f"growth of iterates has the sign of the largest real part at {agree} of {points} "
            f"points (largest difference {gap:.0e}), with another step size than printed; but on "
            f"Baird's star A is singular (rank {singular.rank} of {singular.p}) and the update "
            f"still converges (residual {residual:.0e})",
            verdict(agree == points, residual > 1e-6),
            "theorem1",
        )
    )
    problem = two_state(gamma)
    P = np.einsum("sat,tb->satb", problem.mdp.P, problem.target).reshape(4, 4)
    left, right = problem.Phi.T * problem.weights, (gamma * P - np.eye(4)) @ problem.Phi
    powers = [left @ np.linalg.matrix_power(gamma * lam * P, k) @ right for k in range(21)]
    gaps = [float(np.abs(np.sum(powers[: t + 1], axis=0) - A).max()) for t in (0, 20)]
    found.append(
        Claim(
            "The estimators Â_t, b̂_t, M̂_t are unbiased",
            f"E[Â_t] misses A by {gaps[0]:.2g} at t = 0 and {gaps[1]:.0e} at t = 20: unbiased in "
            "the limit, and not given θ_t, ω_t",
            verdict(gaps[0] < 1e-9, gaps[1] < 1e-6),
        )
    )
    system = System.exact(random_mdp(0.9, rng=0), GES(0.3))
    theta = np.random.default_rng(options.seed).normal(size=(100, system.p))
    off = np.abs(system.saddle(theta, system.best_dual(theta)) - system.mspbe(theta)).max()
    found.append(
        Claim(
            "The MSPBE is the maximum of Ψ over ω; its minimiser is the saddle point",
            f"largest difference over 100 random θ: {off:.0e}",
            verdict(bool(off < 1e-9)),
        )
    )
    return found
