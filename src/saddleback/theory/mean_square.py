"""What a stochastic learner really does with constant steps, exactly: its mean square error.

On a finite noise chain the joint second moments obey S_j ← Σ q T S_i Tᵀ. The learner is stable in
mean square iff the spectral radius of this map (without the constant in z) is less than 1. Then
E‖θ_t − θ*‖² falls to a floor, E θ_t settles a bias away from θ*, and the whole expected learning
curve follows by iterating. A mean that converges says little: with long traces the step sizes it
allows are hundreds of times too large.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, gmres, spsolve

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray, IntArray
from saddleback.errors import InvalidParameter, InvalidShape, Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.theory.mean_stability import MeanStability
from saddleback.theory.moment_kernel import push, push_often
from saddleback.theory.noise_chain import Noise, noise_chain

DENSE = 300
"""Up to so many numbers the map is written out as a matrix and all its eigenvalues are taken."""

MOST_AT_ONCE = 100
"""Most steps taken together between two looks at the largest eigenvalue."""

RESIDUAL = 1e-8
"""Relative residual to which the stationary moments are solved."""


class MeanSquare:
    """Second moments of a rule with constant step sizes on a finite problem.

    Over the events i → j of the noise chain, which have probability q and move z to Tz,

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
        self._lasting = noise.recurrent
        self._chain = _events(self._lasting)
        self._factors = self._lasting.factors(self.alpha, self.beta)

    @property
    def lost(self) -> float:
        """Root mean square share of the trace that truncating the chain lost; 0 if none."""
        return self.noise.lost

    @cached_property
    def radius(self) -> float:
        """Spectral radius of the map of second moments; less than 1 is stable in mean square."""
        nodes, n = len(self._lasting.weight), self._lasting.n
        U, V, B = (np.ascontiguousarray(part[..., :n]) for part in self._factors)
        size = nodes * n * n
        # Small steps crowd all eigenvalues near 1; those of many steps at once lie further apart.
        often = 1 if size <= DENSE else int(np.clip(1.0 / np.abs(U).max(), 1, MOST_AT_ONCE))

        def carry(flat: FloatArray) -> FloatArray:
            S = flat.reshape(nodes, n, n)
            S = (S + S.transpose(0, 2, 1)) / 2
            push_often(often, *self._chain, U, V, B, S)
            return S.ravel()

        if size <= DENSE:
            return float(np.abs(np.linalg.eigvals([carry(row) for row in np.eye(size)])).max())
        first = np.einsum("i,ab->iab", self._lasting.weight, np.eye(n)).ravel()
        # The map keeps positive semidefinite matrices so, hence its largest eigenvalue is real.
        operator = LinearOperator((size, size), matvec=carry, dtype=np.float64)
        try:
            found = eigs(operator, k=1, which="LR", v0=first, ncv=60, tol=1e-10)[0]
        except ArpackNoConvergence:
            raise Undefined(
                f"the growth of the second moments could not be settled for α = {self.alpha:g}, "
                f"β = {self.beta:g}: it is too near 1 a step. Use fewer nodes or larger steps."
            ) from None
        return float(np.abs(found[0]) ** (1.0 / often))

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
                "1e-11 a step. Use larger step sizes, or features of like size."
            )
        if not self.stable:
            raise Undefined(
                f"there is no stationary error: with α = {self.alpha:g}, β = {self.beta:g} the "
                f"second moments grow by {self.radius:.6g} a step. Use smaller step sizes."
            )
        nodes, n = len(self._lasting.weight), self._lasting.n
        whole = np.zeros((nodes, n + 1, n + 1))
        whole[:, n, n] = self._lasting.weight
        whole[:, :n, n] = whole[:, n, :n] = self._means()
        out = np.empty_like(whole)

        def carry(S: FloatArray) -> FloatArray:
            whole[:, :n, :n] = (S + S.transpose(0, 2, 1)) / 2
            push(*self._chain, *self._factors, whole, out)
            return out[:, :n, :n].copy()

        constant = carry(np.zeros((nodes, n, n)))
        size = constant.size

        def residual(flat: FloatArray) -> FloatArray:
            S = flat.reshape(nodes, n, n)
            return np.asarray((S - carry(S) + constant).ravel())

        operator = LinearOperator((size, size), matvec=residual, dtype=np.float64)
        solution, failed = gmres(
            operator, constant.ravel(), rtol=RESIDUAL, restart=min(size, 300), maxiter=20
        )
        if failed:
            raise Undefined(
                f"the stationary error could not be solved to {RESIDUAL:g}: the radius "
                f"{self.radius:.9g} is too near 1. Use smaller step sizes, or curve()."
            )
        whole[:, :n, :n] = solution.reshape(nodes, n, n)
        return np.asarray(whole.sum(axis=0))

    def _means(self) -> FloatArray:
        """E[z·1{j}] in the long run, [N, n]: one sparse solve."""
        nodes, n = len(self._lasting.weight), self._lasting.n
        U, V, B = self._factors
        source, target, q = self._chain
        T = q[:, None, None] * (np.einsum("eka,ekb->eab", U, V) + np.diag(B))
        rows = (target[:, None, None] * n + np.arange(n)[:, None]) + np.zeros((1, 1, n), int)
        columns = (source[:, None, None] * n + np.arange(n)) + np.zeros((1, n, 1), int)
        entries = (T[:, :n, :n].ravel(), (rows.ravel(), columns.ravel()))
        matrix = coo_array(entries, shape=(nodes * n, nodes * n)).tocsc()
        constant = np.zeros((nodes, n))
        np.add.at(constant, target, self._lasting.weight[source][:, None] * T[:, :n, n])
        identity = coo_array((np.ones(nodes * n), (np.arange(nodes * n),) * 2)).tocsc()
        return np.asarray(spsolve(identity - matrix, constant.ravel())).reshape(nodes, n)

    @property
    def floor(self) -> float:
        """E‖θ − θ*‖² in the long run."""
        k = self._lasting.k
        return float(np.trace(self._stationary[:k, :k]))

    @property
    def floor_error(self) -> float:
        """How far the floor is from that of a chain with half the nodes; 0 if nothing was lost.

        A measure of what truncation does to the answer, where `lost` is what it does to the trace.
        """
        problem = self.noise.system.problem
        if not self.lost or problem is None:
            return 0.0
        half = noise_chain(problem, self.noise.system.rule, max(1, len(self.noise.weight) // 2))
        return abs(self.floor - MeanSquare(half, self.alpha, self.beta).floor)

    @property
    def bias(self) -> FloatArray:
        """E θ − θ* in the long run, [p]."""
        return np.asarray(self._lasting.basis @ self._stationary[: self._lasting.k, -1])

    def curve(
        self, steps: ArrayLike, theta0: ArrayLike = 0.0, omega0: ArrayLike = 0.0
    ) -> FloatArray:
        """E‖θ_t − θ*‖² after each of the given numbers of steps, from fixed first weights."""
        counts = np.atleast_1d(np.asarray(steps))
        if counts.dtype.kind not in "iu" or (counts < 0).any():
            raise InvalidParameter(f"curve: steps must be whole numbers >= 0, got {steps!r}.")
        p = self.noise.system.p
        first = [_first(name, w, p) for name, w in (("theta0", theta0), ("omega0", omega0))]
        gap = first[0] - self.noise.system.fixed_point
        k, n, basis = self.noise.k, self.noise.n, self.noise.basis
        z = np.append(np.concatenate([gap @ basis, first[1] @ basis])[:n], 1.0)
        still = float(gap @ gap - (gap @ basis) @ (gap @ basis))  # what lies outside never moves
        S = np.einsum("i,a,b->iab", self.noise.start, z, z)
        found, done = {}, 0
        chain, factors = _events(self.noise), self.noise.factors(self.alpha, self.beta)
        for count in np.unique(counts).tolist():
            push_often(count - done, *chain, *factors, S)
            done = count
            error = float(np.einsum("iaa->", S[:, :k, :k])) + still
            found[count] = error if np.isfinite(error) else np.inf
        return np.array([found[count] for count in counts.tolist()]).reshape(np.shape(steps))

    def max_step_size(self, ratio: float | None = None, accuracy: float = 1e-6) -> float:
        """Largest α that is stable in mean square at this β/α (or another); 0 if none is.

        Searched for below the limit of the mean, which it cannot exceed.
        """
        fitting = self.beta / self.alpha if ratio is None else ratio
        r = _validate.positive("max_step_size", "ratio", fitting) if self.beta else 1.0
        _validate.positive("max_step_size", "accuracy", accuracy)
        high = MeanStability(self.noise.system).max_step_size(r)
        return largest_stable(
            lambda alpha: MeanSquare(self.noise, alpha, alpha * r).stable, high, accuracy
        )

    def __repr__(self) -> str:
        lost = f", lost={self.lost:.2g}" if self.lost else ""
        return (
            f"MeanSquare({self.noise.system.rule.display_name}, alpha={self.alpha:g}, "
            f"beta={self.beta:g}, nodes={len(self.noise.weight)}, radius={self.radius:.6g}{lost})"
        )


def largest_stable(stable: Callable[[float], bool], high: float, accuracy: float) -> float:
    """Bisect for the largest stable step below ``high``; 0 if there is none worth the name."""
    low, least = high, high * 1e-12
    while low > least and not stable(low):
        low, high = low / 4, low
    if low <= least:
        return 0.0
    while high / low > 1.0 + accuracy:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def _events(noise: Noise) -> tuple[IntArray, IntArray, FloatArray]:
    return noise.source, noise.target, noise.probability


def _first(name: str, given: ArrayLike, p: int) -> FloatArray:
    weights = _validate.floats(name, given)
    _validate.finite(name, weights)
    if weights.shape not in ((), (p,)):
        raise InvalidShape(f"{name} must be a number or have shape [{p}], got {weights.shape}.")
    return np.asarray(np.broadcast_to(weights, p))


def mean_square(
    problem: Problem,
    rule: Rule,
    *,
    alpha: float,
    beta: float | None = None,
    nodes: int = 200,
) -> MeanSquare:
    """Judge constant step sizes by the exact second moments of the learner's error.

    Parameters
    ----------
    problem
        A finite problem.
    rule
        Any rule. Without a trace (λ = 0) the answer is exact; with one it is exact where the trace
        is forgotten now and then, and else truncated: `MeanSquare.lost` says how much of the trace
        went, `MeanSquare.floor_error` how far that moves the floor.
    alpha, beta
        Constant step sizes; beta for a rule with a dual variable.
    nodes
        Most (state, trace) nodes of the chain.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
    >>> result = mean_square(problem, GES(0.0), alpha=0.05, beta=0.1)
    >>> result.curve([0, 10, 100_000]).round(3)
    array([29.41 , 29.211,  0.492])
    """
    noise = noise_chain(problem, rule, nodes)
    if beta is None:
        if rule.form.has_dual:
            raise InvalidParameter(f"{rule} moves a dual variable ω: give beta=…")
        beta = 0.0
    return MeanSquare(noise, alpha, beta)
