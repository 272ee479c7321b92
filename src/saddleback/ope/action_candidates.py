"""Candidate features of observation and continuous action, with expectations under a policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.features.action_distribution import ActionDistribution
from saddleback.features.standardised import median_distance
from saddleback.features.state_action import (
    FourierByAction,
    JointCustom,
    JointFourier,
    JointMonomials,
    JointScaling,
    StateActionFeatures,
)
from saddleback.log import Target
from saddleback.log.continuous_targets import ContinuousTarget
from saddleback.ope.candidates import (
    GIVEN,
    HISTORY,
    MIN_WAVES,
    OBSERVATION,
    Basis,
    View,
    views,
)
from saddleback.ope.consensus import MAX_FEATURES
from saddleback.ope.episode_sample import EpisodeSample

SIZES = (100, 300)
"""Numbers of random Fourier features; a second opinion has only the first."""

DEGREES = ("constant", "linear", "quadratic", "cubic")
"""Names of monomials by their degree."""


@dataclass(frozen=True, eq=False)
class ActionBasis(Basis):
    """Features of a view and of the action."""

    features: StateActionFeatures  # φ(s, a), with s a point of the view
    actions: FloatArray  # the logged actions, [n, k]
    # The actions of the target in the next states, and in the first ones.
    following: ActionDistribution
    first: ActionDistribution

    def before(self, rows: IntArray) -> FloatArray:
        """Return φ(s, a) of some transitions."""
        return self.features(self.view.before[rows], self.actions[rows])

    def after(self, rows: IntArray) -> FloatArray:
        """Return E_π φ(s', ·) after some transitions."""
        return self.features.expected(self.view.after[rows], self.following[rows])

    def start(self) -> FloatArray:
        """Return E_π φ(s_0, ·)."""
        return self.features.expected(self.view.start, self.first)


def action_candidates(
    sample: EpisodeSample,
    given: StateActionFeatures | None,
    thorough: bool,
    target: Target,
    seed: int = 0,
) -> list[ActionBasis]:
    """Return the bases to try for a target; ``given`` is the one of the estimate, if chosen."""
    assert isinstance(target, ContinuousTarget)
    assert sample.action_values is not None
    actions = sample.action_values
    after, start = target.actions(sample.next_states), target.actions(sample.starts)
    limit = MAX_FEATURES if thorough else MAX_FEATURES // 4
    bases = []

    def add(name: str, view: View, features: StateActionFeatures) -> None:
        smooth = not isinstance(features, JointMonomials)
        bases.append(
            ActionBasis(name, view, features, features, actions, after, start, is_smooth=smooth)
        )

    if given is not None:
        view = View(GIVEN, sample.states, sample.next_states, sample.starts)
        add("given", view, _with_constant(given))
    for view in views(sample):
        scaling = JointScaling.of(view.before, actions)
        for degree in {OBSERVATION: (0, 1, 2, 3), HISTORY: (1,)}.get(view.name, (1, 2)):
            monomials = JointMonomials(scaling, degree)
            if (degree == 0) <= monomials.size <= limit:
                add(DEGREES[degree], view, monomials)
        x, x_a = scaling.states(view.before), scaling.actions(actions)
        observed = view.name == OBSERVATION
        if x.shape[1] + x_a.shape[1]:
            width = median_distance(np.column_stack([x, x_a]))
            factors = (0.5, 1.0, 2.0, 4.0) if observed else (1.0, 2.0)
            sizes = [(SIZES[-1] if thorough else SIZES[0], factor) for factor in factors]
            sizes += [(SIZES[0], factor) for factor in (1.0, 4.0) if thorough and observed]
            for k, (size, factor) in enumerate(sizes):
                count = min(size, limit - 1 - x.shape[1] - x_a.shape[1])
                if count >= MIN_WAVES:
                    waves = JointFourier(scaling, count, width * factor, seed + k)
                    add(f"random Fourier {count}, bandwidth {width * factor:.2g}", view, waves)
        if x.shape[1] and x_a.shape[1]:
            width = median_distance(x)
            count = min(SIZES[-1], limit // (1 + x_a.shape[1]) - 1 - x.shape[1])
            for k, factor in enumerate((0.25, 0.5, 1.0, 2.0) if observed else (0.5, 1.0)):
                if count >= MIN_WAVES:
                    name = f"random Fourier {count} by action, bandwidth {width * factor:.2g}"
                    add(name, view, FourierByAction(scaling, count, width * factor, seed + k))
    return bases


def _with_constant(features: StateActionFeatures) -> StateActionFeatures:
    """Return features whose first is constant, as candidates need them."""
    if not isinstance(features, JointCustom):
        return features
    return JointCustom(
        lambda states, actions: np.column_stack([np.ones(len(states)), features(states, actions)]),
        1 + features.size,
    )
