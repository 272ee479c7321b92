"""An off-policy evaluation problem: dynamics, features, target and behaviour policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from saddleback import _validate, policies
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidShape
from saddleback.finite_mdp import FiniteMDP


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    """Evaluation of a target policy π from data of a behaviour policy μ.

    Values are approximated as q^π ≈ Φθ (or v^π), with rows of Φ weighted by ξ(s,a) = d(s)μ(a|s).

    Parameters
    ----------
    mdp
        The dynamics.
    features
        φ[s, a, p] to learn action values q^π, or φ[s, p] to learn state values v^π.
    target, behaviour
        π and μ as tables [s, a]. Coverage is required: π > 0 implies μ > 0.

    Attributes
    ----------
    visits
        Long-run distribution d[s] of the state under μ (normalised visits if episodic).
    note
        Empty, or the reason why that distribution is not unique.

    Examples
    --------
    >>> mdp = FiniteMDP([[[0, 1]], [[1, 0]]], [[1.0], [0.0]], gamma=0.5)
    >>> single = np.ones((2, 1))
    >>> problem = Problem(mdp, np.eye(2), target=single, behaviour=single)
    >>> problem
    Problem(states=2, actions=1, gamma=0.5, continuing, state values, p=2)
    >>> problem.visits
    array([0.5, 0.5])
    """

    mdp: FiniteMDP
    features: FloatArray
    target: FloatArray
    behaviour: FloatArray
    visits: FloatArray
    note: str

    def __init__(
        self, mdp: FiniteMDP, features: ArrayLike, target: ArrayLike, behaviour: ArrayLike
    ) -> None:
        _validate.instance("Problem", "mdp", mdp, FiniteMDP)
        states, actions = mdp.n_states, mdp.n_actions
        phi = _validate.floats("features", features)
        shapes = ((states,), (states, actions))
        if phi.ndim not in (2, 3) or phi.shape[:-1] not in shapes or not phi.shape[-1]:
            raise InvalidShape(
                f"features must have shape [{states}, {actions}, p] for action values or "
                f"[{states}, p] for state values, got {list(phi.shape)}."
            )
        _validate.finite("features", phi)
        pi = policies.table("target", target, mdp.acting, actions)
        mu = policies.table("behaviour", behaviour, mdp.acting, actions)
        policies.check_coverage(pi, mu, mdp.acting)
        visits, note = mdp.visits(mu)

        object.__setattr__(self, "mdp", mdp)
        object.__setattr__(self, "note", note)
        arrays = dict(features=phi, target=pi, behaviour=mu, visits=visits)
        for name, array in arrays.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def values(self) -> Literal["action", "state"]:
        """Which values the features describe."""
        return "action" if self.features.ndim == 3 else "state"

    @property
    def p(self) -> int:
        """Number of features."""
        return int(self.features.shape[-1])

    @property
    def on_policy(self) -> bool:
        """Whether π = μ wherever actions are taken."""
        return bool(np.allclose(self.target, self.behaviour, rtol=0, atol=1e-12))

    @cached_property
    def rho(self) -> FloatArray:
        """Importance ratios ρ[s, a] = π/μ."""
        return policies.ratio(self.target, self.behaviour)

    @cached_property
    def pair_visits(self) -> FloatArray:
        """ξ[s, a] = d(s) μ(a|s), the long-run distribution of state-action pairs."""
        return self.visits[:, None] * self.behaviour

    @cached_property
    def Phi(self) -> FloatArray:
        """Feature matrix Φ, with one row per state or, flattened, per pair (s, a)."""
        return self.features.reshape(-1, self.p)

    @cached_property
    def weights(self) -> FloatArray:
        """Distribution over the rows of Φ: the diagonal of Ξ (pairs) or D (states)."""
        return self.pair_visits.ravel() if self.values == "action" else self.visits

    @cached_property
    def truth(self) -> FloatArray:
        """Exact q^π or v^π, one entry for each row of Φ."""
        if self.values == "action":
            return self.mdp.q(self.target).ravel()
        return self.mdp.v(self.target)

    def __repr__(self) -> str:
        return f"Problem({repr(self.mdp)[10:-1]}, {self.values} values, p={self.p})"
