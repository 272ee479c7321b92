"""The value of target policies from a log, by several estimators, from one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddleback import _names
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.evaluation.estimator import LSTD, ONE_STEP, default_rule, distance, iterate_q
from saddleback.evaluation.importance import importance_sampling
from saddleback.evaluation.intervals import ESTIMAND, Interval, of_blocks, sandwich
from saddleback.evaluation.robust import doubly_robust
from saddleback.evaluation.saddle import SVRG
from saddleback.evaluation.solve import Range
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.streamed import Streamed
from saddleback.evaluation.weighted import Weighted
from saddleback.features import Features
from saddleback.log import Finding, Log, as_target
from saddleback.log.log import Progress
from saddleback.rules import Rule
from saddleback.system import LARGEST

LAMBDAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""λ of the path."""

RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""η of the path, relative to the size of each feature."""

WEIGHTED = ("is", "pdis", "wis", "pdwis", "dr", "wdr")
METHODS = ("fqe", "streamed", "svrg", *WEIGHTED)


@dataclass(frozen=True)
class Estimate:
    """One number for the value of a policy.

    Attributes
    ----------
    target
        Which policy.
    method
        How it was found, with the rule.
    value
        V^π over the start states of the log.
    note
        ``"ok"``, or what is to be said of it.
    low, high, estimand
        A 95 % interval where there is one, and what it is an interval of.
    ess
        Effective number of episodes behind it, for weighted ones.
    comparable
        Whether it may be ranked with the others: not an H-step value of a truncated log.
    """

    target: str
    method: str
    value: float
    note: str
    low: float | None = None
    high: float | None = None
    estimand: str = ESTIMAND
    ess: float | None = None
    comparable: bool = True


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a log says of target policies.

    Attributes
    ----------
    statistics
        The sums it was made of.
    estimates
        All numbers; the first of each target is the one to use.
    paths
        For each target the value along λ and along the ridge, if asked for.
    findings
        Warnings.
    self_check
        What the closed form says of the logged policy itself, where all of μ is known: it must come
        close to the returns that were logged, or features and rule cannot be trusted with others.
    """

    statistics: Statistics
    estimates: tuple[Estimate, ...]
    paths: dict[str, dict[str, list[tuple[float, float]]]]
    findings: tuple[Finding, ...]
    self_check: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it all as plain data, for JSON."""
        sums = self.statistics
        return {
            "gamma": sums.setting.gamma,
            "features": sums.setting.features,
            "steps": int(sums.steps.sum()),
            "episodes": int(sums.episodes.sum()),
            "propensities": f"estimated: {sums.estimated}" if sums.estimated else "logged",
            "lambda_ceiling": {
                name: float(each) if np.isfinite(each) else None
                for name, each in zip(sums.setting.targets, sums.ceilings, strict=True)
            },
            "self_check": self.self_check,
            "estimates": [each.__dict__ for each in self.estimates],
            "paths": self.paths,
            "warnings": [str(each) for each in self.findings],
        }


def evaluate(
    log: Log,
    targets: Any,
    *,
    features: Features,
    gamma: float,
    rule: Rule | None = None,
    methods: Sequence[str] = (),
    ridge: float = 0.0,
    path: bool = False,
    shared: bool = False,
    passes: int = 1,
    learner: Rule | None = None,
    allow_uncovered: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Estimate the value of target policies at the start states of a log.

    Parameters
    ----------
    log
        The log.
    targets
        A target policy (see `saddleback.log.as_target`), or several by name in a dict.
    features, shared, gamma
        As for `LSTD`.
    rule
        Whose fixed point is solved for; `default_rule` if not given.
    methods
        Besides the closed form: "fqe", "streamed", "svrg"; by weighted episodes "is", "pdis",
        "wis", "pdwis"; and with a cross-fitted Q "dr" and "wdr".
    ridge
        η of the closed form.
    path
        Whether to follow the closed form along λ and along the ridge too.
    passes, learner
        Passes over the log, and the rule, of "streamed"; GES(0) if not given.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=1000, rng=0)
    >>> found = evaluate(log, "pump:0.8", features=car.features, gamma=0.99, methods=["fqe"])
    >>> for each in found.estimates:
    ...     print(f"{each.method:18} {each.value:.1f} {each.note}")
    LSTD, GRetrace(0.5) -77.5 ok
    FQE                -77.0 ok
    """
    for method in methods:
        _names.known("method", method, METHODS)
    chosen = default_rule() if rule is None else rule
    if "fqe" in methods and chosen.values == "state":
        raise InvalidParameter(
            f"method 'fqe' learns action values, and {chosen} state values: leave one of them out."
        )
    if "svrg" in methods and features.size * log.n_actions > LARGEST:
        return _without_matrices(log, targets, features, gamma, chosen, ridge, shared, progress)
    rules = [chosen, *(_along(chosen).values() if path else ()), *([ONE_STEP] * ("fqe" in methods))]
    rules = list(dict.fromkeys(rules))
    sums = Statistics.of(
        log, rules, targets, features=features, gamma=gamma, shared=shared, blocks=1,
        allow_uncovered=allow_uncovered, threads=threads, progress=progress,
    )  # fmt: skip
    closed = of_statistics(sums, chosen, ridge, path)
    estimates: list[Estimate] = []
    named = dict(targets) if isinstance(targets, Mapping) else {sums.setting.targets[0]: targets}
    intervals: Sequence[Interval | None]
    try:
        intervals = sandwich(log, sums, named, features=features, rule=chosen, ridge=ridge)
    except Undefined:  # of a single episode nothing can be said
        intervals = [None] * len(named)
    weighted = _weighted(
        log, named, methods, features=features, gamma=gamma, rule=chosen, shared=shared,
        allow_uncovered=allow_uncovered, threads=threads,
    )  # fmt: skip
    each = zip(closed.estimates, named.values(), intervals, strict=True)
    for closed_form, given, interval in each:
        first = _with(closed_form, interval)
        name = first.target
        options: dict[str, Any] = {
            "target": given, "features": features, "gamma": gamma, "shared": shared,
            "allow_uncovered": True, "threads": threads,
        }  # fmt: skip
        estimates.append(first)
        if "fqe" in methods:
            found = iterate_q(sums.system(ONE_STEP, name), ridge)
            value = float(found.theta @ sums.start(name))
            estimates.append(Estimate(name, "FQE", value, found.outcome))
        if "streamed" in methods:
            estimates.append(_streamed(Streamed(**options, rule=learner, passes=passes), log, name))
        if "svrg" in methods:
            estimates.append(
                _svrg(SVRG(**options, rule=chosen, ridge=ridge, rng=0), log, sums, name)
            )
        estimates += [found for found in weighted if found.target == name]
    check = None
    if log.whole_behaviour:
        mine = LSTD(
            target="logged", features=features, gamma=gamma, rule=chosen, shared=shared,
            ridge=ridge, allow_uncovered=True, threads=threads,
        )  # fmt: skip
        check = mine.fit(log).value()
    return replace(closed, estimates=tuple(estimates), self_check=check)


