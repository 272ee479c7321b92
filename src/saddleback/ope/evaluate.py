"""`evaluate`: the value of target policies from a log, with diagnostics and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress, part_of, split_progress
from saddleback._threads import thread_pool
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import Fix, InvalidParameter
from saddleback.features import Features
from saddleback.log import BehaviourTarget, Finding, Log, LogSample, Target
from saddleback.log.behaviour_target import check_name_not_reserved
from saddleback.log.diagnostics import raise_errors
from saddleback.log.target_policies import as_targets
from saddleback.ope.baseline import Baseline
from saddleback.ope.candidates import unused_columns
from saddleback.ope.confidence_bounds import require_two_episodes
from saddleback.ope.diagnosis import diagnose, resample_count, start_spectra
from saddleback.ope.doubly_robust import FOLD_RIDGE, CrossFitted, QValues
from saddleback.ope.episode_sample import EpisodeSample, EpisodeSampler, sample_episodes
from saddleback.ope.estimate import Estimate, leading_estimates
from saddleback.ope.estimator import default_rule
from saddleback.ope.evaluate_continuous import evaluate_continuous
from saddleback.ope.evaluate_decisions import evaluate_decisions, takes_decisions
from saddleback.ope.evaluate_statistics import closed_forms, lambda_path_rules
from saddleback.ope.evidence_from_log import EvidenceReducer
from saddleback.ope.feature_spec import as_features, is_automatic
from saddleback.ope.fqe import ONE_STEP, fqe_estimate
from saddleback.ope.importance_sampling import WeightReducer
from saddleback.ope.log_pass import EncodeOnce, Rechecks, Reducer, read_log
from saddleback.ope.lstd_solve import prediction_distance
from saddleback.ope.methods import IMPORTANCE_SAMPLING, episode_methods
from saddleback.ope.model_distribution import model_distributions
from saddleback.ope.phases import EPOCHS, READING, plan_phases
from saddleback.ope.result import Evaluation
from saddleback.ope.return_distribution import ReturnDistribution, return_distributions
from saddleback.ope.sample_consensus import (
    ESTIMATE_ROWS,
    OPINION_ROWS,
    SampleConsensus,
    sample_consensus,
)
from saddleback.ope.scoring_pass import ScoreReducer
from saddleback.ope.spectrum import check_draws
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.ope.statistics_pass import StatisticsReducer
from saddleback.ope.streaming import Streamed
from saddleback.ope.svrg_estimator import SVRG
from saddleback.ope.weight_diagnostics import weight_tail
from saddleback.rules import GTB, Rule, as_rule
from saddleback.rules.requirements import needs_propensities
from saddleback.system import LARGEST

WITHOUT_RATIOS = GTB(0.5)
"""Default rule of the closed form where the log has no propensities."""

CACHED_ROWS = 250_000
"""Largest number of rows of a log that is cached in memory, since it is read several times."""

BLOCKS, FOLDS, MAX_BYTES = 20, 5, 2**31
"""Blocks of episodes to resample, folds for Q, and bytes of sums above which there are only FOLDS
blocks."""


@np.errstate(divide="warn", over="warn", under="ignore", invalid="warn")
def evaluate(
    data: Any,
    target: Any,
    *,
    gamma: float | None = None,
    features: Features | Callable[[FloatArray], ArrayLike] | str | None = None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    horizon: int | None = None,
    rule: Rule | str | None = None,
    methods: Sequence[str] | None = None,
    ridge: float = 0.0,
    path: bool = False,
    shared: bool = False,
    passes: int = 1,
    learner: Rule | None = None,
    draws: int | None = None,
    lower_is_better: bool = False,
    allow_uncovered: bool = False,
    bandit: bool = False,
    distribution: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Estimate the value of target policies at the start states of a log, with a verdict.

    With automatic features the estimate is doubly robust, with marginal ratios, from many bases.
    With features chosen by hand it is the closed form, with x̄ the mean of E_π φ over the starts,

        V̂ = x̄ᵀθ̂        Âθ̂ + b̂ = 0

    Parameters
    ----------
    data
        A `Log`, or anything a log can be read from: a path or pattern, a pandas or polars frame, an
        Arrow table, or a dict of arrays.
    target
        A target policy (see `saddleback.log.as_target`), or several by name in a dict. For
        continuous actions: a function from observations [n, d] to actions [n, k],
        `saddleback.policies.Gaussian` or `saddleback.policies.Sampler`.
    gamma
        Discount; by default the one in the log's metadata.
    features, low, high
        By default, or with ``"auto"``, many features are tried, and the estimate is the consensus
        of those that agree best on episodes left out. Otherwise features of an observation: an
        object of `saddleback.features`, a function from observations [n, d] to features [n, size],
        or a text as on the command line, such as ``"tiles:8x4"`` or ``"polynomial:2"``, whose box
        is ``low`` to ``high``, by default the range of the log. For continuous actions: a function
        of observations [n, d] and actions [n, k], ``"monomials:2"`` or ``"random-fourier:100"``.
    horizon
        Number of steps after which the task ends, for the value of that many steps. By default
        there is no limit; with automatic features and a time limit that belongs to the task, it is
        the length of truncated episodes, if all have the same.
    shared
        Whether to add a copy of each feature shared by all actions.
    rule
        The rule whose TD fixed point is computed; `default_rule` if not given.
    methods
        Additional estimators: "fqe", "streamed", "svrg"; importance sampling "is", "pdis", "wis",
        "pdwis"; and doubly robust with a cross-fitted Q "dr" and "wdr". By default "wdr", "dr",
        "pdwis" and "pdis" if the log has propensities.
    ridge
        Ridge η of the closed form.
    path
        Whether to compute the closed form for a range of λ and of ridges.
    passes, learner
        Passes over the log and rule of "streamed"; GES(0) if not given.
    draws
        Number of block-bootstrap resamples for the spectrum of Â; by default 20, or none with
        automatic features, a horizon, or more than 400 features over all actions.
    lower_is_better
        Whether rewards are costs.
    bandit
        Whether each row is a decision of its own, as for `Log`; neither a discount nor episodes are
        needed then. A log with one terminated row per episode is recognised as such, unless
        features, a rule, a horizon or other methods are given. Methods: "dr", "dros", "switch-dr",
        "snipw", "ipw", "dm" and "marginal-dr", by default all that the log allows.
    distribution
        Whether to add the distribution of the return in a model of the log, which takes time.
    threads
        Number of threads; the result does not depend on it.
    progress
        Called with the fraction of the work done and its phase: reading, evaluating, resampling.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.features import Tiles
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=1000, rng=0)
    >>> tiles = Tiles((-1.2, -0.07), (0.6, 0.07), bins=4, tilings=4)
    >>> result = evaluate(log, "pump:0.8", features=tiles, gamma=0.99, methods=["fqe"])
    >>> for estimate in result.estimates:
    ...     print(f"{estimate.method:18} {estimate.value:.1f} {estimate.note}")
    LSTD, GRetrace(0.5) -78.2 ok
    FQE                -76.5 ok
    >>> result.verdicts[0].trust
    'doubtful'
    """
    _validate.flag("evaluate", "bandit", bandit)
    log = data if isinstance(data, Log) else Log(data, bandit=bandit)
    log = log.with_options(bandit=True) if bandit and not log.bandit else log
    _validate.non_negative("evaluate", "ridge", ridge)
    for option, flag in (
        ("path", path), ("shared", shared), ("lower_is_better", lower_is_better),
        ("allow_uncovered", allow_uncovered), ("distribution", distribution),
    ):  # fmt: skip
        _validate.flag("evaluate", option, flag)
    if gamma is not None:
        _validate.unit("evaluate", "gamma", gamma)  # also where it has no effect
    if horizon is not None:
        _validate.count("evaluate", "horizon", horizon)
        log = log.with_options(time_limit="task")
    if progress is not None and not callable(progress):
        raise InvalidParameter(f"evaluate: progress must be a function, got {progress!r}.")
    if takes_decisions(
        log, methods, features, horizon=horizon, rule=rule, learner=learner, ridge=ridge or None,
        shared=shared or None, draws=draws,
    ):  # fmt: skip
        return evaluate_decisions(
            log, target, features=features, low=low, high=high, methods=methods,
            lower_is_better=lower_is_better, allow_uncovered=allow_uncovered,
            distribution=distribution, threads=threads, progress=progress,
        )  # fmt: skip
    gamma = discount(log, gamma)
    if log.has_continuous_actions:
        for name, value in (("rule", rule), ("learner", learner), ("low", low), ("high", high)):
            if value is not None:
                raise InvalidParameter(f"{name} is for discrete actions; the log's are continuous.")
        return evaluate_continuous(
            log, target, gamma=gamma, features=features, horizon=horizon, methods=methods,
            ridge=ridge, path=path, draws=draws, lower_is_better=lower_is_better,
            distribution=distribution, threads=threads, progress=progress,
        )  # fmt: skip
    automatic = is_automatic(features) and not log.roles.are_features
    chosen = as_rule(rule) if rule is not None else default_rule()
    if rule is None and automatic and not log.propensity:
        chosen = WITHOUT_RATIOS
    automatic &= chosen.values == "action"
    if horizon is not None and chosen.values == "state":
        raise InvalidParameter(
            f"a horizon needs action values, but {chosen} learns state values: remove one of them."
        )
    selected = episode_methods(log, chosen, methods)
    if draws is not None:
        check_draws(draws)
    named = as_targets(target, log)
    check_name_not_reserved([policy.name for policy in named])
    reading = part_of(progress, 0.0, READING, "reading")
    if log.rows <= CACHED_ROWS:
        log = log.cached([table for policy in named for table in policy.tables], reading)
        raise_errors(log.reader().findings())
    elif selected != ("svrg",):
        require_two_episodes(1 + log.has_several_episodes())
    is_consensus = automatic or horizon is not None
    if is_consensus and draws is None:
        draws = 0  # the spectrum concerns the closed form, which is not the estimate
    rechecks: Rechecks = {}
    episodes_sampled: EpisodeSample | None = None
    if is_consensus:
        sample = LogSample(log.n_actions, log.dimensions)
        episodes_sampled, horizon = sample_episodes(
            log, named, ESTIMATE_ROWS, horizon, sample, reading, rechecks
        )
    else:
        sample = log.sample(reading)
    features = as_features(features, log, sample, low, high)
    if "svrg" in selected and features.size * log.n_actions > LARGEST:
        if selected != ("svrg",) or path:
            raise InvalidParameter(
                "with this number of features 'svrg' is the only method available: remove the "
                "other methods and the path."
            )
        svrg = SVRG(
            target=named[0], features=features, gamma=gamma, rule=chosen, ridge=ridge,
            shared=shared, allow_uncovered=allow_uncovered, rng=0,
        )  # fmt: skip
        part = part_of(progress, READING, 1.0, "evaluating")
        return _without_matrices(log, named, svrg, lower_is_better, part)
    others = lambda_path_rules(chosen)
    rules = [chosen, *([others[0.0]] if others else ()), *(others.values() if path else ())]
    rules = list(dict.fromkeys([*rules, *([ONE_STEP] * ("fqe" in selected))]))
    rules = [chosen, *(r for r in rules[1:] if log.propensity or not needs_propensities(r))]
    behaviour = BehaviourTarget.from_counts(sample.action_counts)
    weighted = bool(log.propensity) and chosen.values == "action"
    plain = bool(set(selected) & set(IMPORTANCE_SAMPLING))
    p = features.size * (log.n_actions + shared)
    draws = resample_count(p, draws)
    sampled = 0 if chosen.values != "action" else ESTIMATE_ROWS if is_consensus else OPINION_ROWS
    phases = plan_phases(
        progress, rows=log.rows, active=features.encode(sample.states[:2]).indices.shape[1], p=p,
        targets=len(named), rules=len(rules), folds=FOLDS if weighted else 0,
        weighting_jobs=len(named) * (weighted + plain), draws=draws,
        sampled=sampled, is_consensus=is_consensus,
        passes=passes if "streamed" in selected else 0,
        epochs=EPOCHS if "svrg" in selected else 0,
    )  # fmt: skip
    count = BLOCKS if draws and 8 * p**2 * len(named) * BLOCKS < MAX_BYTES else FOLDS
    policies, once = [*named, behaviour], EncodeOnce(features)
    setting = StatisticsKey.of(log, rules, policies, features, gamma, shared, count)
    names = [policy.name for policy in named]
    with thread_pool(threads) as pool:
        # The first pass: statistics.
        first = StatisticsReducer(log, setting, policies, once, main=len(named))
        one_pass = partial(
            read_log,
            log,
            targets=policies,
            features=once,
            pool=pool,
            rechecks=rechecks,
            mergeable=False,
        )
        estimated = log.estimated is not None
        sampler = EpisodeSampler(named, OPINION_ROWS, estimated=estimated)
        with_opinion = bool(sampled) and not is_consensus
        larger = EpisodeSampler(named, ESTIMATE_ROWS, estimated=estimated)
        samplers = [sampler, *([larger] * distribution)] if with_opinion else []
        reader = one_pass([first, *samplers], progress=phases.sums)
        summary = reader.summary(gamma, first.mean_return)
        # With a horizon the observation need not tell the time.
        not_needed = () if horizon is None else ("W154",)
        kept = tuple(finding for finding in summary.findings if finding.code not in not_needed)
        summary = replace(summary, findings=kept)
        raise_errors(summary.findings)
        first.check(reader, allow_uncovered)
        sums = Statistics(**first.totals())
        require_two_episodes(int(sums.episodes.sum()))
        blocks = Statistics(**first.of_active())
        blocks.__dict__["span"] = sums.span.of_active()
        closed, paths = closed_forms(sums, chosen, names, ridge, path, phases.solving)
        opinions: dict[str, SampleConsensus] = {}
        if with_opinion or episodes_sampled is not None:
            opinions = sample_consensus(
                episodes_sampled or sampler.sample, named, gamma, horizon,
                features=features if is_consensus and not automatic else None,
                is_main=is_consensus, pool=pool, progress=phases.choosing,
            )  # fmt: skip
        models: dict[str, ReturnDistribution] = {}
        missing: dict[str, str] = {}
        if distribution and not (with_opinion or episodes_sampled is not None):
            missing = dict.fromkeys(names, f"{chosen} learns state values")
        elif distribution:
            models, missing = model_distributions(
                episodes_sampled or larger.sample, named, gamma, horizon,
                features=None if automatic else features, lower_is_better=lower_is_better,
            )  # fmt: skip
        # Resamples come last in the pool: candidates would wait for all of them.
        spectra = start_spectra(blocks, chosen, names, pool, ridge, draws, phases.resampling)
        # The second pass: what needs the solutions of the first.
        weights = [WeightReducer(log, policy, gamma) for policy in named] if plain else []
        if weighted:
            fits = split_progress(phases.folds, [("", 1.0)] * len(named))
            for t, (policy, part) in enumerate(zip(named, fits, strict=True)):
                fit = CrossFitted(blocks, t, FOLD_RIDGE, FOLDS, part).within(sums.span.active, p)
                weights.append(WeightReducer(log, policy, gamma, QValues(policy, fit, gamma)))
        del first, blocks  # large, and needed only until the spectra are computed
        second, *checks = split_progress(
            phases.scores, [("", float(len(named))), *([("", 1.0)] * len(named))]
        )
        evidence = EvidenceReducer(
            log, sums, named, sample.states, once, chosen, ridge, reader.episode_id
        )
        logged = ScoreReducer(sums, behaviour, once, chosen, ridge)
        reducers: list[Reducer] = [*weights, evidence, logged]
        one_pass(reducers, progress=second)
        episodes = [reducer.result(allow_uncovered) for reducer in weights]
        robust = {weighting.target: weighting for weighting in episodes if weighting.has_q}
        baseline = Baseline.of(logged.scores, bool(sums.counts.truncated_weight[0]))
        diagnoses = []
        for k, (name, check) in enumerate(zip(names, checks, strict=True)):
            if check is not None:
                check(0.0)
            measured = evidence.measurements(k, robust.get(name), opinions.get(name))
            diagnoses.append(
                diagnose(sums, chosen, ridge, measured, baseline, spectra, lower_is_better)
            )
    estimates: list[Estimate] = []
    for estimate, policy, diagnosis in zip(closed, named, diagnoses, strict=True):
        name = policy.name
        estimates += leading_estimates(
            estimate, diagnosis.interval, is_consensus and name in opinions, horizon
        )
        options: dict[str, Any] = {
            "target": policy, "features": features, "gamma": gamma, "shared": shared,
            "allow_uncovered": True, "threads": threads,
        }  # fmt: skip
        if "fqe" in selected:
            estimates.append(fqe_estimate(sums, ONE_STEP, name, ridge))
        if "streamed" in selected:
            streamed = Streamed(**options, rule=learner, passes=passes)
            estimates.append(_streamed(streamed, log, name, phases.streamed))
        if "svrg" in selected:
            svrg = SVRG(**options, rule=chosen, ridge=ridge, rng=0)
            estimates.append(_svrg(svrg, log, sums, name, phases.svrg))
        estimates += [
            Estimate.of(weighting.estimate(method.upper()))
            for method in selected
            for weighting in episodes
            if weighting.target == name and method.upper() in weighting.names
        ]
    steps = {weighting.target: weighting.ess_by_step for weighting in episodes}
    tails = {weighting.target: weight_tail(weighting.log_weights) for weighting in episodes}
    warnings = [one for one in sums.warnings(chosen) if one.code not in not_needed]
    if automatic and episodes_sampled is not None:
        warnings += unused_columns(episodes_sampled, log.observation_names)
    return Evaluation(
        sums, chosen, tuple(estimates), paths, tuple(warnings), baseline,
        tuple(diagnoses), steps, tails, lower_is_better, summary,
        distributions=return_distributions(episodes, lower_is_better),
        model_distributions=models, missing_models=missing,
    )  # fmt: skip


