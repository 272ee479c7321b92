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
from saddleback.ope.episode_sample import EpisodeSample

MANY = 10
"""Number of actions above which there are such candidates for any points."""


@dataclass(frozen=True, eq=False)
class StateBasis(Basis):
    """Features ψ of a point, whatever the action."""

    is_shared: ClassVar[bool] = True
    is_weighted: ClassVar[bool] = True

    def by_action(self, theta: FloatArray, n_actions: int) -> FloatArray:
        """Return weights θ [folds, m] of the features, the same for each action, [folds, K, m]."""
        return theta[:, None, :].repeat(n_actions, axis=1)


def state_candidates(
    sample: EpisodeSample, target: str, bases: Iterable[Basis]
) -> list[StateBasis]:
    """Return one of each kind of the features of the observation, for all actions together.

    Only where points are few or actions many: elsewhere they err more than others. There are none
    without propensities, nor for single decisions, whose estimate without propensities is wanted.
    """
    observed = [one for one in bases if one.view.name == OBSERVATION and not one.is_shared]
    helps = sample.n_actions > MANY or any(one.is_exact for one in observed)
    helps &= sample.n_actions > 1 and bool(sample.step.any())
    if not helps or sample.action_ratios(target) is None:
        return []
    return [
        StateBasis(
            f"weighted {one.name}", one.view, one.encode, is_smooth=one.is_smooth,
            is_exact=one.is_exact,
        )
        for one in middle_of_each_kind(observed)
    ]  # fmt: skip
