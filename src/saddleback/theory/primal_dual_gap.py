"""The primal-dual gap of the saddle point (Appendix E of the paper), and projected descent.

Over all θ' the minimum is −∞ unless Aᵀω = 0, so the statement E ε ≤ C√(5/T) needs compact sets,
here the balls ‖θ‖ ≤ R_θ and ‖ω‖ ≤ R_ω, with iterates projected onto them; independent samples; and
iterates averaged with the step sizes as weights. In coordinates in which both balls have radius 1
the step is 2/(C√(5t)); in θ and ω themselves it is R_θ² and R_ω² times that, and

    C = √(4 (2R_ω)² C_1² + (2R_θ)² C_2²)        C_1² ≥ E‖Âθ + b̂ − M̂ω‖²,   C_2² ≥ E‖Âᵀω‖²

(the paper omits the root in C, and the radii in the step).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from saddleback import _validate
from saddleback._jit import compiled
from saddleback._typing import RNG, ArrayLike, FloatArray, IntArray
from saddleback.engine import record_points
from saddleback.errors import RuleMismatch
from saddleback.problem import Problem
from saddleback.rules import Rule, Saddle, as_rule
from saddleback.system import System
from saddleback.theory.noise_chain import Noise, noise_chain


def primal_dual_gap(
    system: System,
    theta: ArrayLike,
    omega: ArrayLike,
    *,
    theta_radius: float | None = None,
    omega_radius: float | None = None,
) -> FloatArray:
    """The gap ε, over all θ', ω' or over balls around 0; θ, ω […, p].

        ε(θ, ω) = max_ω' Ψ(θ, ω') − min_θ' Ψ(θ', ω)        Ψ(θ, ω) = (Aθ+b)ᵀω − ½ ωᵀMω

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> system = System.exact(problems.two_state(gamma=0.9), GES(0.0))
    >>> round(float(primal_dual_gap(system, [1.0, 1.0], [0.0, 0.0])), 6)
    0.13625
    >>> primal_dual_gap(system, [1.0, 1.0], [0.1, 0.0])
    array(inf)
    >>> balls = dict(theta_radius=2.0, omega_radius=2.0)
    >>> round(float(primal_dual_gap(system, [1.0, 1.0], [0.1, 0.0], **balls)), 6)
    0.1625
    """
    _validate.instance("primal_dual_gap", "system", system, System)
    pair = {n: _validate.floats(n, x) for n, x in (("theta", theta), ("omega", omega))}
    for name, weights in pair.items():
        _validate.finite(name, weights)
    x, w = _validate.broadcast(**pair)
    g, pull = system.residual(x), w @ system.A
    minimum = w @ system.b - 0.5 * ((w @ system.M) * w).sum(axis=-1)
    size = np.linalg.norm(pull, axis=-1)
    if theta_radius is None:
        scale = np.linalg.norm(system.A) * np.linalg.norm(w, axis=-1)
        minimum = np.where(size <= 1e-12 * scale, minimum, -np.inf)
    else:
        minimum = (
            minimum - _validate.positive("primal_dual_gap", "theta_radius", theta_radius) * size
        )
    if omega_radius is None:
        return np.asarray(system.mspbe(x) - minimum)
    radius = _validate.positive("primal_dual_gap", "omega_radius", omega_radius)
    values, vectors = np.linalg.eigh((system.M + system.M.T) / 2)
    rows = (g @ vectors).reshape(-1, system.p)
    maximum = np.array([_maximum(values, row, radius) for row in rows]).reshape(minimum.shape)
    return np.asarray(maximum - minimum)


def _maximum(eigenvalues: FloatArray, g: FloatArray, radius: float) -> float:
    """Maximise gᵀω − ½ ωᵀMω over ‖ω‖ ≤ radius, in the eigenbasis of M: (M + νI)ω = g, ν ≥ 0."""
    size = float(np.linalg.norm(g))
    if size == 0.0:
        return 0.0

    def excess(nu: float) -> float:
        return float(np.linalg.norm(g / (eigenvalues + nu))) - radius

    tiny = 1e-14 * float(eigenvalues[-1])
    nu = tiny if excess(tiny) <= 0 else float(brentq(excess, tiny, size / radius, xtol=1e-300))
    w = g / (eigenvalues + nu)
    return float(g @ w - 0.5 * (eigenvalues * w) @ w)


class GapRun(NamedTuple):
    """Gaps of averaged iterates.

    Attributes
    ----------
    steps
        Numbers of steps, [n].
    gap
        ε of the averaged iterates of each run, over the balls, [n, runs].
    constant
        The constant C of the bound.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> run = projected_descent(problem, GES(0.0), theta_radius=4, omega_radius=4, steps=100, rng=0)
    >>> run.gap.shape == (len(run.steps), 1)
    True
    """

    steps: IntArray
    gap: FloatArray
    constant: float

    @property
    def bound(self) -> FloatArray:
        """C√(5/T), [n]: proved for the constant step 2/(C√(5T)); for 1/√t steps up to log T."""
        return np.asarray(self.constant * np.sqrt(5.0 / np.maximum(self.steps, 1)))

    def high_probability_bound(self, delta: float) -> FloatArray:
        """C√(5/T)(8 + 2 log 2/δ), which ε exceeds with a probability of at most δ, [n]."""
        delta = _validate.positive("high_probability_bound", "delta", delta)
        return np.asarray(self.bound * (8.0 + 2.0 * np.log(2.0 / delta)))


def gap_constant(noise: Noise, theta_radius: float, omega_radius: float) -> float:
    """The constant C over balls, from the second moments of one independent sample."""
    share = noise.weight[noise.source] * noise.probability

    def norm(left: FloatArray, right: FloatArray) -> float:
        """√λ_max of E[(u vᵀ)ᵀ(u vᵀ)] for the samples u vᵀ."""
        squares = share * (left**2).sum(axis=1)
        return float(np.sqrt(np.linalg.eigvalsh((squares[:, None] * right).T @ right)[-1]))

    rewards = noise.delta - noise.d @ (noise.system.fixed_point @ noise.basis)
    b = float(np.sqrt(share @ (rewards**2 * (noise.e**2).sum(axis=1))))
    c1 = norm(noise.e, noise.d) * theta_radius + b + norm(noise.phi, noise.phi) * omega_radius
    c2 = norm(noise.d, noise.e) * omega_radius
    return float(np.sqrt(4 * (2 * omega_radius * c1) ** 2 + (2 * theta_radius * c2) ** 2))


def projected_descent(
    problem: Problem,
    rule: Rule | str,
    *,
    theta_radius: float,
    omega_radius: float,
    steps: int,
    runs: int = 1,
    rng: RNG = None,
    record: int | ArrayLike | None = None,
) -> GapRun:
    """Run the saddle form on independent samples, as the theorem of Appendix E assumes.

    Each step draws an independent (trace, transition) from the long-run distribution, has size
    2/(C√(5t)) in units of the balls, and is projected; the gap is that of the averaged iterates.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> run = projected_descent(
    ...     problem, GES(0.0), theta_radius=4, omega_radius=4, steps=2000, record=1000, rng=0
    ... )
    >>> bool((run.gap[1:, 0] < run.bound[1:]).all())
    True
    """
    rule = as_rule(rule)
    if rule.form.coefficients != Saddle().coefficients:
        raise RuleMismatch(f"projected_descent: {rule} is not of the saddle form.")
    noise = noise_chain(problem, rule)
    theta_radius = _validate.positive("projected_descent", "theta_radius", theta_radius)
    omega_radius = _validate.positive("projected_descent", "omega_radius", omega_radius)
    constant = gap_constant(noise, theta_radius, omega_radius)
    share = np.cumsum(noise.weight[noise.source] * noise.probability)
    rewards = noise.delta - noise.d @ (noise.system.fixed_point @ noise.basis)
    k, total = noise.k, _validate.count("projected_descent", "steps", steps)
    state = np.zeros((4, _validate.count("projected_descent", "runs", runs), k))
    points = record_points(total, record)
    generator = _validate.generator(rng)[0]
    gaps, done, weight = [], 0, 0.0
    for point in points.tolist():
        for begin in range(done, point, 10_000):
            count = min(10_000, point - begin)
            draws = np.searchsorted(share, generator.random((count, runs)) * share[-1], "right")
            weight = _descend(
                draws,
                noise.e,
                noise.d,
                noise.phi,
                rewards,
                theta_radius,
                omega_radius,
                constant,
                begin,
                weight,
                state,
            )
        done = point
        averages = (state[2:] / weight if weight else state[:2]) @ noise.basis.T
        gaps.append(
            primal_dual_gap(
                noise.system, *averages, theta_radius=theta_radius, omega_radius=omega_radius
            )
        )
    return GapRun(points, np.array(gaps), constant)


@compiled
def _descend(
    draws: IntArray,
    e: FloatArray,
    d: FloatArray,
    phi: FloatArray,
    rewards: FloatArray,
    theta_radius: float,
    omega_radius: float,
    constant: float,
    done: int,
    weight: float,
    state: FloatArray,
) -> float:
    """Update all runs; ``state`` is θ, ω and their sums weighted by the steps, [4, runs, k]."""
    theta, omega, theta_sum, omega_sum = state[0], state[1], state[2], state[3]
    for t in range(len(draws)):
        step = 2.0 / (constant * np.sqrt(5.0 * (done + t + 1)))
        weight += step
        for run in range(draws.shape[1]):
            i = draws[t, run]
            x, w = theta[run], omega[run]
            error, u, value = rewards[i], 0.0, 0.0
            for a in range(len(x)):
                theta_sum[run, a] += step * x[a]
                omega_sum[run, a] += step * w[a]
                error += x[a] * d[i, a]
                u += w[a] * e[i, a]
                value += w[a] * phi[i, a]
            x_size, w_size = 0.0, 0.0
            for a in range(len(x)):
                x[a] -= step * theta_radius**2 * u * d[i, a]
                w[a] += step * omega_radius**2 * (error * e[i, a] - value * phi[i, a])
                x_size += x[a] * x[a]
                w_size += w[a] * w[a]
            if x_size > theta_radius**2:
                x *= theta_radius / np.sqrt(x_size)
            if w_size > omega_radius**2:
                w *= omega_radius / np.sqrt(w_size)
    return weight
