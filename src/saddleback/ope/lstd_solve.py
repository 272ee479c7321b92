"""Solving Âθ + b̂ = 0 from data: minimum-norm solutions on the range of M̂, with a ridge.

Features of real data are never independent: some are never active, tilings sum to the same
constant. So θ is sought in the span of the active features, scaled by their sizes, with minimum
norm ‖Sθ‖. With S = diag √M̂_ii and U an orthonormal basis of the range of S⁻¹M̂S⁻¹,

    θ = S⁻¹U y,    Uᵀ S⁻¹ (Â − η·diag M̂) S⁻¹ U y = −UᵀS⁻¹ b̂

for a ridge η, which is relative to the size of each feature. Weights of features that were never
active stay 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from saddleback import _validate
from saddleback._typing import FloatArray, IntArray
from saddleback.errors import Undefined

RTOL = 1e-11
"""Eigenvalues of the scaled M̂ below this share of the largest count as zero."""

SINGULAR = 1e-13
"""Reciprocal condition number below which the reduced system counts as singular."""


@dataclass(frozen=True, eq=False)
class LSTDSolution:
    """Weights and solver outcome."""

    theta: FloatArray  # [p]
    ridge: float
    outcome: str  # ``"ok"``, or why the solution is not unique


@dataclass(frozen=True, eq=False)
class FeatureSpan:
    """The span of the features that are active in a log.

    Examples
    --------
    >>> span = FeatureSpan(np.diag([1.0, 0.0]))
    >>> span.rank, span.n_inactive
    (1, 1)
    >>> span.solve(np.diag([-0.5, 0.0]), np.array([1.0, 0.0])).theta
    array([2., 0.])
    """

    M: FloatArray

    @cached_property
    def active(self) -> IntArray:
        """Indices of the features that are ever active."""
        return np.flatnonzero(np.diag(self.M) > 0).astype(np.int64)

    @property
    def n_inactive(self) -> int:
        """Number of features that are never active."""
        return len(self.M) - len(self.active)

    @cached_property
    def _split(self) -> tuple[FloatArray, FloatArray]:
        """Columns spanning the range, S⁻¹U, and the corresponding eigenvalues of S⁻¹M̂S⁻¹."""
        if not len(self.active):
            raise Undefined("no feature is ever active on this log: nothing to solve.")
        size = np.sqrt(np.diag(self.M)[self.active])
        scaled = self.M[np.ix_(self.active, self.active)] / np.outer(size, size)
        values, vectors = scipy.linalg.eigh(
            scaled, overwrite_a=True, check_finite=False, driver="evd"
        )
        kept = values > RTOL * values[-1]
        return np.ascontiguousarray(vectors[:, kept] / size[:, None]), values[kept]

    @property
    def _basis(self) -> FloatArray:
        return self._split[0]

    def of_active(self) -> FeatureSpan:
        """Return the span as that of the active features alone."""
        span = FeatureSpan(self.M[np.ix_(self.active, self.active)])
        span.__dict__["_split"] = self._split
        return span

    @property
    def condition(self) -> float:
        """Condition number of M̂ on the span, scaled by feature sizes."""
        values = self._split[1]
        return float(values[-1] / values[0])

    @cached_property
    def inverse(self) -> FloatArray:
        """M̂⁺ on the span, S⁻¹U D⁻¹ UᵀS⁻¹, [p, p]."""
        basis, values = self._split
        inverse = np.zeros_like(self.M)
        inverse[np.ix_(self.active, self.active)] = (basis / values) @ basis.T
        return inverse

    @cached_property
    def null_projector(self) -> FloatArray:
        """P = S⁻¹(1 − UUᵀ)S⁻¹, [p, p]: φᵀPφ measures the part of φ outside the span."""
        size = np.sqrt(np.diag(self.M)[self.active])
        inside = size[:, None] * self._basis
        projector = np.zeros_like(self.M)
        outside = np.eye(len(size)) - inside @ inside.T
        projector[np.ix_(self.active, self.active)] = outside / np.outer(size, size)
        return projector

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return int(self._basis.shape[1])

    @property
    def note(self) -> str:
        """Why the features lack full rank, as text; empty if they have it."""
        counts = (("never active", self.n_inactive), ("collinear", len(self.active) - self.rank))
        missing = [(reason, count) for reason, count in counts if count]
        if not missing:
            return ""
        (reason, count), *others = missing
        more = "".join(f"; {number:,} {other}" for other, number in others)
        return (
            f"{count:,} of {len(self.M):,} features {reason}{more}: using the minimum-norm solution"
        )

    def solve(self, A: FloatArray, b: FloatArray, ridge: float = 0.0) -> LSTDSolution:
        """Return θ in the span with Âθ + b̂ = 0, or the least-squares solution."""
        return self.factor(A, ridge).solve(b)

    def factor(self, A: FloatArray, ridge: float = 0.0) -> Factorisation:
        """Factorise Â − η·diag M̂, to solve for several right-hand sides."""
        return self.factor_reduced(self.reduced(A), ridge)

    def factor_reduced(self, reduced: FloatArray, ridge: float) -> Factorisation:
        """Factorise as `factor` does, from Â in coordinates of the span."""
        _validate.non_negative("solve", "ridge", ridge)
        if ridge:
            reduced = reduced - ridge * self._ridge
        lu, pivots, _ = scipy.linalg.lapack.dgetrf(reduced)
        norm = float(np.abs(reduced).sum(axis=0).max(initial=0.0))
        condition, _ = scipy.linalg.lapack.dgecon(lu, norm)
        return Factorisation(self, reduced, lu, pivots, float(ridge), bool(condition > SINGULAR))

    def reduced(self, A: FloatArray) -> FloatArray:
        """Return a matrix in coordinates of the span."""
        return np.asarray(self._basis.T @ A[np.ix_(self.active, self.active)] @ self._basis)

    @cached_property
    def _ridge(self) -> FloatArray:
        """The matrix diag M̂ in coordinates of the span."""
        scale = np.diag(self.M)[self.active]
        return np.asarray((self._basis.T * scale) @ self._basis)

    def iteration(
        self, A: FloatArray, b: FloatArray, ridge: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return G, g of y ← Gy + g: θ ← (M̂ + η·diag M̂)⁻¹((Â + M̂)θ + b̂), in the span."""
        _validate.non_negative("solve", "ridge", ridge)
        reduced, right = self.reduced(A), -(self._basis.T @ b[self.active])
        gram = self.reduced(self.M)
        left = gram + ridge * self._ridge
        right_side = np.column_stack([reduced + gram, -right])
        both = np.asarray(np.linalg.solve(left, right_side), dtype=np.float64)
        return both[:, :-1], both[:, -1]

    def expand(self, y: FloatArray) -> FloatArray:
        """Return the weights with coordinates y in the span."""
        theta = np.zeros(len(self.M))
        theta[self.active] = self._basis @ y
        return theta


