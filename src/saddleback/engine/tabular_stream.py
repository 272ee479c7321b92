"""Streams of finite problems: experience turned into numbers by the terms of a rule.

    c_t = γ_t l_{t-1} κ_t    the decay of the trace, 0 at an episode's start
    w_t                      the weight with which φ_t enters it

γ_t is the discount of the step before. An emphasis multiplies w_t by 1 − share + share·f_t with
f_t = γ_t ρ_{t-1} f_{t-1} + 1, or with a constant β for γ_t; an emphatic method differs in nothing
else. A cap c on products of ratios multiplies κ_t by min(1, c/(ρ_t H_{t-1})): `CappedImportance`.
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine.experience import Experience
from saddleback.engine.stream_columns import NONE, Columns, SparseRows, sparse_rows
from saddleback.rules import Form, Terms

CARRIED = 5
"""Numbers that one step passes to the next: γ, ρ, f, l and H."""


class Streamer:
    """Turns consecutive chunks of experience into streams, with state carried between them."""

    def __init__(self, terms: Terms, n_actions: int, form: Form) -> None:
        self._terms = terms
        self._second = SecondTrace(form)
        self._n_actions = n_actions
        self._phi = sparse_rows(terms.phi)
        self._next = sparse_rows(terms.bootstrap, terms.correction)
        self._carry = np.zeros(CARRIED)

    def __call__(self, experience: Experience) -> Columns:
        """Return the stream of the next chunk."""
        pairs = experience.states * self._n_actions + experience.actions
        next_pairs = experience.next_states * self._n_actions + experience.next_actions
        phi, b_x = _select(self._phi, pairs), _select(self._next, next_pairs)
        decay, weight = np.empty(len(pairs)), np.empty(len(pairs))
        fill_decay_and_weight(
            self._terms, pairs, experience.discounts, experience.starts, self._carry, decay, weight
        )
        return Columns(
            phi.first, phi.column, phi.values[0], b_x.first, b_x.column, b_x.values[0],
            b_x.values[1], experience.rewards, experience.discounts, decay, weight,
            *self._second(self._terms, pairs, experience.discounts, experience.starts),
        )  # fmt: skip


class SecondTrace:
    """Decays and weights of the second trace of a form, with state carried between chunks.

    That of a hybrid form is the trace e' for π = μ. That of true on-line corrections has the decay
    c' = γ_t κ_{t-1}, and w_t multiplies δ_t instead of φ_t.
    """

    def __init__(self, form: Form) -> None:
        self._hybrid = form.coefficients.hybrid != 0.0
        self._needed = self._hybrid or (form.true_online and form.has_dual)
        self._gamma, self._kappa = 0.0, 0.0

    def __call__(
        self, terms: Terms, rows: IntArray, discounts: FloatArray, starts: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return both columns of the next steps; empty if the form has no second trace."""
        if not self._needed or not len(rows):
            return NONE, NONE
        gamma = np.where(starts, 0.0, np.append(self._gamma, discounts[:-1]))
        self._gamma = float(discounts[-1])
        if self._hybrid:
            return gamma * terms.kappa_mu[rows], np.ones(len(rows))
        kappa = terms.kappa[rows]
        before = np.append(self._kappa, kappa[:-1])
        self._kappa = float(kappa[-1])
        return gamma * before, terms.weight[rows]


def _select(table: SparseRows, rows: IntArray) -> SparseRows:
    """Return the given rows of a table, in the given order."""
    first = np.zeros(len(rows) + 1, dtype=np.uint64)
    np.cumsum(np.diff(table.first)[rows], out=first[1:])
    selected = SparseRows(
        first, np.empty(first[-1], dtype=np.uint32), np.empty((len(table.values), first[-1]))
    )
    _copy_rows(table, rows, selected)
    return selected


@compiled
def _copy_rows(table: SparseRows, rows: IntArray, selected: SparseRows) -> None:
    for t in range(len(rows)):
        old = table.first[rows[t]]
        for new in range(selected.first[t], selected.first[t + 1]):
            selected.column[new] = table.column[old]
            for v in range(len(table.values)):
                selected.values[v, new] = table.values[v, old]
            old += np.uint64(1)


@compiled
def fill_decay_and_weight(
    terms: Terms,
    rows: IntArray,
    discount: FloatArray,
    start: BoolArray,
    carry: FloatArray,
    decay: FloatArray,
    weight: FloatArray,
) -> None:
    """Fill c_t and w_t, from ``rows`` of the terms; ``carry`` is `CARRIED` by the step before."""
    gamma, ratio, follow, lead, history = carry[0], carry[1], carry[2], carry[3], carry[4]
    share, beta, cap = terms.emphasis, terms.follow, terms.cap
    for t in range(len(rows)):
        if start[t]:
            gamma, follow = 0.0, 0.0
        i = rows[t]
        decay[t] = gamma * lead * terms.kappa[i]
        if cap < np.inf:
            product = min(terms.rho[i], cap) * (0.0 if gamma == 0.0 else history)
            decay[t] *= 1.0 if product <= cap else cap / product
            history = max(1.0, min(product, cap))
        if share:  # otherwise it is not used, and may overflow
            passed = beta if beta >= 0.0 and gamma != 0.0 else gamma
            follow = passed * ratio * follow + 1.0
        weight[t] = terms.weight[i] * (1.0 - share + share * follow)
        gamma, ratio, lead = discount[t], terms.rho[i], terms.lead[i]
    carry[0], carry[1], carry[2], carry[3], carry[4] = gamma, ratio, follow, lead, history
