"""The map of the second moments: a cheap model for many step sizes, and a kernel for one step.

One step is z ← (I + αP + βQ) z with random P, Q that do not depend on the step sizes. So the map of
the second moments is a polynomial in α and β with six fixed matrices,

    S ← S + α⟨P⟩ + β⟨Q⟩ + α²⟨P, P⟩ + αβ⟨P, Q⟩ + β²⟨Q, Q⟩

on the upper triangles of S at each node, and the expected error after n steps takes log₂ n
squarings. The samples are the events of an exact chain; or the same events treated as independent,
which is much smaller, with the long-run covariance as additive noise; or the batches of an
estimate, scaled so that they have the long-run covariance of A, b and M. The kernel applies the map
of a chain without forming it.
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.rules import Coefficients
from saddleback.system import System
from saddleback.theory.noise_chain import Factors, Jumps, Noise

LARGEST = 600
"""Largest number of moments over all nodes; squaring such a matrix takes milliseconds."""

HUGE = 1e120
"""Moments above this have diverged, and those below its inverse are set to 0."""


class StepModel:
    """Second moments of z = (θ − θ*, ω, 1) after any number of steps with any step sizes.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> from saddleback.theory import analyse
    >>> model = analyse(problems.two_state(gamma=0.5), GES(0.0), steps=100).model
    >>> model.error(0.0, 0.0, 100) >= model.error(0.05, 0.05, 100)
    True
    """

    def __init__(
        self,
        nodes: int,
        source: IntArray,
        target: IntArray,
        weight: FloatArray,
        P: FloatArray,
        Q: FloatArray,
        initial: FloatArray,
        k: int,
        extra: FloatArray,
        coefficients: Coefficients,
    ) -> None:
        n = P.shape[1]
        self._upper = np.triu_indices(n)
        size = len(self._upper[0])
        if nodes * size > LARGEST:
            raise InvalidParameter(
                f"the model needs {nodes} × {size} moments, more than {LARGEST}; "
                'use method="mean", or fewer features.'
            )
        expand = np.zeros((n * n, size))  # upper triangle -> full symmetric matrix
        for row, (a, b) in enumerate(zip(*self._upper, strict=True)):
            expand[a * n + b, row] = expand[b * n + a, row] = 1.0
        upper = self._upper[0] * n + self._upper[1]
        identity = np.broadcast_to(np.eye(n), P.shape)
        self._parts = np.zeros((6, nodes * size, nodes * size))
        for i, j in sorted(set(zip(source.tolist(), target.tolist(), strict=True))):
            chosen = (source == i) & (target == j)
            same, p, q, w = identity[chosen], P[chosen], Q[chosen], weight[chosen]
            block = np.s_[j * size : (j + 1) * size, i * size : (i + 1) * size]
            for part, pairs in enumerate(
                (
                    [(same, same)],
                    [(p, same), (same, p)],
                    [(q, same), (same, q)],
                    [(p, p)],
                    [(p, q), (q, p)],
                    [(q, q)],
                )
            ):
                full = np.sum([_kron(w, x, y) for x, y in pairs], axis=0)
                self._parts[part][block] += full[upper] @ expand
        self._parts[3:] += self._additive_noise(nodes, extra, k, coefficients)
        self._initial = initial.ravel()
        diagonal = np.flatnonzero((self._upper[0] == self._upper[1]) & (self._upper[0] < k))
        self._error = (np.arange(nodes)[:, None] * size + diagonal).ravel()
        inner = np.flatnonzero(self._upper[1] < n - 1)
        self._inner = (np.arange(nodes)[:, None] * size + inner).ravel()

    def _additive_noise(self, nodes: int, extra: FloatArray, k: int, c: Coefficients) -> FloatArray:
        """Noise in addition to that of the samples: extra [k, k] times (td α, dual β)²."""
        n, size = int(self._upper[1].max()) + 1, len(self._upper[0])
        added = np.zeros((3, nodes * size, nodes * size))
        constant = size - 1  # the last entry of the triangle is 1·1
        blocks = [(0, 0, 0, c.td**2), (2, k, k, c.dual**2), (1, 0, k, c.td * c.dual)]
        for part, a, b, factor in blocks if n > k + 1 else blocks[:1]:
            S = np.zeros((n, n))
            S[a : a + k, b : b + k] = factor * extra
            S = S if a == b else S + S.T
            added[part, :size, constant] = S[self._upper]
        return added

    @property
    def moments(self) -> int:
        """Number of moments in the model."""
        return len(self._initial)

    def matrix(self, alpha: float, beta: float) -> FloatArray:
        """The map of the moments with these step sizes."""
        powers = np.array([1.0, alpha, beta, alpha**2, alpha * beta, beta**2])
        return np.asarray(np.tensordot(powers, self._parts, axes=1))

    def error(self, alpha: float, beta: float, steps: int) -> float:
        """E‖θ_n − θ*‖² after n steps; infinity where it overflows."""
        power, moments = self.matrix(alpha, beta), self._initial
        while steps:
            if steps & 1:
                moments = power @ moments
            steps >>= 1
            if steps:
                power = power @ power
                size = np.abs(power)
                if size.max() > HUGE:
                    return np.inf
                power[size < 1.0 / HUGE] = 0.0  # denormal numbers are slow
        error = float(moments[self._error].sum())
        return error if error < HUGE else np.inf

    def doubling(self, alpha: float, beta: float, max_steps: int) -> tuple[IntArray, FloatArray]:
        """E‖θ_n − θ*‖² after n = 1, 2, 4, … steps, up to ``max_steps``, one squaring per point."""
        power, counts, errors = self.matrix(alpha, beta), [], []
        count = 1
        while count <= max_steps:
            counts.append(count)
            errors.append(float((power @ self._initial)[self._error].sum()))
            power = power @ power
            size = np.abs(power)
            if size.max() > HUGE:
                break
            power[size < 1.0 / HUGE] = 0.0
            count *= 2
        return np.array(counts), np.array(errors)

    def radius(self, alpha: float, beta: float) -> float:
        """Spectral radius of the map without the constant: less than 1 is stable in mean square."""
        inner = self.matrix(alpha, beta)[np.ix_(self._inner, self._inner)]
        return float(np.abs(np.linalg.eigvals(inner)).max())


def of_chain(noise: Noise) -> StepModel:
    """Return the exact model of the recurrent part of a chain, from initial weights of 0."""
    noise = noise.recurrent
    P, Q = _samples(noise)
    initial = _initial_moments(noise.start, noise.system.fixed_point, noise.basis, noise.n)
    return StepModel(
        len(noise.weight), noise.source, noise.target, noise.probability, P, Q, initial, noise.k,
        np.zeros((noise.k, noise.k)), noise.coefficients,
    )  # fmt: skip


def of_independent(noise: Noise, covariance: FloatArray) -> StepModel:
    """Return the model that treats the events as independent, with covariance Σ_∞ [p, p]."""
    noise = noise.recurrent
    P, Q = _samples(noise)
    weight = noise.weight[noise.source] * noise.probability
    h = noise.delta[:, None] * noise.e
    extra = noise.basis.T @ covariance @ noise.basis - (weight[:, None] * h).T @ h
    one = np.zeros(len(weight), dtype=np.int64)
    initial = _initial_moments(np.ones(1), noise.system.fixed_point, noise.basis, noise.n)
    return StepModel(1, one, one, weight, P, Q, initial, noise.k, extra, noise.coefficients)


def of_batches(system: System) -> StepModel:
    """Return the model of an estimated system that kept its batches."""
    if system.batches is None or system.batch_steps is None:
        raise Undefined(
            "mean-square advice needs the noise, which A, b and M alone do not determine: give "
            "the problem, or a System.estimate(…, keep_batches=True)."
        )
    if system.rule.form.has_further_traces:
        raise Undefined(f"the noise of {system.rule}, which has further traces, is not modelled.")
    c, theta = system.rule.form.coefficients, system.fixed_point
    values, vectors = np.linalg.eigh((system.M + system.M.T) / 2)
    basis = vectors[:, values > 1e-11 * values[-1]]
    k, count = basis.shape[1], len(system.batches)
    n = 2 * k if system.rule.form.has_dual else k
    P, Q = np.zeros((2, count, n + 1, n + 1))
    for batch, p, q in zip(system.batches, P, Q, strict=True):
        A, M = (basis.T @ matrix @ basis for matrix in (batch.A, batch.M))
        h = basis.T @ (batch.A @ theta + batch.b)
        p[:k, :k], p[:k, n] = c.td * A, c.td * h
        if n > k:
            p[:k, k:n] = -c.saddle * A.T - c.correction * (A.T + M) + c.gram_theta * M
            q[k:n, :k], q[k:n, n] = c.dual * A, c.dual * h
            q[k:n, k:n] = -c.gram * M - c.shrink * np.eye(k)
    scale = np.sqrt(system.batch_steps * count / (count - 1))
    P, Q = (m.mean(axis=0) + scale * (m - m.mean(axis=0)) for m in (P, Q))
    one, weight = np.zeros(count, dtype=np.int64), np.full(count, 1.0 / count)
    initial = _initial_moments(np.ones(1), theta, basis, n)
    return StepModel(1, one, one, weight, P, Q, initial, k, np.zeros((k, k)), c)


def _samples(noise: Noise) -> tuple[FloatArray, FloatArray]:
    """P and Q of each event, [E, n + 1, n + 1]."""
    samples = []
    for alpha, beta in ((1.0, 0.0), (0.0, 1.0)):
        U, V, B = noise.factors(alpha, beta)
        samples.append(np.einsum("eka,ekb->eab", U, V) + np.diag(B - 1.0))
    return samples[0], samples[1]


def _initial_moments(start: FloatArray, star: FloatArray, basis: FloatArray, n: int) -> FloatArray:
    """Upper triangles of E[zzᵀ·1{node}] at the first step, with ω = 0."""
    # Without rewards θ* is 0, and weights of 0 never change: then all weights start at 1.
    gap = -star if np.abs(star).max() > 1.0 / HUGE else np.ones_like(star)
    z = np.zeros(n + 1)
    z[: basis.shape[1]], z[n] = gap @ basis, 1.0
    return np.asarray(start[:, None] * np.outer(z, z)[np.triu_indices(n + 1)])


def _kron(weight: FloatArray, X: FloatArray, Y: FloatArray) -> FloatArray:
    """Σ w X ⊗ Y, the matrix of S ↦ Σ w X S Yᵀ on the rows of S."""
    n = X.shape[1]
    flat = (weight[:, None] * X.reshape(len(X), -1)).T @ Y.reshape(len(Y), -1)
    return np.asarray(flat.reshape(n, n, n, n).transpose(0, 2, 1, 3).reshape(n * n, n * n))


@compiled
def advance_moments(jumps: Jumps, factors: Factors, S: FloatArray, out: FloatArray) -> None:
    """Advance symmetric S [N, n, n] by one step over a noise chain, into ``out``.

        S_j ← Σ q T S_i Tᵀ        over the events i → j, with S_j = E[z zᵀ·1{j}]

    The last entry of z is a constant 1, so S_j contains the second moments, the means E[z·1{j}] and
    the probability P{j} of the node, and T z + g is one product. With T = B + Σ_k U_k V_kᵀ and B
    diagonal,

        T S Tᵀ = BSB + Σ_k (U_k Z_kᵀ + Z_k U_kᵀ)        Z_k = B S V_k + ½ Σ_l (V_kᵀ S V_l) U_l

    so no matrix is formed, and the cost of an event is a small multiple of the size of S.
    """
    U, V, B = factors
    out[:] = 0.0
    events, rank, n = U.shape
    Z, square = np.empty((rank, n)), np.empty((rank, rank))
    for event in range(events):
        i, j, probability = jumps.source[event], jumps.target[event], jumps.probability[event]
        u, v = U[event], V[event]
        Z[:] = 0.0
        for k in range(rank):
            for b in range(n):
                if v[k, b] != 0.0:
                    for a in range(n):
                        Z[k, a] += S[i, b, a] * v[k, b]
        for k in range(rank):
            for other in range(rank):
                square[k, other] = 0.0
                for a in range(n):
                    square[k, other] += v[other, a] * Z[k, a]
        for k in range(rank):
            for a in range(n):
                Z[k, a] *= B[a]
            for other in range(rank):
                for a in range(n):
                    Z[k, a] += 0.5 * square[k, other] * u[other, a]
        for a in range(n):
            for b in range(a + 1):
                total = B[a] * S[i, a, b] * B[b]
                for k in range(rank):
                    total += u[k, a] * Z[k, b] + Z[k, a] * u[k, b]
                out[j, a, b] += probability * total
    for j in range(len(out)):
        for a in range(n):
            for b in range(a):
                out[j, b, a] = out[j, a, b]


@compiled
def advance_moments_by(count: int, jumps: Jumps, factors: Factors, S: FloatArray) -> None:
    """Advance S by ``count`` steps, in place."""
    out = np.empty_like(S)
    for _ in range(count):
        advance_moments(jumps, factors, S, out)
        S[:] = out
