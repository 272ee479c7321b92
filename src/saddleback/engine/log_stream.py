"""Logged transitions as streams; every state is encoded once.

A rule needs κ and ρ of the action taken, and π in the next state. Many logs have μ of the action
taken only. Then μ of the other actions is a placeholder, and `check_log_requirements` refuses the
rules that would use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine.simulation_stream import NO_CORRECTION, expand, spread
from saddleback.engine.stream_columns import Columns
from saddleback.engine.tabular_stream import fill_decay_and_weight
from saddleback.features import Features
from saddleback.rules import Expected, Rule


class Transitions(Protocol):
    """Consecutive transitions between m states; see `saddleback.log.Segment`."""

    @property
    def observations(self) -> FloatArray:
        """The states, [m, d]."""

    @property
    def states(self) -> IntArray:
        """State before each transition, [n]."""

    @property
    def next_states(self) -> IntArray:
        """State after it, [n]."""

    @property
    def actions(self) -> IntArray:
        """Action taken, [n]."""

    @property
    def rewards(self) -> FloatArray:
        """Reward, [n]."""

    @property
    def continues(self) -> BoolArray:
        """Whether there is a next value, [n]."""

    @property
    def starts(self) -> BoolArray:
        """Whether an episode begins, [n]."""


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


class LoggedStreamer:
    """Turns consecutive chunks of a log into the streams of several rules."""

    def __init__(
        self, features: Features, rules: Sequence[Rule], copies: FloatArray, gamma: float
    ) -> None:
        self._features, self._rules, self._copies, self._gamma = features, rules, copies, gamma
        self._active = np.array([np.flatnonzero(row) for row in copies], dtype=np.uint32)
        self._carries = [np.zeros(3) for _ in rules]
        self.kappa_squares = np.zeros(len(rules))
        """Σκ² so far, of traces that may exceed 1."""

    def __call__(
        self,
        piece: Transitions,
        pi: FloatArray,
        propensity: FloatArray | None,
        mu: FloatArray | None,
    ) -> list[Columns]:
        """Return the streams of the next chunk, given π (and μ, if known) in its states [m, A]."""
        steps, copies = len(piece.rewards), self._copies.shape[1]
        index, value = self._features.encode(piece.observations)
        active = index.shape[1]
        phi_size, b_size = active * self._active.shape[1], active * copies
        phi_index = np.empty(steps * phi_size, dtype=np.uint32)
        phi_value = np.ones(1 if value is None else steps * phi_size)
        b_index = np.empty(steps * b_size, dtype=np.uint32)
        binary = np.ones((0, 0))
        next_value = binary if value is None else value[piece.next_states]
        expand(
            index[piece.states], binary if value is None else value[piece.states],
            index[piece.next_states], self._active, piece.actions, np.uint32(copies), phi_index,
            phi_value, b_index,
        )  # fmt: skip
        step = np.arange(steps + 1, dtype=np.uint64)
        discounts = np.where(piece.continues, self._gamma, 0.0)
        behaviour = _behaviour(piece, pi, propensity, mu)
        rows = np.arange(steps)
        streams = []
        for r, (rule, carry) in enumerate(zip(self._rules, self._carries, strict=True)):
            kappa, rho = _taken_coefficients(rule, piece, pi, behaviour)
            if rule.trace.may_grow:
                # One by one, so that the sum does not depend on how the log is divided.
                sums = np.cumsum(np.append(self.kappa_squares[r], kappa * kappa))
                self.kappa_squares[r] = sums[-1]
            decay, weight = np.empty(steps), np.empty(steps)
            share = 0.0 if rule.emphasis is None else rule.emphasis.share
            fill_decay_and_weight(
                rows, discounts, piece.starts, kappa, rule.bootstrap.weight(rho), rho, share,
                carry, decay, weight,
            )  # fmt: skip
            bootstrap = self._bootstrap(rule, pi)
            b, x = np.empty(steps * b_size), NO_CORRECTION
            spread(next_value, piece.next_states, active, bootstrap, b)
            if rule.form.coefficients.correction:
                table = np.asarray(rule.trace.kappa(pi, behaviour))
                x = np.empty(steps * b_size)
                weights = bootstrap - (behaviour * table) @ self._copies
                spread(next_value, piece.next_states, active, weights, x)
            streams.append(
                Columns(
                    step * np.uint64(phi_size), phi_index, phi_value,
                    step * np.uint64(b_size), b_index, b, x,
                    piece.rewards, discounts, decay, weight,
                )
            )  # fmt: skip
        return streams

    def _bootstrap(self, rule: Rule, pi: FloatArray) -> FloatArray:
        """Weight in b of each copy of a feature, by state, [m, copies]."""
        if isinstance(rule.bootstrap, Expected):
            return pi @ self._copies
        phi = np.broadcast_to(self._copies, (len(pi), *self._copies.shape))
        return np.ascontiguousarray(rule.bootstrap.rows(phi, pi)[:, 0])


def _taken_coefficients(
    rule: Rule, piece: Transitions, pi: FloatArray, behaviour: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return κ and ρ of the actions taken, [n]."""
    at = (piece.states, piece.actions)
    target, mu = pi[at], behaviour[at]
    rho = np.divide(target, mu, out=np.zeros_like(target), where=mu > 0)
    if rule.trace.bound == 0.0:
        return np.zeros_like(rho), rho
    if rule.trace.elementwise:
        kappa = rule.trace.kappa(target[:, None], mu[:, None])[:, 0]
    else:
        kappa = rule.trace.kappa(pi[piece.states], behaviour[piece.states])[
            np.arange(len(rho)), piece.actions
        ]
    return np.asarray(kappa, dtype=np.float64), rho


def _behaviour(
    piece: Transitions, pi: FloatArray, propensity: FloatArray | None, mu: FloatArray | None
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
