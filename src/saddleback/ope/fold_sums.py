"""Rows of a sample by fold, the sums of a basis over each, and a penalty on its weights."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.ope.episode_sample import EpisodeSample

JITTER = 1e-9
"""Ridge relative to the mean of the diagonal of M, for features that are never active."""


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
    carried: FloatArray | None = None
    goals: FloatArray | None = None  # what every basis predicts, to be compared, [n, P]
    ratios: FloatArray | None = None  # π(a|s)/μ(a|s) of the actions taken, if known, [n]

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
    def shared(cls, sample: EpisodeSample, target: str, gamma: float) -> Rows:
        """Sort the rows for features that are expectations over actions: as of one action."""
        fold = sample.folds[sample.episode]
        order = np.argsort(fold, kind="stable")
        weights = gamma * sample.continues[order, None].astype(float)
        carried = None
        if sample.action_values is None:
            carried = np.where(sample.step > 0, gamma * sample.taken_pi(target), 0.0)[order]
        ratios = sample.action_ratios(target)
        return cls(
            order, np.zeros(len(order), dtype=np.int64), sample.rewards[order], weights,
            fold[order], np.ones((len(sample.starts), 1)), sample.folds, carried,
            ratios=None if ratios is None else ratios[order],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FoldSums:
    """Rows and episodes of a fold, and its sums M [K, m, m], C [p, p], b [p], x [p]; p = K·m."""

    rows: slice
    bounds: IntArray
    episodes: BoolArray
    sums: tuple[FloatArray, FloatArray, FloatArray, FloatArray]

    @classmethod
    def of(
        cls, k: int, traces: FloatArray, before: FloatArray, after: FloatArray, first: FloatArray,
        rows: Rows,
    ) -> FoldSums:  # fmt: skip
        """Sum over the rows of fold k, with features in the order of ``rows``."""
        K, m = rows.weights.shape[1], before.shape[1]
        begin, end = np.searchsorted(rows.folds, [k, k + 1])
        bounds = begin + np.searchsorted(rows.actions[begin:end], np.arange(K + 1))
        M, C, b = np.zeros((K, m, m)), np.zeros((K, m, K * m)), np.zeros((K, m))
        for a in range(K):
            own = slice(bounds[a], bounds[a + 1])
            phi = traces[own]
            M[a], b[a] = phi.T @ before[own], phi.T @ rows.rewards[own]
            for c in range(K):
                weight = rows.weights[own, c]
                used = np.flatnonzero(weight)
                if len(used) < 0.75 * len(weight):  # as of a deterministic target
                    phi_c, after_c, weight = phi[used], after[own][used], weight[used]
                else:
                    phi_c, after_c = phi, after[own]
                if len(used):
                    C[a, :, c * m : (c + 1) * m] = (phi_c * weight[:, None]).T @ after_c
        episodes = rows.start_folds == k
        starts = rows.start_pi[episodes].T @ first[episodes]
        sums = (M, C.reshape(K * m, K * m), b.ravel(), starts.ravel())
        return cls(slice(begin, end), bounds, episodes, sums)

    def products(self, features: FloatArray, others: FloatArray) -> FloatArray:
        """Return Σφ otherᵀ over the rows of the fold with each action, [K, m, c]."""
        parts = [slice(*pair) for pair in itertools.pairwise(self.bounds.tolist())]
        return np.array([features[own].T @ others[own] for own in parts])

    def of_actions(self, features: FloatArray, weights: FloatArray) -> FloatArray:
        """Return φᵀ of the logged actions times weights [p, R, c], for the rows of the fold."""
        begin, m, (p, *shape) = self.rows.start, features.shape[1], weights.shape
        values = np.empty((self.rows.stop - begin, *shape), weights.dtype)
        flat, columns = values.reshape(len(values), -1), weights.reshape(p, -1)
        for a in range(p // m):
            own = slice(self.bounds[a], self.bounds[a + 1])
            flat[own.start - begin : own.stop - begin] = (
                features[own] @ columns[a * m : (a + 1) * m]
            )
        return values

    def next_values(self, after: FloatArray, pi: FloatArray, theta: FloatArray) -> FloatArray:
        """Return γ times the next values under π, [n, R, c], for the rows of the fold."""
        m, (p, *shape) = after.shape[1], theta.shape
        columns = theta.reshape(p, -1)
        values = sum(
            pi[self.rows, a, None] * (after[self.rows] @ columns[a * m : (a + 1) * m])
            for a in range(p // m)
        )
        return np.reshape(values, (-1, *shape))

    def starts(self, first: FloatArray, start_pi: FloatArray) -> FloatArray:
        """Return φ under π at the starts of the fold's episodes, [E_k, p]."""
        own, pi = first[self.episodes], start_pi[self.episodes]
        return (pi[:, :, None] * own[:, None, :]).reshape(len(own), -1)


class Penalised:
    """M_λ − L for several penalties, from the blocks of M [K, m, m]; the first feature is constant.

    The penalty is λ times the mean square of a feature, or, for ``equal`` penalties, of the
    constant, on the mean of its weights over actions, and ``pooling`` times that on their
    differences from this mean. The mean weight of the constant is free, so that values are not
    drawn to 0.
    """

    def __init__(self, M: FloatArray, less: FloatArray | None, equal: bool) -> None:
        self.K, self.m = M.shape[:2]
        # In the order of LAPACK, so that it need not copy; penalties change only some entries.
        blocks = np.zeros((self.K, self.m, self.K, self.m))
        np.einsum("aiaj->aij", blocks)[:] = M
        self._diagonals = np.einsum("aici->aci", blocks).copy()
        matrix = blocks.reshape(self.K * self.m, -1)
        self._matrix = np.asfortranarray(matrix if less is None else matrix - less)
        self._less = 0.0 if less is None else self._of_features(np.asfortranarray(less)).copy()
        self._squares = np.einsum("aii->i", M).copy()
        if equal:
            self._squares[:] = self._squares[0]
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
