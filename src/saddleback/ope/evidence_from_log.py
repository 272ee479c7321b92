"""Measurements of a target that need the log: influence, residual problem, coverage, agreement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.engine import EpisodeFold
from saddleback.log import Log, Target
from saddleback.log.sample import StridedSample
from saddleback.ope.approximation_gap import ResidualProblem
from saddleback.ope.coverage import ActionCounts, Coverage, measure_coverage
from saddleback.ope.diagnosis import Measurements
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.log_pass import EncodeOnce, Job, SegmentBatch
from saddleback.ope.partition import Cells, Column
from saddleback.ope.policy_counts import PolicyCounts
from saddleback.ope.sample_consensus import SampleConsensus
from saddleback.ope.sandwich import ESTIMAND, interval_from_scores, student_interval
from saddleback.ope.scoring_pass import EpisodeScores, ScoreReducer
from saddleback.ope.statistics import Statistics
from saddleback.rules import Rule

MAX_CELLS, MAX_PAIRS, ROWS_PER_PAIR = 64, 640, 40
"""Largest numbers of cells and of pairs of cell and action, and rows per pair."""

MIN_HEARD_ESS = 5.0
"""Effective episodes from which DR and WDR together are heard."""

MIN_MEAN_WEIGHT = 0.5
"""Mean weight of the episodes, which should be 1, from which they can refuse an estimate."""


class EvidenceReducer:
    """Accumulates what the verdicts need from a second pass, given the solutions of the first."""

    def __init__(
        self,
        log: Log,
        sums: Statistics,
        policies: Sequence[Target],
        sample: FloatArray,
        features: EncodeOnce,
        rule: Rule,
        ridge: float,
        episode_id: Callable[[int], Any],
    ) -> None:
        K = log.n_actions
        self._log, self._sums, self._features = log, sums, features
        self._episode_id, self._rows = episode_id, EpisodeFold(1)
        self._columns = [Column.of(n, sample[:, k]) for k, n in enumerate(log.observation_names)]
        size = min(log.rows // ROWS_PER_PAIR, MAX_PAIRS) // K
        cells = EncodeOnce(Cells.of(sample, int(np.clip(size, 1, MAX_CELLS))))
        self._actions = ActionCounts(K, self._columns)
        self._targets = [
            _TargetEvidence(sums, policy, features, cells, rule, ridge, K) for policy in policies
        ]

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        """Return the work of adding the next segment, one job per target."""
        segment = batch.segment
        rows = self._rows.begin(segment)
        rows[:, 0] += np.bincount(segment.row_episode, minlength=len(rows))
        self._rows.end(segment, rows)
        for target in self._targets:
            batch.pi(target.scores.policy)  # a policy is called in one thread
        return [partial(self._actions.add, batch.segment)] + [
            partial(target.add, batch) for target in self._targets
        ]

    def measurements(
        self, k: int, robust: Trajectories | None, consensus: SampleConsensus | None
    ) -> Measurements:
        """Return the measurements of a target, given other estimates of its value."""
        target = self._targets[k]
        scores = target.scores.scores
        states, pi = target.sample.rows
        support = measure_coverage(
            self._features, self._sums, (states, pi), self._columns, self._actions.taken,
            self._log.action_names,
        )  # fmt: skip
        residual = None if target.residual is None else abs(target.residual.value())
        measured = measure_scores(
            scores, None if target.plain is None else target.plain.scores, support, robust,
            consensus,
            name=target.scores.policy.name,
            rows=np.asarray(self._rows.rows[:, 0]),
            unit=lambda k: f"episode {self._episode_id(k)}",
            counts=target.counts,
            residual=residual,
        )  # fmt: skip
        return replace(
            measured,
            weighted=distance_on_one_side(measured.interval.value, robust),
            weights_are_complete=are_complete(robust),
        )


class _TargetEvidence:
    """What is accumulated for one target."""

    def __init__(
        self,
        sums: Statistics,
        policy: Target,
        features: EncodeOnce,
        cells: EncodeOnce,
        rule: Rule,
        ridge: float,
        n_actions: int,
    ) -> None:
        self.residual = None
        if sums.setting.values == "action":
            self.residual = ResidualProblem(cells, policy, n_actions, sums.setting.gamma)
        on_deltas = None if self.residual is None else self.residual.add
        self.scores = ScoreReducer(sums, policy, features, rule, ridge, on_deltas)
        self.plain = ScoreReducer(sums, policy, features, rule, 0.0) if ridge else None
        self.counts, self.sample = PolicyCounts.empty(n_actions, cells.size), StridedSample()
        self._cells = cells

    def add(self, batch: SegmentBatch) -> None:
        segment, pi = batch.segment, batch.pi(self.scores.policy)
        cell = self._cells.encode(segment.observations).indices[segment.states, 0]
        self.counts.add(segment, pi, cell.astype(np.int64))
        self.sample.add(segment.observations[segment.states], pi[segment.states])
        self.scores.score(batch)
        if self.plain is not None:
            self.plain.score(batch)


def measure_scores(
    scores: EpisodeScores,
    without_ridge: EpisodeScores | None,
    support: Coverage,
    robust: Trajectories | None,
    consensus: SampleConsensus | None,
    **others: Any,
) -> Measurements:
    """Return the measurements of a target by the scores of its episodes.

    ``robust`` and ``consensus`` are other estimates of its value, and ``others`` further fields.
    """
    interval, influence = interval_from_scores(scores), scores.influence
    is_consensus = consensus is not None and consensus.is_main
    if consensus is not None and is_consensus:
        value, influence = consensus.adjusted(influence)
        interval = student_interval(value, influence, "V^π", "marginal ratios")
    agreement, no_agreement = _agreement(interval.value, influence, robust)
    return Measurements(
        theta=scores.theta,
        interval=interval,
        influence=influence,
        coverage=support.coverage,
        unvisited=support.unvisited,
        weakest=support.description,
        support=support,
        without_ridge=None if without_ridge is None else interval_from_scores(without_ridge),
        agreement=agreement,
        no_agreement=no_agreement,
        from_log=True,
        consensus=None if consensus is None else consensus.on_all(scores.influence),
        is_consensus=is_consensus,
        **others,
    )


def _agreement(
    value: float, influence: FloatArray, robust: Trajectories | None
) -> tuple[tuple[float, float] | None, str]:
    """Return V̂ minus WDR and its standard error, if WDR is reliable; and why it would not be."""
    if robust is None:
        return None, "there is no weighted doubly robust estimate"
    if not robust.comparable:
        return None, "doubly robust estimates on truncated episodes have a different estimand"
    shape = "no k̂" if np.isnan(robust.k_hat) else f"k̂ {robust.k_hat:.2f}"
    reason = f"the doubly robust estimate is unreliable: ESS {robust.ess:.0f}, {shape}"
    if not np.isfinite(robust.normalised) or not robust.is_reliable:
        return None, reason
    paired = student_interval(0.0, influence - robust.scores, ESTIMAND, "paired")
    return (value - robust.normalised, paired.error), reason


def distance_on_one_side(value: float, robust: Trajectories | None) -> float:
    """Return the smaller distance to DR and WDR if both are on one side of V̂, even if noisy."""
    if robust is None or not robust.comparable or robust.ess < MIN_HEARD_ESS:
        return 0.0
    low, high = sorted(robust.value(name) - value for name in robust.names)
    return max(low, -high, 0.0) if np.isfinite([low, high]).all() else 0.0


def are_complete(robust: Trajectories | None) -> bool:
    """Whether no large weights seem to be missing."""
    return robust is None or robust.mean_weight >= MIN_MEAN_WEIGHT
