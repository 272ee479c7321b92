"""Emphasis: the weight of a step, by how often π would visit its state.

An emphasis only multiplies the trace weight w_t; the rest of a rule does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from saddleback import _validate


@dataclass(frozen=True)
class FollowOn:
    """m_t = λ + (1−λ) f_t with the follow-on trace f_t = β ρ_{t-1} f_{t-1} + 1, f = 1 at a start.

    β is the discount γ_t unless given. The weight becomes w_t = ρ_t m_t. In the long run
    E[m_t | s] d(s) = λ d(s) + (1−λ) f(s) with f = (I − βP_πᵀ)⁻¹ d (Sutton, Mahmood and White 2016;
    a β of its own, Hallak et al. 2016). A follow-on trace restarts wherever the discount is 0.

    Examples
    --------
    >>> FollowOn(0.25).share
    0.75
    """

    lam: float
    beta: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", _validate.unit("FollowOn", "lam", self.lam))
        if self.beta is not None:
            object.__setattr__(self, "beta", _validate.unit("FollowOn", "beta", self.beta))

    @property
    def share(self) -> float:
        """1 − λ, the part of m_t that is the follow-on trace."""
        return 1.0 - self.lam
