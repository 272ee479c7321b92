"""The comparison over all step sizes on a small problem: as in the paper, and below the λ ceiling.

Four cases: λ = 0.99 with the paper's grid, and λ below the ceiling with common ratios of time
scales; each with zero reward from θ_0 = 1 (θ_0 = 0 is the solution) and with rewards from θ_0 = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from rich.table import Table

from saddleback._typing import ArrayLike, FloatArray
from saddleback.paper import Options, comparison_figures, execute
from saddleback.paper.comparison import (
    PAPER_GRID,
    USUAL_GRID,
    Comparison,
    Metrics,
    chosen_rules,
    scaled_points,
)
from saddleback.problem import Problem
from saddleback.rules import GES, Rule
from saddleback.system import System

METRICS = {
    "error": "value error",
    "mspbe": "own MSPBE",
    "mspbe_common": "MSPBE of GES",
}


@dataclass(frozen=True)
class SmallComparisonConfig:
    """Our choices where the paper leaves the protocol open."""

    below_ceiling: float
    """λ of the second comparison, below the ceiling of importance traces."""
    rewards: ArrayLike
    """Rewards of the second problem; the paper names none."""
    lam: float = 0.99
    zeta: float = 0.99
    """The paper gives no ζ for ABQ."""
    steps: int = 50_000
    runs: int = 10
    metric_steps: int = 50_000
    """Steps of μ for the paper's Monte Carlo estimates Â, b̂, M̂."""


def apply_options(config: SmallComparisonConfig, options: Options) -> SmallComparisonConfig:
    """Return the configuration changed by the options."""
    if options.quick:
        config = replace(config, steps=2000, runs=2, metric_steps=2000)
    overrides = {
        name: value
        for name in ("runs", "lam", "zeta")
        if (value := getattr(options, name)) is not None
    }
    return replace(config, **overrides)


def _metrics_for(
    problem: Problem, theta0: float, config: SmallComparisonConfig, seed: int, lam: float
) -> Callable[[Rule], Metrics]:
    """Return the metrics of a rule: value error, its MSPBE, that of GES, and the paper's."""
    common = System.exact(problem, GES(lam))
    start = float(common.mse_absolute(np.full(problem.p, theta0)))

    def error(theta: FloatArray) -> FloatArray:
        return np.asarray(common.mse_absolute(theta) / start)

    @cache
    def metrics(rule: Rule) -> Metrics:
        own = System.exact(problem, rule)
        empirical = System.estimate(
            problem, rule, steps=config.metric_steps, rng=np.random.SeedSequence([seed, 95])
        )
        return {
            "error": error,
            "mspbe": own.mspbe,
            "mspbe_common": common.mspbe,
            "mspbe_paper": empirical.mspbe,
        }

    return metrics


def plan(
    name: str,
    make: Callable[[ArrayLike | None], Problem],
    config: SmallComparisonConfig,
    options: Options,
) -> dict[str, Comparison]:
    """Return the cases, by their titles."""
    cases = {}
    grids = (
        ("paper", PAPER_GRID, config.lam),
        ("usual", USUAL_GRID, min(config.lam, config.below_ceiling)),
    )
    for grid_name, grid, lam in grids:
        kinds = (("rewards", config.rewards, 0.0), ("zero", None, 1.0))
        for kind, rewards, theta0 in kinds:
            problem = make(rewards)
            title = f"{name}, {'no reward' if kind == 'zero' else 'rewards'}, λ = {lam:g}"
            title += ", β/α from 2⁻⁵ to 2⁵" if grid is USUAL_GRID else ""
            cases[title] = Comparison(
                name=f"{grid_name}-{kind}",
                source=lambda problem=problem: problem,  # type: ignore[misc]
                rules=chosen_rules(options.rules, lam, config.zeta),
                grid=grid,
                count=config.steps,
                unit="steps",
                points=scaled_points(config.steps),
                runs=config.runs,
                seed=options.seed,
                theta0=theta0,
                metrics=_metrics_for(problem, theta0, config, options.seed, lam),
            )
    return cases


def check(
    name: str,
    make: Callable[[ArrayLike | None], Problem],
    config: SmallComparisonConfig,
    options: Options,
) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return sum(
        case.check() for case in plan(name, make, apply_options(config, options), options).values()
    )


def compare(
    name: str,
    make: Callable[[ArrayLike | None], Problem],
    config: SmallComparisonConfig,
    options: Options,
) -> tuple[list[Table], list[Path]]:
    """Run the cases; draw and tabulate."""
    config = apply_options(config, options)
    cases = plan(name, make, config, options)
    study = {
        "experiment": name,
        "choices": vars(config) | {"rewards": np.asarray(config.rewards).tolist()},
    }
    study |= {case.name: case.study() for case in cases.values()}
    tasks = [task for case in cases.values() for task in case.tasks()]
    store = execute(name, study, tasks, options)
    tables, paths = [], []
    for title, case in cases.items():
        results = case.results(store)
        tables.append(
            comparison_figures.tabulate(results, title, METRICS | {"mspbe_paper": "MSPBE, Â"})
        )
        paths += comparison_figures.draw(results, METRICS, title, options, f"{name}-{case.name}")
    return tables, paths
