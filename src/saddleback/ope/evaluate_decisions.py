"""The value of target policies on a log of single decisions: `evaluate` for a contextual bandit.

The estimate is doubly robust (DR) with the logged propensities and the direct model of the
consensus, if the importance weights are reliable; otherwise, or without propensities, it is the
consensus itself, Marginal DR, which estimates the weights from the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from saddleback._progress import Progress, part_of, split_progress
from saddleback._threads import thread_pool
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter
from saddleback.features import Active
from saddleback.log import BehaviourTarget, Log, LogSample
from saddleback.log.behaviour_target import check_name_not_reserved
from saddleback.log.diagnostics import raise_errors
from saddleback.log.target_policies import as_targets
from saddleback.ope.baseline import Baseline
from saddleback.ope.candidates import unused_columns
from saddleback.ope.confidence_bounds import student
from saddleback.ope.decisions import DECISION_METHODS, MODEL, MODEL_ERROR, Decisions
from saddleback.ope.diagnosis import Measurements, diagnose
from saddleback.ope.doubly_robust import QValues
from saddleback.ope.episode_sample import FOLDS, sample_episodes
from saddleback.ope.estimate import Estimate, marginal_dr
from saddleback.ope.evidence_from_log import EvidenceReducer
from saddleback.ope.feature_spec import as_features, is_automatic
from saddleback.ope.fqe import ONE_STEP
from saddleback.ope.importance_sampling import WeightReducer
from saddleback.ope.log_pass import EncodeOnce, Rechecks, Reducer, read_log
from saddleback.ope.methods import decision_methods
from saddleback.ope.model_distribution import model_distributions
from saddleback.ope.phases import READING, plan_phases
from saddleback.ope.result import Evaluation
from saddleback.ope.return_distribution import ReturnDistribution, return_distributions
from saddleback.ope.sample_consensus import ESTIMATE_ROWS, sample_consensus
from saddleback.ope.sandwich import student_interval
from saddleback.ope.scoring_pass import ScoreReducer
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.ope.statistics_pass import StatisticsReducer
from saddleback.ope.weight_diagnostics import weight_tail


@dataclass(frozen=True)
class ConstantFeature:
    """One feature that is always active: rewards are summed up by action.

    ``model`` describes the features of the direct model.
    """

    model: str
    size: int = 1
    dimensions: int | None = None

    def encode(self, observations: FloatArray) -> Active:
        """Return the feature, for observations [n, d]."""
        return Active(np.zeros((len(observations), 1), dtype=np.uint32), None)

    def __repr__(self) -> str:
        return self.model


def takes_decisions(log: Log, methods: Any, features: Any, **episodic: Any) -> bool:
    """Whether to take a log as single decisions: declared so, or recognised.

    ``episodic`` are the options that concern only episodes, None where not given. For continuous
    actions there are other estimators, which take decisions as episodes of one step.
    """
    if log.has_continuous_actions:
        return False
    given = [option for option, value in episodic.items() if value is not None]
    if log.bandit:
        for option in given:
            raise InvalidParameter(
                f"evaluate: {option} does not apply to single decisions (bandit=True): leave it "
                "out."
            )
        return True
    if given or not is_automatic(features):
        return False
    if methods is not None and not (
        isinstance(methods, (list, tuple)) and all(one in [*DECISION_METHODS] for one in methods)
    ):
        return False
    return log.holds_decisions


def evaluate_decisions(
    log: Log,
    target: Any,
    *,
    features: Any,
    low: ArrayLike | None,
    high: ArrayLike | None,
    methods: Sequence[str] | None,
    lower_is_better: bool,
    allow_uncovered: bool,
    distribution: bool,
    threads: int,
    progress: Progress | None,
) -> Evaluation:
    """Evaluate targets on a log of single decisions; the parameters are those of `evaluate`."""
    selected = decision_methods(log, methods)
    named = as_targets(target, log)
    check_name_not_reserved([policy.name for policy in named])
    reading = part_of(progress, 0.0, READING, "reading")
    states = LogSample(log.n_actions, log.dimensions)
    rechecks: Rechecks = {}
    sample, _ = sample_episodes(log, named, ESTIMATE_ROWS, None, states, reading, rechecks)
    if len(sample.starts) < 2 * FOLDS:
        raise InvalidParameter(
            f"the log has {len(sample.starts)} decisions, too few to estimate anything from (at "
            f"least {2 * FOLDS})."
        )
    automatic = is_automatic(features) and not log.roles.are_features
    given = None if automatic else as_features(features, log, states, low, high)
    unused = unused_columns(sample, log.observation_names) if automatic else ()
    once = EncodeOnce(ConstantFeature("auto" if given is None else repr(given)))
    behaviour = BehaviourTarget.from_counts(states.action_counts)
    policies, names = [*named, behaviour], [policy.name for policy in named]
    phases = plan_phases(
        progress, rows=log.rows, active=1, p=log.n_actions, targets=len(named), rules=1, folds=0,
        weighting_jobs=len(named) * bool(log.propensity), draws=0, sampled=ESTIMATE_ROWS,
        is_consensus=True,
    )  # fmt: skip
    setting = StatisticsKey.of(log, [ONE_STEP], policies, once.features, 0.0, False, FOLDS)
    with thread_pool(threads) as pool:
        one_pass = partial(
            read_log,
            log,
            targets=policies,
            features=once,
            pool=pool,
            rechecks=rechecks,
            mergeable=False,
        )
        first = StatisticsReducer(log, setting, policies, once, main=len(named))
        reader = one_pass([first], progress=phases.sums)
        summary = reader.summary(0.0, first.mean_return)
        raise_errors(summary.findings)
        first.check(reader, allow_uncovered)
        sums = Statistics(**first.totals())
        opinions = sample_consensus(
            sample, named, 0.0, features=given, is_main=True, pool=pool, progress=phases.choosing
        )
        weights = []
        if log.propensity:
            for policy in named:
                q = QValues(policy, opinions[policy.name].consensus.q, 0.0)
                weights.append(WeightReducer(log, policy, 0.0, q))
        evidence = EvidenceReducer(
            log, sums, named, states.states, once, ONE_STEP, 0.0, reader.episode_id
        )
        logged = ScoreReducer(sums, behaviour, once, ONE_STEP, 0.0)
        reducers: list[Reducer] = [*weights, evidence, logged]
        second, *_ = split_progress(phases.scores, [("", 1.0)])
        one_pass(reducers, progress=second)
    weighted = {one.target.name: one.result(allow_uncovered) for one in weights}
    baseline = replace(
        Baseline.of(logged.scores, False), estimate=None, self_check=None, self_check_error=None
    )
    diagnoses, estimates = [], []
    for k, name in enumerate(names):
        marginal = replace(
            evidence.measurements(k, weighted.get(name), opinions[name]),
            is_bandit=True,
            agreement=None,
            unit=lambda k: f"decision {reader.episode_id(k)}",
        )
        measured = marginal
        shown = {"Marginal DR": marginal_dr(name, marginal.interval)}
        main = "Marginal DR"
        if name in weighted:
            decisions = Decisions(weighted[name])
            others = [label for label in DECISION_METHODS.values() if label not in shown]
            shown |= {label: decisions.estimate(label) for label in others}
            if weighted[name].is_reliable:
                main, measured = "DR", _doubly_robust(marginal, decisions)
        else:
            values = opinions[name].consensus.plug_in
            shown["DM"] = Estimate(
                name, "DM", float(values.mean()), MODEL_ERROR, *student(values, 0.95), MODEL,
                comparable=False,
            )  # fmt: skip
        chosen = [main, *(DECISION_METHODS[method] for method in selected)]
        estimates += [shown[label] for label in dict.fromkeys(chosen)]
        diagnoses.append(diagnose(sums, ONE_STEP, 0.0, measured, baseline, {}, lower_is_better))
    tails = {name: weight_tail(one.log_weights) for name, one in weighted.items()}
    models: dict[str, ReturnDistribution] = {}
    missing: dict[str, str] = {}
    if distribution:
        models, missing = model_distributions(
            sample, named, 0.0, features=given, lower_is_better=lower_is_better
        )
    return Evaluation(
        sums, ONE_STEP, tuple(estimates), {}, (*sums.warnings(ONE_STEP), *unused), baseline,
        tuple(diagnoses), {}, tails, lower_is_better, summary, True,
        return_distributions(weighted.values(), lower_is_better),
        models, missing,
    )  # fmt: skip


def _doubly_robust(marginal: Measurements, decisions: Decisions) -> Measurements:
    """Return the measurements of DR, which Marginal DR should agree with."""
    values = decisions.weighted.totals
    value, influence = float(values.mean()), values - values.mean()
    paired = student_interval(0.0, influence - marginal.influence, "V^π", "paired")
    return replace(
        marginal,
        interval=student_interval(value, influence, "V^π", "Student t"),
        influence=influence,
        agreement=(value - marginal.interval.value, paired.error),
        mean_weight=decisions.mean_weight,
    )
