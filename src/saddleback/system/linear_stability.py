"""Rank, solutions and stability of Aθ + b, also for singular A and badly scaled features.

Rank is computed from S⁻¹AS⁻¹ with S the diagonal of feature sizes √M_ii, so it does not depend on
the units of the features.

The update θ ← θ + α(Aθ + b) with non-singular A is stable for some α > 0 iff every eigenvalue z has
negative real part, and then exactly for 0 < α < min −2Re(z)/|z|². A singular A needs more: b in
the range of A, 0 a semisimple eigenvalue, the rest in the open left half plane; the limit then
depends on θ_0. With U an orthonormal basis of the range, the eigenvalues of UᵀAU are the non-zero
ones of A when 0 is semisimple, which it is unless a null vector lies in the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from saddleback._typing import ComplexArray, FloatArray

RTOL = 1e-11
"""Singular values of the scaled matrix below this share of the largest count as zero."""


@dataclass(frozen=True)
class Stability:
    """Verdict on the expected semi-gradient update θ ← θ + α(Aθ + b).

    Attributes
    ----------
    stable
        Whether the update converges for some step size, from every θ_0.
    max_step_size
        The update converges for step sizes in (0, max_step_size) and no others; 0 if for none.
    reason
        The verdict as a sentence.

    Examples
    --------
    >>> from saddleback import ExpectedSarsa, System, problems
    >>> System.exact(problems.two_state(gamma=0.8), ExpectedSarsa(0.0)).stability.stable
    True
    >>> verdict = System.exact(problems.two_state(gamma=0.999), ExpectedSarsa(0.0)).stability
    >>> verdict.max_step_size, verdict.reason[-42:]
    (0.0, 'A has an eigenvalue with real part 0.2485.')
    """

    stable: bool
    max_step_size: float
    reason: str


def sizes(M: FloatArray) -> FloatArray:
    """√M_ii, the size of each feature; 1 for a feature that is never active."""
    diagonal = np.diag(M)
    return np.sqrt(np.where(diagonal > 0, diagonal, 1.0))


def pseudo_inverse(M: FloatArray) -> FloatArray:
    """Return a symmetric generalised inverse of M, the inverse where there is one.

    It is S⁻¹(S⁻¹MS⁻¹)⁺S⁻¹, so the numerical rank does not depend on the units of the features.
    """
    s = sizes(M)
    scaled = np.linalg.pinv(M / np.outer(s, s), rtol=RTOL, hermitian=True)
    return np.asarray(scaled / np.outer(s, s), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Range and null space of A, from the singular values of S⁻¹AS⁻¹."""

    A: FloatArray
    size: FloatArray

    @cached_property
    def _svd(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        scaled = self.A / np.outer(self.size, self.size)
        try:
            U, s, Vt = np.linalg.svd(scaled)
        except np.linalg.LinAlgError:  # the default driver fails on some large, valid matrices
            U, s, Vt = scipy.linalg.svd(scaled, lapack_driver="gesvd")
        return U, s, Vt.T

    @cached_property
    def rank(self) -> int:
        """Rank of A."""
        s = self._svd[1]
        return int((s > RTOL * s[0]).sum())

    @property
    def deficient(self) -> bool:
        """Whether A is singular."""
        return self.rank < len(self.A)

    @cached_property
    def range(self) -> FloatArray:
        """Orthonormal basis of the range of A."""
        return _orthonormal(self.size[:, None] * self._svd[0][:, : self.rank])

    @cached_property
    def null(self) -> FloatArray:
        """Orthonormal basis of the null space of A."""
        return _orthonormal(self._svd[2][:, self.rank :] / self.size[:, None])

    @cached_property
    def left_null(self) -> FloatArray:
        """Orthonormal basis of the null space of Aᵀ."""
        return _orthonormal(self._svd[0][:, self.rank :] / self.size[:, None])

    def same_null(self, M: FloatArray) -> bool:
        """Whether the null space of A is within that of M: rank [A; M] = rank A."""
        scale = np.outer(self.size, self.size)
        return spectral_rank(np.vstack([self.A / scale, M / scale])) == self.rank

    def reaches(self, b: FloatArray) -> bool:
        """Whether b lies in the range of A, to rounding."""
        scaled = b / self.size
        outside = self._svd[0][:, self.rank :].T @ scaled
        return bool(np.linalg.norm(outside) <= 1e-9 * np.linalg.norm(scaled))

    def solve(self, b: FloatArray) -> FloatArray:
        """Return the minimum-norm θ with Aθ = b (scaled least squares if there is none)."""
        U, s, V = self._svd
        r = self.rank
        solution = (V[:, :r] @ ((U[:, :r].T @ (b / self.size)) / s[:r])) / self.size
        return np.asarray(solution - self.null @ (self.null.T @ solution))


def spectral_rank(table: FloatArray) -> int:
    """Numerical rank of a table, from its singular values."""
    s = scipy.linalg.svd(table, compute_uv=False, check_finite=False, lapack_driver="gesvd")
    return int((s > RTOL * s[0]).sum())


def _orthonormal(columns: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(columns)[0])


def eigenvalues(A: FloatArray) -> ComplexArray:
    """Eigenvalues of A, largest real part first."""
    values: ComplexArray = np.linalg.eigvals(A).astype(np.complex128)
    return values[np.lexsort((values.imag, -values.real))]


def stability(A: FloatArray, b: FloatArray, size: FloatArray | None = None) -> Stability:
    """Decide stability of θ ← θ + α(Aθ + b); the sizes of the features scale the rank test.

    Examples
    --------
    >>> stability(np.array([[-1.0, 0.0], [3.0, -2.0]]), np.ones(2)).max_step_size
    1.0
    """
    parts = Decomposition(A, np.ones(len(A)) if size is None else size)
    update = "the semi-gradient update θ + α(Aθ + b)"
    where = ""
    if parts.deficient:
        if not parts.reaches(b):
            reason = f"{update} has no fixed point: b is outside the range of A."
            return Stability(False, 0.0, reason)
        if parts.rank == 0:
            return Stability(True, np.inf, f"{update} never changes θ: A and b are zero.")
        angles = np.linalg.svd(parts.left_null.T @ parts.null, compute_uv=False)
        if angles.min() <= 1e-9:
            reason = f"{update} grows linearly: the eigenvalue 0 of A is not semisimple."
            return Stability(False, 0.0, reason)
        where = f" on the range of A (rank {parts.rank} of {len(A)}); the limit depends on θ_0"
    z = eigenvalues(parts.range.T @ A @ parts.range if parts.deficient else A)
    if z[0].real >= 0:
        reason = (
            f"{update} diverges for every α: A has an eigenvalue with real part {z[0].real:.6g}."
        )
        return Stability(False, 0.0, reason)
    limit = float((-2 * z.real / np.abs(z) ** 2).min())
    return Stability(True, limit, f"{update} is stable for 0 < α < {limit:.6g}{where}.")
