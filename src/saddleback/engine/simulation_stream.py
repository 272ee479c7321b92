"""Simulated trajectories as streams: features of observations, weighted by each rule.

For action values each feature has one copy per action: copy c of feature f has index f·copies + c,
so the copies of a feature are adjacent. Which features are active does not depend on the rule, so
they are computed once for all rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray
from saddleback.engine.stream_columns import Columns
from saddleback.engine.tabular_stream import fill_decay_and_weight
from saddleback.features import Features
from saddleback.rules import Rule, Terms, tabulate

NO_CORRECTION = np.zeros(1)
"""Placeholder for the correction x of rules that do not use it."""


class Trajectory(NamedTuple):
    """Steps in an observation space, with policies that depend only on the kind of state.

    ``kinds`` and ``next_kinds`` are rows of the policy tables: those of the simulation, or
    ``target`` and ``behaviour`` if given. The other fields are as in `Experience`.
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

    def part(self, steps: slice) -> Trajectory:
        """Return the steps of a slice."""
        columns: list[Any] = [column[steps] for column in self[:9]]
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
        self._terms = [self._tabulate(rule, target, behaviour) for rule in rules]
        # Every action activates the same number of copies.
        self._active = np.array([np.flatnonzero(row) for row in copies], dtype=np.uint32)
        self._carries = [np.zeros(3) for _ in rules]

    def _tabulate(self, rule: Rule, target: FloatArray, behaviour: FloatArray) -> Terms:
        """Weights of the copies of one feature, which are the same for every feature."""
        kinds = len(target)
        phi = np.repeat(self._copies[None], kinds, axis=0)
        return tabulate(rule, phi, target, behaviour, np.ones(kinds, dtype=bool))

    def __call__(self, chunk: Trajectory) -> list[Columns]:
        """Return the streams of the next chunk, one for each rule."""
        steps, actions = len(chunk.rewards), len(self._active)
        pairs = chunk.kinds * actions + chunk.actions
        next_pairs = chunk.next_kinds * actions + chunk.next_actions
        index, value = self._features.encode(chunk.observations)
        next_index, next_value = self._features.encode(chunk.next_observations)
        active, copies = next_index.shape[1], self._copies.shape[1]
        phi_size, b_size = index.shape[1] * self._active.shape[1], active * copies
        phi_index = np.empty(steps * phi_size, dtype=np.uint32)
        phi_value = np.ones(1 if value is None else steps * phi_size)
        b_index = np.empty(steps * b_size, dtype=np.uint32)
        binary = np.ones((0, 0))
        expand(
            index, binary if value is None else value, next_index, self._active, chunk.actions,
            np.uint32(copies), phi_index, phi_value, b_index,
        )  # fmt: skip
        step = np.arange(steps + 1, dtype=np.uint64)
        streams = []
        for rule, terms, carry in zip(self._rules, self._terms, self._carries, strict=True):
            t = terms
            if chunk.target is not None and chunk.behaviour is not None:
                t = self._tabulate(rule, chunk.target, chunk.behaviour)
            decay, weight = np.empty(steps), np.empty(steps)
            fill_decay_and_weight(
                pairs, chunk.discounts, chunk.starts, t.kappa, t.weight, t.rho, t.emphasis,
                carry, decay, weight,
            )  # fmt: skip
            b, x = np.empty(steps * b_size), NO_CORRECTION
            size = binary if next_value is None else next_value
            spread(size, next_pairs, active, t.bootstrap, b)
            if rule.form.coefficients.correction:
                x = np.empty(steps * b_size)
                spread(size, next_pairs, active, t.correction, x)
            streams.append(
                Columns(
                    step * np.uint64(phi_size), phi_index, phi_value,
                    step * np.uint64(b_size), b_index, b, x,
                    chunk.rewards, chunk.discounts, decay, weight,
                )
            )  # fmt: skip
        return streams


@compiled
def expand(
    index: IndexArray,
    value: FloatArray,
    next_index: IndexArray,
    active_copies: IndexArray,
    actions: IntArray,
    copies: np.uint32,
    phi_index: IndexArray,
    phi_value: FloatArray,
    b_index: IndexArray,
) -> None:
    """Fill the indices of the copies active at (S, A), and of all copies at S'."""
    has_values = value.size > 0
    j, m = 0, 0
    for t in range(len(index)):
        for i in range(index.shape[1]):
            for c in range(active_copies.shape[1]):
                phi_index[j] = index[t, i] * copies + active_copies[actions[t], c]
                if has_values:
                    phi_value[j] = value[t, i]
                j += 1
        for i in range(next_index.shape[1]):
            for c in range(copies):
                b_index[m] = next_index[t, i] * copies + c
                m += 1


@compiled
def spread(
    value: FloatArray, successors: IntArray, active: int, weights: FloatArray, out: FloatArray
) -> None:
    """Fill b or x: the value of each active feature, times the weight of each of its copies."""
    has_values, copies = value.size > 0, weights.shape[1]
    m = 0
    for t in range(len(successors)):
        for i in range(active):
            size = value[t, i] if has_values else 1.0
            for c in range(copies):
                out[m] = size * weights[successors[t], c]
                m += 1
