"""Forms: what is done with the TD error once the trace has carried it back.

With u = eᵀω every form of the family is one row of six numbers,

    Δθ = α (td · δe  +  saddle · (φ − γ'b) u  −  correction · γ'x u)
    Δω = β (dual · δe  −  gram · (φᵀω) φ  −  shrink · ω)

both from the old θ and ω. A kernel multiplies by these numbers; it does not branch. To add a
form, write one frozen dataclass with ``coefficients``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from saddleback import _validate


class Coefficients(NamedTuple):
    """The numbers that multiply the terms of Δθ and Δω; what is not named is 0.

    Δθ = α (td · δe  +  saddle · (φ − γ'b) u  −  correction · γ'x u)
    Δω = β (dual · δe  −  gram · (φᵀω) φ  −  shrink · ω)

    Examples
    --------
    >>> Coefficients(td=1.0)  # the semi-gradient form
    Coefficients(td=1.0, saddle=0.0, correction=0.0, dual=0.0, gram=0.0, shrink=0.0)
    """

    td: float = 0.0
    """Of δe in Δθ: the semi-gradient."""
    saddle: float = 0.0
    """Of (φ − γ'b)u in Δθ, with u = eᵀω: the descent of the saddle point."""
    correction: float = 0.0
    """Of γ'x u in Δθ, taken away: the gradient correction."""
    dual: float = 0.0
    """Of δe in Δω: what ω learns."""
    gram: float = 0.0
    """Of (φᵀω)φ in Δω, taken away: M in the mean."""
    shrink: float = 0.0
    """Of ω itself in Δω, taken away: the regulariser."""


@dataclass(frozen=True)
class Form(ABC):
    """The contract: a row of coefficients.

    Examples
    --------
    >>> from saddleback import Saddle
    >>> Saddle().has_dual, Saddle().coefficients.saddle
    (True, 1.0)
    """

    @property
    @abstractmethod
    def coefficients(self) -> Coefficients:
        """The numbers that multiply the terms of Δθ and Δω."""

    @property
    def has_dual(self) -> bool:
        """Whether ω moves, so that a second step size β is needed."""
        return any(self.coefficients[3:])


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
    Coefficients(td=0.0, saddle=1.0, correction=0.0, dual=1.0, gram=1.0, shrink=0.0)
    """

    @property
    def coefficients(self) -> Coefficients:
        """Descent in θ, ascent in ω."""
        return Coefficients(saddle=1.0, dual=1.0, gram=1.0)


@dataclass(frozen=True)
class Correction(Form):
    """Δθ = α(δe − γ'x u), Δω = β(δe − (φᵀω)φ): TD with gradient correction; the TDC form.

    Expected update (Aθ + b − (Aᵀ+M)ω, Aθ + b − Mω). As β/α → 0 it turns into plain TD, so unlike
    the saddle form it can be unstable in the mean.

    Examples
    --------
    >>> Correction().coefficients
    Coefficients(td=1.0, saddle=0.0, correction=1.0, dual=1.0, gram=1.0, shrink=0.0)
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
    Coefficients(td=0.0, saddle=1.0, correction=0.0, dual=1.0, gram=0.0, shrink=1.0)
    """

    @property
    def coefficients(self) -> Coefficients:
        """As the saddle form, with I in place of M."""
        return Coefficients(saddle=1.0, dual=1.0, shrink=1.0)


@dataclass(frozen=True)
class RegularisedCorrection(Form):
    """As `Correction`, with ω pulled to zero: Δω = β(δe − (φᵀω)φ − ηω); the TDRC form.

    η = 0 is `Correction`; η → ∞ is `SemiGradient`.

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
