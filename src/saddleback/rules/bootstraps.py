"""Bootstraps: the features b_t that stand for the next state, and which values are learned.

    δ_t = R + γ' θᵀb_t − θᵀφ_t

A bootstrap also sets the trace weight w_t before any emphasis: 1 for action values, which are
conditional on the first action, and ρ_t, or a truncated ρ_t, for state values, which average over
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from saddleback import _validate
from saddleback._typing import FloatArray


@dataclass(frozen=True)
class Bootstrap(ABC):
    """Base class: the rows b(s', a') and the weight w(s, a).

    Examples
    --------
    >>> pi, phi = np.array([[0.25, 0.75]]), np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> Expected().rows(phi, pi)[0, 0]  # E_π φ
    array([0.25, 0.75])
    >>> Sampled().rows(phi, pi)[0, 1]  # φ of the action taken
    array([0., 1.])
    """

    values: ClassVar[Literal["action", "state"]] = "action"
    on_policy_only: ClassVar[bool] = False
    is_next_phi: ClassVar[bool] = False
    """Whether b_t is φ of the next state or pair, the prediction that a true on-line form needs."""
    weights_error: ClassVar[bool] = False
    """Whether w_t is a weight of δ_t, so that κ_t is the credit that leaves a pair, not enters it:
    e_t = w_t E_t with E_t = γ_t κ_{t-1} E_{t-1} + φ_t."""

    @property
    def uses_rho(self) -> bool:
        """Whether w depends on ρ, so that a log must have propensities."""
        return type(self).weight is not Bootstrap.weight

    @abstractmethod
    def rows(self, phi: FloatArray, pi: FloatArray) -> FloatArray:
        """b[s', a', p] from φ[s, a, p] and π[s, a]."""

    def weight(self, rho: FloatArray) -> FloatArray:
        """w[s, a] from the ratios ρ[s, a]."""
        return np.ones_like(rho)

    def evaluated(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return the policy [s, a] whose values are the fixed point with tabular features."""
        return pi


@dataclass(frozen=True)
class Expected(Bootstrap):
    """b = Σ_a π(a|S') φ(S', a): the expectation under π, independent of the action taken.

    Examples
    --------
    >>> Expected().rows(np.array([[[1.0], [3.0]]]), np.array([[0.5, 0.5]]))
    array([[[2.], [2.]]])
    """

    def rows(self, phi: FloatArray, pi: FloatArray) -> FloatArray:
        """Return the π-average of φ(s', ·), the same for every a'."""
        same = phi.strides[0] == 0  # in all states: one product, and much quicker
        mean = pi @ phi[0] if same else np.einsum("sa,sap->sp", pi, phi)
        return np.broadcast_to(mean[:, None, :], phi.shape)


@dataclass(frozen=True)
class Sampled(Bootstrap):
    """b = φ(S', A'): the next action as sampled, so it evaluates μ and needs π = μ.

    Examples
    --------
    >>> Sampled().rows(np.array([[[1.0], [3.0]]]), np.array([[0.5, 0.5]]))
    array([[[1.], [3.]]])
    """

    on_policy_only: ClassVar[bool] = True
    is_next_phi: ClassVar[bool] = True

    def rows(self, phi: FloatArray, pi: FloatArray) -> FloatArray:
        """Return φ."""
        return phi


@dataclass(frozen=True)
class State(Bootstrap):
    """b = φ(S'): state values, with trace weight w = ρ.

    Off-policy, the fixed point belongs to v^π only if the trace carries the factor ρ, as
    `Importance` and `NoTrace` do: credit that flows back through (s, a) depends on taking a.

    Examples
    --------
    >>> State().weight(np.array([[2.0, 0.0]]))
    array([[2., 0.]])
    """

    values: ClassVar[Literal["action", "state"]] = "state"
    is_next_phi: ClassVar[bool] = True

    def rows(self, phi: FloatArray, pi: FloatArray) -> FloatArray:
        """Return φ, which does not depend on the action."""
        return phi

    def weight(self, rho: FloatArray) -> FloatArray:
        """Return ρ."""
        return rho


@dataclass(frozen=True)
class TruncatedState(State):
    """b = φ(S') with w = min(ρ̄, ρ), a weight of the TD error; the bootstrap of V-trace.

    It evaluates the policy π_ρ̄ ∝ min(ρ̄μ, π), which is between μ and π (Espeholt et al. 2018).

    Examples
    --------
    >>> TruncatedState(1.0).weight(np.array([[2.0, 0.5]]))
    array([[1. , 0.5]])
    >>> TruncatedState(1.0).evaluated(np.array([[0.8, 0.2]]), np.array([[0.4, 0.6]]))
    array([[0.66666667, 0.33333333]])
    """

    weights_error: ClassVar[bool] = True

    rho_bar: float = 1.0

    def __post_init__(self) -> None:
        limit = _validate.positive("TruncatedState", "rho_bar", self.rho_bar)
        object.__setattr__(self, "rho_bar", limit)

    def weight(self, rho: FloatArray) -> FloatArray:
        """Return min(ρ̄, ρ)."""
        return np.minimum(self.rho_bar, rho)

    def evaluated(self, pi: FloatArray, mu: FloatArray) -> FloatArray:
        """Return min(ρ̄μ, π), normalised in each state."""
        mass = np.minimum(self.rho_bar * mu, pi)
        total = mass.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(mass, total, out=pi.copy(), where=total > 0))
