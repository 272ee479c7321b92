"""Learners on one problem: independent sampled runs and the expected iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.table import Table

from saddleback._typing import ArrayLike, FloatArray, IntArray
from saddleback.learning import iterate, learn
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.system import System


class Learner(NamedTuple):
    """A rule, its step sizes, and the colour of its curves."""

    rule: Rule
    alpha: float
    beta: float
    colour: str


@dataclass(frozen=True, eq=False)
class LearnerCurves:
    """Learning curves of one learner.

    Attributes
    ----------
    steps
        Update counts, [n].
    mspbe, error
        MSPBE, and root of the weighted mean square value error, of the sampled runs, [n, runs].
    expected_mspbe, expected_error
        The same along the expected (deterministic) iteration, [n].
    diverged
        Number of sampled runs that exceeded the bound.
    """

    learner: Learner
    system: System
    steps: IntArray
    mspbe: FloatArray
    error: FloatArray
    expected_mspbe: FloatArray
    expected_error: FloatArray
    diverged: int


def compare(
    problem: Problem,
    learner: Learner,
    *,
    theta0: ArrayLike,
    steps: int,
    runs: int,
    seed: int,
) -> LearnerCurves:
    """Run a learner ``runs`` times and once in expectation, recording on a logarithmic grid."""
    rule, alpha, beta, _ = learner
    points = np.unique(np.geomspace(1, steps, 120).astype(np.int64))
    options: dict[str, Any] = {"alpha": alpha, "beta": beta, "theta0": theta0, "steps": steps}
    sampled = learn(rule, problem, rng=seed, runs=runs, record=points, **options)
    system = System.exact(problem, rule)
    expected = iterate(system, record=points, **options)
    return LearnerCurves(
        learner=learner,
        system=system,
        steps=points,
        mspbe=sampled.curves["mspbe"],
        error=np.sqrt(sampled.curves["mse_absolute"]),
        expected_mspbe=expected.curves["mspbe"],
        expected_error=np.sqrt(expected.curves["mse_absolute"]),
        diverged=int((~sampled.ok).sum()),
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
        result.learner.rule.display_name,
        f"{result.learner.alpha:g}",
        f"{result.learner.beta:g}" if result.learner.rule.form.has_dual else "",
        f"{result.diverged} of {runs}",
        *(f"{np.median(values[-1]):.3g}" for values in (result.mspbe, result.error)),
    )
