"""Doubly robust estimates with marginal ratios, over many candidate features.

For features φ, M = Σφφᵀ, C = Σφφ'ᵀ and b = Σφr over the rows of some episodes, x = Σφ₀ over their
starts, and M_λ = M + λ diag M, the primal θ and the dual u solve

    (M_λ − γC) θ = b            q(s, a) = φᵀθ is the value of an action
    (M_λ − γC)ᵀ u = x           w(s, a) = φᵀu is how often π comes there, relative to the log

or, for a task of H steps, θ_{h+1} = M_λ⁻¹(b + γCθ_h), and u_t = M_λ⁻¹ν_t with ν_0 = x and
ν_{t+1} = γCᵀM_λ⁻¹ν_t. With both fitted on other episodes, and δ the TD error of q,

    V̂_ij = mean over episodes of [q_i(s_0) + Σ w_j δ_i]

is a doubly robust estimate without products of ratios (Kallus & Uehara 2020): its bias is a
product of the errors of q_i and w_j. Every candidate i is a basis with a ridge, and provides both.
If w_j is right, V̂_ij is the same for all i; if q_i is right, it is the same for all j, and the
correction is 0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.ope.candidates import Basis
from saddleback.ope.episode_sample import FOLDS, EpisodeSample

RIDGES = (1e-5, 1e-4, 1e-3, 1e-2)
"""Ridges, relative to the diagonal of M."""

POOLING = (1.0, 100.0)
"""Penalties on what differs between actions, relative to that on what they share."""

JITTER = 1e-9
"""Ridge relative to the mean of the diagonal of M, for features that are never active."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Cross-fitted candidates of one basis, R penalties.

    Attributes
    ----------
    penalties
        Pooling and ridge of each.
    start
        q(s_0) of each episode under π, [R, E].
    delta, ratio
        TD error δ and marginal ratio w of each row, [R, n, H]; H is 1 without a horizon.
    theta
        θ without each fold, [R, folds, p]; θ_H with a horizon.
    """

    penalties: list[tuple[float, float]]
    start: FloatArray
    delta: FloatArray
    ratio: FloatArray
    theta: FloatArray

    def finite(self) -> Fits:
        """Return the candidates whose numbers are all finite."""
        parts = self.start[:, :, None], self.delta, self.ratio
        finite = [np.isfinite(part).all(axis=(1, 2)) for part in parts]
        kept = np.flatnonzero(np.all(finite, axis=0))
        if len(kept) == len(self.penalties):
            return self
        penalties = [self.penalties[k] for k in kept]
        return Fits(
            penalties, self.start[kept], self.delta[kept], self.ratio[kept], self.theta[kept]
        )


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a sample, sorted by fold and action, as every basis needs them."""

    order: IntArray
    actions: IntArray
    rewards: FloatArray
    weights: FloatArray
    folds: IntArray
    start_pi: FloatArray
    start_folds: IntArray

    @classmethod
    def of(cls, sample: EpisodeSample, target: str, gamma: float) -> Rows:
        """Sort the rows of a sample."""
        fold = sample.folds[sample.episode]
        order = np.lexsort((sample.actions, fold))
        weights = gamma * sample.continues[:, None] * sample.next_pi[target]
        return cls(
            order, sample.actions[order], sample.rewards[order],
            np.asfortranarray(weights[order]), fold[order], sample.start_pi[target], sample.folds,
        )  # fmt: skip

    @classmethod
    def shared(cls, sample: EpisodeSample, gamma: float) -> Rows:
        """Sort the rows for features that are expectations over actions: as of one action."""
        fold = sample.folds[sample.episode]
        order = np.argsort(fold, kind="stable")
        weights = gamma * sample.continues[order, None].astype(float)
        return cls(
            order, np.zeros(len(order), dtype=np.int64), sample.rewards[order], weights,
            fold[order], np.ones((len(sample.starts), 1)), sample.folds,
        )  # fmt: skip


