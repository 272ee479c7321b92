"""Is θ ← θ + α(Aθ + b) stable, and for which α? Exactly, singular A included.

For non-singular A it is stable for some α > 0 iff every eigenvalue z has negative real part,
and then exactly for 0 < α < min −2Re(z)/|z|². A singular A needs more: b in the range of A, 0 a
semisimple eigenvalue, the rest in the open left half plane; the limit then depends on θ_0. All
three are decided on the range: with U an orthonormal basis of range(A), the eigenvalues of UᵀAU
are the non-zero ones of A exactly when 0 is semisimple, and include 0 when it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import ComplexArray, FloatArray

RTOL = 1e-11
"""Singular values below this share of the largest count as zero."""


@dataclass(frozen=True)
class Stability:
    """Verdict on the expected semi-gradient update.

    Attributes
    ----------
    stable
        Whether it converges for some step size, from every θ_0.
    max_step_size
        It converges exactly for step sizes in (0, max_step_size); 0 if for none.
    reason
        The verdict in a sentence.
    """

    stable: bool
    max_step_size: float
    reason: str


def eigenvalues(A: FloatArray) -> ComplexArray:
    """Eigenvalues of A, largest real part first."""
    values: ComplexArray = np.linalg.eigvals(A).astype(np.complex128)
    return values[np.lexsort((values.imag, -values.real))]


def range_basis(A: FloatArray) -> FloatArray:
    """Orthonormal basis U of the range of A, [p, rank]."""
    U, s, _ = np.linalg.svd(A)
    return U[:, : int((s > RTOL * s[0]).sum())]


def in_range(U: FloatArray, b: FloatArray) -> bool:
    """Whether b lies in the span of the orthonormal columns U, to rounding."""
    return bool(np.linalg.norm(b - U @ (U.T @ b)) <= 1e-8 * np.linalg.norm(b))


def stability(A: FloatArray, b: FloatArray) -> Stability:
    """Decide stability of θ ← θ + α(Aθ + b).

    Examples
    --------
    >>> stability(np.array([[-1.0, 0.0], [3.0, -2.0]]), np.ones(2)).max_step_size
    1.0
    """
    U = range_basis(A)
    deficient = U.shape[1] < len(A)
    where = (
        f" on the range of A (rank {U.shape[1]} of {len(A)}); the limit depends on θ_0"
        if deficient
        else ""
    )
    if U.shape[1] == 0:
        if np.any(b):
            return Stability(False, 0.0, "A is zero and b is not: there is no fixed point.")
        return Stability(True, np.inf, "A and b are zero: nothing ever moves.")
    if deficient and not in_range(U, b):
        return Stability(False, 0.0, "b is outside the range of A: there is no fixed point.")
    z = eigenvalues(U.T @ A @ U if deficient else A)
    if deficient and np.abs(z).min() <= RTOL * np.abs(z).max():
        return Stability(
            False, 0.0, "0 is an eigenvalue of A that is not semisimple: the error grows linearly."
        )
    if z[0].real >= 0:
        return Stability(
            False,
            0.0,
            f"A has an eigenvalue with real part {z[0].real:.6g} >= 0: no step size is stable.",
        )
    limit = float((-2 * z.real / np.abs(z) ** 2).min())
    return Stability(True, limit, f"stable for 0 < α < {limit:.6g}{where}.")
