"""Exact stability of the expected (mean) update, for every form and every pair (α, β).

With x = θ − θ* the expected update of a rule is

    (x, ω) ← (x, ω) + diag(α, β) G (x, ω)        G = [[td·A, −T], [dual·A, −W]]
    T = saddle·Aᵀ + correction·C                 W = gram·M + shrink·I

and for semi-gradient rules x ← x + αA x. It converges from every start iff the spectral radius of
the map is less than 1. For singular G that is impossible: directions in its null space do not
change. Write G = XY with X, Y of full rank k. Then diag(α, β)XY and Y diag(α, β)X, which is k×k,
have the same non-zero eigenvalues, so stability *on the range* is that of

    I + αK_θ + βK_ω        K_θ = Y_θ X_θ,   K_ω = Y_ω X_ω

which is computed here; for a regular G it is the map itself in other coordinates.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, ComplexArray, FloatArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.system import System, linear_stability

LARGEST = 400
"""Largest dimension for which eigenvalues are computed at many ratios."""

BATCH = 1 << 22
"""Numbers in memory at a time while radii over a grid are computed."""


class Pair(NamedTuple):
    """Step sizes of θ and ω, and the spectral radius of the mean update with them.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> pair = MeanStability(System.exact(problems.two_state(gamma=0.9), GES(0.0))).best()
    >>> 0 < pair.radius < 1
    True
    """

    alpha: float
    """Step size of θ."""
    beta: float
    """Step size of ω."""
    radius: float
    """Spectral radius of the mean update, which converges if it is below 1."""


class MeanStability:
    """Stability of the expected update of a system's rule, for each pair of step sizes.

    It converges from every start iff, on the range of G,

        spectral radius of I + diag(α, β) G < 1        G = [[td·A, −T], [dual·A, −W]]

    with the coefficients of the rule's form (`Coefficients`) and T, W of `System.coupling`; G is A
    for a semi-gradient rule. For true on-line rules this is to first order in the step sizes.

    Parameters
    ----------
    system
        A system with its rule: exact, estimated, or built from arrays.

    Attributes
    ----------
    rank
        Dimension of the range of G, at most ``dimension``.
    dimension
        2p, or p for a semi-gradient rule.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> mean = MeanStability(System.exact(problems.two_state(gamma=0.99), GES(0.5)))
    >>> round(mean.max_step_size(ratio=1.0), 4)
    0.4477
    >>> pair = mean.best()
    >>> bool(mean.radius(pair.alpha, pair.beta) < 1.0)
    True
    """

    def __init__(self, system: System) -> None:
        _validate.instance("MeanStability", "system", system, System)
        self.system = system
        c, p = system.rule.form.coefficients, system.p
        self._dual = system.rule.form.has_dual
        if self._dual:
            T, W = system.coupling()
            self._G = np.block([[c.td * system.A, -T], [c.dual * system.A, -W]])
            h = np.concatenate([c.td * system.b, c.dual * system.b])
        else:
            self._G, h = c.td * system.A, c.td * system.b
        self.dimension = len(self._G)
        size = np.tile(linear_stability.sizes(system.M), self.dimension // p)
        self._parts = linear_stability.Decomposition(self._G, size)
        self.rank = self._parts.rank
        self._reached = self._parts.reaches(h)

    @property
    def singular(self) -> bool:
        """Whether G is singular, so that verdicts apply to its range only."""
        return self.rank < self.dimension

    @property
    def note(self) -> str:
        """A caveat about verdicts on this system, or empty."""
        if not self.singular:
            return ""
        note = (
            f"singular: verdicts apply to the range of the update ({self.rank} of "
            f"{self.dimension} dimensions); the limit depends on the initial weights."
        )
        return note if self._reached else f"{note} There is no fixed point: b is out of range."

    @cached_property
    def _factors(self) -> tuple[FloatArray, FloatArray]:
        """K_θ and K_ω."""
        p = self.system.p
        U = self._parts.range
        X, Y = (U, U.T @ self._G) if self.singular else (self._G, np.eye(self.dimension))
        return Y[:, :p] @ X[:p], Y[:, p:] @ X[p:]

    def mean_map(self, alpha: float, beta: float | None = None) -> FloatArray:
        """Matrix of the mean update of (θ − θ*, ω), or of θ − θ* without a dual variable."""
        steps = self._steps(alpha, beta)
        return np.asarray(np.eye(self.dimension) + steps[:, None] * self._G)

    def _steps(self, alpha: float, beta: float | None) -> FloatArray:
        """α for each entry of θ, β for each entry of ω."""
        a = _validate.positive("mean_map", "alpha", alpha)
        if not self._dual:
            return np.full(self.dimension, a)
        if beta is None:
            raise InvalidParameter(f"{self.system.rule} has a dual variable ω: give beta=…")
        b = _validate.positive("mean_map", "beta", beta)
        return np.repeat([a, b], self.system.p)

    def radius(self, alpha: ArrayLike, beta: ArrayLike = 1.0) -> FloatArray:
        """Spectral radius of the mean update on its range, for step sizes that broadcast.

        Below 1 the update converges, asymptotically by this factor per step.
        """
        sizes = {n: _validate.floats(n, s) for n, s in (("alpha", alpha), ("beta", beta))}
        for name, size in sizes.items():
            for value in size[~((size > 0) & np.isfinite(size))][:1]:
                raise InvalidParameter(f"{name}: step sizes must be > 0, got {value:g}.")
        a, b = _validate.broadcast(**sizes)
        ratio, index = np.unique((b / a).ravel(), return_inverse=True)
        g = self._eigenvalues(ratio if self._dual else np.ones(1))
        rows = g[index] if self._dual else g
        radii = np.abs(1.0 + a.ravel()[:, None] * rows).max(axis=1, initial=0.0)
        return np.asarray(radii.reshape(a.shape))

    def _eigenvalues(self, ratios: FloatArray) -> ComplexArray:
        """Non-zero eigenvalues of diag(1, r) G for each ratio r = β/α, [ratios, rank]."""
        K_theta, K_omega = self._factors
        size = max(1, BATCH // max(1, self.rank**2))
        parts = np.array_split(ratios, -(-len(ratios) // size))
        return np.concatenate([
            np.linalg.eigvals(K_theta + r[:, None, None] * K_omega) for r in parts
        ]).astype(np.complex128)  # fmt: skip

    def max_step_size(self, ratio: float = 1.0) -> float:
        """Smallest α > 0 for which the mean update with β = ratio·α diverges.

        It is min −2Re(g)/|g|² over the eigenvalues g of diag(1, ratio)·G; 0 if no α converges or
        there is no fixed point.
        """
        r = _validate.positive("max_step_size", "ratio", ratio)
        return float(self._limits(self._eigenvalues(np.array([r])))[0])

    def _limits(self, g: ComplexArray) -> FloatArray:
        """Largest stable step for each row of eigenvalues; 0 if none, ∞ if all are zero."""
        if not self._reached:
            return np.zeros(len(g))
        if not g.shape[1]:
            return np.full(len(g), np.inf)
        size = np.abs(g)
        # On the range an eigenvalue is 0 only if 0 is not semisimple for G: linear growth.
        grows = (size <= 1e-9 * size.max(axis=1, keepdims=True)) & self.singular
        limits = np.where(grows, 0.0, -2 * g.real / np.where(grows, 1.0, size**2)).min(axis=1)
        return np.asarray(np.maximum(limits, 0.0))

    def best(self, ratio: float | None = None) -> Pair:
        """Return the pair of step sizes with the smallest spectral radius, at a given β/α or any.

        At a fixed ratio the radius is convex in α. Ratios are searched on a grid that is refined
        around its best point.
        """
        if self.rank > LARGEST:
            raise InvalidParameter(
                f"best: eigenvalues of {self.rank}×{self.rank} matrices at many ratios take too "
                f"long; the limit is {LARGEST}. Use max_step_size, which needs one ratio."
            )
        if ratio is not None or not self._dual or not self.rank:
            r = 1.0 if ratio is None else _validate.positive("best", "ratio", ratio)
            return self._best_at(np.array([r]))
        K_theta, K_omega = (np.linalg.norm(K) for K in self._factors)
        middle = np.log(K_theta / K_omega) if K_theta > 0 < K_omega else 0.0
        logs = middle + np.linspace(-16.0, 16.0, 129) * np.log(10.0) / 2
        for _ in range(4):
            at = int(np.argmin(self._best_steps(np.exp(logs))[1]))
            best = logs[at : at + 1]
            logs = np.linspace(logs[max(at - 1, 0)], logs[min(at + 1, len(logs) - 1)], 33)
        return self._best_at(np.exp(best))

    def _best_steps(self, ratios: FloatArray) -> tuple[FloatArray, FloatArray]:
        g = self._eigenvalues(ratios)
        return _best_steps(g, self._limits(g))

    def _best_at(self, ratio: FloatArray) -> Pair:
        alpha, radius = self._best_steps(ratio)
        if not alpha[0] > 0:
            raise Undefined(
                f"no step size is stable: the mean of {self.system.rule} does not converge. "
                f"{self.note or 'Use a gradient form such as that of GES.'}"
            )
        return Pair(float(alpha[0]), float(alpha[0] * ratio[0] * self._dual), float(radius[0]))


def _best_steps(g: ComplexArray, limit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each row of eigenvalues, the step that minimises max |1 + αg|, and the minimum.

    The maximum is convex in α, so golden-section search finds it.
    """

    def radius(alpha: FloatArray) -> FloatArray:
        return np.asarray(np.abs(1.0 + alpha[:, None] * g).max(axis=1, initial=0.0))

    low, high = np.zeros(len(g)), np.where(np.isfinite(limit), limit, 1.0)
    shrink = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(90):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        decreases = radius(left) < radius(right)
        low, high = np.where(decreases, low, left), np.where(decreases, right, high)
    alpha = (low + high) / 2
    return alpha, radius(alpha)
