"""Per-episode influence scores of a solution θ, in one direction u.

    uᵀs_i = Σ_t (uᵀe_t) δ_t(θ),    δ_t = R_t + γ'θᵀb_t − θᵀφ_t,    uᵀe_t = c_t uᵀe_{t−1} + w_t uᵀφ_t

less η Σ_t Σ_i u_i θ_i φ_ti² if θ was solved with a ridge η. Projected on one vector, the trace is a
single number, so the cost of a step is the number of active features for any λ. The discounted sum
of TD errors, Σ_t γ^t δ_t, is accumulated as well: the observed return less the one θ predicts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine.stream_columns import Columns


class InfluenceDirection(NamedTuple):
    """θ, the direction u of its scores, and the ridge it was solved with."""

    theta: FloatArray
    u: FloatArray
    ridge: float


class InfluenceScores:
    """Sums of uᵀe_t δ_t and of γ^t δ_t over each episode, one chunk of a stream at a time."""

    def __init__(self, theta: FloatArray, u: FloatArray, ridge: float = 0.0) -> None:
        self._solution = InfluenceDirection(theta, u, ridge)
        self._carry = np.array([0.0, 1.0])
        self._episodes: list[FloatArray] = [np.zeros((0, 2))]

    def add(
        self, stream: Columns, starts: BoolArray, episode: IntArray, n_started: int
    ) -> FloatArray:
        """Add a chunk of a stream and return its δ_t.

        ``starts`` marks the first transition of each of the ``n_started`` episodes that begin in
        the chunk. ``episode`` numbers them from 1; 0 is the episode continued from before.
        """
        sums, deltas = np.zeros((n_started + 1, 2)), np.empty(len(starts))
        _scores(stream, starts, episode, self._solution, self._carry, sums, deltas)
        self._episodes[-1][-1:] += sums[0]
        if n_started:
            self._episodes.append(sums[1:])
        return deltas

    @property
    def influence(self) -> FloatArray:
        """The score of each episode, in order."""
        return np.concatenate(self._episodes)[:, 0]

    @property
    def td_error_return(self) -> FloatArray:
        """Σ_t γ^t δ_t of each episode, in order."""
        return np.concatenate(self._episodes)[:, 1]


@compiled
def _scores(
    stream: Columns,
    starts: BoolArray,
    episode: IntArray,
    solution: InfluenceDirection,
    carry: FloatArray,
    sums: FloatArray,
    deltas: FloatArray,
) -> None:
    """Fill the scores of episodes; ``sums[0]`` adds to the episode continued from before."""
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    reward, discount, decay, weight = stream.reward, stream.discount, stream.decay, stream.weight
    theta, u, ridge = solution
    stride = np.uint64(0 if len(phi_value) == 1 else 1)
    q, power = carry[0], carry[1]
    for t in range(len(reward)):
        delta, projection, ridge_term = reward[t], 0.0, 0.0
        for j in range(phi_from[t], phi_from[t + 1]):
            i, value = phi_index[j], phi_value[j * stride]
            delta -= theta[i] * value
            projection += u[i] * value
            ridge_term += u[i] * theta[i] * value * value
        if discount[t] != 0.0:
            next_value = 0.0
            for j in range(next_from[t], next_from[t + 1]):
                next_value += theta[next_index[j]] * next_b[j]
            delta += discount[t] * next_value
        if starts[t]:
            power = 1.0
        q = decay[t] * q + weight[t] * projection
        sums[episode[t], 0] += q * delta - ridge * ridge_term
        sums[episode[t], 1] += power * delta
        deltas[t] = delta
        power *= discount[t]
    carry[0], carry[1] = q, power
