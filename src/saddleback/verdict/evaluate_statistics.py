"""The closed form for every target of some statistics, along λ and the ridge; and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from saddleback import _validate
from saddleback._progress import Progress
from saddleback.evaluation.estimate import Estimate
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Finding
from saddleback.log.behaviour_target import NAME
from saddleback.rules import Rule
from saddleback.verdict.evidence_from_statistics import judge_sums
from saddleback.verdict.result import Evaluation, Paths

LAMBDAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""λ of the path."""

RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""η of the path, relative to the size of each feature."""


def along(rule: Rule) -> dict[float, Rule]:
    """Return the rules of the λ path."""
    if not hasattr(rule.trace, "lam"):
        return {}
    found = {}
    for lam in LAMBDAS:
        trace: Any = replace(rule.trace, **{"lam": lam})
        found[lam] = replace(rule, trace=trace, label="")
    return found


def closed_forms(
    sums: Statistics,
    rule: Rule,
    targets: Sequence[str],
    ridge: float,
    path: bool,
    progress: Progress | None = None,
) -> tuple[list[Estimate], Paths]:
    """Return the closed form for each target, and its paths if they are wanted."""
    there = {lam: each for lam, each in along(rule).items() if each in sums.setting.rules}
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
                    (lam, float(sums.solve(each, name, ridge).theta @ start))
                    for lam, each in there.items()
                ],
                "ridge": [
                    (eta, float(sums.solve(rule, name, eta).theta @ start)) for eta in RIDGES
                ],
            }
    return estimates, paths


def of_statistics(
    sums: Statistics,
    rule: Rule | None = None,
    ridge: float = 0.0,
    path: bool = False,
    *,
    draws: int | None = None,
    lower_is_better: bool = False,
    threads: int = 1,
) -> Evaluation:
    """Return the closed form for every target of some statistics, with a verdict.

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
    >>> of_statistics(sums).verdicts[0].trust
    'usable'
    """
    _validate.flag("evaluate", "lower_is_better", lower_is_better)
    chosen = sums.setting.rules[0] if rule is None else rule
    names = [each for each in sums.setting.targets if each != NAME]
    estimates, paths = closed_forms(sums, chosen, names, ridge, path)
    findings = tuple(sums.warnings(chosen))
    if int((sums.episodes > 0).sum()) < 2:
        alone = Finding(
            "W173",
            "the episodes are in one block: there is neither an interval nor a verdict. Sum up in "
            "several blocks (blocks=20).",
        )
        return Evaluation(sums, chosen, tuple(estimates), paths, (*findings, alone))
    diagnoses, logged = judge_sums(
        sums, chosen, names, ridge=ridge, draws=draws, lower_is_better=lower_is_better,
        threads=threads,
    )  # fmt: skip
    each = zip(estimates, diagnoses, strict=True)
    within = tuple(one.within(diagnosis.interval) for one, diagnosis in each)
    return Evaluation(
        sums, chosen, within, paths, findings, logged, tuple(diagnoses),
        lower_is_better=lower_is_better,
    )  # fmt: skip