def discount(log: Log, gamma: float | None) -> float:
    """Return the given discount, or the one in the log's metadata; a bandit needs none."""
    if log.bandit:
        return 0.0
    chosen = log.metadata.get("gamma") if gamma is None else gamma
    if chosen is None:
        raise InvalidParameter("no discount in the log's metadata.", Fix("Pass one", "gamma", 0.99))
    return _validate.unit("evaluate", "gamma", chosen)


def _without_matrices(
    log: Log, named: Sequence[Target], svrg: SVRG, lower_is_better: bool, progress: Progress | None
) -> Evaluation:
    """Evaluate with SVRG alone, with too many features for matrices."""
    if len(named) != 1:
        raise InvalidParameter(
            "method 'svrg' with this number of features takes one target at a time."
        )
    sums, rule = svrg.fit(log, progress).statistics_, svrg.effective_rule
    assert sums is not None
    estimate = Estimate(named[0].name, f"SVRG, {rule.display_name}", svrg.value(), svrg.outcome_)
    no_verdict = Finding(
        "W174",
        f"{svrg.features.size * log.n_actions:,} features are too many for matrices: there is "
        "neither a confidence interval nor a verdict.",
    )
    return Evaluation(
        sums, rule, (estimate,), {}, (*svrg.findings_, no_verdict),
        lower_is_better=lower_is_better, log_summary=log.summary(svrg.gamma),
    )  # fmt: skip


def _svrg(svrg: SVRG, log: Log, sums: Statistics, name: str, progress: Progress | None) -> Estimate:
    svrg.fit(log, progress)
    exact = sums.solve(svrg.effective_rule, name, svrg.ridge).theta
    gap = prediction_distance(np.asarray(svrg.theta_), exact, sums.M)
    note = f"{svrg.outcome_}; {gap:.1%} from LSTD after {len(svrg.residuals_) - 1} epochs"
    return Estimate(name, f"SVRG, {svrg.effective_rule}", svrg.value(), note)


def _streamed(learner: Streamed, log: Log, name: str, progress: Progress | None) -> Estimate:
    learner.fit(log, progress)
    plural = "pass" if learner.passes == 1 else "passes"
    note = (
        f"{learner.distances_[-1]:.1%} from its closed form after {learner.passes} {plural}, "
        f"α = {learner.alpha_:.3g}, β = {learner.beta_:.3g}"
    )
    if learner.outcome_ != "ok":
        note = f"{learner.outcome_} {note}"
    return Estimate(name, str(learner.effective_rule), learner.value(), note)
