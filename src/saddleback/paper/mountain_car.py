"""MSPBE and MSE on MountainCar over 121 pairs of step sizes, and the MSE of the fixed points.

The paper's comparison at λ = γ = 0.99 with its grid, then again below the λ ceiling with β/α from
2⁻⁵ to 2⁵; and the fixed points themselves, of reliable systems and of least squares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from saddleback._progress import Progress
from saddleback.engine import Simulation
from saddleback.features import Tiles
from saddleback.paper import Options, Preparation, comparison_figures, execute
from saddleback.paper.comparison import (
    PAPER_GRID,
    USUAL_GRID,
    Comparison,
    chosen_rules,
    scaled_points,
)
from saddleback.paper.mountain_car_reference import (
    Effort,
    MountainCarReference,
    ReferenceValues,
    fixed_point,
    from_experience,
)
from saddleback.problems.mountain_car import HIGH, LOW, mountain_car
from saddleback.rules import GES, GTB, GRetrace
from saddleback.sweep import Store, Task, parquet_bytes
from saddleback.system import System

LEARNERS = 100
"""Learner-steps that take as long as one step of experience in the estimate of a system."""

METRICS = {"mse": "MSE", "mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES"}


@dataclass(frozen=True)
class MountainCarConfig:
    """Our choices where the paper leaves the protocol open."""

    gamma: float = 0.99
    lam: float = 0.99
    zeta: float = 0.99
    """The paper gives no ζ for ABQ; this is closest to λ = 0.99."""
    episodes: int = 5000
    runs: int = 5
    below_ceiling: float = 0.6
    """λ of the second comparison: the λ ceiling of importance traces is 0.620."""
    tilings: int = 4
    """As in the paper, which names a library but neither its table size nor the layout."""
    bins: int = 8
    """Tiles along each side of a tiling, one more with displacement: p = 4·9·9·3 = 972."""
    limit: str = "none: episodes of both policies end by themselves"
    """The paper names no time limit."""
    metric_steps: int = 677_000
    """Steps of μ for the paper's Monte Carlo estimates Â, b̂, M̂: 5000 episodes."""
    effort: Effort = field(default_factory=Effort)
    lstd_lambdas: tuple[float, ...] = (0.0, 0.5, 0.6, 0.7, 0.99)
    lstd_seeds: int = 3
    points: int = 21
    """Checkpoints of a learning curve."""


def config_from(options: Options) -> MountainCarConfig:
    """Return the configuration for the options."""
    config = MountainCarConfig()
    if options.quick:
        small = Effort(starts=2000, steps=100_000, pairs=200, returns=50)
        config = replace(
            config,
            episodes=60,
            runs=1,
            metric_steps=20_000,
            effort=small,
            lstd_lambdas=(0.0, 0.99),
            lstd_seeds=1,
            points=6,
            bins=4,
        )
    overrides = {
        name: value
        for name in ("runs", "episodes", "lam", "zeta")
        if (value := getattr(options, name)) is not None
    }
    return replace(config, **overrides)


def plan(config: MountainCarConfig, options: Options) -> list[Comparison]:
    """Return the two comparisons."""
    car = simulation(config)
    cases = (
        ("paper", config.lam, PAPER_GRID),
        ("usual", min(config.lam, config.below_ceiling), USUAL_GRID),
    )
    return [
        Comparison(
            name=name,
            source=lambda: car,
            rules=chosen_rules(options.rules, lam, config.zeta),
            grid=grid,
            count=config.episodes,
            unit="episodes",
            points=scaled_points(config.episodes, config.points),
            runs=config.runs,
            seed=options.seed,
            theta0=0.0,
            metrics=partial(reference(config, options.seed).metrics, lam=lam),
        )
        for name, lam, grid in cases
    ]


def simulation(config: MountainCarConfig) -> Simulation:
    """Return MountainCar with the configured tiles."""
    return mountain_car(
        config.gamma, features=Tiles(LOW, HIGH, bins=config.bins, tilings=config.tilings)
    )


@cache
def reference(config: MountainCarConfig, seed: int) -> MountainCarReference:
    """Return the reference for both comparisons and the fixed points."""
    return MountainCarReference(simulation(config), config.effort, config.metric_steps, seed)


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return sum(comparison.check() for comparison in plan(config_from(options), options))


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both comparisons and the fixed points; draw and tabulate."""
    config = config_from(options)
    comparisons = plan(config, options)
    # Interleaved, so that the references of both are computed at the same time.
    pairs = zip(*(comparison.tasks() for comparison in comparisons), strict=True)
    tasks = [task for pair in pairs for task in pair]
    fixed = fixed_point_tasks(config, options.seed)
    study = {"experiment": "mountain-car", "choices": _as_dict(config)}
    study |= {comparison.name: comparison.study() for comparison in comparisons}
    store = execute(
        "mountain-car", study, [*tasks, *fixed], options, references(config, comparisons)
    )
    tables, paths = [], []
    for comparison in comparisons:
        results = comparison.results(store)
        lam = config.lam if comparison.name == "paper" else min(config.lam, config.below_ceiling)
        title = f"MountainCar, λ = {lam:g}"
        title += ", β/α from 2⁻⁵ to 2⁵" if comparison.grid is USUAL_GRID else ""
        metrics = METRICS | {"mspbe_paper": "MSPBE, Â"}
        tables.append(comparison_figures.tabulate(results, title, metrics))
        paths += comparison_figures.draw(
            results, METRICS, title, options, f"mountain-car-{comparison.name}"
        )
    return [*tables, fixed_points(store, fixed)], paths


def references(config: MountainCarConfig, comparisons: Iterable[Comparison]) -> list[Preparation]:
    """Return the computations the metrics need: values of π, and the systems of each trace."""
    size = LEARNERS * (config.effort.steps + config.metric_steps)
    preparations = {
        (comparison.name, rule.trace): Preparation(partial(comparison.metrics, rule), size)
        for comparison in comparisons
        for rule in comparison.rules.values()
    }
    return list(preparations.values())


def _as_dict(config: MountainCarConfig) -> dict[str, Any]:
    return vars(config) | {"effort": vars(config.effort)}


def fixed_point_tasks(config: MountainCarConfig, seed: int) -> list[Task]:
    """Return the tasks for the MSE of fixed points: of reliable systems, and of least squares."""
    car, truth = simulation(config), reference(config, seed)
    rules = [*(GES(lam) for lam in config.lstd_lambdas), GTB(0.99), GRetrace(0.99)]

    def least_squares(number: int, progress: Progress | None) -> bytes:
        rng = np.random.SeedSequence([seed, 97, number])
        systems = (from_experience(car, rule, config.metric_steps, rng) for rule in rules)
        return parquet_bytes(_errors(f"least squares, seed {number}", systems, truth.values))

    def exact(progress: Progress | None) -> bytes:
        systems = (truth.system(rule.trace) for rule in rules)
        return parquet_bytes(_errors("trusted", systems, truth.values))

    size = LEARNERS * len(rules) * config.metric_steps
    return [
        Task("fixed-points-trusted", exact, size),
        *(
            Task(f"fixed-points-lstd{n}", partial(least_squares, n), size)
            for n in range(config.lstd_seeds)
        ),
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
