"""The stream a kernel eats: experience, turned into numbers by the terms of a rule.

    c_t = γ_t κ(S_t, A_t)    the decay of the trace, 0 at an episode's start
    w_t                      the weight with which φ_t enters it

γ_t is the discount of the step before. An emphasis multiplies w_t by 1 − share + share·f_t with
f_t = γ_t ρ_{t-1} f_{t-1} + 1; that is all there is to an emphatic method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine.experience import Experience
from saddleback.engine.jit import compiled
from saddleback.rules import Terms


class Stream(NamedTuple):
    """Columns of length T: where to look φ, b and x up, and the numbers of each step."""

    here: IntArray
    following: IntArray
    reward: FloatArray
    discount: FloatArray
    decay: FloatArray
    weight: FloatArray


class Streamer:
    """Turns consecutive pieces of experience into stream, carrying what a step hands the next."""

    def __init__(self, terms: Terms, n_actions: int) -> None:
        self._terms = terms
        self._n_actions = n_actions
        self._carry = np.zeros(3)

    def __call__(self, experience: Experience) -> Stream:
        """Return the stream of the next piece."""
        here = experience.states * self._n_actions + experience.actions
        following = experience.next_states * self._n_actions + experience.next_actions
        decay, weight = np.empty(len(here)), np.empty(len(here))
        t = self._terms
        _weigh(
            here, experience.discounts, experience.starts, t.kappa, t.weight, t.rho, t.emphasis,
            self._carry, decay, weight,
        )  # fmt: skip
        return Stream(here, following, experience.rewards, experience.discounts, decay, weight)


@compiled
def _weigh(
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
