"""`evaluate_statistics`: closed-form estimates and a verdict from statistics, without the log."""

from __future__ import annotations

from collections.abc import Sequence

from saddleback import _validate
from saddleback._progress import Progress
from saddleback._threads import thread_pool
from saddleback.log import Finding
from saddleback.log.behaviour_target import NAME
from saddleback.ope.baseline import Baseline
from saddleback.ope.diagnosis import diagnose, measure_statistics, start_spectra
from saddleback.ope.estimate import Estimate
from saddleback.ope.result import Evaluation, Paths
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_key import SEVERAL_BLOCKS
from saddleback.rules import Rule, as_rule

LAMBDAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Values of λ along the path."""

RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Values of the ridge η along the path, relative to the size of each feature."""


def lambda_path_rules(rule: Rule) -> dict[float, Rule]:
    """Return the rule for each λ of the path; empty if its trace has no λ."""
    path = {lam: rule.with_lambda(lam) for lam in LAMBDAS}
    return {lam: other for lam, other in path.items() if other is not None}


def closed_forms(
    sums: Statistics,
    rule: Rule,
    targets: Sequence[str],
    ridge: float,
    path: bool,
    progress: Progress | None = None,
) -> tuple[list[Estimate], Paths]:
    """Return the closed form for each target, and its paths over λ and ridge on request."""
    available = sums.setting.rules
    rules = {lam: other for lam, other in lambda_path_rules(rule).items() if other in available}
    label = f"LSTD, {rule.display_name}" + (f", ridge {ridge:g}" if ridge else "")
    estimates, paths = [], {}
    for done, name in enumerate(targets):
        if progress is not None:
            progress(done / len(targets))
        start, solved = sums.start(name), sums.solve(rule, name, ridge)
        estimates.append(Estimate(name, label, float(solved.theta @ start), solved.outcome))
        if path:
            paths[name] = {
                "lambda": [
                    (lam, float(sums.solve(other, name, ridge).theta @ start))
                    for lam, other in rules.items()
                ],
                "ridge": [
                    (eta, float(sums.solve(rule, name, eta).theta @ start)) for eta in RIDGES
                ],
            }
    return estimates, paths


def evaluate_statistics(
    sums: Statistics,
    rule: Rule | str | None = None,
    ridge: float = 0.0,
    path: bool = False,
    *,
    draws: int | None = None,
    lower_is_better: bool = False,
    threads: int = 1,
) -> Evaluation:
    """Return the closed form and the verdict for every target of some statistics.

    Parameters
    ----------
    sums
        Statistics of one or more logs.
    rule
        One of their rules; the first if not given.
    ridge
        η.
    path
        Whether to compute the value for a range of λ, as far as the statistics include those rules,
        and of ridges.
    draws, lower_is_better, threads
        As for `evaluate`.

    Examples
    --------
    >>> from saddleback import GRetrace, Log, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> sums = Statistics.of(
    ...     log, GRetrace(0.5), {"new": earlier}, features=box, gamma=0.97, blocks=20
    ... )
    >>> evaluate_statistics(sums).verdicts[0].trust
    'usable'
    """
    _validate.flag("evaluate", "lower_is_better", lower_is_better)
    chosen = sums.setting.rules[0] if rule is None else as_rule(rule)
    names = [name for name in sums.setting.targets if name != NAME]
    estimates, paths = closed_forms(sums, chosen, names, ridge, path)
    findings = tuple(sums.warnings(chosen))
    if int((sums.episodes > 0).sum()) < 2:
        one_block = Finding(
            "W173",
            "the episodes are in one block: there is neither a confidence interval nor a verdict.",
            SEVERAL_BLOCKS,
        )
        return Evaluation(sums, chosen, tuple(estimates), paths, (*findings, one_block))
    with thread_pool(threads) as pool:
        spectra = start_spectra(sums, chosen, names, pool, ridge, draws)
    logged = Baseline.of_statistics(sums, chosen, ridge)
    diagnoses = [
        diagnose(
            sums, chosen, ridge, measure_statistics(sums, chosen, name, ridge), logged, spectra,
            lower_is_better,
        )
        for name in names
    ]  # fmt: skip
    with_intervals = tuple(
        estimate.with_interval(diagnosis.interval)
        for estimate, diagnosis in zip(estimates, diagnoses, strict=True)
    )
    return Evaluation(
        sums, chosen, with_intervals, paths, findings, logged, tuple(diagnoses),
        lower_is_better=lower_is_better,
    )  # fmt: skip
