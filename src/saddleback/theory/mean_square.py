"""The exact mean square error of a stochastic learner with constant step sizes.

On a finite noise chain the joint second moments obey S_j ← Σ q T S_i Tᵀ. The learner is stable in
mean square iff the spectral radius of this map (without the constant in z) is less than 1. Then
E‖θ_t − θ*‖² decreases to a floor, E θ_t converges to θ* plus a bias, and iterating the map gives
the expected learning curve. Convergence of the mean is not enough: with long traces the step sizes
that it permits are hundreds of times too large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, gmres, spsolve

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule, as_rule
from saddleback.theory.mean_stability import MeanStability
from saddleback.theory.moment_model import advance_moments, advance_moments_by
from saddleback.theory.noise_chain import Factors, Noise, noise_chain

DENSE = 300
"""Up to this many moments, the map is formed as a matrix and all eigenvalues are computed."""

MAX_STEPS_AT_ONCE = 100
"""Largest number of steps in one application of the map in the eigenvalue solver."""

RESIDUAL = 1e-8
"""Relative residual to which the stationary moments are solved."""


class MeanSquare:
    """Second moments of a rule with constant step sizes on a finite problem.

    Over the events i → j of the noise chain, which have probability q and map z to Tz,

        S_j ← Σ q T S_i Tᵀ        S_j = E[z zᵀ·1{j}],   z = (θ − θ*, ω, 1)

    Attributes
    ----------
    alpha, beta
        The step sizes.
    noise
        The chain they were computed on.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> result = mean_square(problem, GES(0.4), alpha=0.02, beta=0.02)
    >>> result.stable, round(result.floor, 4)
    (True, 0.0164)
    """

    def __init__(self, noise: Noise, alpha: float, beta: float) -> None:
        self.noise = noise
        self.alpha = _validate.positive("mean_square", "alpha", alpha)
        self.beta = _validate.positive("mean_square", "beta", beta) if noise.n > noise.k else 0.0
        self._recurrent = noise.recurrent
        self._jumps = self._recurrent.jumps
        self._factors = self._recurrent.factors(self.alpha, self.beta)

    @property
    def truncation_loss(self) -> float:
        """Root mean square share of the trace that truncation of the chain drops; 0 if none."""
        return self.noise.truncation_loss

    @cached_property
    def radius(self) -> float:
        """Spectral radius of the map of second moments; less than 1 is stable in mean square."""
        nodes, n = len(self._recurrent.weight), self._recurrent.n
        factors = Factors(*(np.ascontiguousarray(part[..., :n]) for part in self._factors))
        size = nodes * n * n
        # Small steps crowd all eigenvalues near 1; those of several steps are further apart.
        repeats = (
            1
            if size <= DENSE
            else int(np.clip(1.0 / np.abs(factors.U).max(), 1, MAX_STEPS_AT_ONCE))
        )

        def apply(flat: FloatArray) -> FloatArray:
            S = flat.reshape(nodes, n, n)
            S = (S + S.transpose(0, 2, 1)) / 2
            advance_moments_by(repeats, self._jumps, factors, S)
            return S.ravel()

        if size <= DENSE:
            return float(np.abs(np.linalg.eigvals([apply(row) for row in np.eye(size)])).max())
        first = np.einsum("i,ab->iab", self._recurrent.weight, np.eye(n)).ravel()
        # The map preserves positive semidefinite matrices, so its largest eigenvalue is real.
        operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
        try:
            largest = eigs(operator, k=1, which="LR", v0=first, ncv=60, tol=1e-10)[0]
        except ArpackNoConvergence:
            raise Undefined(
                f"the growth of the second moments could not be computed for α = {self.alpha:g}, "
                f"β = {self.beta:g}: it is too close to 1 per step. Use fewer nodes, or larger "
                "step sizes."
            ) from None
        return float(np.abs(largest[0]) ** (1.0 / repeats))

    @property
    def stable(self) -> bool:
        """Whether E‖θ_t − θ*‖² stays bounded."""
        return self.radius < 1.0

    @cached_property
    def _stationary(self) -> FloatArray:
        """E[zzᵀ] in the long run, [n + 1, n + 1]."""
        if 1.0 > self.radius > 1.0 - 1e-11:
            raise Undefined(
                "the stationary error is lost in rounding: the second moments shrink by less than "
                "1e-11 per step. Use larger step sizes, or features of similar size."
            )
        if not self.stable:
            raise Undefined(
                f"there is no stationary error: with α = {self.alpha:g}, β = {self.beta:g} the "
                f"second moments grow by {self.radius:.6g} per step. Use smaller step sizes."
            )
        nodes, n = len(self._recurrent.weight), self._recurrent.n
        moments = np.zeros((nodes, n + 1, n + 1))
        moments[:, n, n] = self._recurrent.weight
        moments[:, :n, n] = moments[:, n, :n] = self._means()
        out = np.empty_like(moments)

        def apply(S: FloatArray) -> FloatArray:
            moments[:, :n, :n] = (S + S.transpose(0, 2, 1)) / 2
            advance_moments(self._jumps, self._factors, moments, out)
            return out[:, :n, :n].copy()

        constant = apply(np.zeros((nodes, n, n)))
        size = constant.size

        def residual(flat: FloatArray) -> FloatArray:
            S = flat.reshape(nodes, n, n)
            return np.asarray((S - apply(S) + constant).ravel())

        operator = LinearOperator((size, size), matvec=residual, dtype=np.float64)
        solution, failed = gmres(
            operator, constant.ravel(), rtol=RESIDUAL, restart=min(size, 300), maxiter=20
        )
        if failed:
            raise Undefined(
                f"the stationary error could not be solved to {RESIDUAL:g}: the radius "
                f"{self.radius:.9g} is too close to 1. Use smaller step sizes, or curve()."
            )
        moments[:, :n, :n] = solution.reshape(nodes, n, n)
        return np.asarray(moments.sum(axis=0))

    def _means(self) -> FloatArray:
        """E[z·1{j}] in the long run, [N, n]: one sparse solve."""
        nodes, n = len(self._recurrent.weight), self._recurrent.n
        U, V, B = self._factors
        source, target, q = self._jumps
        T = q[:, None, None] * (np.einsum("eka,ekb->eab", U, V) + np.diag(B))
        rows = (target[:, None, None] * n + np.arange(n)[:, None]) + np.zeros((1, 1, n), int)
        columns = (source[:, None, None] * n + np.arange(n)) + np.zeros((1, n, 1), int)
        entries = (T[:, :n, :n].ravel(), (rows.ravel(), columns.ravel()))
        matrix = coo_array(entries, shape=(nodes * n, nodes * n)).tocsc()
        constant = np.zeros((nodes, n))
        np.add.at(constant, target, self._recurrent.weight[source][:, None] * T[:, :n, n])
        identity = coo_array((np.ones(nodes * n), (np.arange(nodes * n),) * 2)).tocsc()
        return np.asarray(spsolve(identity - matrix, constant.ravel())).reshape(nodes, n)

    @property
    def floor(self) -> float:
        """E‖θ − θ*‖² in the long run."""
        k = self._recurrent.k
        return float(np.trace(self._stationary[:k, :k]))

    @property
    def floor_error(self) -> float:
        """Change of the floor when the chain has half the nodes; 0 without truncation.

        It measures the effect of truncation on the floor; `truncation_loss` that on the trace.
        """
        problem = self.noise.system.problem
        if not self.truncation_loss or problem is None:
            return 0.0
        half = noise_chain(problem, self.noise.system.rule, max(1, len(self.noise.weight) // 2))
        return abs(self.floor - MeanSquare(half, self.alpha, self.beta).floor)

    @property
    def bias(self) -> FloatArray:
        """E θ − θ* in the long run, [p]."""
        return np.asarray(self._recurrent.basis @ self._stationary[: self._recurrent.k, -1])

    def curve(
        self, steps: ArrayLike, theta0: ArrayLike = 0.0, omega0: ArrayLike = 0.0
    ) -> FloatArray:
        """E‖θ_t − θ*‖² after each of the given numbers of steps, from fixed initial weights."""
        counts = np.atleast_1d(np.asarray(steps))
        if counts.dtype.kind not in "iu" or (counts < 0).any():
            raise InvalidParameter(f"curve: steps must be whole numbers >= 0, got {steps!r}.")
        p = self.noise.system.p
        gap = _validate.weights("theta0", theta0, p) - self.noise.system.fixed_point
        omega = _validate.weights("omega0", omega0, p)
        k, n, basis = self.noise.k, self.noise.n, self.noise.basis
        z = np.append(np.concatenate([gap @ basis, omega @ basis])[:n], 1.0)
        # The part of the error outside the basis is constant.
        fixed = float(gap @ gap - (gap @ basis) @ (gap @ basis))
        S = np.einsum("i,a,b->iab", self.noise.start, z, z)
        errors, done = {}, 0
        jumps, factors = self.noise.jumps, self.noise.factors(self.alpha, self.beta)
        for count in np.unique(counts).tolist():
            advance_moments_by(count - done, jumps, factors, S)
            done = count
            error = float(np.einsum("iaa->", S[:, :k, :k])) + fixed
            errors[count] = error if np.isfinite(error) else np.inf
        return np.array([errors[count] for count in counts.tolist()]).reshape(np.shape(steps))

    def max_step_size(self, ratio: float | None = None, accuracy: float = 1e-6) -> float:
        """Largest α that is stable in mean square at this β/α (or another); 0 if none is.

        The search starts at the limit of the mean, which is an upper bound.
        """
        chosen = self.beta / self.alpha if ratio is None else ratio
        r = _validate.positive("max_step_size", "ratio", chosen) if self.beta else 1.0
        _validate.positive("max_step_size", "accuracy", accuracy)
        high = MeanStability(self.noise.system).max_step_size(r)
        return largest_stable(
            lambda alpha: MeanSquare(self.noise, alpha, alpha * r).stable, high, accuracy
        )

    def __repr__(self) -> str:
        loss = f", truncation_loss={self.truncation_loss:.2g}" if self.truncation_loss else ""
        return (
            f"MeanSquare({self.noise.system.rule.display_name}, alpha={self.alpha:g}, "
            f"beta={self.beta:g}, nodes={len(self.noise.weight)}, radius={self.radius:.6g}{loss})"
        )


def largest_stable(stable: Callable[[float], bool], high: float, accuracy: float) -> float:
    """Bisect for the largest stable step below ``high``; 0 if it is negligible."""
    low, smallest = high, high * 1e-12
    while low > smallest and not stable(low):
        low, high = low / 4, low
    if low <= smallest:
        return 0.0
    while high / low > 1.0 + accuracy:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def mean_square(
    problem: Problem,
    rule: Rule | str,
    *,
    alpha: float,
    beta: float | None = None,
    nodes: int = 200,
) -> MeanSquare:
    """Compute the exact second moments of a learner's error with constant step sizes.

    Parameters
    ----------
    problem
        A finite problem.
    rule
        Any rule. Without a trace (λ = 0) the result is exact. With a trace it is exact if the trace
        resets sometimes; otherwise the chain is truncated. `MeanSquare.truncation_loss` is the
        share of the trace that is dropped, and `MeanSquare.floor_error` the effect on the floor.
    alpha, beta
        Constant step sizes; beta for a rule with a dual variable.
    nodes
        Largest number of (state, trace) nodes of the chain.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
    >>> result = mean_square(problem, GES(0.0), alpha=0.05, beta=0.1)
    >>> result.curve([0, 10, 100_000]).round(3)
    array([29.41 , 29.211,  0.492])
    """
    rule = as_rule(rule)
    noise = noise_chain(problem, rule, nodes)
    if beta is None:
        if rule.form.has_dual:
            raise InvalidParameter(f"{rule} has a dual variable ω: give beta=…")
        beta = 0.0
    return MeanSquare(noise, alpha, beta)
