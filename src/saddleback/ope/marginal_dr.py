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
correction is 0. The steps of a long task that are summed over are drawn, one from each of a number
of intervals, and weighted by their lengths.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from saddleback._typing import FloatArray, IntArray
from saddleback.ope.candidates import Basis
from saddleback.ope.episode_sample import FOLDS, MAX_CELLS, MIN_STEPS
from saddleback.ope.fold_sums import FoldSums, Penalised, Rows

RIDGES = (1e-5, 1e-4, 1e-3, 1e-2)
"""Ridges, relative to the diagonal of M."""

POOLING = (1.0, 100.0)
"""Penalties on what differs between actions, relative to that on what they share."""

NEGLIGIBLE, MOST = 1e-7, 0.8
"""Mean square of a direction of smooth features below which it is left out, and the share of them
above which all are kept."""

MAX_SINGLE = 1e9
"""Largest reward for which TD errors of a task with a horizon are kept in single precision."""

DIRECTION_ROWS, CHUNK = 2000, 4096
"""Rows from which directions are found, and rows whose features are evaluated at a time."""


Solution = tuple[FloatArray, FloatArray] | None
"""θ and u; None if a matrix is singular."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Cross-fitted candidates of one basis, R penalties."""

    penalties: list[tuple[float, float]]  # pooling and ridge of each
    start: FloatArray  # q(s_0) of each episode under π, [R, E]
    # TD error δ and marginal ratio w of each row, [R, n, m], at m steps of the task, with the
    # number of steps each stands for as a factor of w; m is 1 without a horizon.
    delta: FloatArray
    ratio: FloatArray
    theta: FloatArray  # θ without each fold, [R, folds, p]; θ_H with a horizon
    # Mean squared error of a regression of each goal of the rows, held out, [R, P].
    loss: FloatArray
    # γ times the next values under π at the steps that are kept, [R, n, steps].
    following: FloatArray
    # `start` and `delta` of θ fitted to all folds, where each distinct point has its own feature.
    # Without a ridge, these TD errors are orthogonal to any w(s, a) that is the same in all folds.
    full: tuple[FloatArray, FloatArray] | None = None

    @property
    def final(self) -> tuple[FloatArray, FloatArray]:
        """q(s_0) and δ for the estimate: of fits to all folds, if there are any."""
        return (self.start, self.delta) if self.full is None else self.full

    def finite(self) -> Fits:
        """Return the candidates whose numbers are finite, and their sums of products as well."""
        limit = np.sqrt(np.finfo(self.delta.dtype).max) / self.delta[0].size
        finite = np.ones(len(self.penalties), dtype=bool)
        for start in (self.start, self.final[0]):
            finite &= np.isfinite(start).all(axis=1)
        for part in (self.delta, self.final[1], self.ratio):
            finite &= np.abs(part).max(axis=(1, 2)) < limit
        kept = np.flatnonzero(finite)
        if len(kept) == len(self.penalties):
            return self
        return Fits(
            [self.penalties[k] for k in kept], self.start[kept], self.delta[kept],
            self.ratio[kept], self.theta[kept], self.loss[kept], self.following[kept],
            None if self.full is None else (self.full[0][kept], self.full[1][kept]),
        )  # fmt: skip