def _weighted(
    log: Log,
    targets: Mapping[str, Any],
    methods: Sequence[str],
    *,
    features: Features,
    gamma: float,
    rule: Rule,
    shared: bool,
    allow_uncovered: bool,
    threads: int,
) -> list[Estimate]:
    """Return the estimates by weighted episodes that were asked for."""
    found: list[Weighted] = []
    plain = [name.upper() for name in methods if name in ("is", "pdis", "wis", "pdwis")]
    robust = [name.upper() for name in methods if name in ("dr", "wdr")]
    if plain:
        each = importance_sampling(log, targets, gamma=gamma, allow_uncovered=allow_uncovered)
        found += [one.estimate(name) for one in each.values() for name in plain]
    if robust:
        options: dict[str, Any] = {"features": features, "rule": rule, "shared": shared}
        each = doubly_robust(
            log, targets, gamma=gamma, allow_uncovered=allow_uncovered, threads=threads, **options
        )
        found += [one.estimate(name) for one in each.values() for name in robust]
    return [
        Estimate(
            one.target, one.name, one.value, one.note, one.low, one.high, one.estimand, one.ess,
            one.comparable,
        )
        for one in found
    ]  # fmt: skip


def _without_matrices(
    log: Log,
    targets: Any,
    features: Features,
    gamma: float,
    rule: Rule,
    ridge: float,
    shared: bool,
    progress: Progress | None,
) -> Evaluation:
    """Evaluate with more features than matrices are held for: by SVRG alone."""
    named = dict(targets) if isinstance(targets, Mapping) else {None: targets}
    if len(named) != 1:
        raise InvalidParameter("method 'svrg' with so many features takes one target at a time.")
    for name, given in named.items():
        target = as_target(given, log, name)
        found = SVRG(
            target=target, features=features, gamma=gamma, rule=rule, ridge=ridge, shared=shared,
            rng=0,
        ).fit(log, progress)  # fmt: skip
    assert found.statistics_ is not None
    estimate = Estimate(target.name, f"SVRG, {rule}", found.value(), found.outcome_)
    return Evaluation(found.statistics_, (estimate,), {}, found.findings_)


