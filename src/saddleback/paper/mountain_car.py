"""MSPBE and MSE on MountainCar over 121 pairs of step sizes, and the MSE of the fixed points.

The paper's comparison at λ = γ = 0.99 with its grid, then again below the λ ceiling with β/α from
2⁻⁵ to 2⁵; and the fixed points themselves, of reliable systems and of least squares.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from saddleback._progress import Progress, split_progress
from saddleback.paper import Options, comparison, comparison_figures, execute
from saddleback.paper.estimated_system import fixed_point, from_experience
from saddleback.paper.mountain_car_reference import reference, simulation
from saddleback.rules import GES, GTB, GRetrace, Rule
from saddleback.sweep import Store, Task, parquet_bytes

METRICS = {"mse": "MSE", "mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES"}

TITLES = {"paper": "MountainCar", "usual": "MountainCar"}
"""Titles of the cases by the names of their figures."""

FIXED_POINTS = "mountain-car-fixed-points"
"""Name of the store of the fixed points."""

FIXED_POINT_HEADINGS = ("rule", "trusted A, b", "standard error", "least squares, 5000 episodes")
"""Columns of the table of fixed points."""

COSTS = [(FIXED_POINTS, 10.0), ("mountain-car", 95.0)]
"""Approximate seconds of the fixed points and of the comparisons."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return comparison.check("mountain-car", options)


def prepare(options: Options) -> Store:
    """Compute what is missing of the fixed points and both comparisons; return the former.

    The fixed points have few tasks, which keep all threads busy only beside other experiments.
    """
    first, second = split_progress(options.progress, COSTS)
    tasks = fixed_point_tasks(options)
    study = {"seed": options.seed, "tasks": [task.name for task in tasks]}
    study |= {"sample": comparison.study_of("mountain-car", options).sample}
    store = execute(FIXED_POINTS, study, tasks, replace(options, progress=first))
    comparison.compute("mountain-car", replace(options, progress=second))
    return store


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both comparisons and the fixed points; draw and tabulate."""
    store = prepare(options)
    own = replace(options, progress=None)
    tables, paths = comparison_figures.compare("mountain-car", own, METRICS, TITLES)
    return [*tables, fixed_points(store, fixed_point_tasks(options))], paths


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
        systems = from_experience(car, rules, study.sample, rng)
        rows = [
            {"rule": str(system.rule), "mse": float(truth.values.mse(fixed_point(system)))}
            for system in systems
        ]
        return parquet_bytes(pa.Table.from_pylist(rows))

    def trusted(progress: Progress | None) -> bytes:
        measured = {str(rule): truth.estimate(rule.trace).mse(truth.values) for rule in rules}
        noise = float(np.sqrt(truth.values.noise))
        rows = [
            {"rule": name, "mse": own.value, "error": own.error, "added": own.added,
             "error_of_q": noise}
            for name, own in measured.items()
        ]  # fmt: skip
        return parquet_bytes(pa.Table.from_pylist(rows))

    seeds = 1 if options.quick else 3
    return [
        Task("fixed-points-trusted", trusted),
        *(Task(f"fixed-points-lstd{n}", partial(least_squares, n)) for n in range(seeds)),
    ]


def fixed_point_rows(store: Store, tasks: list[Task]) -> list[tuple[str, str, str, str]]:
    """Return rule, MSE of the fixed point, its standard error, and the MSE of least squares."""
    first, *others = (store.shard(task.name).to_pydict() for task in tasks)
    rows = []
    for k, name in enumerate(first["rule"]):
        low, middle, high = np.quantile([shard["mse"][k] for shard in others], (0.25, 0.5, 0.75))
        rows.append(
            (name, f"{first['mse'][k]:.5f}", f"{first['error'][k]:.5f}",
             f"{middle:.4f} ({low:.4f}–{high:.4f})")
        )  # fmt: skip
    return rows


def fixed_points(store: Store, tasks: list[Task]) -> Table:
    """Return a table of the errors of fixed points."""
    table = Table(
        title="MountainCar: MSE of the fixed points", box=box.SIMPLE, title_justify="left"
    )
    for heading in FIXED_POINT_HEADINGS:
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for row in fixed_point_rows(store, tasks):
        table.add_row(*row)
    first = store.shard(tasks[0].name).to_pydict()
    table.caption = (
        f"Least squares: median and quartiles of {len(tasks) - 1} seeds. q^π by simulation, "
        f"standard error {first['error_of_q'][0]:.2f} (rms). Noise of A and b adds at most "
        f"{max(first['added']):.5f} to the MSE."
    )
    table.caption_justify = "left"
    return table
