"""The value of target policies from a log: estimates, diagnostics and a verdict, in few passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from saddleback import _registry, _validate
from saddleback._progress import Progress, part_of, planned
from saddleback._threads import thread_pool
from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine import needs_ratios
from saddleback.errors import InvalidParameter
from saddleback.evaluation.base import default_rule
from saddleback.evaluation.confidence_bounds import enough
from saddleback.evaluation.doubly_robust import RIDGE, CrossFitted, helped
from saddleback.evaluation.episode_weights import Trajectories
from saddleback.evaluation.estimate import Estimate
from saddleback.evaluation.feature_spec import as_features
from saddleback.evaluation.fqe import ONE_STEP, iterate_q
from saddleback.evaluation.importance_sampling import Job, policies, walk
from saddleback.evaluation.lstd_solve import distance
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.streaming import Streamed
from saddleback.evaluation.svrg_estimator import SVRG
from saddleback.evaluation.weight_diagnostics import tail
from saddleback.features import Features
from saddleback.log import Card, Finding, Log, Observed, Target
from saddleback.log.behaviour_target import reserved
from saddleback.log.diagnostics import refuse
from saddleback.rules import Rule, is_rule
from saddleback.system import LARGEST
from saddleback.verdict.evaluate_statistics import along, closed_forms
from saddleback.verdict.evidence_from_log import diagnose
from saddleback.verdict.evidence_from_statistics import begin_spectra, resamples
from saddleback.verdict.partition import sample_states
from saddleback.verdict.phases import EPOCHS, READING, Phases, plan_phases
from saddleback.verdict.result import Evaluation
from saddleback.verdict.spectrum import enough_draws

PLAIN, ROBUST = ("is", "pdis", "wis", "pdwis"), ("dr", "wdr")
METHODS = ("fqe", "streamed", "svrg", *PLAIN, *ROBUST)
USUAL = ("wdr", "dr", "pdwis", "pdis")
"""Beside the closed form, where the log has propensities and the rule learns action values."""

HELD = 1_000_000
"""Rows of a log that is kept in memory, since it is read several times."""

BLOCKS, FOLDS, ROOM = 20, 5, 2**31
"""Blocks of episodes, folds of them for Q, and bytes of sums from which there are but as many."""


def evaluate(
    data: Any,
    target: Any,
    *,
    gamma: float | None = None,
    features: Features | Callable[[FloatArray], ArrayLike] | str | None = None,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    rule: Rule | None = None,
    methods: Sequence[str] | None = None,
    ridge: float = 0.0,
    path: bool = False,
    shared: bool = False,
    passes: int = 1,
    learner: Rule | None = None,
    draws: int | None = None,
    lower_is_better: bool = False,
    allow_uncovered: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Estimate the value of target policies at the start states of a log, and judge the answer.

    The first estimate is the closed form, with x̄ the mean of E_π φ over the start states,

        V̂ = x̄ᵀθ̂        Âθ̂ + b̂ = 0

    Parameters
    ----------
    data
        A `Log`, or whatever one is read from: a path or pattern, a pandas or polars frame, an Arrow
        table, or a dict of arrays.
    target
        A target policy (see `saddleback.log.as_target`), or several by name in a dict.
    gamma
        Discount; the one that the log names if not given.
    features, low, high
        Features of an observation: an object of `saddleback.features`, a function from
        observations [n, d] to features [n, size], or a text as on the command line, such as
        ``"tiles:8x4"`` or ``"polynomial:2"``, whose box is ``low`` to ``high``, the range of the
        log if not given. Without any they are chosen by the columns.
    shared
        Whether to add a copy of each feature that all actions share.
    rule
        Whose fixed point is solved for; `default_rule` if not given.
    methods
        Besides the closed form: "fqe", "streamed", "svrg"; by weighted episodes "is", "pdis",
        "wis", "pdwis"; and with a cross-fitted Q "dr" and "wdr". If not given, "wdr", "dr",
        "pdwis" and "pdis" where the log has propensities.
    ridge
        η of the closed form.
    path
        Whether to follow the closed form along λ and along the ridge too.
    passes, learner
        Passes over the log, and the rule, of "streamed"; GES(0) if not given.
    draws
        How often blocks of episodes are drawn anew, for the spectrum of Â; 20 if not given, unless
        there are more than 1000 active features.
    lower_is_better
        Whether rewards are costs.
    threads
        Threads to use; the result does not depend on them.
    progress
        Called with the fraction of the work that is done, and its phase: reading, evaluating,
        resampling.

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
    log = data if isinstance(data, Log) else Log(data)
    _validate.non_negative("evaluate", "ridge", ridge)
    for option, flag in (
        ("path", path), ("shared", shared), ("lower_is_better", lower_is_better),
        ("allow_uncovered", allow_uncovered),
    ):  # fmt: skip
        _validate.flag("evaluate", option, flag)
    if progress is not None and not callable(progress):
        raise InvalidParameter(f"evaluate: progress must be a function, got {progress!r}.")
    gamma = discount(log, gamma)
    chosen = default_rule() if rule is None else rule
    is_rule(chosen)
    wanted = _methods(log, chosen, methods)
    if draws is not None:
        enough_draws(draws)
    named = policies(log, target)
    reading = part_of(progress, 0.0, READING, "reading")
    if log.rows <= HELD:
        log = log.held([table for each in named for table in each.tables], reading)
    card = log.card(gamma, reading)
    refuse(card.findings)
    features = as_features(features, log, card, low, high)
    if "svrg" in wanted and features.size * log.n_actions > LARGEST:
        if wanted != ("svrg",) or path:
            raise InvalidParameter(
                "method 'svrg' with so many features goes alone: leave other methods and the path "
                "out."
            )
        return _without_matrices(
            log, named, features, gamma, chosen, ridge, shared, allow_uncovered, lower_is_better,
            card, part_of(progress, READING, 1.0, "evaluating"),
        )  # fmt: skip
    others = along(chosen)
    rules = [chosen, *([others[0.0]] if others else ()), *(others.values() if path else ())]
    rules = list(dict.fromkeys([*rules, *([ONE_STEP] * ("fqe" in wanted))]))
    rules = [chosen, *(each for each in rules[1:] if _served(log, each))]
    sample, taken = sample_states(log)
    observed = Observed.by(taken)
    reserved([each.name for each in named])
    p = features.size * (log.n_actions + shared)
    room = 8 * p**2 * (len(named) + 1)
    robust_jobs = len(named) if log.propensity and chosen.values == "action" else 0
    plain_jobs = len(named) if set(wanted) & set(PLAIN) else 0
    phases = plan_phases(
        progress, rows=log.rows, active=_active(features, sample), p=p, targets=len(named),
        rules=len(rules), folds=FOLDS if robust_jobs else 0, walks=robust_jobs + plain_jobs,
        draws=resamples(p, draws), passes=passes if "streamed" in wanted else 0,
        epochs=EPOCHS if "svrg" in wanted else 0,
    )  # fmt: skip
    sums = Statistics.of(
        log, rules, {each.name: each for each in (*named, observed)}, features=features,
        gamma=gamma, shared=shared, blocks=BLOCKS if room * len(rules) * BLOCKS < ROOM else FOLDS,
        allow_uncovered=allow_uncovered, threads=threads, progress=phases.sums,
    )  # fmt: skip
    enough(int(sums.episodes.sum()))
    names = [each.name for each in named]
    closed, paths = closed_forms(sums, chosen, names, ridge, path, phases.solving)
    with thread_pool(threads) as pool:
        spectra = begin_spectra(sums, chosen, names, pool, ridge, draws, phases.resampling)
        weighted = _walks(log, named, sums, wanted, features, gamma, allow_uncovered, phases)
        robust = {each.target: each for each in weighted if each.robust}
        diagnoses, logged = diagnose(
            log, sums, named, observed, sample, features=features, rule=chosen, ridge=ridge,
            robust=robust, spectra=spectra, lower_is_better=lower_is_better,
            progress=phases.scores,
        )  # fmt: skip
    estimates: list[Estimate] = []
    for first, target, diagnosis in zip(closed, named, diagnoses, strict=True):
        name = target.name
        estimates.append(first.within(diagnosis.interval))
        options: dict[str, Any] = {
            "target": target, "features": features, "gamma": gamma, "shared": shared,
            "allow_uncovered": True, "threads": threads,
        }  # fmt: skip
        if "fqe" in wanted:
            found = iterate_q(sums.system(ONE_STEP, name), ridge)
            value = float(found.theta @ sums.start(name))
            estimates.append(Estimate(name, "FQE", value, found.outcome))
        if "streamed" in wanted:
            streamed = Streamed(**options, rule=learner, passes=passes)
            estimates.append(_streamed(streamed, log, name, phases.streamed))
        if "svrg" in wanted:
            mine = SVRG(**options, rule=chosen, ridge=ridge, rng=0)
            estimates.append(_svrg(mine, log, sums, name, phases.svrg))
        estimates += [
            Estimate.of(each.estimate(method.upper()))
            for method in wanted
            for each in weighted
            if each.target == name and method.upper() in each.names
        ]
    steps = {each.target: each.ess_by_step for each in weighted}
    tails = {each.target: tail(each.log_weights) for each in weighted}
    findings = tuple(sums.warnings(chosen))
    return Evaluation(
        sums, chosen, tuple(estimates), paths, findings, logged, tuple(diagnoses), steps, tails,
        lower_is_better, card,
    )  # fmt: skip


def discount(log: Log, gamma: float | None) -> float:
    """Return the discount that is given, else the one that the log names."""
    chosen = log.metadata.get("gamma") if gamma is None else gamma
    if chosen is None:
        raise InvalidParameter("no discount: give one, gamma=0.99 (the log does not name any).")
    return _validate.unit("evaluate", "gamma", chosen)


def _active(features: Features, sample: FloatArray) -> int:
    """How many features are active at a time, by a few states of the log."""
    return int(features.encode(sample[:2]).which.shape[1])


def _served(log: Log, rule: Rule) -> bool:
    """Whether the log holds what a rule of the path needs."""
    return bool(log.propensity) or not needs_ratios(rule)


def _methods(log: Log, rule: Rule, methods: Sequence[str] | None) -> tuple[str, ...]:
    """Return the methods to use, refusing those that do not apply, with one that does."""
    if methods is None:
        return USUAL if log.propensity and rule.values == "action" else ()
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise InvalidParameter(
            f"evaluate: methods must be a list such as ['fqe', 'dr'], got {methods!r}."
        )
    for method in methods:
        _registry.known("method", method, METHODS)
        if method in (*PLAIN, *ROBUST) and not log.propensity:
            raise InvalidParameter(
                f"method {method!r} weighs episodes by ratios, and the log has no probabilities of "
                "its actions: add behavior_prob, or estimate them, estimate_behaviour(log). The "
                "closed form with GES(0) or GTB does without."
            )
        if method in ("fqe", *ROBUST) and rule.values == "state":
            raise InvalidParameter(
                f"method {method!r} learns action values, and {rule} state values: leave one of "
                "them out, or use GRetrace."
            )
    return tuple(methods)


def _walks(
    log: Log,
    named: Sequence[Target],
    sums: Statistics,
    methods: Sequence[str],
    features: Features,
    gamma: float,
    allow_uncovered: bool,
    phases: Phases,
) -> list[Trajectories]:
    """Weigh the episodes, plainly if asked, and with a Q for the verdict if it can be done."""
    jobs = [Job(each) for each in named] if set(methods) & set(PLAIN) else []
    if log.propensity and sums.setting.values == "action":
        parts = planned(phases.folds, [("", 1.0)] * len(named))
        fits = [CrossFitted(sums, t, features, RIDGE, FOLDS, part) for t, part in enumerate(parts)]
        jobs += helped(log, named, fits, gamma)
    return walk(log, jobs, gamma, allow_uncovered, phases.weights) if jobs else []


def _without_matrices(
    log: Log,
    named: Sequence[Target],
    features: Features,
    gamma: float,
    rule: Rule,
    ridge: float,
    shared: bool,
    allow_uncovered: bool,
    lower_is_better: bool,
    card: Card,
    progress: Progress | None,
) -> Evaluation:
    """Evaluate with more features than matrices are held for: by SVRG alone."""
    if len(named) != 1:
        raise InvalidParameter("method 'svrg' with so many features takes one target at a time.")
    found = SVRG(
        target=named[0], features=features, gamma=gamma, rule=rule, ridge=ridge, shared=shared,
        allow_uncovered=allow_uncovered, rng=0,
    ).fit(log, progress)  # fmt: skip
    assert found.statistics_ is not None
    estimate = Estimate(named[0].name, f"SVRG, {rule.display_name}", found.value(), found.outcome_)
    alone = Finding(
        "W174",
        f"with {features.size * log.n_actions:,} features no matrices are held: this is all there "
        "is, without an interval or a verdict.",
    )
    return Evaluation(
        found.statistics_, rule, (estimate,), {}, (*found.findings_, alone),
        lower_is_better=lower_is_better, card=card,
    )  # fmt: skip


def _svrg(
    found: SVRG, log: Log, sums: Statistics, name: str, progress: Progress | None
) -> Estimate:
    found.fit(log, progress)
    exact = sums.solve(found.chosen, name, found.ridge).theta
    gap = distance(np.asarray(found.theta_), exact, sums.M)
    note = f"{found.outcome_}; {gap:.1%} from LSTD after {len(found.residuals_) - 1} epochs"
    return Estimate(name, f"SVRG, {found.chosen}", found.value(), note)


def _streamed(found: Streamed, log: Log, name: str, progress: Progress | None) -> Estimate:
    found.fit(log, progress)
    plural = "pass" if found.passes == 1 else "passes"
    note = (
        f"{found.distances_[-1]:.1%} from its closed form after {found.passes} {plural}, "
        f"α = {found.alpha_:.3g}, β = {found.beta_:.3g}"
    )
    if found.outcome_ != "ok":
        note = f"{found.outcome_} {note}"
    return Estimate(name, str(found.chosen), found.value(), note)
