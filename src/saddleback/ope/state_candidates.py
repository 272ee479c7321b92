"""Marginal ratios of states, times the logged ratio of the action.

With features ψ of the observation alone, and ρ(a|s) = π(a|s)/μ(a|s) from the propensities, the dual

    w(s, a) = ρ(a|s) ψ(s)ᵀu        (Σ ρ ψ (ψ − γψ')ᵀ)ᵀ u = Σψ₀

needs few features where actions are many, and extrapolates to no action that is rare in a state.
These candidates are duals only: their values of states say nothing of actions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from saddleback._typing import FloatArray
from saddleback.ope.candidates import OBSERVATION, Basis, middle_of_each_kind


@dataclass(frozen=True, eq=False)
class StateBasis(Basis):
    """Features ψ of a point, whatever the action."""

    is_shared: ClassVar[bool] = True
    is_weighted: ClassVar[bool] = True

    def by_action(self, theta: FloatArray, n_actions: int) -> FloatArray:
        """Return weights θ [folds, m] of the features, the same for each action, [folds, K, m]."""
        return theta[:, None, :].repeat(n_actions, axis=1)


def state_candidates(bases: Iterable[Basis]) -> list[StateBasis]:
    """Return one of each kind of the features of the observation, for all actions together."""
    chosen = middle_of_each_kind(
        basis for basis in bases if basis.view.name == OBSERVATION and not basis.is_shared
    )
    return [
        StateBasis(
            f"weighted {basis.name}", basis.view, basis.encode, is_smooth=basis.is_smooth,
            is_exact=basis.is_exact,
        )
        for basis in chosen
    ]  # fmt: skip
