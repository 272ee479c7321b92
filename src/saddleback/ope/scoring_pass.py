"""The second pass over a log: the influence of each episode on the solutions of the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import FloatArray
from saddleback.engine import InfluenceScores, LoggedStreamer, copies_of
from saddleback.features import Features
from saddleback.log import Log, Segment, Target
from saddleback.ope.statistics import Statistics
from saddleback.rules import Rule

SegmentCallback = Callable[[Segment, int, FloatArray, FloatArray], object]
"""Called with a segment, the index of a target, its π in all states [m, K], and δ_t [n]."""


@dataclass(frozen=True, eq=False)
class EpisodeScores:
    """Scores of the episodes of a log for one solution.

    Attributes
    ----------
    theta, value
        θ̂, and V̂ = x̄ᵀθ̂.
    first
        V̂(S_0) of each episode, [n].
    score
        uᵀ(A_iθ̂ + b_i) of each episode, [n].
    td_error_return
        Σ_t γ^t δ_t of each episode, [n]; for the behaviour policy V̂(S_0) plus this is the return.
    """

    theta: FloatArray
    value: float
    first: FloatArray
    score: FloatArray
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


def score_episodes(
    log: Log,
    sums: Statistics,
    policies: Sequence[Target],
    *,
    features: Features,
    rule: Rule,
    ridge: float,
    on_segment: SegmentCallback | None = None,
    progress: Progress | None = None,
) -> list[EpisodeScores]:
    """Read a log once more, and score its episodes for the solution of each target."""
    setting = sums.setting
    copies = copies_of(log.n_actions, setting.values, setting.shared)
    solved = [solve_adjoint(sums, rule, policy.name, ridge) for policy in policies]
    streamers = [
        LoggedStreamer(features, [rule], copies, setting.gamma, corrections=False) for _ in policies
    ]
    scores = [InfluenceScores(theta, u, ridge) for theta, _, u in solved]
    firsts: list[list[FloatArray]] = [[np.zeros(0)] for _ in policies]
    tables = [table for policy in policies for table in policy.tables]
    for segment in log.segments(tables, progress):
        episode = np.cumsum(segment.rows.starts, dtype=np.int64)[segment.index]
        which, size = features.encode(segment.observations[segment.first_states])
        for k, policy in enumerate(policies):
            pi = policy.probabilities(segment, log.n_actions)
            stream = streamers[k](segment, pi, *policy.behaviour(segment))[0]
            deltas = scores[k].add(stream, segment.starts, episode, len(segment.first_states))
            weights = solved[k][0].reshape(-1, copies.shape[1])[which]
            values = (weights * (1.0 if size is None else size[:, :, None])).sum(axis=1) @ copies.T
            firsts[k].append((pi[segment.first_states] * values).sum(axis=1))
            if on_segment is not None:
                on_segment(segment, k, pi, deltas)
    return [
        EpisodeScores(
            theta,
            float(theta @ start),
            np.concatenate(first),
            score.influence,
            score.td_error_return,
        )
        for (theta, start, _), first, score in zip(solved, firsts, scores, strict=True)
    ]
