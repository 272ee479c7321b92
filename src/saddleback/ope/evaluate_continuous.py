"""`evaluate` for logs of continuous actions, with the same estimates, checks and result.

Everything follows `evaluate`, with one basis of observation and action in place of one copy of the
features for each action, and E_π φ(s', ·) in place of a sum over actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from saddleback._progress import Progress, split_progress
from saddleback._threads import thread_pool
from saddleback.features.standardised import robust_scale
from saddleback.features.state_action import StateActionFeatures
from saddleback.log import Finding, Log
from saddleback.log.behaviour_target import NAME, check_name_not_reserved
from saddleback.log.continuous_targets import ContinuousTarget, as_continuous_targets
from saddleback.log.diagnostics import raise_errors
from saddleback.ope.action_candidates import action_candidates
from saddleback.ope.action_evidence import (
    MAX_STATES,
    action_coverage,
    decisions,
    density_calibration,
    describe_actions,
    outside_logged,
)
from saddleback.ope.baseline import Baseline
from saddleback.ope.candidates import unused_columns
from saddleback.ope.confidence_bounds import require_two_episodes
from saddleback.ope.density_weights import JointQ, Weighted, weigh_continuous
from saddleback.ope.diagnosis import Measurements, diagnose, start_spectra
from saddleback.ope.doubly_robust import FOLD_RIDGE, CrossFitted
from saddleback.ope.episode_sample import FOLDS, EpisodeSample, EpisodeSampler, sample_episodes
from saddleback.ope.estimate import Estimate, leading_estimates
from saddleback.ope.evaluate_statistics import closed_forms
from saddleback.ope.evidence_from_log import measure_scores
from saddleback.ope.feature_spec import is_automatic
from saddleback.ope.fqe import fqe_estimate
from saddleback.ope.joint_features import as_joint_features, describe
from saddleback.ope.joint_statistics import JointSums, SampledPolicy
from saddleback.ope.log_counts import EpisodeTotals, LogCounts
from saddleback.ope.log_pass import Rechecks, read_log
from saddleback.ope.methods import continuous_methods
from saddleback.ope.policy_counts import PolicyCounts
from saddleback.ope.result import Evaluation
from saddleback.ope.return_distribution import ReturnDistribution, return_distributions
from saddleback.ope.sample_consensus import (
    ESTIMATE_ROWS,
    OPINION_ROWS,
    SampleConsensus,
    sample_consensus,
)
from saddleback.ope.spectrum import check_draws
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.ope.weight_diagnostics import weight_tail
from saddleback.rules import GTB

RULE = GTB(0.0)
"""Rule of the closed form: one step, without ratios."""

BLOCKS = 20
"""Blocks of episodes."""

NO_MODEL = "actions are continuous"
"""Why there is no model of the log."""

CACHED_ROWS, MAX_ROWS = 250_000, 1_000_000
"""Largest numbers of rows of a log that is cached, and of transitions in memory; of a larger log a
sample of whole episodes is used."""


def evaluate_continuous(
    log: Log,
    target: Any,
    *,
    gamma: float,
    features: Any,
    horizon: int | None,
    methods: Sequence[str] | None,
    ridge: float,
    path: bool,
    draws: int | None,
    lower_is_better: bool,
    distribution: bool,
    threads: int,
    progress: Progress | None,
) -> Evaluation:
    """Evaluate target policies on a log of continuous actions; see `evaluate`."""
    named = as_continuous_targets(target, log)
    check_name_not_reserved([policy.name for policy in named])
    selected = continuous_methods(log, methods)
    if draws is not None:
        check_draws(draws)
    names = [policy.name for policy in named]
    reading, solving, choosing, weighing = split_progress(
        progress,
        [("reading", 1.0), ("evaluating", 1.0), ("choosing features", 6.0 * len(named)),
         ("evaluating", 1.0)],
    )  # fmt: skip
    if log.rows <= CACHED_ROWS:
        log = log.cached(progress=reading)
        raise_errors(log.reader().findings())
    totals, sampler = EpisodeTotals(log, gamma), EpisodeSampler(named, MAX_ROWS)
    rechecks: Rechecks = {}
    reader = read_log(log, [totals, sampler], named, rechecks=rechecks, mergeable=False)
    summary = reader.summary(gamma, totals.returns.mean)
    raise_errors(summary.findings)
    sample = sampler.sample
    require_two_episodes(len(sample.starts))
    assert sample.action_values is not None
    automatic = is_automatic(features)
    is_main = automatic or horizon is not None
    chosen = as_joint_features(features, sample)
    recheck_features = chosen.check_rows(sample.states, sample.action_values)
    part = sample.thinned(ESTIMATE_ROWS if is_main else OPINION_ROWS)
    if is_main and log.time_limit == "task":
        part, horizon = sample_episodes(log, named, ESTIMATE_ROWS, horizon, rechecks=rechecks)
    not_needed: tuple[str, ...] = ()
    if horizon is not None:  # known to the estimate, so the observation need not tell the time
        not_needed = ("W154",)
        kept = tuple(finding for finding in summary.findings if finding.code not in not_needed)
        summary = replace(summary, findings=kept)
    order = np.argsort(sample.numbers)  # the episodes of ``part`` by their position in ``sample``
    where = order[np.searchsorted(sample.numbers, part.numbers, sorter=order)]
    part = replace(part, numbers=where)

    policies = [SampledPolicy.of(policy, chosen, sample) for policy in named]
    joint = JointSums(chosen, sample, gamma, (*policies, SampledPolicy.logged(sample)))
    findings = tuple(one for one in reader.findings() if one.code not in not_needed)
    if automatic:
        findings += tuple(unused_columns(part, log.observation_names))
    if len(sample.starts) < sample.total:
        findings += (_sampled(sample),)
    T, block = len(joint.policies), totals.blocks(BLOCKS)
    sums = Statistics(
        setting=_setting(log, named, chosen, gamma),
        **joint.by_block(block[sample.numbers], BLOCKS),
        squares=np.zeros(T),
        kappa_squares=np.zeros((T, 1)),
        **totals.identities(),
        counts=LogCounts.of(
            totals.returns, block, BLOCKS, gamma, reader.altered, np.zeros(chosen.size),
            np.zeros((T, chosen.size)), (PolicyCounts.empty(1),) * T,
        ),
        findings=findings,
    )  # fmt: skip
    with thread_pool(threads) as pool:
        closed, paths = closed_forms(sums, RULE, names, ridge, path, solving)
        paths = {name: {"ridge": values["ridge"]} for name, values in paths.items()}
        opinions = sample_consensus(
            part, named, gamma, horizon, is_main=is_main, pool=pool, progress=choosing,
            bases=partial(action_candidates, part, None if automatic else chosen, is_main),
        )  # fmt: skip
        spectra = start_spectra(sums, RULE, names, pool, ridge, draws)
        weighted: dict[str, Weighted] = {}
        if selected and log.propensity:
            fits = {
                policy.name: JointQ(policy, chosen, CrossFitted(sums, t, FOLD_RIDGE, FOLDS))
                for t, policy in enumerate(named)
            }
            scale = robust_scale(sample.action_values)[1]
            weighted = weigh_continuous(
                log, named, gamma, sample.states[:MAX_STATES], np.where(scale > 0, scale, 1.0),
                fits, rechecks, weighing,
            )  # fmt: skip
        baseline = Baseline.of(
            joint.scores(sums, RULE, len(named), ridge), bool(sums.counts.truncated_weight[0])
        )
        calibrated = density_calibration(part) if log.propensity else None
        diagnoses = [
            diagnose(
                sums, RULE, ridge,
                _measure(
                    log, joint, sums, t, policy, ridge, weighted.get(policy.name),
                    opinions.get(policy.name), calibrated, reader.episode_id,
                ),
                baseline, spectra, lower_is_better,
            )
            for t, policy in enumerate(named)
        ]  # fmt: skip
    recheck_features()
    estimates: list[Estimate] = []
    for estimate, diagnosis in zip(closed, diagnoses, strict=True):
        name = estimate.target
        label = "LSTD" + (f", ridge {ridge:g}" if ridge else "")
        lstd = replace(estimate, method=label)
        is_consensus = is_main and name in opinions
        estimates += leading_estimates(lstd, diagnosis.interval, is_consensus, horizon)
        if "fqe" in selected:
            estimates.append(fqe_estimate(sums, RULE, name, ridge))
        if name in weighted:
            estimates += _weighted_estimates(weighted[name], selected)
    episodes = {name: one.plain for name, one in weighted.items()}
    return Evaluation(
        sums, RULE, tuple(estimates), paths, tuple(sums.warnings(RULE)), baseline,
        tuple(diagnoses), {name: one.ess_by_step for name, one in episodes.items()},
        {name: weight_tail(one.log_weights) for name, one in episodes.items()}, lower_is_better,
        summary,
        distributions=_distributions(weighted, lower_is_better),
        missing_models=dict.fromkeys(names, NO_MODEL) if distribution else {},
    )  # fmt: skip


def _measure(
    log: Log,
    joint: JointSums,
    sums: Statistics,
    t: int,
    policy: ContinuousTarget,
    ridge: float,
    weighted: Weighted | None,
    consensus: SampleConsensus | None,
    miscalibration: tuple[float, float] | None,
    episode_id: Callable[[int], Any],
) -> Measurements:
    """Measure one target; as `EvidenceReducer.measurements` does for discrete actions."""
    sample = joint.sample
    assert sample.action_values is not None
    states = sample.states[:: -(-len(sample.states) // MAX_STATES)]
    actions = decisions(policy, states)
    names = (*log.observation_names, *log.roles.actions)
    robust = None if weighted is None else weighted.robust
    if robust is not None:
        robust = replace(robust, scores=robust.scores[sample.numbers])
    return measure_scores(
        joint.scores(sums, RULE, t, ridge),
        joint.scores(sums, RULE, t, 0.0) if ridge else None,
        action_coverage(joint.features, sums, sample, states, actions, names),
        robust,
        consensus,
        name=policy.name,
        rows=np.bincount(sample.episode, minlength=len(sample.starts)).astype(float),
        unit=lambda k: f"episode {episode_id(int(sample.numbers[k]))}",
        counts=sums.counts.by_target[t],
        uncovered=outside_logged(actions, sample.action_values),
        miscalibration=miscalibration,
        policy=describe_actions(policy, states, actions, log.roles.actions),
    )


def _distributions(
    weighted: dict[str, Weighted], lower_is_better: bool
) -> dict[str, ReturnDistribution]:
    """Return the distributions of the return by target; those from a kernel with a note."""
    shown = return_distributions([one.plain for one in weighted.values()], lower_is_better)
    return {
        name: one if (h := weighted[name].bandwidth) is None else replace(one, note=_kernel(h))
        for name, one in shown.items()
    }


def _kernel(bandwidth: float) -> str:
    return f"kernel of bandwidth {bandwidth:.2g} SD of the action"


def _weighted_estimates(weighted: Weighted, selected: Sequence[str]) -> list[Estimate]:
    """Return the selected estimates from weighted episodes."""
    estimates = []
    for method in selected:
        for episodes in (weighted.plain, weighted.robust):
            if episodes is None or method.upper() not in episodes.names:
                continue
            estimate = Estimate.of(episodes.estimate(method.upper()))
            if weighted.bandwidth is not None:
                note = _kernel(weighted.bandwidth)
                note += "" if estimate.note == "ok" else f"; {estimate.note}"
                estimate = replace(estimate, method=f"{estimate.method}, kernel", note=note)
            estimates.append(estimate)
    return estimates


def _setting(
    log: Log, targets: Sequence[ContinuousTarget], features: StateActionFeatures, gamma: float
) -> StatisticsKey:
    return StatisticsKey(
        gamma=gamma,
        rules=(RULE,),
        targets=(*(target.name for target in targets), NAME),
        marks=(*(target.fingerprint for target in targets), "as logged"),
        features=describe(features),
        values="action",
        shared=False,
        p=features.size,
        actions=log.action_names,
        observation=log.roles.observations,
        blocks=BLOCKS,
        reading=log.read_options,
    )


def _sampled(sample: EpisodeSample) -> Finding:
    return Finding(
        "W175",
        f"{len(sample.starts):,} of {sample.total:,} episodes are used, {len(sample.rewards):,} "
        "rows: more continuous actions are not kept in memory.",
    )
