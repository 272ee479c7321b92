"""The saddle point of a fixed data set by variance-reduced single steps (SVRG).

    min_θ max_ω  (Âθ + b̂)ᵀω − ½ ωᵀM̂ω

    Â = mean of e_t d_tᵀ,  d_t = γ'b_t − φ_t        b̂ = mean of R_t e_t        M̂ = mean of φ_t φ_tᵀ

An epoch computes both gradients at a snapshot (θ̃, ω̃) from all T samples and then takes T steps from
it, each with one sample t drawn with probability q_t = ½/T + ½‖e_t‖‖d_t‖/Σ‖e‖‖d‖ and the weight
v_t = 1/(T q_t) that keeps it unbiased. Everything is linear, so with Δ = θ − θ̃ and Γ = ω − ω̃

    Δ ← Δ + α D⁻¹(  −Âᵀω̃          − v_t d_t e_tᵀΓ)
    Γ ← Γ + α D⁻¹(Âθ̃ + b̂ − M̂ω̃ + v_t (e_t d_tᵀΔ − φ_t φ_tᵀΓ)),        D = diag M̂.

The noise is proportional to Δ and Γ and vanishes with them: convergence is linear, whatever the
rewards. The first terms are constant within an epoch and are applied lazily (Δ = moved + k·drift at
step k), so the cost of a step depends on the entries of e_t, d_t and φ_t, not on p.

D⁻¹ makes the units of the features irrelevant; norms of samples include it. A ridge η replaces Â by
Â − ηD and, since saddle points with ω = 0 do not change, M̂ by M̂ + ηD; both are means of sparse
terms, because D is the mean of diag φ_t².

Speed: with s the step the samples allow, of order 1/mean(‖e‖‖d‖ + ‖φ‖²), a mode shrinks by about
exp(−T s h) per epoch, h its eigenvalue of ÂᵀM̂⁻¹Â (scaled). The method suits data with many steps
per feature, short traces and a well-conditioned Â; the residual then roughly halves per epoch. It
does not suit tiles, where h contains the square of a large condition number: use the closed form or
a ridge there; the outcome reports a residual that stays large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled, inlined
from saddleback._typing import RNG, FloatArray, IntArray
from saddleback.ope.sparse_samples import Samples, Table

__all__ = ["SVRGSolution", "Samples", "solve"]

INITIAL_STEP = 0.25
"""The first step, as a multiple of 1/max v_t(‖e_t‖‖d_t‖ + ‖φ_t‖²); tiles allow 0.2 to 0.4."""
GROWTH = 1.5
"""Growth of the step after a successful epoch. A failed one halves the step and the growth − 1."""
MIN_GROWTH = 1.02
"""Lower bound of the growth factor."""


@dataclass(frozen=True, eq=False, repr=False)
class SVRGSolution:
    """The result of `solve`."""

    # The last point, [p]; ω tends to 0 where Âθ + b̂ = 0 has a solution.
    theta: FloatArray
    omega: FloatArray
    # ‖D^{-1/2}(Âθ + b̂)‖ / ‖D^{-1/2}b̂‖ at the start and after each epoch, [epochs + 1].
    residuals: FloatArray
    outcome: str  # ``"ok"``, or why the solver did not converge

    def __repr__(self) -> str:
        return (
            f"SVRGSolution(p={len(self.theta)}, epochs={len(self.residuals) - 1}, "
            f"residual={self.residuals[-1]:.1e}, outcome={self.outcome!r})"
        )


@dataclass(frozen=True, eq=False)
class _Problem:
    """Samples on the active features, their sizes D = diag M̂, and the ridge."""

    e: Any
    d: Any
    phi: Any
    rewards: FloatArray
    D: FloatArray
    ridge: float

    def norms(self, rows: Any) -> FloatArray:
        """Return ‖D^{-1/2} row‖ for each row."""
        return np.asarray(np.sqrt(rows.power(2) @ (1.0 / self.D)))

    def field(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return D⁻¹(Âθ + b̂) [p], and the update field D⁻¹(−Âᵀω, Âθ + b̂ − M̂ω), [2, p]."""
        (theta, omega), T = z, len(self.rewards)
        residual = self.e.T @ (self.d @ theta + self.rewards) / T / self.D - self.ridge * theta
        fall = self.ridge * omega - self.d.T @ (self.e @ omega) / T / self.D
        rise = residual - self.phi.T @ (self.phi @ omega) / T / self.D - self.ridge * omega
        return residual, np.stack([fall, rise])

    def size(self, field: FloatArray) -> float:
        """Return the norm of D^{1/2} times one or more vectors."""
        return float(np.sqrt((field**2 @ self.D).sum()))


