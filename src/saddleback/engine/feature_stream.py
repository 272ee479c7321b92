"""Simulations and logs as streams: features of observations, weighted by the terms of each rule.

For action values each feature has one copy per action: copy c of feature f has index f·copies + c,
so the copies of a feature are adjacent. Which features are active does not depend on the rule, so
they are computed once for all rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray
from saddleback.engine.stream_columns import Columns
from saddleback.engine.tabular_stream import CARRIED, SecondTrace, fill_decay_and_weight
from saddleback.errors import RuleMismatch
from saddleback.features import Features
from saddleback.features.base import encode
from saddleback.rules import Bootstrap, Rule, Terms, tabulate
from saddleback.rules.requirements import correction_uses_mu
from saddleback.rules.terms import tabulate_steps

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


class Encoded(NamedTuple):
    """Active features of the state in ``rows[t]`` at each step t; no values if all are 1."""

    active: IndexArray
    value: FloatArray
    rows: IntArray


def copies_of(actions: int, values: str, shared: bool) -> FloatArray:
    """Return which copies of a feature an action activates, [A, copies].

    Examples
    --------
    >>> copies_of(2, "action", shared=True)
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """
    common = np.ones((actions, 1))
    if values == "state":
        return common
    own = np.eye(actions)
    return np.hstack([own, common]) if shared else own


class FeatureStreamer:
    """Columns of consecutive steps for several rules, with state carried between them."""

    def __init__(self, features: Features, rules: Sequence[Rule], copies: FloatArray) -> None:
        self._features, self._rules, self._copies = features, rules, copies
        # Every action activates the same number of copies.
        self._active = np.array([np.flatnonzero(row) for row in copies], dtype=np.uint32)
        self._carries = [np.zeros(CARRIED) for _ in rules]
        self._seconds = [SecondTrace(rule.form) for rule in rules]

    def _encode(self, observations: FloatArray, *rows: IntArray) -> list[Encoded]:
        """Return the features of the states in ``rows``, encoded once."""
        index, value = encode(self._features, observations)
        return [Encoded(index, np.ones((0, 0)) if value is None else value, r) for r in rows]

    def _columns(
        self,
        current: Encoded,
        next_state: Encoded,
        steps: Any,
        discounts: FloatArray,
        tables: Iterable[tuple[Terms, IntArray, IntArray]],
    ) -> list[Columns]:
        """Return the streams of the next steps.

        ``tables`` has, for each rule, its terms, the row of κ, w and ρ of each step, and the row of
        its b and x.
        """
        n, copies = len(current.rows), self._copies.shape[1]
        phi_size = current.active.shape[1] * self._active.shape[1]
        next_size = next_state.active.shape[1] * copies
        phi_index = np.empty(n * phi_size, dtype=np.uint32)
        phi_value = np.empty(n * phi_size) if current.value.size else np.ones(1)
        next_index = np.empty(n * next_size, dtype=np.uint32)
        expand(
            current, next_state, steps.actions, self._active, np.uint32(copies),
            phi_index, phi_value, next_index,
        )  # fmt: skip
        first = np.arange(n + 1, dtype=np.uint64)
        bootstraps: dict[Bootstrap, FloatArray] = {}
        streams = []
        for rule, (terms, rows, next_rows), carry, second in zip(
            self._rules, tables, self._carries, self._seconds, strict=True
        ):
            decay, weight = np.empty(n), np.empty(n)
            fill_decay_and_weight(terms, rows, discounts, steps.starts, carry, decay, weight)
            b, x = bootstraps.get(rule.bootstrap), NO_CORRECTION
            if b is None:  # it depends on nothing else of the rule
                b = bootstraps[rule.bootstrap] = np.empty(n * next_size)
                spread(next_state, next_rows, terms.bootstrap, b)
            if rule.form.coefficients.correction and len(terms.correction):
                x = np.empty(n * next_size)
                spread(next_state, next_rows, terms.correction, x)
            streams.append(
                Columns(
                    first * np.uint64(phi_size), phi_index, phi_value,
                    first * np.uint64(next_size), next_index, b, x,
                    steps.rewards, discounts, decay, weight,
                    *second(terms, rows, discounts, steps.starts),
                )
            )  # fmt: skip
        return streams


class SimulationStreamer(FeatureStreamer):
    """Turns consecutive trajectories into the streams of several rules."""

    def __init__(
        self,
        features: Features,
        rules: Sequence[Rule],
        copies: FloatArray,
        target: FloatArray,
        behaviour: FloatArray,
    ) -> None:
        super().__init__(features, rules, copies)
        self._terms = self._tabulate(target, behaviour)

    def _tabulate(self, target: FloatArray, behaviour: FloatArray) -> list[Terms]:
        """Weights of the copies of one feature, which are the same for every feature."""
        kinds = len(target)
        phi, acting = np.repeat(self._copies[None], kinds, axis=0), np.ones(kinds, dtype=bool)
        return [tabulate(rule, phi, target, behaviour, acting) for rule in self._rules]

    def __call__(self, chunk: Trajectory) -> list[Columns]:
        """Return the streams of the next chunk, one for each rule."""
        actions, numbers = len(self._copies), np.arange(len(chunk.rewards))
        terms = self._terms
        if chunk.target is not None and chunk.behaviour is not None:
            terms = self._tabulate(chunk.target, chunk.behaviour)
        pairs = chunk.kinds * actions + chunk.actions
        next_pairs = chunk.next_kinds * actions + chunk.next_actions
        (current,), (next_state,) = (
            self._encode(observations, numbers)
            for observations in (chunk.observations, chunk.next_observations)
        )
        tables = [(t, pairs, next_pairs) for t in terms]
        return self._columns(current, next_state, chunk, chunk.discounts, tables)


class LoggedStreamer(FeatureStreamer):
    """Turns consecutive chunks of a log into the streams of several rules.

    A rule needs κ and ρ of the action taken, and π in the next state. Many logs have μ of the
    action taken only. Then μ of the other actions is a placeholder, and `check_log_requirements`
    refuses the rules that would use it. A learner needs x of the correction form; ``corrections``
    omits it where only A, b and M are computed.
    """

    def __init__(
        self,
        features: Features,
        rules: Sequence[Rule],
        copies: FloatArray,
        gamma: float,
        corrections: bool = True,
    ) -> None:
        super().__init__(features, rules, copies)
        self._gamma, self._corrections = gamma, corrections
        self.kappa_squares = np.zeros(len(rules))
        """Σκ² so far, for each rule whose trace may grow."""

    def __call__(
        self,
        piece: Any,
        pi: FloatArray,
        propensity: FloatArray | None,
        mu: FloatArray | None,
    ) -> list[Columns]:
        """Return the streams of the next `Segment`, given π (and μ, if known) in its states."""
        discounts = np.where(piece.continues, self._gamma, 0.0)
        behaviour = _behaviour(piece, pi, propensity, mu)
        current, next_state = self._encode(piece.observations, piece.states, piece.next_states)
        taken, numbers = (piece.states, piece.actions), np.arange(len(piece.rewards))
        tables = []
        for r, rule in enumerate(self._rules):
            corrected = self._corrections and rule.form.coefficients.correction != 0.0
            terms = tabulate_steps(rule, self._copies, pi, behaviour, taken, corrected)
            if rule.trace.may_grow:
                # One by one, so that the sum does not depend on how the log is divided.
                squares = np.append(self.kappa_squares[r], terms.kappa**2)
                self.kappa_squares[r] = np.cumsum(squares)[-1]
            by_state = len(terms.bootstrap) == len(pi)
            if corrected and (correction_uses_mu(rule) or not by_state):
                _check_behaviour(rule, piece, mu)
            next_rows = piece.next_states if by_state else _next_pairs(rule, piece, pi.shape[1])
            tables.append((terms, numbers, next_rows))
        return self._columns(current, next_state, piece, discounts, tables)


def _check_behaviour(rule: Rule, piece: Any, mu: FloatArray | None) -> None:
    """Refuse a correction that depends on μ in the next states, unless μ is known in them."""
    next_rows = piece.next_states[piece.continues]
    unknown = len(next_rows) if mu is None else int(np.isnan(mu[next_rows, 0]).sum())
    if unknown:
        raise RuleMismatch(
            f"{rule} needs the full behaviour policy in every next state, and the log lacks it "
            f"after {unknown} of its steps: add mu_0, mu_1, … and next_mu_0, …, or Log(…, "
            "behaviour=function)."
        )


def _next_pairs(rule: Rule, piece: Any, actions: int) -> IntArray:
    """Return the next pair (S', A') of each transition, which the log must have."""
    unknown = int((piece.continues & (piece.next_actions < 0)).sum())
    if unknown:
        episodes = "1 truncated episode" if unknown == 1 else f"{unknown} truncated episodes"
        raise RuleMismatch(
            f"{rule} bootstraps from the next action, and the log has {episodes} without the "
            "action that would have followed; use a bootstrap that does not depend on it, such as "
            "Expected()."
        )
    pairs = piece.next_states * actions + np.maximum(piece.next_actions, 0)
    return np.asarray(pairs, dtype=np.int64)


def _behaviour(
    piece: Any, pi: FloatArray, propensity: FloatArray | None, mu: FloatArray | None
) -> FloatArray:
    """Return μ [m, A]; unknown probabilities are shared equally by the actions not taken."""
    actions = pi.shape[1]
    full = np.full_like(pi, 1.0 / actions) if mu is None else mu
    unknown = np.isnan(full[:, 0])
    if unknown.any():
        full = np.where(unknown[:, None], 1.0 / actions, full)
    if propensity is None:
        return full
    if mu is None:
        rest = (1.0 - propensity) / max(1, actions - 1)
        full[piece.states] = rest[:, None]
    elif full is mu:
        full = mu.copy()
    full[piece.states, piece.actions] = propensity
    return full


@compiled
def expand(
    current: Encoded,
    next_state: Encoded,
    actions: IntArray,
    active_copies: IndexArray,
    copies: np.uint32,
    phi_index: IndexArray,
    phi_value: FloatArray,
    next_index: IndexArray,
) -> None:
    """Fill the indices of the copies active at (S, A), and of all copies at S'."""
    has_values = current.value.size > 0
    j, m = 0, 0
    for t in range(len(actions)):
        row, after = current.rows[t], next_state.rows[t]
        for i in range(current.active.shape[1]):
            for c in range(active_copies.shape[1]):
                phi_index[j] = current.active[row, i] * copies + active_copies[actions[t], c]
                if has_values:
                    phi_value[j] = current.value[row, i]
                j += 1
        for i in range(next_state.active.shape[1]):
            for c in range(copies):
                next_index[m] = next_state.active[after, i] * copies + c
                m += 1


@compiled
def spread(next_state: Encoded, next_rows: IntArray, weights: FloatArray, out: FloatArray) -> None:
    """Fill b or x: the value of each active feature, times the weight of each of its copies."""
    has_values, copies = next_state.value.size > 0, weights.shape[1]
    m = 0
    for t in range(len(next_rows)):
        for i in range(next_state.active.shape[1]):
            size = next_state.value[next_state.rows[t], i] if has_values else 1.0
            for c in range(copies):
                out[m] = size * weights[next_rows[t], c]
                m += 1
