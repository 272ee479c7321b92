"""Trajectories become stream: features of observations, times a rule's weights of their copies.

For action values each feature comes once for each action: copy c of feature f is number
f·copies + c, so that the actions of a feature are neighbours. Which features are active does not
depend on the rule, so they are found once for all rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray
from saddleback.engine.stream_columns import Columns
from saddleback.engine.tabular_stream import weigh
from saddleback.features import Features
from saddleback.rules import Rule, Terms, tabulate

NOTHING = np.zeros(1)
"""Stands for the correction of rules that make no use of it."""


class Trajectory(NamedTuple):
    """Steps in an observation space, whose policies depend only on the kind of a state.

    ``kinds`` and ``next_kinds`` are rows of the policy tables: those of the simulation, or
    ``target`` and ``behaviour`` if given. The rest is as in `Experience`.
    """

    observations: FloatArray
    next_observations: FloatArray
    kinds: IntArray
    next_kinds: IntArray
    actions: IntArray
    next_actions: IntArray
    rewards: FloatArray
    discounts: FloatArray
    starts: BoolArray
    target: FloatArray | None = None
    behaviour: FloatArray | None = None

    def part(self, which: slice) -> Trajectory:
        """Return some of the steps."""
        columns: list[Any] = [column[which] for column in self[:9]]
        return Trajectory._make([*columns, self.target, self.behaviour])


class FeatureStreamer:
    """Turns consecutive trajectories into the streams of several rules."""

    def __init__(
        self,
        features: Features,
        rules: Sequence[Rule],
        copies: FloatArray,
        target: FloatArray,
        behaviour: FloatArray,
    ) -> None:
        self._features, self._rules, self._copies = features, rules, copies
        self._terms = [self._look_up(rule, target, behaviour) for rule in rules]
        # Every action switches equally many copies on.
        self._on = np.array([np.flatnonzero(row) for row in copies], dtype=np.uint32)
        self._carries = [np.zeros(3) for _ in rules]

    def _look_up(self, rule: Rule, target: FloatArray, behaviour: FloatArray) -> Terms:
        """What a rule makes of the copies of one feature are its weights for all of them."""
        kinds = len(target)
        phi = np.repeat(self._copies[None], kinds, axis=0)
        return tabulate(rule, phi, target, behaviour, np.ones(kinds, dtype=bool))

    def __call__(self, piece: Trajectory) -> list[Columns]:
        """Return the streams of the next piece, one for each rule."""
        steps, actions = len(piece.rewards), len(self._on)
        here = piece.kinds * actions + piece.actions
        following = piece.next_kinds * actions + piece.next_actions
        index, value = self._features.encode(piece.observations)
        next_index, next_value = self._features.encode(piece.next_observations)
        active, copies = next_index.shape[1], self._copies.shape[1]
        few, many = index.shape[1] * self._on.shape[1], active * copies
        phi_index = np.empty(steps * few, dtype=np.uint32)
        phi_value = np.ones(1 if value is None else steps * few)
        b_index = np.empty(steps * many, dtype=np.uint32)
        binary = np.ones((0, 0))
        expand(
            index, binary if value is None else value, next_index, self._on, piece.actions,
            np.uint32(copies), phi_index, phi_value, b_index,
        )  # fmt: skip
        step = np.arange(steps + 1, dtype=np.uint64)
        found = []
        for rule, terms, carry in zip(self._rules, self._terms, self._carries, strict=True):
            t = terms
            if piece.target is not None and piece.behaviour is not None:
                t = self._look_up(rule, piece.target, piece.behaviour)
            decay, weight = np.empty(steps), np.empty(steps)
            weigh(
                here, piece.discounts, piece.starts, t.kappa, t.weight, t.rho, t.emphasis,
                carry, decay, weight,
            )  # fmt: skip
            b, x = np.empty(steps * many), NOTHING
            size = binary if next_value is None else next_value
            spread(size, following, active, t.bootstrap, b)
            if rule.form.coefficients.correction:
                x = np.empty(steps * many)
                spread(size, following, active, t.correction, x)
            found.append(
                Columns(
                    step * np.uint64(few), phi_index, phi_value,
                    step * np.uint64(many), b_index, b, x,
                    piece.rewards, piece.discounts, decay, weight,
                )
            )  # fmt: skip
        return found


@compiled
def expand(
    index: IndexArray,
    value: FloatArray,
    next_index: IndexArray,
    on: IndexArray,
    actions: IntArray,
    copies: np.uint32,
    phi_index: IndexArray,
    phi_value: FloatArray,
    b_index: IndexArray,
) -> None:
    """Number the copies that are on at (S, A), and all of them at S'."""
    valued = value.size > 0
    j, m = 0, 0
    for t in range(len(index)):
        for i in range(index.shape[1]):
            for c in range(on.shape[1]):
                phi_index[j] = index[t, i] * copies + on[actions[t], c]
                if valued:
                    phi_value[j] = value[t, i]
                j += 1
        for i in range(next_index.shape[1]):
            for c in range(copies):
                b_index[m] = next_index[t, i] * copies + c
                m += 1


@compiled
def spread(
    value: FloatArray, following: IntArray, active: int, weights: FloatArray, filled: FloatArray
) -> None:
    """Fill b or x: the value of each active feature, times the weight of each of its copies."""
    valued, copies = value.size > 0, weights.shape[1]
    m = 0
    for t in range(len(following)):
        for i in range(active):
            size = value[t, i] if valued else 1.0
            for c in range(copies):
                filled[m] = size * weights[following[t], c]
                m += 1