@np.errstate(over="ignore", invalid="ignore")  # those not finite are left out
def fit_basis(
    basis: Basis,
    rows: Rows,
    horizon: int | None,
    ridges: Sequence[float] = RIDGES,
    pooling: Sequence[float] = POOLING,
    *,
    steps: Sequence[int] = (),
) -> Fits:
    """Fit primal and dual of a basis for each ridge and pooling, each fold by the other folds.

    The next values at some ``steps`` of the task, counted from 0, are kept.
    """
    directions = leading_directions(basis, rows.order)
    before, after, first = _evaluate(basis, rows.order, directions)
    active = np.asarray(before.any(axis=0))  # weights of others are 0
    if not active.all():
        before, after, first = before[:, active], after[:, active], first[:, active]
    traces = before
    if basis.lam:
        assert rows.carried is not None
        traces = accumulate_traces(before, basis.lam * rows.carried)
    if basis.is_weighted:
        assert rows.ratios is not None
        traces = rows.ratios[:, None] * before
    folds = [FoldSums.of(k, traces, before, after, first, rows) for k in range(FOLDS)]
    total = [
        functools.reduce(np.add, parts) for parts in zip(*(f.sums for f in folds), strict=True)
    ]
    penalties = list(itertools.product(pooling, ridges))
    goals = None if basis.is_weighted else rows.goals
    squares, products = _regression_sums(folds, before, goals, bool(basis.lam))
    loss = np.zeros((len(penalties), 0 if rows.goals is None else rows.goals.shape[1]))
    loss[:] = np.inf if basis.is_weighted else 0.0
    columns = 1 if horizon is None else min(horizon, max(MIN_STEPS, MAX_CELLS // len(before)))
    single = horizon is not None and np.abs(rows.rewards).max() <= MAX_SINGLE
    kind: Any = np.float32 if single else np.float64
    traces = traces.astype(kind, copy=False)
    before, after = before.astype(kind, copy=False), after.astype(kind, copy=False)
    start = np.full((len(penalties), len(first)), np.nan)
    delta = np.full((len(penalties), len(before), columns), np.nan, kind)
    ratio = np.full_like(delta, np.nan)
    weights = rows.weights.astype(kind, copy=False)
    thetas = np.full((len(penalties), FOLDS, len(total[2])), np.nan)
    kept = np.full((*delta.shape[:2], len(steps)), np.nan, kind)
    equal = directions is not None

    def apply(k: int, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return q(s_0) and δ of the episodes and rows of fold k, by penalty."""
        fold, this = folds[k], theta.astype(kind, copy=False)
        following = this
        if horizon is not None:
            step, _ = drawn_steps(horizon, columns, k)
            this, following = this[:, :, horizon - step], this[:, :, horizon - step - 1]
        errors = rows.rewards[fold.rows, None, None] - fold.of_actions(before, this)
        errors += fold.next_values(after, weights, following)
        return (fold.starts(first, rows.start_pi) @ theta[:, :, -1]).T, errors.transpose(1, 0, 2)

    for k, fold in enumerate(folds):
        others = [all_folds - own for all_folds, own in zip(total, fold.sums, strict=True)]
        y = None if products is None else _without(k, products)
        gram = None if squares is None else _without(k, squares)
        solutions = {}
        for r, (factor, solution) in enumerate(
            _solve(others, gram, penalties, horizon, equal, y is not None)
        ):
            if y is not None:
                loss[r] += _squared_errors(factor, y, fold, before, goals)
            if solution is not None:
                solutions[r] = solution
        if not solutions:
            continue
        theta, u = (np.stack(part, axis=1) for part in zip(*solutions.values(), strict=True))
        solved = np.array(list(solutions))
        thetas[solved, k] = theta[:, :, -1].T
        at = np.ix_(solved, np.arange(fold.rows.start, fold.rows.stop))
        start[np.ix_(solved, fold.episodes)], delta[at] = apply(k, theta)
        if horizon is not None:
            step, stands_for = drawn_steps(horizon, columns, k)
            u = u[:, :, step] * stands_for
        if steps:
            later = [0 if horizon is None else horizon - step - 1 for step in steps]
            values = fold.next_values(after, weights, theta[:, :, later].astype(kind))
            kept[at] = values.transpose(1, 0, 2)
        ratio[at] = fold.of_actions(traces, u.astype(kind, copy=False)).transpose(1, 0, 2)
    full = None
    if basis.is_exact and not (basis.is_weighted or steps):
        full = start.copy(), delta.copy()
        for r, (_, solution) in enumerate(_solve(total, None, penalties, horizon, equal, False)):
            for k, fold in enumerate(folds if solution is not None else ()):
                assert solution is not None
                starts, errors = apply(k, solution[0][:, None])
                full[0][r, fold.episodes], full[1][r, fold.rows] = starts[0], errors[0]
    blocks = np.zeros((*thetas.shape[:2], rows.weights.shape[1], len(active)))
    blocks[..., active] = thetas.reshape(*blocks.shape[:3], -1)
    if directions is not None:
        blocks = blocks @ directions.T
    thetas = blocks.reshape(*thetas.shape[:2], -1)
    back = np.argsort(rows.order)
    delta, ratio = (np.take(part, back, axis=1) for part in (delta, ratio))
    kept = np.take(kept, back, axis=1)
    if full is not None:
        full = full[0], np.take(full[1], back, axis=1)
    return Fits(penalties, start, delta, ratio, thetas, loss / len(before), kept, full)


def _solve(
    sums: Sequence[FloatArray],
    squares: FloatArray | None,
    penalties: Sequence[tuple[float, float]],
    horizon: int | None,
    equal: bool,
    has_goals: bool,
) -> Iterator[tuple[FloatArray | None, Solution]]:
    """Yield the factor of M_λ, if it is needed, and θ and u for each penalty.

    ``squares`` is Σφφᵀ where M is not; only features without a horizon may have them.
    """
    M, C, b, x = sums
    system = Penalised(M, C, equal) if horizon is None else None
    gram = None
    if has_goals or system is None:
        gram = Penalised(M if squares is None else squares, None, equal)
    C = np.asfortranarray(C)
    for pooled, ridge in penalties:
        factor = None if gram is None else _cholesky(gram.matrix(ridge, pooled))
        solution: Solution = None
        if system is not None:
            solution = _fixed_point(system.matrix(ridge, pooled), b, x)
        elif factor is not None:
            assert horizon is not None
            solution = _recursion(factor, C, b, x, horizon)
        yield factor, solution


def _regression_sums(
    folds: Sequence[FoldSums], features: FloatArray, goals: FloatArray | None, has_traces: bool
) -> tuple[list[FloatArray] | None, list[FloatArray] | None]:
    """Return Σφφᵀ of each fold, if M is not that, and Σφ goalᵀ, if there are goals."""
    if goals is None:
        return None, None
    products = [fold.products(features, goals).reshape(-1, goals.shape[1]) for fold in folds]
    return ([fold.products(features, features) for fold in folds] if has_traces else None), products


def _without(k: int, parts: Sequence[FloatArray]) -> FloatArray:
    """Return the sum of all parts but one."""
    return functools.reduce(np.add, (part for j, part in enumerate(parts) if j != k))


def _squared_errors(
    factor: FloatArray | None,
    products: FloatArray,
    fold: FoldSums,
    features: FloatArray,
    goals: FloatArray | None,
) -> FloatArray | float:
    """Return Σ(goal − prediction)² over the rows of a fold, by goal; the factor is of M_λ."""
    assert goals is not None
    if factor is None:
        return np.inf
    weights, _ = scipy.linalg.lapack.dpotrs(factor, products)
    predicted = fold.of_actions(features, weights[:, None].astype(features.dtype))[:, 0]
    squares: FloatArray = ((goals[fold.rows] - predicted) ** 2).sum(axis=0)
    return squares


def accumulate_traces(features: FloatArray, decay: FloatArray) -> FloatArray:
    """Return z_t = φ_t + c_t z_{t−1} of each row, [n, m]; c is 0 where an episode begins.

    Examples
    --------
    >>> accumulate_traces(np.ones((4, 1)), np.array([0.0, 0.5, 0.5, 0.0])).ravel()
    array([1.  , 1.5 , 1.75, 1.  ])
    """
    traces = features.copy()
    begins = np.maximum.accumulate(np.where(decay == 0, np.arange(len(decay)), 0))
    step = np.arange(len(decay)) - begins
    order = np.argsort(step, kind="stable")
    ends = np.cumsum(np.bincount(step))
    for rows in np.split(order, ends[:-1])[1:]:
        traces[rows] += decay[rows, None] * traces[rows - 1]
    return traces


def drawn_steps(horizon: int, count: int, seed: int) -> tuple[IntArray, IntArray]:
    """Cut the steps of a task into ``count`` intervals; return a step of each, and their lengths.

    Examples
    --------
    >>> drawn_steps(3, 3, seed=0)
    (array([0, 1, 2]), array([1, 1, 1]))
    >>> steps, lengths = drawn_steps(1000, 32, seed=0)
    >>> len(steps), int(lengths.sum())
    (32, 1000)
    """
    edges = np.arange(count + 1) * horizon // count
    lengths = np.diff(edges)
    return edges[:-1] + np.random.default_rng(seed).integers(lengths), lengths


def leading_directions(basis: Basis, order: IntArray) -> FloatArray | None:
    """Return the directions [m, r] that contain nearly all of smooth features, if they are few.

    They are orthonormal in units of the root mean square of each feature, so that the penalty is
    the same on all of them. What they leave out is small beside the smallest penalty.
    """
    if not basis.is_smooth:
        return None
    phi = basis.before(order[:: -(-len(order) // DIRECTION_ROWS)])
    scale = np.sqrt((phi**2).mean(axis=0))
    scale[scale == 0.0] = np.inf
    scaled = phi[:, 1:] / scale[1:]
    sizes, vectors = np.linalg.eigh(scaled.T @ scaled / len(phi))
    kept = sizes > NEGLIGIBLE
    if kept.sum() > MOST * len(kept):
        return None
    directions = np.zeros((phi.shape[1], 1 + int(kept.sum())))
    directions[0, 0], directions[1:, 1:] = 1.0, vectors[:, kept] / scale[1:, None]
    return directions


def _evaluate(
    basis: Basis, order: IntArray, directions: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return features before and after each transition, in order, and at the starts."""

    def reduced(features: FloatArray) -> FloatArray:
        return features if directions is None else features @ directions

    first = reduced(basis.start())
    before, after = np.empty((2, len(order), first.shape[1]))
    for begin in range(0, len(order), CHUNK):
        part = slice(begin, begin + CHUNK)
        before[part] = reduced(basis.before(order[part]))
        after[part] = reduced(basis.after(order[part]))
    return before, after, first


def _fixed_point(matrix: FloatArray, b: FloatArray, x: FloatArray) -> Solution:
    """Return θ and u without a horizon, [p, 1] each, from M_λ − γC, which is overwritten."""
    lu, pivots, singular = scipy.linalg.lapack.dgetrf(matrix, overwrite_a=True)
    if singular:
        return None
    theta, _ = scipy.linalg.lapack.dgetrs(lu, pivots, b)
    u, _ = scipy.linalg.lapack.dgetrs(lu, pivots, x, trans=1)
    return theta[:, None], u[:, None]


def _cholesky(matrix: FloatArray) -> FloatArray | None:
    """Return the factor of a matrix, which is overwritten; None if it is not definite."""
    factor, indefinite = scipy.linalg.lapack.dpotrf(matrix, clean=False, overwrite_a=True)
    return None if indefinite else factor


def _recursion(
    factor: FloatArray, C: FloatArray, b: FloatArray, x: FloatArray, steps: int
) -> tuple[FloatArray, FloatArray]:
    """Return θ_0 … θ_H [p, H + 1] and u_0 … u_{H−1} [p, H] from the factor of M_λ."""
    P, _ = scipy.linalg.lapack.dpotrs(factor, C)
    first, _ = scipy.linalg.lapack.dpotrs(factor, b)
    theta, nu = np.zeros((len(first), steps + 1)), np.zeros((len(first), steps))
    nu[:, 0] = x
    for h in range(steps):
        theta[:, h + 1] = first + P @ theta[:, h]
        if h + 1 < steps:
            nu[:, h + 1] = nu[:, h] @ P
    u, _ = scipy.linalg.lapack.dpotrs(factor, nu)
    return theta, u
