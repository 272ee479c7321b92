"""The evidence for a verdict, from one more pass over the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from saddleback._progress import Progress, part_of, split_progress
from saddleback._typing import FloatArray
from saddleback.features import Features
from saddleback.log import BehaviourTarget, Log, Segment, Target
from saddleback.ope.approximation_gap import Gap, ResidualProblem, trace_gap, unvisited_gap
from saddleback.ope.baseline import Baseline, excess_over
from saddleback.ope.coverage import measure_coverage
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.evidence import Evidence
from saddleback.ope.evidence_from_statistics import (
    NOTES,
    Diagnosis,
    PendingSpectra,
    shared_evidence,
)
from saddleback.ope.log_counts import PolicyCounts
from saddleback.ope.partition import Cells, Column, StridedSample
from saddleback.ope.policy_summary import ActionCounts, PolicySummary
from saddleback.ope.sandwich import ESTIMAND, interval_from_scores, student_interval
from saddleback.ope.scoring_pass import EpisodeScores, score_episodes
from saddleback.ope.statistics import Statistics
from saddleback.ope.verdict import Verdict
from saddleback.ope.weight_diagnostics import k_hat_threshold
from saddleback.rules import Rule

MAX_CELLS, MAX_PAIRS, ROWS_PER_PAIR = 64, 640, 40
"""Largest numbers of cells and of pairs of cell and action, and rows per pair."""

MIN_ESS = 20.0
"""Smallest effective sample size for the doubly robust cross-check."""


def diagnose(
    log: Log,
    sums: Statistics,
    policies: Sequence[Target],
    observed: BehaviourTarget,
    sample: FloatArray,
    *,
    features: Features,
    rule: Rule,
    ridge: float,
    robust: Mapping[str, Trajectories],
    spectra: PendingSpectra,
    lower_is_better: bool,
    progress: Progress | None = None,
) -> tuple[list[Diagnosis], Baseline]:
    """Gather the evidence on the solutions of all targets, and judge them."""
    setting, K = sums.setting, log.n_actions
    columns = [Column.of(n, sample[:, k]) for k, n in enumerate(log.roles.observations)]
    cells = Cells.of(
        sample, int(np.clip(min(log.rows // ROWS_PER_PAIR, MAX_PAIRS) // K, 1, MAX_CELLS))
    )
    policy_counts = [PolicyCounts.empty(K, cells.size) for _ in policies]
    samples = [StridedSample() for _ in policies]
    action_counts = ActionCounts(K, columns)
    residuals = [ResidualProblem(cells, K, setting.gamma) for _ in policies]

    def add(segment: Segment, k: int, pi: FloatArray, deltas: FloatArray) -> None:
        if k == len(policies):
            action_counts.add(segment)
            return
        states = segment.observations[segment.states]
        policy_counts[k].add(segment, pi, cells.find(states))
        samples[k].add(states, pi[segment.states])
        if setting.values == "action":
            residuals[k].add(segment, pi, deltas)

    all_scores = score_episodes(
        log, sums, [*policies, observed], features=features, rule=rule, ridge=ridge, on_segment=add,
        progress=part_of(progress, 0.0, 0.5),
    )  # fmt: skip
    logged = Baseline.of(all_scores[-1], bool(sums.counts.truncated_weight[0]))
    span = sums.span
    diagnoses = []
    targets = zip(policies, all_scores, policy_counts, samples, residuals, strict=False)
    checks = split_progress(part_of(progress, 0.5, 1.0), [("", 1.0)] * len(policies))
    for (policy, scores, counts, drawn, residual), check in zip(targets, checks, strict=True):
        if check is not None:
            check(0.0)
        interval = interval_from_scores(scores)
        states, pi = drawn.rows
        covered = measure_coverage(
            features, sums, (states, pi), columns, action_counts.taken, log.action_names
        )
        cloud, shared = shared_evidence(sums, rule, policy.name, interval, ridge, spectra, counts)
        agreed = _agreement(scores, robust.get(policy.name))
        gap = Gap(
            unvisited=unvisited_gap(sums, rule, policy.name, scores.theta, ridge),
            residual=abs(residual.value()) if setting.values == "action" else None,
            trace=trace_gap(sums, rule, policy.name, scores.value, ridge),
            self_check=logged.gap,
            agreement=None if agreed is None else excess_over(*agreed, 1.0),
        )
        notes = NOTES | {"AGREEMENT": _why_no_agreement(robust.get(policy.name))}
        evidence = Evidence(
            value=scores.value, error=interval.error, spread=logged.spread,
            coverage=covered.coverage, unvisited=covered.unvisited,
            self_check=logged.self_check, self_check_error=logged.self_check_error,
            agreement=None if agreed is None else agreed[0],
            agreement_error=None if agreed is None else agreed[1],
            gap=gap.value, notes=notes, **shared,
        )  # fmt: skip
        improvement = logged.improvement(scores.value, scores.influence, gap.value, lower_is_better)
        verdict = Verdict.of(
            policy.name, (interval.value, interval.low, interval.high), evidence, improvement,
            covered.description,
        )  # fmt: skip
        summary = PolicySummary.of(counts, log.action_names, shared["steps"])
        diagnoses.append(
            Diagnosis(verdict, interval, summary, covered, cloud, gap, span.condition, span.rank)
        )
    return diagnoses, logged


def _agreement(scores: EpisodeScores, robust: Trajectories | None) -> tuple[float, float] | None:
    """Return V̂ minus WDR and its standard error, if WDR is reliable."""
    if robust is None or not robust.comparable or not np.isfinite(robust.normalised):
        return None
    heavy = not robust.k_hat <= k_hat_threshold(robust.n)
    if heavy or robust.ess < MIN_ESS:
        return None
    paired = student_interval(0.0, scores.influence - robust.scores, 0.95, ESTIMAND, "paired")
    return scores.value - robust.normalised, paired.error


def _why_no_agreement(robust: Trajectories | None) -> str:
    """Return the reason why there is no reliable doubly robust estimate to compare with."""
    if robust is None:
        return "there is no weighted doubly robust estimate"
    if not robust.comparable:
        return "doubly robust estimates on truncated episodes have a different estimand"
    shape = "no k̂" if np.isnan(robust.k_hat) else f"k̂ {robust.k_hat:.2f}"
    return f"the doubly robust estimate is unreliable: ESS {robust.ess:.0f}, {shape}"
