"""Traces: the amount of credit that flows back through a pair (s, a).

    e_t = γ_t κ(S_t, A_t) e_{t-1} + w_t φ_t

Traces differ only in the coefficient κ. The exact system needs nothing else of them:
P_κ(s,a; s',a') = p(s'|s,a) μ(a'|s') κ(s',a').

To add a trace, write one frozen dataclass with a method ``kappa``, and declare what differs from
the defaults of `Trace`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.policies import ratio


@dataclass(frozen=True)
class Trace(ABC):
    """Base class: κ as a function of the two policies.

    Examples
    --------
    >>> from saddleback import Expected, Rule, Saddle
    >>> @dataclass(frozen=True)
    ... class Clipped(Trace):
    ...     lam: float
    ...     def kappa(self, pi, mu):
    ...         return self.lam * np.minimum(2.0, pi / mu)
    >>> Rule(Clipped(0.9), Saddle(), Expected())
    Rule(trace=Clipped(lam=0.9), form=Saddle(), bootstrap=Expected())
    >>> Clipped(0.9).with_lambda(0.0), Clipped(0.9).bound
    (Clipped(lam=0.0), None)
    """

    @property
    def pointwise(self) -> bool:
        """Whether κ in a state depends only on the policies in that state."""
        return True

    @property
    def elementwise(self) -> bool:
        """Whether κ of an action depends only on its own π and μ, all that most logs contain."""
        return True

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ, so that a log must have propensities."""
        return True

    @property
    def flow_uses_mu(self) -> bool:
        """Whether μκ depends on μ, so that corrections need μ of every action."""
        return True

    @property
    def bound(self) -> float | None:
        """An upper bound on κ for any two policies; None if there is none."""
        return None

    @property
    def may_grow(self) -> bool:
        """Whether κ may exceed 1, so that the second moment of the trace may be infinite."""
        return self.bound is None or self.bound > 1.0

    @property
    def product_cap(self) -> float:
        """Cap on products of ratios, a memory of the trace; infinite if there is none."""
        return np.inf

    @property
    def parameter(self) -> float | None:
        """The number that results are listed by, λ or ζ: the first field, or None without one."""
        values = [getattr(self, f.name) for f in fields(self)[:1]]
        return next((float(v) for v in values if isinstance(v, (int, float))), None)

    def with_lambda(self, lam: float) -> Self | None:
        """Return the trace with another λ; None if it has no field ``lam``."""
        change: dict[str, Any] = {f.name: lam for f in fields(self) if f.name == "lam"}
        return replace(self, **change) if change else None

    @abstractmethod
    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """κ[s, a] from tables π[s, a] and μ[s, a] of the states in which actions are taken."""


@dataclass(frozen=True)
class _Lambda(Trace):
    """A trace with a decay λ in [0, 1]."""

    lam: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", _validate.unit(type(self).__name__, "lam", self.lam))

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: not unless a trace with a ratio says so."""
        return False

    @property
    def bound(self) -> float | None:
        """The largest κ, λ."""
        return self.lam


@dataclass(frozen=True)
class Importance(_Lambda):
    """κ = λρ: per-decision importance sampling; unbiased, with unbounded variance for λ near 1.

    Examples
    --------
    >>> Importance(0.5).kappa(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]))
    array([[2., 0.]])
    """

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: unless λ = 0."""
        return self.lam > 0

    @property
    def flow_uses_mu(self) -> bool:
        """Whether μκ depends on μ: no, it is λπ, unless a subclass has another κ."""
        return type(self).kappa is not Importance.kappa

    @property
    def bound(self) -> float | None:
        """None: ρ has no bound."""
        return None

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return λ π/μ."""
        return self.lam * ratio(pi, mu)


@dataclass(frozen=True)
class Constant(_Lambda):
    """κ = λ: the on-policy trace of TD(λ) and Sarsa(λ); off-policy, that of Q^π(λ).

    Examples
    --------
    >>> Constant(0.5).kappa(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]))
    array([[0.5, 0.5]])
    """

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return λ everywhere."""
        return np.full_like(pi, self.lam)