def fit_basis(
    basis: Basis,
    rows: Rows,
    horizon: int | None,
    ridges: Sequence[float] = RIDGES,
    pooling: Sequence[float] = POOLING,
) -> Fits:
    """Fit primal and dual of a basis for each ridge and pooling, each fold by the other folds."""
    before, after, first = basis.evaluate()
    before, after = before[rows.order], after[rows.order]
    folds = [_FoldSums.of(k, before, after, first, rows) for k in range(FOLDS)]
    total = [
        functools.reduce(np.add, parts) for parts in zip(*(f.sums for f in folds), strict=True)
    ]
    steps, penalties = horizon or 1, list(itertools.product(pooling, ridges))
    kind: Any = np.float64 if horizon is None else np.float32
    before, after = before.astype(kind, copy=False), after.astype(kind, copy=False)
    start = np.full((len(penalties), len(first)), np.nan)
    delta = np.full((len(penalties), len(before), steps), np.nan, kind)
    ratio = np.full_like(delta, np.nan)
    thetas = np.full((len(penalties), FOLDS, len(total[2])), np.nan)
    for k, fold in enumerate(folds):
        M, C, b, x = (all_folds - own for all_folds, own in zip(total, fold.sums, strict=True))
        system = _FixedPoint(M, C, b, x) if horizon is None else _Horizon(M, C, b, x, horizon)
        rewards = rows.rewards[fold.rows][:, None]
        starts = fold.starts(first, rows.start_pi)
        for r, (pooled, ridge) in enumerate(penalties):
            solution = system.solve(ridge, pooled)
            if solution is None:
                continue
            thetas[r, k] = solution[0][:, -1]
            start[r, fold.episodes] = starts @ solution[0][:, -1]
            with np.errstate(over="ignore", invalid="ignore"):  # those not finite are left out
                theta, u = (np.asarray(part, kind) for part in solution)
                q = fold.of_actions(before, theta)
                following = fold.next_values(after, rows.weights, theta)
                if horizon is not None:
                    q, following = q[:, :0:-1], following[:, -2::-1]
                delta[r, fold.rows] = rewards + following - q
                ratio[r, fold.rows] = fold.of_actions(before, u)
    back = np.argsort(rows.order)
    return Fits(penalties, start, delta[:, back], ratio[:, back], thetas)


class _Penalised:
    """M_λ − L for several penalties, from the blocks of M [K, m, m]; the first feature is constant.

    The penalty is λ times the mean square of a feature, on the mean of its weights over actions,
    and ``pooling`` times that on their differences from this mean. The mean weight of the constant
    is free, so that values are not drawn to 0.
    """

    def __init__(self, M: FloatArray, less: FloatArray | None = None) -> None:
        self.K, self.m = M.shape[:2]
        # In the order of LAPACK, so that it need not copy; penalties change only some entries.
        blocks = np.zeros((self.K, self.m, self.K, self.m))
        np.einsum("aiaj->aij", blocks)[:] = M
        self._diagonals = np.einsum("aici->aci", blocks).copy()
        matrix = blocks.reshape(self.K * self.m, -1)
        self._matrix = np.asfortranarray(matrix if less is None else matrix - less)
        self._less = 0.0 if less is None else self._of_features(np.asfortranarray(less)).copy()
        self._squares = np.einsum("aii->i", M)
        self._jitter = JITTER * max(float(np.einsum("aii->", M)) / (self.K * self.m), 1e-300)

    def _of_features(self, matrix: FloatArray) -> FloatArray:
        """Return the entries of a matrix where both features are the same, a view [K, K, m]."""
        entries: FloatArray = matrix.T.reshape(self.K, self.m, self.K, self.m)
        return np.einsum("ciai->aci", entries)  # type: ignore[no-any-return]

    def matrix(self, ridge: float, pooling: float) -> FloatArray:
        """Return a matrix that may be overwritten, [p, p]."""
        scale = ridge * self._squares / self.K
        alike = scale * (np.arange(self.m) > 0)
        differing = np.eye(self.K) - 1.0 / self.K
        entries = self._diagonals + (pooling * differing[:, :, None] * scale + alike / self.K)
        np.einsum("aai->ai", entries)[:] += self._jitter
        matrix = self._matrix.copy(order="F")
        self._of_features(matrix)[:] = entries - self._less
        return matrix


class _FixedPoint:
    """The systems of θ and u without a horizon."""

    def __init__(self, M: FloatArray, C: FloatArray, b: FloatArray, x: FloatArray) -> None:
        self._penalised, self._b, self._x = _Penalised(M, C), b, x

    def solve(self, ridge: float, pooling: float) -> tuple[FloatArray, FloatArray] | None:
        """Return θ and u, [p, 1] each; None if the system is singular."""
        matrix = self._penalised.matrix(ridge, pooling)
        lu, pivots, singular = scipy.linalg.lapack.dgetrf(matrix, overwrite_a=True)
        if singular:
            return None
        theta, _ = scipy.linalg.lapack.dgetrs(lu, pivots, self._b)
        u, _ = scipy.linalg.lapack.dgetrs(lu, pivots, self._x, trans=1)
        return theta[:, None], u[:, None]


