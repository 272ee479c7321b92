"""Theorem 2 of the paper, in a corrected form that can be proved.

For the deterministic iteration of the saddle form, with L, m the largest and smallest eigenvalue
of M, s, σ the largest and smallest *singular* value of A, κ(M) = L/m and κ(A) = s/σ:

    ν = 2κ(A)²κ(M)·s/m        β = 2/(L+m)        α = m / [(L+m)(s²/m + νs)]
    D_t = ν‖θ_t − θ*‖ + ‖ω_t − M⁻¹(Aθ_t + b)‖
    D_{t+1} ≤ max{1 − ασ²/(2L), L/(L+m)} D_t ≤ (1 − 1/(12κ(M)³κ(A)⁴)) D_t

The paper states it for squared norms, for which it is false, and for the expectation of its
stochastic algorithm, for which these step sizes are far too large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from saddleback import _validate
from saddleback._typing import RNG, ArrayLike, FloatArray
from saddleback.errors import InvalidParameter, RuleMismatch, Undefined
from saddleback.rules import Saddle
from saddleback.system import System

QUANTITIES = ("nu", "alpha", "beta", "contraction", "contraction_tight", "kappa_a", "kappa_m")


@dataclass(frozen=True, eq=False, repr=False)
class Theorem2:
    """The constants of Theorem 2 for one system.

    Attributes
    ----------
    nu, alpha, beta
        ν and the step sizes the theorem prescribes.
    rate
        1/(12κ(M)³κ(A)⁴).
    contraction
        1 − rate.
    contraction_tight
        max{1 − ασ²/(2L), L/(L+m)}, the sharper bound of the proof.
    kappa_a, kappa_m
        Condition numbers of A (by singular values) and of M.
    spread
        For an estimated system: each quantity over resamples of the batches.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> constants = theorem2(System.exact(problems.two_state(gamma=0.5), GES(0.0)))
    >>> constants.rate + constants.contraction
    1.0
    """

    system: System
    nu: float
    alpha: float
    beta: float
    rate: float
    contraction_tight: float
    kappa_a: float
    kappa_m: float
    spread: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def contraction(self) -> float:
        """1 − 1/(12κ(M)³κ(A)⁴), an upper bound on D_{t+1}/D_t."""
        return 1.0 - self.rate

    def distance(self, theta: ArrayLike, omega: ArrayLike) -> FloatArray:
        """D = ν‖θ − θ*‖ + ‖ω − M⁻¹(Aθ + b)‖ of iterates θ, ω […, p]."""
        x = _validate.floats("theta", theta) - self.system.fixed_point
        y = _validate.floats("omega", omega) - self.system.best_dual(theta)
        return np.asarray(
            self.nu * np.linalg.norm(x, axis=-1) + np.linalg.norm(y, axis=-1), dtype=np.float64
        )

    def iterations(self, error: float, theta0: ArrayLike = 0.0, omega0: ArrayLike = 0.0) -> int:
        """Number of steps after which ‖θ_t − θ*‖ and ‖ω_t‖ are at most ``error``, by the theorem.

        ‖θ_t − θ*‖ ≤ D_t/ν and, by the corollary, ‖ω_t − ω*‖ ≤ max{1, s/(mν)} D_t with ω* = 0;
        s/(mν) = 1/(2κ(A)²κ(M)) is less than 1.
        """
        target = _validate.positive("iterations", "error", error)
        distance = self.distance(
            _validate.weights("theta0", theta0, self.system.p),
            _validate.weights("omega0", omega0, self.system.p),
        )
        excess = float(distance) * max(1.0 / self.nu, 1.0) / target
        return max(0, math.ceil(math.log(excess) / -math.log1p(-self.rate))) if excess > 0 else 0

    def interval(self, quantity: str, level: float = 0.95) -> tuple[float, float]:
        """Percentile interval of a quantity over the resamples of an estimated system."""
        if quantity not in self.spread:
            raise Undefined(
                f"there are no resamples of {quantity!r}: estimate the system with "
                "keep_batches=True, then theorem2(system, resamples=200)."
            )
        tail = (1.0 - _validate.unit("interval", "level", level)) / 2
        low, high = np.quantile(self.spread[quantity], [tail, 1.0 - tail])
        return float(low), float(high)

    def __repr__(self) -> str:
        return (
            f"Theorem2(alpha={self.alpha:.3g}, beta={self.beta:.3g}, nu={self.nu:.3g}, "
            f"contraction=1-{self.rate:.3g})"
        )


def theorem2(system: System, resamples: int = 0, rng: RNG = None) -> Theorem2:
    """Compute the constants of Theorem 2 for a system of the saddle form.

    With L, m the extreme eigenvalues of M, s, σ the extreme singular values of A,

        ν = 2κ(A)²κ(M)·s/m        β = 2/(L+m)        α = m / [(L+m)(s²/m + νs)]
        ν‖θ_t − θ*‖ + ‖ω_t − M⁻¹(Aθ_t + b)‖ shrinks per step by 1 − 1/(12κ(M)³κ(A)⁴) or faster.

    Parameters
    ----------
    system
        Exact or estimated, with regular A and M, of a rule in the saddle form (GES, GTB, GTD2, …).
    resamples, rng
        For an estimated system that kept its batches: number of bootstrap resamples of the batches,
        which show the uncertainty of the constants, and the seed.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> theorem2(System.exact(problems.two_state(gamma=0.9), GES(0.4)))
    Theorem2(alpha=9.76e-06, beta=0.8, nu=3.38e+04, contraction=1-4.31e-10)
    """
    _validate.instance("theorem2", "system", system, System)
    if system.rule.form.coefficients != Saddle().coefficients:
        raise RuleMismatch(
            f"theorem2: {system.rule} is not of the saddle form, which the theorem assumes. Use "
            "GES, GTB, GRetrace or GTD2, or MeanStability for any form."
        )
    constants = _constants(system)
    if not resamples:
        return constants
    drawn = [
        _constants(resample)
        for resample in system.resample(_validate.count("theorem2", "resamples", resamples), rng)
    ]
    values = {name: np.array([getattr(d, name) for d in drawn]) for name in QUANTITIES}
    return Theorem2(**(vars(constants) | {"spread": values}))


def _constants(system: System) -> Theorem2:
    singular = np.linalg.svd(system.A, compute_uv=False)
    eigen = np.linalg.eigvalsh((system.M + system.M.T) / 2)
    s, sigma, L, m = singular[0], singular[-1], eigen[-1], eigen[0]
    for name, regular in (("A", not system.deficient), ("M", m > 1e-13 * L)):
        if not regular:
            raise InvalidParameter(
                f"theorem2: {name} is singular, and the theorem needs it regular. Drop redundant "
                "features, or use MeanStability, which works on the range."
            )
    kappa_A, kappa_M = s / sigma, L / m
    nu = 2 * kappa_A**2 * kappa_M * s / m
    beta = 2 / (L + m)
    alpha = m / ((L + m) * (s**2 / m + nu * s))
    tight = max(1 - alpha * sigma**2 / (2 * L), L / (L + m))
    return Theorem2(
        system, float(nu), float(alpha), float(beta), float(1 / (12 * kappa_M**3 * kappa_A**4)),
        float(tight), float(kappa_A), float(kappa_M),
    )  # fmt: skip
