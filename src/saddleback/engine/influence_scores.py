"""Per-episode influence scores of a solution θ, in one direction u.

    uᵀs_i = Σ_t (uᵀe_t) δ_t(θ),    δ_t = R_t + γ'θᵀb_t − θᵀφ_t,    uᵀe_t = c_t uᵀe_{t−1} + w_t uᵀφ_t

less η Σ_t Σ_i u_i θ_i φ_ti² if θ was solved with a ridge η. Projected on one vector, the trace is a
single number, so the cost of a step is the number of active features for any λ. The discounted sum
of TD errors, Σ_t γ^t δ_t, is accumulated as well: the observed return less the one θ predicts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine.episode_fold import EpisodeFold
from saddleback.engine.stream_columns import Columns

TRACE, POWER, SCORE, TD_ERRORS = range(4)
"""Columns of an episode: uᵀe_t, γ^t, and the sums of uᵀe_t δ_t and of γ^t δ_t."""


class InfluenceDirection(NamedTuple):
    """θ, the direction u of its scores, and the ridge it was solved with."""

    theta: FloatArray
    u: FloatArray
    ridge: float


class InfluenceScores:
    """Sums of uᵀe_t δ_t and of γ^t δ_t over each episode, one chunk of a stream at a time."""

    def __init__(self, theta: FloatArray, u: FloatArray, ridge: float = 0.0) -> None:
        self._solution = InfluenceDirection(theta, u, ridge)
        self._fold = EpisodeFold(4)

    def add(self, stream: Columns, segment: Any) -> FloatArray:
        """Add the stream of a `Segment` and return its δ_t."""
        rows, deltas = self._fold.begin(segment), np.empty(len(stream.reward))
        episode = segment.row_episode[segment.index]
        _scores(stream, segment.starts, episode, self._solution, rows, deltas)
        self._fold.end(segment, rows)
        return deltas

    @property
    def influence(self) -> FloatArray:
        """The score of each episode, in order."""
        return np.asarray(self._fold.rows[:, SCORE])

    @property
    def td_error_return(self) -> FloatArray:
        """Σ_t γ^t δ_t of each episode, in order."""
        return np.asarray(self._fold.rows[:, TD_ERRORS])


@compiled
def _scores(
    stream: Columns,
    starts: BoolArray,
    episode: IntArray,
    solution: InfluenceDirection,
    rows: FloatArray,
    deltas: FloatArray,
) -> None:
    """Add to the rows of the episodes, and fill δ_t."""
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    reward, discount, decay, weight = stream.reward, stream.discount, stream.decay, stream.weight
    theta, u, ridge = solution
    stride = np.uint64(0 if len(phi_value) == 1 else 1)
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
        row = rows[episode[t]]
        if starts[t]:
            row[POWER] = 1.0
        row[TRACE] = decay[t] * row[TRACE] + weight[t] * projection
        row[SCORE] += row[TRACE] * delta - ridge * ridge_term
        row[TD_ERRORS] += row[POWER] * delta
        deltas[t] = delta
        row[POWER] *= discount[t]