class _Horizon:
    """The recursions of θ and u with a horizon."""

    def __init__(
        self, M: FloatArray, C: FloatArray, b: FloatArray, x: FloatArray, steps: int
    ) -> None:
        self._penalised, self._C, self._b, self._x = _Penalised(M), np.asfortranarray(C), b, x
        self._steps = steps

    def solve(self, ridge: float, pooling: float) -> tuple[FloatArray, FloatArray] | None:
        """Return θ_0 … θ_H [p, H + 1] and u_0 … u_{H−1} [p, H]; None if M is not definite."""
        matrix = self._penalised.matrix(ridge, pooling)
        factor, indefinite = scipy.linalg.lapack.dpotrf(matrix, clean=False, overwrite_a=True)
        if indefinite:
            return None
        P, _ = scipy.linalg.lapack.dpotrs(factor, self._C)
        first, _ = scipy.linalg.lapack.dpotrs(factor, self._b)
        theta, nu = np.zeros((len(first), self._steps + 1)), np.zeros((len(first), self._steps))
        nu[:, 0] = self._x
        for h in range(self._steps):
            theta[:, h + 1] = first + P @ theta[:, h]
            if h + 1 < self._steps:
                nu[:, h + 1] = nu[:, h] @ P
        u, _ = scipy.linalg.lapack.dpotrs(factor, nu)
        return theta, u


@dataclass(frozen=True, eq=False)
class _FoldSums:
    """Rows and episodes of a fold, and its sums M [K, m, m], C [p, p], b [p], x [p]; p = K·m."""

    rows: slice
    bounds: IntArray
    episodes: BoolArray
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray]

    @classmethod
    def of(
        cls, k: int, before: FloatArray, after: FloatArray, first: FloatArray, rows: Rows
    ) -> _FoldSums:
        K, m = rows.weights.shape[1], before.shape[1]
        begin, end = np.searchsorted(rows.folds, [k, k + 1])
        bounds = begin + np.searchsorted(rows.actions[begin:end], np.arange(K + 1))
        M, C, b = np.zeros((K, m, m)), np.zeros((K, m, K * m)), np.zeros((K, m))
        for a in range(K):
            own = slice(bounds[a], bounds[a + 1])
            phi = before[own]
            M[a], b[a] = phi.T @ phi, phi.T @ rows.rewards[own]
            for c in range(K):
                weight = rows.weights[own, c]
                if weight.any():
                    C[a, :, c * m : (c + 1) * m] = (phi * weight[:, None]).T @ after[own]
        episodes = rows.start_folds == k
        starts = rows.start_pi[episodes].T @ first[episodes]
        sums = (M, C.reshape(K * m, K * m), b.ravel(), starts.ravel())
        return cls(slice(begin, end), bounds, episodes, sums)

    def of_actions(self, features: FloatArray, weights: FloatArray) -> FloatArray:
        """Return φᵀ of the logged actions times weights [p, c], for the rows of the fold."""
        begin, K, m = self.rows.start, len(self.bounds) - 1, features.shape[1]
        values = np.empty((self.rows.stop - begin, weights.shape[1]), weights.dtype)
        for a in range(K):
            own = slice(self.bounds[a], self.bounds[a + 1])
            values[own.start - begin : own.stop - begin] = (
                features[own] @ weights[a * m : (a + 1) * m]
            )
        return values

    def next_values(self, after: FloatArray, pi: FloatArray, theta: FloatArray) -> FloatArray:
        """Return γ times the next value under π, for the rows of the fold."""
        m = after.shape[1]
        return sum(
            pi[self.rows, a, None] * (after[self.rows] @ theta[a * m : (a + 1) * m])
            for a in range(pi.shape[1])
        )  # type: ignore[return-value]

    def starts(self, first: FloatArray, start_pi: FloatArray) -> FloatArray:
        """Return φ under π at the starts of the fold's episodes, [E_k, p]."""
        own, pi = first[self.episodes], start_pi[self.episodes]
        return (pi[:, :, None] * own[:, None, :]).reshape(len(own), -1)
