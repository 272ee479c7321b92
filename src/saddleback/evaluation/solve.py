"""Solving Âθ + b̂ = 0 from data: on the range of M̂, with least norm, and along a ridge path.

Features of real data are never independent: some are never active, tilings sum to the same
constant. So θ is sought in the span of the features that were met, in units of their sizes, where
it has least norm ‖Sθ‖. With S = diag √M̂_ii and U an orthonormal basis of the range of S⁻¹M̂S⁻¹,

    θ = S⁻¹U y,    Uᵀ S⁻¹ (Â − η·diag M̂) S⁻¹ U y = −UᵀS⁻¹ b̂

for a ridge η, which is relative to the size of each feature. Weights of features that were never
active stay 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from saddleback import _validate
from saddleback._typing import FloatArray, IntArray
from saddleback.errors import Undefined

RTOL = 1e-11
"""Eigenvalues of the scaled M̂ below this share of the largest count as zero."""

SINGULAR = 1e-13
"""Reciprocal condition below which the reduced system counts as singular."""


@dataclass(frozen=True, eq=False)
class Solution:
    """θ, and how it was come by.

    Attributes
    ----------
    theta
        The weights, [p].
    ridge
        η.
    outcome
        ``"ok"``, or what stands in the way of a unique answer.
    """

    theta: FloatArray
    ridge: float
    outcome: str


@dataclass(frozen=True, eq=False)
class Range:
    """The span of the features that a log has met.

    Examples
    --------
    >>> span = Range(np.diag([1.0, 0.0]))
    >>> span.rank, span.idle
    (1, 1)
    >>> span.solve(np.diag([-0.5, 0.0]), np.array([1.0, 0.0])).theta
    array([2., 0.])
    """

    M: FloatArray

    @cached_property
    def active(self) -> IntArray:
        """Which features were active at all."""
        return np.flatnonzero(np.diag(self.M) > 0).astype(np.int64)

    @property
    def idle(self) -> int:
        """How many never were."""
        return len(self.M) - len(self.active)

    @cached_property
    def _split(self) -> tuple[FloatArray, FloatArray]:
        """Columns that span the range, S⁻¹U, and the eigenvalues of S⁻¹M̂S⁻¹ that go with them."""
        if not len(self.active):
            raise Undefined("no feature is ever active on this log: there is nothing to solve.")
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

    @property
    def condition(self) -> float:
        """Condition of M̂ on the span, in units of feature size."""
        values = self._split[1]
        return float(values[-1] / values[0])

    @cached_property
    def inverse(self) -> FloatArray:
        """M̂⁺ on the span, S⁻¹U D⁻¹ UᵀS⁻¹, [p, p]."""
        basis, values = self._split
        found = np.zeros_like(self.M)
        found[np.ix_(self.active, self.active)] = (basis / values) @ basis.T
        return found

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return int(self._basis.shape[1])

    @property
    def note(self) -> str:
        """What is missing of full rank, in words; empty if nothing is."""
        collinear = len(self.active) - self.rank
        if not self.idle and not collinear:
            return ""
        return (
            f"{self.idle:,} of {len(self.M):,} features never active; {collinear:,} collinear: "
            "using minimum-norm solution"
        )

    def solve(self, A: FloatArray, b: FloatArray, ridge: float = 0.0) -> Solution:
        """Return θ in the span with Âθ + b̂ = 0, or nearest to it."""
        _validate.non_negative("solve", "ridge", ridge)
        reduced, right = self._reduced(A, b, ridge)
        lu, pivots, _ = scipy.linalg.lapack.dgetrf(reduced)
        norm = float(np.abs(reduced).sum(axis=0).max(initial=0.0))
        condition, _ = scipy.linalg.lapack.dgecon(lu, norm)
        outcome = "ok"
        if condition > SINGULAR:
            y = scipy.linalg.lu_solve((lu, pivots), right, check_finite=False)
        else:
            least, _, rank, _ = np.linalg.lstsq(reduced, right, rcond=RTOL)
            y = np.asarray(least, dtype=np.float64)
            outcome = (
                f"singular: rank {rank} of {self.rank}; neither θ nor its predictions are unique "
                "(least norm given). A ridge would make them so."
            )
        return Solution(self.back(y), float(ridge), outcome)

    def iteration(
        self, A: FloatArray, b: FloatArray, ridge: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return G, g of y ← Gy + g: θ ← (M̂ + η·diag M̂)⁻¹((Â + M̂)θ + b̂), in the span."""
        _validate.non_negative("solve", "ridge", ridge)
        reduced, right = self._reduced(A, b, 0.0)
        gram, _ = self._reduced(self.M, b, 0.0)
        left = gram - self._reduced(np.zeros_like(A), b, ridge)[0]
        right_side = np.column_stack([reduced + gram, -right])
        both = np.asarray(np.linalg.solve(left, right_side), dtype=np.float64)
        return both[:, :-1], both[:, -1]

    def back(self, y: FloatArray) -> FloatArray:
        """Return the weights that stand for coordinates y in the span."""
        theta = np.zeros(len(self.M))
        theta[self.active] = self._basis @ y
        return theta

    def _reduced(self, A: FloatArray, b: FloatArray, ridge: float) -> tuple[FloatArray, FloatArray]:
        """Return Â − η·diag M̂ and −b̂ in coordinates of the span."""
        at, V = self.active, self._basis
        inner = A[np.ix_(at, at)]
        if ridge:
            inner = inner - np.diag(ridge * np.diag(self.M)[at])
        return V.T @ inner @ V, -(V.T @ b[at])