def of_statistics(
    sums: Statistics, rule: Rule | None = None, ridge: float = 0.0, path: bool = False
) -> Evaluation:
    """Return the closed form for every target of some statistics, with its paths.

    Parameters
    ----------
    sums
        Statistics of one log or of many.
    rule
        Which of their rules; the first if not given.
    ridge
        η.
    path
        Whether to follow the value along λ, as far as the statistics have it, and the ridge.
    """
    chosen = sums.setting.rules[0] if rule is None else rule
    span = Range(sums.system().M)
    along = {lam: each for lam, each in _along(chosen).items() if each in sums.setting.rules}
    estimates, paths = [], {}
    for name in sums.setting.targets:
        start, system = sums.start(name), sums.system(chosen, name)
        solved = span.solve(system.A, system.b, ridge)
        label = f"LSTD, {chosen}" + (f", ridge {ridge:g}" if ridge else "")
        one = Estimate(name, label, float(solved.theta @ start), solved.outcome)
        several = int((sums.episodes > 0).sum()) > 1
        estimates.append(
            _with(one, of_blocks(sums, chosen, name, ridge=ridge) if several else None)
        )
        if not path:
            continue
        paths[name] = {
            "lambda": [
                (lam, _value(span, sums, each, name, ridge, start)) for lam, each in along.items()
            ],
            "ridge": [(eta, _value(span, sums, chosen, name, eta, start)) for eta in RIDGES],
        }
    return Evaluation(sums, tuple(estimates), paths, tuple(sums.warnings(chosen)))


def _with(estimate: Estimate, interval: Interval | None) -> Estimate:
    if interval is None:
        return estimate
    return replace(estimate, low=interval.low, high=interval.high, estimand=interval.estimand)


def _along(rule: Rule) -> dict[float, Rule]:
    """Return the rules of the λ path."""
    if not hasattr(rule.trace, "lam"):
        return {}
    found = {}
    for lam in LAMBDAS:
        trace: Any = replace(rule.trace, **{"lam": lam})
        found[lam] = replace(rule, trace=trace)
    return found


def _value(
    span: Range, sums: Statistics, rule: Rule, target: str, ridge: float, start: FloatArray
) -> float:
    system = sums.system(rule, target)
    return float(span.solve(system.A, system.b, ridge).theta @ start)


def _svrg(found: SVRG, log: Log, sums: Statistics, name: str) -> Estimate:
    found.fit(log)
    system = sums.system(found.chosen, name)
    exact = Range(system.M).solve(system.A, system.b, found.ridge).theta
    gap = distance(np.asarray(found.theta_), exact, system.M)
    note = f"{found.outcome_}; {gap:.1%} from LSTD after {len(found.residuals_) - 1} epochs"
    return Estimate(name, f"SVRG, {found.chosen}", found.value(), note)


def _streamed(found: Streamed, log: Log, name: str) -> Estimate:
    found.fit(log)
    plural = "pass" if found.passes == 1 else "passes"
    note = (
        f"{found.distances_[-1]:.1%} from its closed form after {found.passes} {plural}, "
        f"α = {found.alpha_:.3g}, β = {found.beta_:.3g}"
    )
    if found.outcome_ != "ok":
        note = f"{found.outcome_} {note}"
    return Estimate(name, str(found.chosen), found.value(), note)