def solve(
    samples: Samples,
    *,
    tolerance: float = 1e-10,
    epochs: int = 200,
    ridge: float = 0.0,
    memory: int = 20,
    rng: RNG = None,
    progress: Callable[[int, float], object] | None = None,
) -> SVRGSolution:
    """Solve Âθ + b̂ = 0 on a fixed data set, starting from θ = ω = 0.

    The first step is bounded by the norms of the samples. An epoch after which the gradients
    (−Âᵀω, Âθ + b̂ − M̂ω) are larger than before is undone and the step is halved; otherwise it
    grows. (The norm of the gradients falls along the exact flow; the residual alone need not.)
    Since the gradients are affine in (θ, ω), the combination of the last snapshots with the
    smallest gradients is known without another pass over the data; the next epoch starts there.

    It stops when ‖D^{-1/2}(Âθ + b̂)‖ ≤ tolerance ‖D^{-1/2}b̂‖, or after ``epochs`` passes of T single
    steps, each followed by ``progress(epoch, residual)``. ``memory`` is the number of snapshots to
    combine (4 numbers per active feature each); 0 is plain SVRG.

    Notes
    -----
    A feature that is never active has θ_i = 0. For the others, let Â be singular but b̂ in its
    range. Single steps move D^{1/2}θ within the span of the D^{-1/2}d_t; if that is not larger
    than the range of D^{-1/2}Âᵀ the limit is the solution that minimises Σ M̂_ii θ_i². If it is
    larger, the limit is a solution that depends on the seed. Predictions φ_tᵀθ are the same for all
    solutions if every null vector of Â is also one of M̂; then use the predictions, not the weights.
    A ridge makes the solution unique. If b̂ is outside the range there is no solution: the residual
    stays large, and the outcome reports it.

    Examples
    --------
    >>> from saddleback import GES, problems, sample
    >>> from saddleback.engine import FiniteSource
    >>> problem = problems.two_state(0.9, rewards=[[1.0, -1.0], [0.5, 2.0]])
    >>> source = FiniteSource(problem, sample(problem, 2000, rng=0))
    >>> columns = source.streamer([GES(0.4)])(source.experience)[0]
    >>> solution = solve(Samples.of(columns, p=2), rng=0)
    >>> solution.outcome
    'ok'
    """
    _validate.instance("solve", "samples", samples, Samples)
    tolerance = _validate.positive("solve", "tolerance", tolerance)
    epochs = _validate.count("solve", "epochs", epochs)
    ridge = _validate.non_negative("solve", "ridge", ridge)
    if memory != 0:
        memory = _validate.count("solve", "memory", memory)
    generator = _validate.generator(rng)[0]
    T, p = samples.phi.shape
    D = np.asarray(samples.phi.power(2).sum(axis=0)) / T
    active = np.flatnonzero(D)
    e, d, phi = (rows[:, active] for rows in (samples.e, samples.d, samples.phi))
    problem = _Problem(e, d, phi, samples.rewards, D[active], ridge)
    with np.errstate(over="ignore", invalid="ignore"):
        z, residuals, outcome = _solve(problem, tolerance, epochs, memory, generator, progress)
    theta, omega = np.zeros((2, p))
    theta[active], omega[active] = z
    return SVRGSolution(theta, omega, np.array(residuals), outcome)


