"""The stream a kernel eats: experience, turned into numbers by the terms of a rule.

    c_t = γ_t κ(S_t, A_t)    the decay of the trace, 0 at an episode's start
    w_t                      the weight with which φ_t enters it

γ_t is the discount of the step before. An emphasis multiplies w_t by 1 − share + share·f_t with
f_t = γ_t ρ_{t-1} f_{t-1} + 1; that is all there is to an emphatic method.
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray, OffsetArray
from saddleback.engine.experience import Experience
from saddleback.engine.stream_columns import Columns, SparseRows, sparse_rows
from saddleback.rules import Terms


class Streamer:
    """Turns consecutive pieces of experience into stream, carrying what a step hands the next."""

    def __init__(self, terms: Terms, n_actions: int) -> None:
        self._terms = terms
        self._n_actions = n_actions
        self._phi = sparse_rows(terms.phi)
        self._next = sparse_rows(terms.bootstrap, terms.correction)
        self._carry = np.zeros(3)

    def __call__(self, experience: Experience) -> Columns:
        """Return the stream of the next piece."""
        here = experience.states * self._n_actions + experience.actions
        following = experience.next_states * self._n_actions + experience.next_actions
        phi, b_x = _look_up(self._phi, here), _look_up(self._next, following)
        decay, weight = np.empty(len(here)), np.empty(len(here))
        t = self._terms
        weigh(
            here, experience.discounts, experience.starts, t.kappa, t.weight, t.rho, t.emphasis,
            self._carry, decay, weight,
        )  # fmt: skip
        return Columns(
            phi.first, phi.column, phi.values[0], b_x.first, b_x.column, b_x.values[0],
            b_x.values[1], experience.rewards, experience.discounts, decay, weight,
        )  # fmt: skip


def _look_up(table: SparseRows, rows: IntArray) -> SparseRows:
    """Return the given rows of a table, one after the other."""
    first = np.zeros(len(rows) + 1, dtype=np.uint64)
    np.cumsum(np.diff(table.first)[rows], out=first[1:])
    found = SparseRows(
        first, np.empty(first[-1], dtype=np.uint32), np.empty((len(table.values), first[-1]))
    )
    _copy_rows(*table, rows, *found)
    return found


@compiled
def _copy_rows(
    first: OffsetArray,
    column: IndexArray,
    values: FloatArray,
    rows: IntArray,
    new_first: OffsetArray,
    new_column: IndexArray,
    new_values: FloatArray,
) -> None:
    for t in range(len(rows)):
        here = first[rows[t]]
        for there in range(new_first[t], new_first[t + 1]):
            new_column[there] = column[here]
            for v in range(len(values)):
                new_values[v, there] = values[v, here]
            here += np.uint64(1)


@compiled
def weigh(
    here: IntArray,
    discount: FloatArray,
    start: BoolArray,
    kappa: FloatArray,
    weight_of: FloatArray,
    rho: FloatArray,
    share: float,
    carry: FloatArray,
    decay: FloatArray,
    weight: FloatArray,
) -> None:
    """Fill c_t and w_t; ``carry`` = (γ, ρ, f) of the step before."""
    gamma, ratio, follow = carry[0], carry[1], carry[2]
    for t in range(len(here)):
        if start[t]:
            gamma = 0.0
        i = here[t]
        decay[t] = gamma * kappa[i]
        follow = gamma * ratio * follow + 1.0
        weight[t] = weight_of[i] * (1.0 - share + share * follow)
        gamma, ratio = discount[t], rho[i]
    carry[0], carry[1], carry[2] = gamma, ratio, follow
