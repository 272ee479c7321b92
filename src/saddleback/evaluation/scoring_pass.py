"""The second pass over a log: what each episode says of solutions that the first has found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import FloatArray
from saddleback.engine import LoggedStreamer, Scores, copies_of
from saddleback.evaluation.statistics import Statistics
from saddleback.features import Features
from saddleback.log import Log, Segment, Target
from saddleback.rules import Rule

Look = Callable[[Segment, int, FloatArray, FloatArray], object]
"""Shown a piece, the number of a target, its π in all states [m, K], and δ_t [n]."""


@dataclass(frozen=True, eq=False)
class Scored:
    """What episodes say of a solution.

    Attributes
    ----------
    theta, value
        θ̂, and V̂ = x̄ᵀθ̂.
    first
        V̂(S_0) of each episode, [n].
    score
        uᵀ(A_iθ̂ + b_i) of each episode, [n].
    beyond
        Σ_t γ^t δ_t of each episode, [n]; V̂(S_0) plus it is what was returned, if π is what was
        done.
    """

    theta: FloatArray
    value: float
    first: FloatArray
    score: FloatArray
    beyond: FloatArray

    @property
    def each(self) -> FloatArray:
        """How much each episode draws V̂, n times over, [n]; their mean is about 0."""
        return np.asarray(self.first - self.value - self.score)


def direction(
    sums: Statistics, rule: Rule | int, target: str | int, ridge: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return θ̂, x̄ and u, with Âᵀu = x̄ per episode."""
    per_episode = float(sums.steps.sum() / sums.episodes.sum())
    start = sums.start(target)
    solved = sums.solve(rule, target, ridge).theta
    u = sums.factored(rule, target, ridge).adjoint(start / per_episode)
    return solved, start, u


def second_pass(
    log: Log,
    sums: Statistics,
    policies: Sequence[Target],
    *,
    features: Features,
    rule: Rule,
    ridge: float,
    look: Look | None = None,
    progress: Progress | None = None,
) -> list[Scored]:
    """Read a log once more, and score its episodes against the solution for each target."""
    setting = sums.setting
    copies = copies_of(log.n_actions, setting.values, setting.shared)
    solved = [direction(sums, rule, each.name, ridge) for each in policies]
    streamers = [LoggedStreamer(features, [rule], copies, setting.gamma) for _ in policies]
    scores = [Scores(theta, u, ridge) for theta, _, u in solved]
    firsts: list[list[FloatArray]] = [[np.zeros(0)] for _ in policies]
    tables = [table for each in policies for table in each.tables]
    for piece in log.segments(tables, progress):
        episode = np.cumsum(piece.rows.starts, dtype=np.int64)[piece.index]
        which, size = features.encode(piece.observations[piece.first_states])
        for k, policy in enumerate(policies):
            pi = policy.probabilities(piece, log.n_actions)
            stream = streamers[k](piece, pi, *policy.behaviour(piece))[0]
            deltas = scores[k].add(stream, piece.starts, episode, len(piece.first_states))
            weights = solved[k][0].reshape(-1, copies.shape[1])[which]
            each = (weights * (1.0 if size is None else size[:, :, None])).sum(axis=1) @ copies.T
            firsts[k].append((pi[piece.first_states] * each).sum(axis=1))
            if look is not None:
                look(piece, k, pi, deltas)
    return [
        Scored(theta, float(theta @ start), np.concatenate(first), score.each, score.beyond)
        for (theta, start, _), first, score in zip(solved, firsts, scores, strict=True)
    ]
