"""The long-run covariance of a learner's noise, exact or estimated, and the error floor it causes.

Σ_∞ is the sum over all lags of the autocovariances of h_t = e_t δ_t(θ*). The steps of a chain are
dependent, and ignoring that can cause large errors. On a finite problem Σ_∞ is exact. From data,
the mean of h over a batch is Â_k θ̂ + b̂_k, so the batches of an estimated system suffice.

With small constant step sizes, to first order in α, z = (θ − θ*, ω) is an Ornstein–Uhlenbeck
process about 0 with noise of this covariance.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_continuous_lyapunov

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.system import System
from saddleback.system.system import as_system
from saddleback.system.trace_history import unroll
from saddleback.theory.mean_stability import MeanStability
from saddleback.theory.trace_ceiling import above_ceiling, trace_radius


def noise_covariance(source: Problem | System, rule: Rule | str | None = None) -> FloatArray:
    """Σ_∞, the long-run covariance of h_t = e_t δ_t(θ*), [p, p].

    Parameters
    ----------
    source
        A finite problem with a rule, for the exact covariance; or an estimated system that kept its
        batches.
    rule
        The rule, for a problem.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> noise_covariance(problem, GES(0.0)).round(3)
    array([[ 0.5 , -0.  ],
           [-0.  ,  0.98]])
    """
    system = as_system("noise_covariance", source, rule)
    return _of_batches(system) if isinstance(source, System) else _exact(source, system)


def _exact(problem: Problem, system: System) -> FloatArray:
    """Sum the autocovariances over all lags, from the moments of the trace at each pair."""
    rule, theta = system.rule, system.fixed_point
    problem, t, _ = unroll(problem, rule)
    if problem.note:
        raise Undefined(f"the long-run distribution is not unique: {problem.note}")
    if t.emphasis:
        raise Undefined(
            f"the exact noise covariance of {rule} is not available, because its emphasis has "
            "memory. Estimate it: System.estimate(…, keep_batches=True)."
        )
    if trace_radius(problem, rule) >= 1.0:
        raise Undefined(above_ceiling(rule))
    mdp, mu, visits = problem.mdp, problem.behaviour, problem.pair_visits.ravel()
    pairs = len(visits)

    def to_pairs(by_state: FloatArray) -> FloatArray:
        """Follow a transition [pairs, S] by an action of μ: [pairs, pairs]."""
        return np.asarray((by_state[:, :, None] * mu).reshape(pairs, pairs))

    states = (pairs, mdp.n_states)
    stay, end = to_pairs(mdp.staying.reshape(states)), (mdp.P * mdp.ends).reshape(states)
    restart = (mdp.start[:, None] * mu).ravel()
    reward = mdp.rewards.reshape(states)
    predicted = t.phi @ theta
    delta_end = reward - predicted[:, None]  # δ* where the episode ends
    delta = np.repeat(reward, mdp.n_actions, axis=1) + mdp.gamma * t.bootstrap @ theta
    delta = delta - predicted[:, None]
    first = (stay * delta).sum(axis=1) + (end * delta_end).sum(axis=1)
    second = (stay * delta**2).sum(axis=1) + (end * delta_end**2).sum(axis=1)

    # Moments of the discounted trace c = γ'e_{t-1} at each pair, and then of e = κc + wφ.
    kappa, entered = t.kappa, t.weight[:, None] * t.phi
    flow = mdp.gamma * stay.T * t.lead

    def solve(kernel: FloatArray, source: FloatArray) -> FloatArray:
        """Solve X = kernel X + source, for one array at each pair."""
        flat = np.linalg.solve(np.eye(pairs) - kernel, source.reshape(pairs, -1))
        return np.asarray(flat.reshape(source.shape))

    c1 = solve(flow * kappa, flow @ (visits[:, None] * entered))
    mixed = np.einsum("ia,ib->iab", kappa[:, None] * c1, entered)
    enters = np.einsum("i,ia,ib->iab", visits, entered, entered) + mixed + mixed.transpose(0, 2, 1)
    through = mdp.gamma * flow * t.lead
    c2 = solve(through * kappa**2, np.einsum("ji,iab->jab", through, enters))
    e1 = kappa[:, None] * c1 + visits[:, None] * entered
    e2 = (kappa**2)[:, None, None] * c2 + enters

    # Covariance of h_0 with all later steps: through c_1, and through the state of the chain.
    with_c = np.einsum("ij,iab->jab", flow.T * delta, e2)
    with_state = (stay * delta).T @ e1 + np.outer(restart, (end * delta_end).sum(axis=1) @ e1)
    chain = stay + np.outer(end.sum(axis=1), restart)
    state = np.linalg.solve(np.eye(pairs) - chain.T + np.outer(visits, np.ones(pairs)), with_state)
    pushed = np.einsum("ji,ia,ib->jab", flow, state, entered)
    trace = solve(flow * kappa, with_c + pushed)
    later = np.einsum("i,iab->ab", first * kappa, trace) + state.T @ (first[:, None] * entered)
    return np.asarray(np.einsum("i,iab->ab", second, e2) + later + later.T)


def _of_batches(system: System) -> FloatArray:
    if system.batches is None or system.batch_steps is None:
        raise Undefined(
            "A, b and M alone do not determine the noise: estimate the system with "
            "System.estimate(…, keep_batches=True), or give the problem."
        )
    h = np.array([batch.A @ system.fixed_point + batch.b for batch in system.batches])
    return np.asarray(system.batch_steps * np.cov(h.T, ddof=1).reshape(system.p, system.p))


def small_step_floor(
    source: Problem | System,
    rule: Rule | str | None = None,
    *,
    alpha: float,
    beta: float | None = None,
) -> float:
    """E‖θ − θ*‖² in the long run, to first order in the step sizes: the trace of the θ-block of C,

        G C + C Gᵀ + α Σ = 0        G = [[td·A, −T], [r·dual·A, −r·W]]        r = β/α

    (T and W as in `MeanStability`; Σ from `noise_covariance`).

    Parameters
    ----------
    source, rule
        A finite problem with a rule, or an estimated system that kept its batches.
    alpha, beta
        Constant step sizes.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> round(small_step_floor(problem, GES(0.0), alpha=0.001, beta=0.001), 6)
    0.000592
    """
    system = as_system("small_step_floor", source, rule)
    covariance = noise_covariance(source, rule)
    mean = MeanStability(system)
    c, p = system.rule.form.coefficients, system.p
    steps = np.repeat([alpha, beta or 0.0], p)[: mean.dimension]
    drift = mean.mean_map(alpha, beta) - np.eye(mean.dimension)
    gain = np.kron(np.array([c.td, c.dual])[: mean.dimension // p], np.ones(p)) * steps
    noise = np.outer(gain, gain) * np.tile(covariance, (mean.dimension // p,) * 2)
    if mean.singular:
        # On the range of the drift; directions in its null space do not change.
        basis = np.linalg.svd(drift)[0][:, : mean.rank]
        drift, noise = basis.T @ drift @ basis, basis.T @ noise @ basis
    else:
        basis = np.eye(mean.dimension)
    if np.linalg.eigvals(drift).real.max() >= 0:
        raise Undefined(
            f"there is no stationary error: the mean of {system.rule} does not converge with "
            f"β/α = {(beta or 0.0) / alpha:g}."
        )
    C = basis @ solve_continuous_lyapunov(drift, -noise) @ basis.T
    return float(np.trace(C[:p, :p]))


def newey_west(series: ArrayLike, lags: int | None = None) -> FloatArray:
    """Estimate the long-run covariance of a series [T, k], with triangular weights.

        Σ̂ = Γ_0 + Σ_{l=1}^{L} (1 − l/(L+1)) (Γ_l + Γ_lᵀ)        Γ_l = 1/T Σ_t h_t h_{t−l}ᵀ

    with h centred. Newey and West (1987), with L = ⌊4 (T/100)^(2/9)⌋ lags if not given.

    Examples
    --------
    >>> steps = np.random.default_rng(0).normal(size=100_001)
    >>> newey_west((steps[1:] + steps[:-1])[:, None], lags=60).round(1)  # 4 in the limit
    array([[4.1]])
    """
    x = _validate.floats("series", series)
    _validate.shape("series", x, ("T", "k"))
    _validate.finite("series", x)
    if len(x) < 2:
        raise InvalidParameter(f"newey_west: a series of length {len(x)} has no covariance.")
    n_lags = int(4 * (len(x) / 100) ** (2 / 9))
    if lags is not None:
        n_lags = _validate.count("newey_west", "lags", lags)
    x = x - x.mean(axis=0)
    total = x.T @ x / len(x)
    for lag in range(1, min(n_lags, len(x) - 1) + 1):
        gamma = x[lag:].T @ x[:-lag] / len(x)
        total += (1 - lag / (n_lags + 1)) * (gamma + gamma.T)
    return np.asarray(total)
