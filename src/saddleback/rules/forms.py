"""Forms: how the TD error, carried back by the trace, updates θ and ω.

With u = eᵀω, and v = e'ᵀω of a second trace, a form of the family is given by its coefficients,

    Δθ = α (td · δe  +  saddle · (φ − γ'b) u  −  correction · γ'x u  +  gram_theta · (φᵀω) φ)
    Δω = β (dual · δe  −  gram · (φᵀω) φ  −  shrink · ω)

both from the old θ and ω, and  −hybrid · (φ − γ'b) v  in both, times their step sizes. The kernel
multiplies by them and does not branch. To add a form, write one frozen dataclass with
``coefficients``. Forms with further traces, hybrid or true on-line, have a slower kernel of their
own on the CPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from saddleback import _validate


class Coefficients(NamedTuple):
    """The factors of the terms of Δθ and Δω; 0 unless given.

    Δθ = α (td · δe  +  saddle · (φ − γ'b) u  −  correction · γ'x u  +  gram_theta · (φᵀω) φ)
    Δω = β (dual · δe  −  gram · (φᵀω) φ  −  shrink · ω)

    Examples
    --------
    >>> Coefficients(td=1.0)  # the semi-gradient form
    Coefficients(td=1.0, saddle=0.0, correction=0.0, dual=0.0, gram=0.0, shrink=0.0, gram_theta=0.0,
                 hybrid=0.0)
    """

    td: float = 0.0
    """Of δe in Δθ: the semi-gradient."""
    saddle: float = 0.0
    """Of (φ − γ'b)u in Δθ, with u = eᵀω: the descent of the saddle point."""
    correction: float = 0.0
    """Of −γ'x u in Δθ: the gradient correction."""
    dual: float = 0.0
    """Of δe in Δω: the signal that ω tracks."""
    gram: float = 0.0
    """Of −(φᵀω)φ in Δω: M in expectation."""
    shrink: float = 0.0
    """Of −ω in Δω: the regulariser."""
    gram_theta: float = 0.0
    """Of (φᵀω)φ in Δθ: M in expectation."""
    hybrid: float = 0.0
    """Of −(φ − γ'b)v in Δθ and in Δω, v = e'ᵀω with the trace e' that π = μ would have."""


@dataclass(frozen=True)
class Form(ABC):
    """Base class: the coefficients of an update.

    Examples
    --------
    >>> from saddleback import Saddle
    >>> Saddle().has_dual, Saddle().coefficients.saddle
    (True, 1.0)
    """

    @property
    @abstractmethod
    def coefficients(self) -> Coefficients:
        """The factors of the terms of Δθ and Δω."""

    true_online: ClassVar[bool] = False
    """Whether traces are dutch, so that θ equals that of a forward view after every step."""

    @property
    def has_dual(self) -> bool:
        """Whether ω is updated, so that a second step size β is needed."""
        return any(self.coefficients[3:])

    @property
    def has_further_traces(self) -> bool:
        """Whether learners need more than the trace e that they share."""
        return self.true_online or self.coefficients.hybrid != 0.0


@dataclass(frozen=True)
class SemiGradient(Form):
    """Δθ = αδe. Expected update Aθ + b; diverges where A has an eigenvalue in the right half plane.

    Examples
    --------
    >>> SemiGradient().coefficients.td, SemiGradient().has_dual
    (1.0, False)
    """

    @property
    def coefficients(self) -> Coefficients:
        """Only the TD term."""
        return Coefficients(td=1.0)


@dataclass(frozen=True)
class Saddle(Form):
    """Δθ = α(φ − γ'b)u, Δω = β(δe − (φᵀω)φ): gradient descent-ascent on Ψ(θ, ω); the GTD2 form.

    Expected update (−Aᵀω, Aθ + b − Mω). For non-singular A and M its mean dynamics are stable for
    every ratio β/α > 0.

    Examples
    --------
    >>> Saddle().coefficients
    Coefficients(td=0.0, saddle=1.0, correction=0.0, dual=1.0, gram=1.0, shrink=0.0, gram_theta=0.0,
                 hybrid=0.0)
    """

    @property
    def coefficients(self) -> Coefficients:
        """Descent in θ, ascent in ω."""
        return Coefficients(saddle=1.0, dual=1.0, gram=1.0)


@dataclass(frozen=True)
class SplitSaddle(Form):
    """Δθ = α((φᵀω)φ − γ'x u), Δω = β(δe − (φᵀω)φ): `Saddle` with Aᵀ split into M and C = E[γ'x eᵀ].

    The same mean as `Saddle`, −Aᵀω = Mω − Cω, with other noise: the first part has no trace and no
    ratio. With an emphasis C is not Aᵀ + M, and the form is not a descent.

    Examples
    --------
    >>> SplitSaddle().coefficients.correction, SplitSaddle().coefficients.gram_theta
    (1.0, 1.0)
    """

    @property
    def coefficients(self) -> Coefficients:
        """Descent in θ by two terms, ascent in ω."""
        return Coefficients(correction=1.0, dual=1.0, gram=1.0, gram_theta=1.0)


@dataclass(frozen=True)
class Correction(Form):
    """Δθ = α(δe − γ'x u), Δω = β(δe − (φᵀω)φ): TD with gradient correction; the TDC form.

    Expected update (Aθ + b − (Aᵀ+M)ω, Aθ + b − Mω). As β/α → 0 it becomes plain TD, so unlike
    the saddle form it can be unstable in the mean.

    Examples
    --------
    >>> Correction().coefficients
    Coefficients(td=1.0, saddle=0.0, correction=1.0, dual=1.0, gram=1.0, shrink=0.0, gram_theta=0.0,
                 hybrid=0.0)
    """

    @property
    def coefficients(self) -> Coefficients:
        """The TD term, corrected."""
        return Coefficients(td=1.0, correction=1.0, dual=1.0, gram=1.0)


@dataclass(frozen=True)
class UpdateNorm(Form):
    """Δθ = α(φ − γ'b)u, Δω = β(δe − ω): descends ‖Aθ + b‖², the norm of the expected update.

    The form of GTD(0); ω tracks Aθ + b itself rather than M⁻¹(Aθ + b).

    Examples
    --------
    >>> UpdateNorm().coefficients
    Coefficients(td=0.0, saddle=1.0, correction=0.0, dual=1.0, gram=0.0, shrink=1.0, gram_theta=0.0,
                 hybrid=0.0)
    """

    @property
    def coefficients(self) -> Coefficients:
        """The saddle form, with I in place of M."""
        return Coefficients(saddle=1.0, dual=1.0, shrink=1.0)


@dataclass(frozen=True)
class RegularisedCorrection(Form):
    """`Correction` with ω shrunk towards zero: Δω = β(δe − (φᵀω)φ − ηω); the TDRC form.

    η = 0 gives `Correction`; η → ∞ gives `SemiGradient`.

    Examples
    --------
    >>> RegularisedCorrection(eta=2.0).coefficients.shrink
    2.0
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        eta = _validate.non_negative("RegularisedCorrection", "eta", self.eta)
        object.__setattr__(self, "eta", eta)

    @property
    def coefficients(self) -> Coefficients:
        """The corrected TD term, with a shrinking ω."""
        return Coefficients(td=1.0, correction=1.0, dual=1.0, gram=1.0, shrink=self.eta)


@dataclass(frozen=True)
class Hybrid(Form):
    """Δθ = α(δe + (φ − γ'b)(u − v)), Δω = β(δe − (φ − γ'b)v): TD where π = μ; the HTD form.

    v = e'ᵀω with the trace e' that the rule would have on-policy. Expected update
    (Aθ + b − (Aᵀ − A_μᵀ)ω, Aθ + b + A_μᵀω) with A_μ = E[e'(γ'b − φ)ᵀ] (`System.A_mu`), which takes
    the place of M in the correction form.

    Examples
    --------
    >>> Hybrid().coefficients.hybrid, Hybrid().has_further_traces
    (1.0, True)
    """

    @property
    def coefficients(self) -> Coefficients:
        """The TD term, and both traces."""
        return Coefficients(td=1.0, saddle=1.0, dual=1.0, hybrid=1.0)


@dataclass(frozen=True)
class TrueOnline(SemiGradient):
    """θ ← θ + δd + (d − αwφ)(θᵀφ − θ_{t-1}ᵀφ): the semi-gradient form with a dutch trace d.

    d ← c d + αw(1 − c dᵀφ)φ for the decay c and the weight w of e. To first order in α it is
    `SemiGradient`, with the same system. For `State` and `Sampled`, whose b is the next φ.

    Examples
    --------
    >>> TrueOnline().true_online, TrueOnline().has_dual
    (True, False)
    """

    true_online: ClassVar[bool] = True


@dataclass(frozen=True)
class TrueOnlineCorrection(Correction):
    """`Correction` with dutch traces d in Δθ and d' in Δω; the true on-line GTD form.

    θ ← θ + δd + (d − αwφ)(θᵀφ − θ_{t-1}ᵀφ) − αγ'x u        ω ← ω + wδd' − β(φᵀω)φ
    d' ← c' d' + β(1 − c' d'ᵀφ)φ

    with c' = γ_t κ_{t-1}. To first order in the step sizes it is `Correction`: the same system.

    Examples
    --------
    >>> TrueOnlineCorrection().true_online, TrueOnlineCorrection().has_dual
    (True, True)
    """

    true_online: ClassVar[bool] = True