@dataclass(frozen=True, eq=False)
class Factorisation:
    """LU factorisation of Â − η·diag M̂ on the span."""

    span: FeatureSpan
    _reduced: FloatArray
    _lu: FloatArray
    _pivots: IntArray
    ridge: float
    unique: bool  # whether there is one solution

    def solve(self, b: FloatArray) -> LSTDSolution:
        """Return θ in the span with (Â − η·diag M̂)θ + b = 0, or the least-squares solution."""
        theta, outcome = self._solve(b, transposed=False)
        return LSTDSolution(theta, self.ridge, outcome)

    def adjoint(self, x: FloatArray) -> FloatArray:
        """Return u in the span with (Â − η·diag M̂)ᵀu = x, or the least-squares solution."""
        return self._solve(-x, transposed=True)[0]

    def _solve(self, b: FloatArray, transposed: bool) -> tuple[FloatArray, str]:
        span = self.span
        right = -(span._basis.T @ b[span.active])
        if self.unique:
            pair = (self._lu, self._pivots)
            y = scipy.linalg.lu_solve(pair, right, trans=1 if transposed else 0, check_finite=False)
            return span.expand(y), "ok"
        left = self._reduced.T if transposed else self._reduced
        least, _, rank, _ = np.linalg.lstsq(left, right, rcond=RTOL)
        outcome = (
            f"singular: rank {rank} of {span.rank}; neither θ nor its predictions are unique "
            "(minimum-norm solution used). A ridge makes them unique."
        )
        return span.expand(np.asarray(least, dtype=np.float64)), outcome


def prediction_distance(theta: FloatArray, other: FloatArray, M: FloatArray) -> float:
    """Return ‖Φ(θ − θ')‖ / ‖Φθ'‖ over the rows of a log, from M."""
    gap = theta - other
    with np.errstate(over="ignore", invalid="ignore"):
        size, error = float(other @ M @ other), float(gap @ M @ gap)
    return float(np.sqrt(error / size)) if size > 0 else float(np.sqrt(max(error, 0.0)))
