"""The second pass over a log: the influence of each episode on the solutions of the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from saddleback._typing import FloatArray
from saddleback.engine import InfluenceScores, LoggedStreamer, copies_of
from saddleback.log import Target
from saddleback.ope.log_pass import EncodeOnce, Job, SegmentBatch
from saddleback.ope.statistics import Statistics
from saddleback.rules import Rule


@dataclass(frozen=True, eq=False)
class EpisodeScores:
    """Scores of the episodes of a log for one solution."""

    # θ̂, and V̂ = x̄ᵀθ̂.
    theta: FloatArray
    value: float
    first: FloatArray  # V̂(S_0) of each episode, [n]
    score: FloatArray  # uᵀ(A_iθ̂ + b_i) of each episode, [n]
    # Σ_t γ^t δ_t of each episode, [n]; for the behaviour policy V̂(S_0) plus this is the return.
    td_error_return: FloatArray

    @property
    def influence(self) -> FloatArray:
        """Influence of each episode on V̂, scaled by n, [n]; the mean is about 0."""
        return np.asarray(self.first - self.value - self.score)


def solve_adjoint(
    sums: Statistics, rule: Rule | int, target: str | int, ridge: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return θ̂, x̄ and u, with Âᵀu = x̄ per episode."""
    per_episode = float(sums.steps.sum() / sums.episodes.sum())
    start = sums.start(target)
    solved = sums.solve(rule, target, ridge).theta
    u = sums.factorised(rule, target, ridge).adjoint(start / per_episode)
    return solved, start, u


class ScoreReducer:
    """Scores the episodes of a log for the solution of one target.

    ``on_deltas`` is called with each segment and the TD errors δ_t [n] of its transitions.
    """

    def __init__(
        self,
        sums: Statistics,
        policy: Target,
        features: EncodeOnce,
        rule: Rule,
        ridge: float,
        on_deltas: Callable[[SegmentBatch, FloatArray], object] | None = None,
    ) -> None:
        setting = sums.setting
        self.policy, self._on_deltas = policy, on_deltas
        self._copies = copies_of(len(setting.actions), setting.values, setting.shared)
        self._theta, self._start, u = solve_adjoint(sums, rule, policy.name, ridge)
        self._streamer = LoggedStreamer(
            features, [rule], self._copies, setting.gamma, corrections=False
        )
        self._scores = InfluenceScores(self._theta, u, ridge)
        self._first: list[FloatArray] = [np.zeros(0)]

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        """Return the work of adding the next segment."""
        batch.pi(self.policy)  # a policy is called in one thread
        return [partial(self.score, batch)]

    def score(self, batch: SegmentBatch) -> None:
        """Add the next segment."""
        segment, pi = batch.segment, batch.pi(self.policy)
        stream = self._streamer(segment, pi, *self.policy.behaviour(segment))[0]
        deltas = self._scores.add(stream, segment)
        which, size = batch.first_active
        weights = self._theta.reshape(-1, self._copies.shape[1])[which]
        values = (weights * (1.0 if size is None else size[:, :, None])).sum(axis=1)
        self._first.append((pi[segment.first_states] * (values @ self._copies.T)).sum(axis=1))
        if self._on_deltas is not None:
            self._on_deltas(batch, deltas)

    @property
    def scores(self) -> EpisodeScores:
        """The scores of all episodes, after the last segment."""
        return EpisodeScores(
            self._theta,
            float(self._theta @ self._start),
            np.concatenate(self._first),
            self._scores.influence,
            self._scores.td_error_return,
        )
