"""Logged transitions become stream: states are encoded once, whoever leads to them.

What a rule asks of a log is κ and ρ of the action taken, and π in the state that followed. Logs
often hold μ of the action taken only; then μ of the others is made up, and rules that would look
at it are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine.simulation_stream import NOTHING, expand, spread
from saddleback.engine.tabular_stream import Columns, weigh
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.features import Features
from saddleback.rules import Expected, Importance, NoTrace, Rule


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
    """Which copies of a feature an action switches on, [A, copies].

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
    """Turns consecutive pieces of a log into the streams of several rules."""

    def __init__(
        self, features: Features, rules: Sequence[Rule], copies: FloatArray, gamma: float
    ) -> None:
        self._features, self._rules, self._copies, self._gamma = features, rules, copies, gamma
        self._on = np.array([np.flatnonzero(row) for row in copies], dtype=np.uint32)
        self._carries = [np.zeros(3) for _ in rules]

    def __call__(
        self,
        piece: Transitions,
        pi: FloatArray,
        propensity: FloatArray | None,
        mu: FloatArray | None,
    ) -> list[Columns]:
        """Return the streams of the next piece, with π (and μ, if known) in its states [m, A]."""
        steps, copies = len(piece.rewards), self._copies.shape[1]
        index, value = self._features.encode(piece.observations)
        active = index.shape[1]
        few, many = active * self._on.shape[1], active * copies
        phi_index = np.empty(steps * few, dtype=np.uint32)
        phi_value = np.ones(1 if value is None else steps * few)
        b_index = np.empty(steps * many, dtype=np.uint32)
        none = np.ones((0, 0))
        size = none if value is None else value[piece.next_states]
        expand(
            index[piece.states], none if value is None else value[piece.states],
            index[piece.next_states], self._on, piece.actions, np.uint32(copies), phi_index,
            phi_value, b_index,
        )  # fmt: skip
        step = np.arange(steps + 1, dtype=np.uint64)
        discounts = np.where(piece.continues, self._gamma, 0.0)
        behaviour = _behaviour(piece, pi, propensity, mu)
        rows = np.arange(steps)
        found = []
        for rule, carry in zip(self._rules, self._carries, strict=True):
            kappa, rho = taken(rule, piece, pi, behaviour)
            decay, weight = np.empty(steps), np.empty(steps)
            share = 0.0 if rule.emphasis is None else rule.emphasis.share
            weigh(
                rows, discounts, piece.starts, kappa, rule.bootstrap.weight(rho), rho, share,
                carry, decay, weight,
            )  # fmt: skip
            bootstrap = self._bootstrap(rule, pi)
            b, x = np.empty(steps * many), NOTHING
            spread(size, piece.next_states, active, bootstrap, b)
            if rule.form.coefficients.correction:
                table = np.asarray(rule.trace.kappa(pi, behaviour))
                x = np.empty(steps * many)
                weights = bootstrap - (behaviour * table) @ self._copies
                spread(size, piece.next_states, active, weights, x)
            found.append(
                Columns(
                    step * np.uint64(few), phi_index, phi_value, step * np.uint64(many), b_index, b,
                    x, piece.rewards, discounts, decay, weight,
                )
            )  # fmt: skip
        return found

    def _bootstrap(self, rule: Rule, pi: FloatArray) -> FloatArray:
        """What b makes of the copies of a feature in each state, [m, copies]."""
        if isinstance(rule.bootstrap, Expected):
            return pi @ self._copies
        phi = np.broadcast_to(self._copies, (len(pi), *self._copies.shape))
        return np.ascontiguousarray(rule.bootstrap.rows(phi, pi)[:, 0])


def taken(
    rule: Rule, piece: Transitions, pi: FloatArray, behaviour: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return κ and ρ of the actions taken, [n]."""
    at = (piece.states, piece.actions)
    target, mu = pi[at], behaviour[at]
    rho = np.divide(target, mu, out=np.zeros_like(target), where=mu > 0)
    if isinstance(rule.trace, NoTrace):
        return np.zeros_like(rho), rho
    if rule.trace.by_action:
        kappa = rule.trace.kappa(target[:, None], mu[:, None])[:, 0]
    else:
        kappa = rule.trace.kappa(pi[piece.states], behaviour[piece.states])[
            np.arange(len(rho)), piece.actions
        ]
    return np.asarray(kappa, dtype=np.float64), rho


def check_logged(rule: Rule, values: str, propensity: bool, whole: bool) -> None:
    """Refuse a rule that a log cannot serve: which values are meant, and is μ known, and whole?"""
    if rule.values != values:
        raise RuleMismatch(
            f"{rule} learns {rule.values} values, other rules here {values} values; evaluate them "
            "separately."
        )
    if rule.bootstrap.on_policy_only:
        raise RuleMismatch(
            f"{rule} evaluates the logged policy only: use ExpectedSarsa with the target 'logged'."
        )
    if not rule.trace.pointwise:
        raise RuleMismatch(
            f"{rule} needs the extrema of the policies over all states, which a log does not tell: "
            "declare them, e.g. ActionDependent(zeta, extrema=(0.1, 0.9))."
        )
    if not propensity and needs_ratios(rule):
        raise InvalidParameter(
            f"{rule} needs the probabilities of the logged actions, and the log has none: add "
            "behavior_prob, or estimate them, estimate_behaviour(log); or use a rule without "
            "ratios, such as GES(0) or GTB."
        )
    looks = rule.form.coefficients.correction and not isinstance(rule.trace, (Importance, NoTrace))
    if not whole and (looks or not rule.trace.by_action):
        raise RuleMismatch(
            f"{rule} needs the whole behaviour policy, and the log holds only the probability of "
            "the action taken: add mu_0, mu_1, …, or Log(…, behaviour=function)."
        )


def needs_ratios(rule: Rule) -> bool:
    """Whether μ of the action taken matters to a rule at all."""
    pi = np.array([[0.2, 0.5, 0.9]])
    one, two = (rule.trace.kappa(pi, np.full_like(pi, mu)) for mu in (0.3, 0.6))
    weights = [rule.bootstrap.weight(np.full(1, rho)) for rho in (1.0, 2.0)]
    return bool((one != two).any() or weights[0] != weights[1] or rule.emphasis is not None)


def _behaviour(
    piece: Transitions, pi: FloatArray, propensity: FloatArray | None, mu: FloatArray | None
) -> FloatArray:
    """Return μ [m, A]: what is known, and otherwise a share alike for the actions not taken."""
    actions = pi.shape[1]
    known = np.full_like(pi, 1.0 / actions) if mu is None else mu
    unknown = np.isnan(known[:, 0])
    if unknown.any():
        known = np.where(unknown[:, None], 1.0 / actions, known)
    if propensity is None:
        return known
    if mu is None:
        rest = (1.0 - propensity) / max(1, actions - 1)
        known[piece.states] = rest[:, None]
    elif known is mu:
        known = mu.copy()
    known[piece.states, piece.actions] = propensity
    return known
