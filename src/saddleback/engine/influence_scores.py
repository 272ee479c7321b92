"""What each episode says against a solution: its score, along one direction.

    uᵀs_i = Σ_t (uᵀe_t) δ_t(θ),    δ_t = R_t + γ'θᵀb_t − θᵀφ_t,    uᵀe_t = c_t uᵀe_{t−1} + w_t uᵀφ_t

less η Σ_t Σ_i u_i θ_i φ_ti² where θ solves with a ridge. Against one vector the trace is one
number, so a step costs the active features, whatever λ. Beside it stands Σ_t γ^t δ_t, by which what
followed was better than what θ foresaw.
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray, OffsetArray
from saddleback.engine.stream_columns import Columns


class Scores:
    """Sums of uᵀe_t δ_t and of γ^t δ_t over each episode, as pieces of a stream come."""

    def __init__(self, theta: FloatArray, u: FloatArray, ridge: float = 0.0) -> None:
        self._theta, self._u, self._ridge = theta, u, ridge
        self._carry = np.array([0.0, 1.0])
        self._each: list[FloatArray] = [np.zeros((0, 2))]

    def add(self, stream: Columns, starts: BoolArray, episode: IntArray, begun: int) -> FloatArray:
        """Take in a piece and return its δ_t.

        ``starts`` says where an episode begins, and ``episode`` which of the ``begun`` ones each
        transition is of, from 1; 0 stands for the episode that began before.
        """
        found, deltas = np.zeros((begun + 1, 2)), np.empty(len(starts))
        _scores(
            *stream[:6], *stream[7:], starts, episode, self._theta, self._u, self._ridge,
            self._carry, found, deltas,
        )  # fmt: skip
        self._each[-1][-1:] += found[0]
        if begun:
            self._each.append(found[1:])
        return deltas

    @property
    def each(self) -> FloatArray:
        """The score of each episode, in order."""
        return np.concatenate(self._each)[:, 0]

    @property
    def beyond(self) -> FloatArray:
        """Σ_t γ^t δ_t of each episode, in order."""
        return np.concatenate(self._each)[:, 1]


@compiled
def _scores(
    phi_from: OffsetArray,
    phi_index: IndexArray,
    phi_value: FloatArray,
    next_from: OffsetArray,
    next_index: IndexArray,
    next_b: FloatArray,
    reward: FloatArray,
    discount: FloatArray,
    decay: FloatArray,
    weight: FloatArray,
    starts: BoolArray,
    episode: IntArray,
    theta: FloatArray,
    u: FloatArray,
    ridge: float,
    carry: FloatArray,
    found: FloatArray,
    deltas: FloatArray,
) -> None:
    """Fill the scores of episodes; ``found[0]`` is what the one already begun gets more."""
    valued = np.uint64(0 if len(phi_value) == 1 else 1)
    q, power = carry[0], carry[1]
    for t in range(len(reward)):
        delta, along, shrunk = reward[t], 0.0, 0.0
        for j in range(phi_from[t], phi_from[t + 1]):
            i, value = phi_index[j], phi_value[j * valued]
            delta -= theta[i] * value
            along += u[i] * value
            shrunk += u[i] * theta[i] * value * value
        if discount[t] != 0.0:
            ahead = 0.0
            for j in range(next_from[t], next_from[t + 1]):
                ahead += theta[next_index[j]] * next_b[j]
            delta += discount[t] * ahead
        if starts[t]:
            power = 1.0
        q = decay[t] * q + weight[t] * along
        found[episode[t], 0] += q * delta - ridge * shrunk
        found[episode[t], 1] += power * delta
        deltas[t] = delta
        power *= discount[t]
    carry[0], carry[1] = q, power
