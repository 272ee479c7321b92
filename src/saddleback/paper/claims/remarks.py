"""Claims made in passing: operators, assumptions, the Lyapunov function, and related work."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from saddleback._typing import FloatArray
from saddleback.features.base import encode
from saddleback.finite_mdp import FiniteMDP
from saddleback.paper import Options
from saddleback.paper.claims import Claim, number, rounding, verdict
from saddleback.paper.claims.rates import PRINTED_PROOF_HOLDS, REWARDS, row_slopes
from saddleback.problem import Problem
from saddleback.problems import baird, mountain_car, random_mdp, two_state
from saddleback.rules import ABQ, GES, GQ, GTB, GRetrace
from saddleback.system import System, bellman, lambda_operator, projection
from saddleback.theory import mean_square, theorem2
from saddleback.theory.noise_chain import noise_chain
from saddleback.theory.primal_dual_gap import gap_constant


def remark_claims(options: Options) -> list[Claim]:
    """Return the claims that the paper makes between its theorems and its experiments."""
    return [
        _lambda_operator(),
        _mspbe(),
        _assumptions(),
        _bounded_features(),
        _lyapunov(),
        _ordinary_differential_equation(),
        _other_algorithms(),
        _step_sizes(),
        _fastest_of_table_1(options),
        _step_sizes_of_the_gap(),
        _same_errors(),
        _initial_weights(),
        _uniform_states(),
    ]


def _lambda_operator(lam: float = 0.4) -> Claim:
    problem = two_state(0.9, REWARDS)
    q = np.random.default_rng(0).normal(size=4)
    delta = (bellman(problem, q) - q).reshape(2, 2)
    followed = np.array([_by_trajectories(problem, delta, lam, *pair) for pair in np.ndindex(2, 2)])
    error = float(np.abs(q + followed - lambda_operator(problem, GES(lam), q)).max())
    fixed = lambda_operator(problem, GES(lam), problem.truth) - problem.truth
    return Claim(
        "Appendix A.2: E_μ[Σ_k (γλ)^k ρ_{t+1:t+k} δ_{t+k}] = (I − γλP^π)⁻¹(B^π q − q); the fixed "
        "point is q^π",
        f"Two-state, trajectories of 40 steps from each pair: difference {rounding(error)}; at q^π "
        f"the operator changes nothing ({rounding(float(np.abs(fixed).max()))})",
        verdict(error < 1e-9, bool(np.abs(fixed).max() < 1e-9)),
    )


def _by_trajectories(
    problem: Problem, delta: FloatArray, lam: float, s: int, a: int, steps: int = 40
) -> float:
    """Return Σ_k (γλ)^k E[ρ_1…ρ_k δ_k] over the trajectories of μ from a pair."""
    total = float(delta[s, a])
    for after, reached in enumerate(problem.mdp.P[s, a] if steps else ()):
        for action, likely in enumerate(problem.behaviour[after]):
            weight = reached * likely * problem.target[after, action] / likely
            if weight > 0:
                ahead = _by_trajectories(problem, delta, lam, after, action, steps - 1)
                total += problem.mdp.gamma * lam * weight * ahead
    return total


def _mspbe() -> Claim:
    problem, rule = random_mdp(0.9, rng=0), GES(0.3)
    system, Pi, error = System.exact(problem, rule), projection(problem), 0.0
    for theta in np.random.default_rng(0).normal(size=(100, system.p)):
        values = problem.Phi @ theta
        gap = values - Pi @ lambda_operator(problem, rule, values)
        error = max(error, abs(float(problem.weights @ gap**2 / 2 - system.mspbe(theta))))
    return Claim(
        "Equation of the MSPBE, and C.1: ½‖Φθ − ΠB_λΦθ‖²_Ξ = ½‖Aθ + b‖² in the norm of M⁻¹",
        f"Largest difference over 100 random θ: {rounding(error)}. C.1 loses the ½",
        verdict(error < 1e-9),
    )


def _assumptions(steps: int = 100_000) -> Claim:
    car = mountain_car(0.99)
    path = car.sampler(np.random.default_rng(0)).take(steps)
    tiles = encode(car.features, path.observations)[0].astype(np.int64)
    active = len(np.unique(tiles * car.n_actions + path.actions[:, None]))
    small = {"two-state": two_state(0.99), "Baird": baird(0.99)}
    ranks = {name: int(np.linalg.matrix_rank(problem.Phi)) for name, problem in small.items()}
    visited = min(float(problem.weights.min()) for problem in small.values())
    full = [ranks[name] == problem.p for name, problem in small.items()]
    return Claim(
        "Assumptions 1 and 3 hold: μ visits every pair, rank(Φ) = p, and A is nonsingular",
        f"Every pair of the small problems is visited (ξ ≥ {visited:.3f}). rank(Φ) is "
        f"{ranks['two-state']} of {small['two-state'].p} (two-state) and {ranks['Baird']} of "
        f"{small['Baird'].p} (Baird); on MountainCar {active} of {car.p} features were active in "
        f"{steps:,} steps",
        verdict(visited > 0, *full, active == car.p),
    )


def _bounded_features() -> Claim:
    features = {"two-state": two_state().Phi, "Baird": baird().Phi}
    sizes = {name: float((Phi**2).sum(axis=1).max()) for name, Phi in features.items()}
    bounds = {
        name: Phi.shape[1] ** 1.5 * float(np.abs(Phi).max()) ** 2 for name, Phi in features.items()
    }
    car = mountain_car(0.99)
    (row,) = car.phi(np.array([[-0.5, 0.0]]), np.array([0]))  # as many tiles as anywhere
    sizes["MountainCar"], bounds["MountainCar"] = float(row @ row), car.p**1.5 * float(row.max())
    texts = [f"{sizes[name]:g} ≤ {number(bounds[name])} ({name})" for name in sizes]
    return Claim(
        "Appendix D.1: ‖M̂_t‖ ≤ p√p φ_max²",
        f"‖M̂_t‖ = ‖φ_t‖²: {', '.join(texts)}. p φ_max² would do",
        verdict(*(sizes[name] <= bounds[name] for name in sizes)),
    )


def _lyapunov() -> Claim:
    system = System.exact(two_state(0.5, REWARDS), GES(0.4))
    A, M, unit = system.A, system.M, np.eye(system.p)
    H = -A.T @ np.linalg.solve(M, A)
    Q1, Q2 = solve_continuous_lyapunov(H.T, -unit), solve_continuous_lyapunov(M.T, unit)
    L = A - M @ np.linalg.solve(M, A)
    weights = [np.linalg.norm(Q1 @ A.T, 2), np.linalg.norm(Q2 @ np.linalg.solve(M, A @ L), 2)]
    lowest = [float(np.linalg.eigvalsh(Q)[0]) for Q in (Q1, Q2)]
    of_Q = min(w * low for w, low in zip(weights, lowest, strict=True)) / sum(weights)
    return Claim(
        "Lemma 1: the Lyapunov equations have solutions, and E[L(z_t)] bounds E‖z_t‖²",
        f"Q₁ and Q₂ exist (smallest eigenvalues {number(lowest[0])} and {number(lowest[1])}): H "
        "and −M are Hurwitz, not −H and M. But L is 0, not 2A, so that the weight of Q₂ in Q is "
        f"{rounding(float(weights[1]))}, and λ_min(Q) bounds nothing",
        verdict(min(lowest) > 0, bool(of_Q > 1e-9)),
    )


def _ordinary_differential_equation(gamma: float = 0.9) -> Claim:
    only = np.ones((3, 1))
    ring = FiniteMDP(np.eye(3)[[1, 2, 0]][:, None], only, gamma)
    system = System.exact(Problem(ring, np.eye(3)[:, None], only, only), GES(0.0))
    printed, transposed = (_growth(system, block) for block in (system.A, system.A.T))
    return Claim(
        "The update follows θ' = −Aω, (α/β)ω' = Aθ + b − Mω, which is asymptotically stable",
        f"Three states in a ring, γ = {gamma:g}, one feature each, α = β: the largest real part is "
        f"{number(printed)}, so that it diverges; {number(transposed)} with −Aᵀω, as in the "
        "algorithm",
        verdict(printed < 0, transposed < 0),
    )


def _growth(system: System, block: FloatArray) -> float:
    """Return the largest real part of the equation with −``block`` ω in its first line."""
    G = np.block([[np.zeros_like(block), -block], [system.A, -system.M]])
    return float(np.linalg.eigvals(G).real.max())


def _other_algorithms() -> Claim:
    problem, ratios = two_state(0.5, REWARDS), {}
    for rule in (GQ(0.4), GTB(0.4), GRetrace(0.4)):
        floors = [mean_square(problem, rule, alpha=a, beta=a).floor for a in (0.02, 0.01)]
        ratios[str(rule)] = floors[0] / floors[1]
    return Claim(
        "The Lyapunov technique extends to other gradient TD algorithms",
        "Its proof is invalid, but what it says of GES is observed of others: floors at α = β = "
        "0.02 and 0.01 have the ratios "
        + ", ".join(f"{value:.2f} ({name})" for name, value in ratios.items()),
        verdict(all(abs(value - 2) < 0.3 for value in ratios.values()), PRINTED_PROOF_HOLDS),
    )


def _step_sizes() -> Claim:
    problem, rule = two_state(0.5, REWARDS), GES(0.4)
    steps = theorem2(System.exact(problem, rule))
    sampled = mean_square(problem, rule, alpha=steps.alpha, beta=steps.beta)
    return Claim(
        "Theorem 2 needs a simpler step size than Xu et al.",
        f"Constant, α = {steps.alpha:.4f} and β = {steps.beta:.4f}, but made of the extreme "
        "singular values of A and M, which are unknown; on samples these steps "
        + ("converge" if sampled.stable else "diverge"),
        verdict(True, sampled.stable),
    )


def _fastest_of_table_1(options: Options) -> Claim:
    slopes = row_slopes(options)
    own = slopes.pop("GES(λ)")[0].slope
    printed, fair = (sum(fits[k].slope < own for fits in slopes.values()) for k in range(2))
    return Claim(
        "GES(λ) converges faster than all other algorithms of Table 1",
        f"On samples it falls like T^{own:.2f}; of the {len(slopes)} others {printed} fall faster "
        f"as printed and {fair} in their favour. Its linear rate is that of the expected iteration",
        verdict(printed == 0, fair == 0),
    )


def _step_sizes_of_the_gap() -> Claim:
    noise = noise_chain(two_state(0.5, REWARDS), GES(0.0))
    constants = [gap_constant(noise, radius, radius) for radius in (2.0, 20.0)]
    return Claim(
        "Appendix E: the best known rate of the gap, O(1/√T), with a simpler, concrete step size",
        "The rate is that of Theorem 4, under its conditions. The step 2/(C√(5t)) needs radii of "
        f"sets that hold the solution: with 2, C = {number(constants[0])}; with 20, "
        f"{number(constants[1])}",
        verdict(True, PRINTED_PROOF_HOLDS),
    )


def _same_errors() -> Claim:
    rules = (GES(0.9), GQ(0.9), ABQ(0.9), GTB(0.9))
    same = len({rule.bootstrap for rule in rules}) == 1
    return Claim(
        "GQ, ABQ and GTB learn from the same expected TD error as GES",
        "They differ in trace and form only: the bootstrap is E_π φ(s', ·) in all four",
        verdict(same),
    )


def _initial_weights() -> Claim:
    return Claim(
        "Initial weights of 0 are optimistic and cause exploration",
        "Not in evaluation: μ is fixed, and no weight changes an action. (0 is above every value "
        "of MountainCar, whose rewards are −1.)",
        verdict(False),
    )


def _uniform_states() -> Claim:
    problem = baird(0.99)
    following = np.einsum("sa,sat->st", problem.behaviour, problem.mdp.P)
    under_target = np.einsum("sa,sat->st", problem.target, problem.mdp.P)
    error = float(np.abs(following - 1 / 7).max())
    return Claim(
        "Appendix F: on Baird's star μ makes every next state equally likely, and π stays in the "
        "seventh",
        f"Difference from 1/7: {rounding(error)}; π reaches the seventh state in one step from all",
        verdict(error < 1e-9, bool(np.all(under_target[:, 6] == 1))),
    )