def _solve(
    problem: _Problem,
    tolerance: float,
    epochs: int,
    memory: int,
    rng: np.random.Generator,
    progress: Callable[[int, float], object] | None,
) -> tuple[FloatArray, list[float], str]:
    """Return the last (θ, ω) [2, p], the residuals, and the outcome."""
    T = len(problem.rewards)
    z = np.zeros((2, len(problem.D)))
    residual, field = problem.field(z)
    scale = problem.size(residual)
    product = problem.norms(problem.e) * problem.norms(problem.d)
    total = product.sum()
    if scale == 0.0:
        return z, [0.0], "ok"
    if not np.isfinite(scale + total):
        return z, [np.nan], "not converged: the samples are not finite. Use a smaller λ."
    probability = 0.5 / T + 0.5 * product / total if total > 0 else np.full(T, 1.0 / T)
    weight = 1.0 / (T * probability)
    step = INITIAL_STEP / float((weight * (product + problem.norms(problem.phi) ** 2)).max())
    cumulative, growth = np.cumsum(probability / probability.sum()), GROWTH
    cumulative[-1] = 1.0
    tables = Table.of(problem.e), Table.of(problem.d), Table.of(problem.phi)
    merit, residuals = problem.size(field), [1.0]
    past: list[tuple[FloatArray, FloatArray]] = [(z, field)]
    for epoch in range(1, epochs + 1):
        chosen = np.searchsorted(cumulative, rng.random(T), side="right")
        drift, moved = step * field, np.zeros_like(z)
        _steps(chosen, weight, *tables, 1.0 / problem.D, step, problem.ridge, drift, moved)
        candidate = z + T * drift + moved
        next_residual, next_field = problem.field(candidate)
        if problem.size(next_field) < merit:
            step *= growth
            z, residual, field = candidate, next_residual, next_field
            if memory:
                past = [*past[-memory:], (z, field)]
                z = _combine(past, problem.D)
                residual, field = problem.field(z)
                past[-1] = z, field
            merit = problem.size(field)
        else:
            step, growth = 0.5 * step, max(MIN_GROWTH, 0.5 + 0.5 * growth)
        residuals.append(problem.size(residual) / scale)
        if progress is not None:
            progress(epoch, residuals[-1])
        if residuals[-1] <= tolerance:
            return z, residuals, "ok"
        if merit <= tolerance * residuals[-1] * scale:
            reason = "at the saddle point: b̂ is outside the range of Â. Use a ridge"
            return z, residuals, f"not converged: residual {residuals[-1]:.1e} {reason}."
    return z, residuals, f"not converged: residual {residuals[-1]:.1e} after {epochs} epochs"


def _combine(past: list[tuple[FloatArray, FloatArray]], D: FloatArray) -> FloatArray:
    """Return the affine combination of the snapshots with the smallest field."""
    z, field = past[-1]
    root = np.sqrt(D)
    away = np.stack([((other - field) * root).ravel() for _, other in past[:-1]])
    Q, R = np.linalg.qr(away.T)
    share = np.linalg.lstsq(R, -Q.T @ (field * root).ravel(), rcond=1e-12)[0]
    for c, (point, _) in zip(share, past[:-1], strict=True):
        z = z + c * (point - past[-1][0])
    return z


@inlined
def _read(rows: Table, t: int, k: int, drift: FloatArray, moved: FloatArray) -> float:
    """Inner product of row t with moved + k·drift."""
    total = 0.0
    for j in range(rows.first[t], rows.first[t + 1]):
        i = rows.column[j]
        total += rows.value[j] * (moved[i] + k * drift[i])
    return total


@inlined
def _add(rows: Table, t: int, by: float, inverse: FloatArray, moved: FloatArray) -> None:
    """Add ``by`` times row t, scaled by D⁻¹, to ``moved``."""
    for j in range(rows.first[t], rows.first[t + 1]):
        i = rows.column[j]
        moved[i] += by * rows.value[j] * inverse[i]


@compiled
def _steps(
    chosen: IntArray,
    weight: FloatArray,
    e: Table,
    d: Table,
    phi: Table,
    inverse: FloatArray,
    step: float,
    ridge: float,
    drift: FloatArray,
    moved: FloatArray,
) -> None:
    """Take the single steps of an epoch; before step k, (Δ, Γ) = moved + k·drift."""
    for k in range(len(chosen)):
        t = chosen[k]
        size = step * weight[t]
        u = _read(e, t, k, drift[1], moved[1])
        v = _read(d, t, k, drift[0], moved[0])
        f = _read(phi, t, k, drift[1], moved[1])
        if ridge > 0.0:
            for j in range(phi.first[t], phi.first[t + 1]):
                i = phi.column[j]
                by = size * ridge * phi.value[j] ** 2 * inverse[i]
                delta = moved[0, i] + k * drift[0, i]
                gamma = moved[1, i] + k * drift[1, i]
                moved[0, i] += by * gamma
                moved[1, i] -= by * (delta + gamma)
        _add(d, t, -size * u, inverse, moved[0])
        _add(e, t, size * v, inverse, moved[1])
        _add(phi, t, -size * f, inverse, moved[1])
