"""MSPBE and MSE on MountainCar over 121 pairs of step sizes, and the MSE of the fixed points.

The paper's comparison at λ = γ = 0.99 with its grid, then again below the λ ceiling with β/α from
2⁻⁵ to 2⁵; and the fixed points themselves, of reliable systems and of least squares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from saddleback._progress import Progress, split_progress
from saddleback.paper import Options, comparison, comparison_figures, execute
from saddleback.paper.mountain_car_reference import (
    ReferenceValues,
    fixed_point,
    from_experience,
    reference,
    simulation,
)
from saddleback.rules import GES, GTB, GRetrace, Rule
from saddleback.sweep import Store, Task, parquet_bytes
from saddleback.system import System

METRICS = {"mse": "MSE", "mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES"}

TITLES = {"paper": "MountainCar", "usual": "MountainCar"}
"""Titles of the cases by the names of their figures."""

FIXED_POINTS = "mountain-car-fixed-points"
"""Name of the store of the fixed points."""

COSTS = [("mountain-car", 60.0), (FIXED_POINTS, 12.0)]
"""Approximate seconds of the comparisons and of the fixed points."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return comparison.check("mountain-car", options)


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both comparisons and the fixed points; draw and tabulate."""
    first, second = split_progress(options.progress, COSTS)
    own = replace(options, progress=first)
    tables, paths = comparison_figures.compare("mountain-car", own, METRICS, TITLES)
    tasks = fixed_point_tasks(options)
    study = {"seed": options.seed, "tasks": [task.name for task in tasks]}
    study |= {"sample": comparison.study_of("mountain-car", options).sample}
    store = execute(FIXED_POINTS, study, tasks, replace(options, progress=second))
    return [*tables, fixed_points(store, tasks)], paths


def fixed_point_rules(quick: bool) -> list[Rule]:
    """Return the rules whose fixed points are compared."""
    lambdas = (0.0, 0.99) if quick else (0.0, 0.5, 0.6, 0.7, 0.99)
    return [*(GES(lam) for lam in lambdas), GTB(0.99), GRetrace(0.99)]


def fixed_point_tasks(options: Options) -> list[Task]:
    """Return the tasks for the MSE of fixed points: of reliable systems, and of least squares."""
    study = comparison.study_of("mountain-car", options)
    car = simulation(**study.cases[0].parameters)
    truth = reference(car, {"sample": study.sample, "seed": study.seed, **study.parameters})
    rules = fixed_point_rules(options.quick)

    def least_squares(number: int, progress: Progress | None) -> bytes:
        rng = np.random.SeedSequence([study.seed, 97, number])
        systems = (from_experience(car, rule, study.sample, rng) for rule in rules)
        return parquet_bytes(_errors(f"least squares, seed {number}", systems, truth.values))

    def exact(progress: Progress | None) -> bytes:
        systems = (truth.system(rule.trace) for rule in rules)
        return parquet_bytes(_errors("trusted", systems, truth.values))

    seeds = 1 if options.quick else 3
    return [
        Task("fixed-points-trusted", exact),
        *(Task(f"fixed-points-lstd{n}", partial(least_squares, n)) for n in range(seeds)),
    ]


def _errors(kind: str, systems: Iterable[System], values: ReferenceValues) -> pa.Table:
    noise = float(np.sqrt(np.mean(values.error**2)))
    rows = [
        {
            "kind": kind,
            "rule": str(system.rule),
            "mse": float(values.mse(fixed_point(system))),
            "error_of_q": noise,
        }
        for system in systems
    ]
    return pa.Table.from_pylist(rows)


def fixed_points(store: Store, tasks: list[Task]) -> Table:
    """Return a table of the errors of fixed points."""
    shards = [store.shard(task.name).to_pydict() for task in tasks]
    table = Table(
        title="MountainCar: MSE of the fixed points", box=box.SIMPLE, title_justify="left"
    )
    for heading in ("rule", "reliable A, b", "least squares"):
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for index, name in enumerate(shards[0]["rule"]):
        estimated = np.mean([shard["mse"][index] for shard in shards[1:]])
        table.add_row(name, f"{shards[0]['mse'][index]:.4f}", f"{estimated:.4f}")
    table.caption = f"q^π by simulation, standard error {shards[0]['error_of_q'][0]:.2f} (rms)."
    return table
