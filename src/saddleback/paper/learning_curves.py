"""Learners on one problem: independent sampled runs and the expected iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from rich import box
from rich.table import Table

from saddleback._typing import FloatArray, IntArray
from saddleback.learning import iterate
from saddleback.paper import Options
from saddleback.paper.comparison import STUDIES, Comparison, run
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.sweep import Case, RuleResults
from saddleback.system import System


@dataclass(frozen=True, eq=False)
class LearnerCurves:
    """Learning curves of one learner.

    Attributes
    ----------
    rule, alpha, beta
        The learner; β is NaN for a rule without ω.
    steps
        Update counts, [n].
    mspbe, error
        MSPBE, and root of the weighted mean square value error, of the sampled runs, [n, runs].
    expected_mspbe, expected_error
        The same along the expected (deterministic) iteration, [n].
    diverged
        Number of sampled runs that exceeded the bound.
    """

    rule: Rule
    alpha: float
    beta: float
    system: System
    steps: IntArray
    mspbe: FloatArray
    error: FloatArray
    expected_mspbe: FloatArray
    expected_error: FloatArray
    diverged: int


def learner_curves(name: str, options: Options) -> list[tuple[Case, list[LearnerCurves]]]:
    """Run a study with one setting for each rule; return its results by problem.

    The rules are those of the study, whatever the options are.
    """
    own = replace(options, rules=(), lam=None, zeta=None, progress=None)
    return [
        (one.case, [_curves(one, rule, result)
                    for rule, result in zip(one.rules, one.results, strict=True)])
        for one in run(name, own)
    ]  # fmt: skip


def _curves(comparison: Comparison, rule: Rule, result: RuleResults) -> LearnerCurves:
    """Return the curves of a rule, and those of its expected iteration."""
    case, alpha, beta = comparison.case, float(result.alphas[0]), float(result.betas[0, 0])
    problem = case.build(STUDIES)
    assert isinstance(problem, Problem)
    system = System.exact(problem, rule)
    theta0 = comparison.study.initial_weights(comparison.index)
    expected = iterate(
        system, alpha=alpha, beta=beta if rule.form.has_dual else 0.0, theta0=theta0,
        steps=case.count, record=result.points,
    )  # fmt: skip
    return LearnerCurves(
        rule=rule,
        alpha=alpha,
        beta=beta,
        system=system,
        steps=result.points,
        mspbe=result.curve("mspbe"),
        error=np.sqrt(result.curve("mse")),
        expected_mspbe=expected.curves["mspbe"],
        expected_error=np.sqrt(expected.curves["mse_absolute"]),
        diverged=int(result.diverged[0, 0]),
    )


def tabulate(title: str, first: str) -> Table:
    """Return an empty table of learners; ``first`` is the heading of the column of problems."""
    table = Table(
        title=title,
        caption="Medians over runs. Diverged: more than 10⁶ times the problem's scale.",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for heading in (first, "rule", "α", "β", "diverged", "MSPBE", "RMS error"):
        table.add_column(heading, no_wrap=True)
    return table


def add(table: Table, first: str, result: LearnerCurves) -> None:
    """Add a learner: rule, step sizes, divergences, and the final medians over runs."""
    runs = result.mspbe.shape[1]
    table.add_row(
        first,
        result.rule.display_name,
        f"{result.alpha:g}",
        f"{result.beta:g}" if result.rule.form.has_dual else "",
        f"{result.diverged} of {runs}",
        *(f"{np.median(values[-1]):.3g}" for values in (result.mspbe, result.error)),
    )