@dataclass(frozen=True)
class TreeBackup(_Lambda):
    """κ = λπ(a|s): needs no propensities, and cuts traces even on-policy (Precup 2000).

    Examples
    --------
    >>> TreeBackup(0.5).kappa(np.array([[0.8, 0.2]]), np.array([[0.25, 0.75]]))
    array([[0.4, 0.1]])
    """

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return λ π."""
        return self.lam * pi


@dataclass(frozen=True)
class Retrace(_Lambda):
    """κ = λ min(1, ρ): importance sampling, truncated so that credit never grows (Munos 2016).

    Examples
    --------
    >>> Retrace(0.5).kappa(np.array([[0.8, 0.2]]), np.array([[0.25, 0.8]]))
    array([[0.5  , 0.125]])
    """

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: unless λ = 0."""
        return self.lam > 0

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return λ min(1, π/μ)."""
        return self.lam * np.minimum(1.0, ratio(pi, mu))


@dataclass(frozen=True)
class TruncatedImportance(_Lambda):
    """κ = λ min(c̄, ρ): importance sampling, truncated at c̄; `Retrace` for c̄ = 1.

    Examples
    --------
    >>> TruncatedImportance(0.5, 2.0).kappa(np.array([[0.8, 0.2]]), np.array([[0.25, 0.8]]))
    array([[1.   , 0.125]])
    """

    c_bar: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = _validate.positive("TruncatedImportance", "c_bar", self.c_bar)
        object.__setattr__(self, "c_bar", limit)

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: unless λ = 0."""
        return self.lam > 0

    @property
    def bound(self) -> float | None:
        """The largest κ, λc̄."""
        return self.lam * self.c_bar

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return λ min(c̄, π/μ)."""
        return self.lam * np.minimum(self.c_bar, ratio(pi, mu))


@dataclass(frozen=True)
class CappedImportance(_Lambda):
    """κ_t = λ min(ρ_t, c/H_{t-1}): importance sampling whose products of ratios never exceed c.

        H_t = max(1, min(ρ_t H_{t-1}, c))        H = 1 at a start

    H is the largest product ρ_{k+1}…ρ_t of all k ≤ t, each capped, so credit from any step to any
    later one is at most c times the product of λ: `Retrace` for c = 1, `Importance` for large c.
    κ depends on the history, as in Yu, Mahmood & Sutton 2018; the fixed point is that of a
    generalised Bellman equation, q^π if tabular. For action values, without correction forms.

    Examples
    --------
    >>> CappedImportance(0.5, cap=2.0).kappa(np.array([[0.8, 0.2]]), np.array([[0.25, 0.8]]))
    array([[1.   , 0.125]])
    """

    cap: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        cap = _validate.number("CappedImportance", "cap", self.cap)
        if cap < 1.0:
            raise InvalidParameter(f"CappedImportance: cap must be at least 1, got {cap:g}.")
        object.__setattr__(self, "cap", cap)

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: unless λ = 0."""
        return self.lam > 0

    @property
    def bound(self) -> float | None:
        """The largest κ, λc."""
        return self.lam * self.cap

    @property
    def may_grow(self) -> bool:
        """Whether the second moment of the trace may be infinite: no, products are capped."""
        return False

    @property
    def product_cap(self) -> float:
        """The largest product of ratios, c."""
        return self.cap

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return λ min(c, π/μ), the largest κ of any history."""
        return self.lam * np.minimum(self.cap, ratio(pi, mu))


@dataclass(frozen=True)
class Sigma(_Lambda):
    """κ = λ(σρ + (1−σ)π): between importance sampling, σ = 1, and tree backup, σ = 0.

    The trace of Q(σ) with the expected value as control variate (De Asis et al. 2018).

    Examples
    --------
    >>> Sigma(0.5, sigma=0.5).kappa(np.array([[0.8, 0.2]]), np.array([[0.25, 0.8]]))
    array([[1.    , 0.1125]])
    """

    sigma: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sigma", _validate.unit("Sigma", "sigma", self.sigma))

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: unless λ or σ is 0."""
        return self.lam > 0 and self.sigma > 0

    @property
    def flow_uses_mu(self) -> bool:
        """Whether μκ depends on μ: unless it is λπ, σ = 1."""
        return self.lam > 0 and self.sigma < 1

    @property
    def bound(self) -> float | None:
        """None unless σ = 0: ρ has no bound."""
        return None if self.uses_mu else self.lam

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return λ(σ π/μ + (1 − σ) π)."""
        return self.lam * (self.sigma * ratio(pi, mu) + (1.0 - self.sigma) * pi)


@dataclass(frozen=True)
class ActionDependent(Trace):
    """κ = ν_ζ(s,a) π(a|s): bootstrapping that depends on the action (Mahmood et al. 2017).

    With ψ_0 = 1/max max(μ,π) and ψ_max = 1/min max(μ,π), both over all states and actions,

        ψ_ζ = 2ζψ_0 + max(0, 2ζ−1)(ψ_max − 2ψ_0)        ν_ζ = min(ψ_ζ, 1/max(μ, π)),

    so ζ = 0 bootstraps fully and ζ = 1 the least. Actions that neither policy takes are excluded
    from the extrema. If not all states are available at once, declare ``extrema``: the smallest and
    the largest max(μ, π).

    Examples
    --------
    >>> ActionDependent(1.0).kappa(np.array([[0.8, 0.2]]), np.array([[0.5, 0.5]]))
    array([[1. , 0.4]])
    """

    zeta: float
    extrema: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "zeta", _validate.unit("ActionDependent", "zeta", self.zeta))
        if self.extrema is not None and not 0 < self.extrema[0] <= self.extrema[1] <= 1:
            raise InvalidParameter(
                "ActionDependent: extrema must be 0 < smallest <= largest <= 1, got "
                f"{self.extrema!r}."
            )

    @property
    def pointwise(self) -> bool:
        """Whether the extrema are declared."""
        return self.extrema is not None

    @property
    def elementwise(self) -> bool:
        """Whether the extrema are declared: then κ is a function of π and μ of the action."""
        return self.extrema is not None

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: unless ζ = 0."""
        return self.zeta > 0

    @property
    def bound(self) -> float | None:
        """The largest κ, 1: ν is at most 1/π."""
        return 1.0

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return ν_ζ π."""
        larger = np.maximum(pi, mu)
        taken = larger > 0
        smallest, largest = self.extrema or (larger[taken].min(), larger[taken].max())
        psi_0, psi_max = 1.0 / largest, 1.0 / smallest
        psi = 2 * self.zeta * psi_0 + max(0.0, 2 * self.zeta - 1) * (psi_max - 2 * psi_0)
        nu = np.minimum(psi, np.divide(1.0, larger, out=np.zeros_like(larger), where=taken))
        return np.asarray(nu * pi)


@dataclass(frozen=True)
class NoTrace(Trace):
    """κ = 0: no credit flows back; every one-step method.

    Examples
    --------
    >>> NoTrace().kappa(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]))
    array([[0., 0.]])
    """

    @property
    def uses_mu(self) -> bool:
        """Whether κ depends on μ: no, it is 0."""
        return False

    @property
    def flow_uses_mu(self) -> bool:
        """Whether μκ depends on μ: no, it is 0."""
        return False

    @property
    def bound(self) -> float | None:
        """The largest κ, 0."""
        return 0.0

    def kappa(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return 0 everywhere."""
        return np.zeros_like(pi)
