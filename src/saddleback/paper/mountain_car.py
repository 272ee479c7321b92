"""MSPBE and MSE on MountainCar, all 121 pairs of step sizes, beside what holds.

The paper's comparison at λ = γ = .99 with its grid, then once more below the λ ceiling with the
usual time scales; and the fixed points themselves, as they are and as least squares finds them.
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
from saddleback.paper.comparison import PAPER, USUAL, Comparison, chosen_rules, scaled_points
from saddleback.paper.mountain_car_reference import Effort, Values, fixed_point, from_experience
from saddleback.paper.truth import Truth
from saddleback.problems.mountain_car import HIGH, LOW, mountain_car
from saddleback.rules import GES, GTB, GRetrace
from saddleback.sweep import Store, Task, parquet_bytes
from saddleback.system import System

LEARNERS = 100
"""Learner-steps that cost as much as a step of experience costs a system that is summed up."""

METRICS = {"mse": "MSE", "mspbe": "MSPBE, own", "mspbe_common": "MSPBE of GES"}


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open, and what we chose."""

    gamma: float = 0.99
    lam: float = 0.99
    zeta: float = 0.99
    """The paper gives ABQ no ζ; its least bootstrapping is closest to λ = .99."""
    episodes: int = 5000
    runs: int = 5
    below_ceiling: float = 0.6
    """λ of the second comparison: the ceiling of importance traces here is .620."""
    tilings: int = 4
    """As in the paper, which names a library, but neither its table size nor the layout."""
    bins: int = 8
    """Tiles along each side of a tiling, one more with displacement: p = 4·9·9·3 = 972."""
    limit: str = "none: episodes of both policies end by themselves"
    """The paper names no time limit."""
    metric_steps: int = 677_000
    """Steps of μ behind the paper's own Monte Carlo Â, b̂, M̂: 5000 episodes."""
    effort: Effort = field(default_factory=Effort)
    lstd_lambdas: tuple[float, ...] = (0.0, 0.5, 0.6, 0.7, 0.99)
    lstd_seeds: int = 3
    points: int = 21
    """Checkpoints of a learning curve."""


def chosen(options: Options) -> Choices:
    """Apply the options to the choices."""
    c = Choices()
    if options.quick:
        small = Effort(starts=2000, steps=100_000, pairs=200, returns=50)
        c = replace(
            c, episodes=60, runs=1, metric_steps=20_000, effort=small, lstd_lambdas=(0.0, 0.99),
            lstd_seeds=1, points=6, bins=4,
        )  # fmt: skip
    given = {
        name: value
        for name in ("runs", "episodes", "lam", "zeta")
        if (value := getattr(options, name)) is not None
    }
    return replace(c, **given)


def plan(c: Choices, options: Options) -> list[Comparison]:
    """The two comparisons."""
    car = simulation(c)
    cases = (("paper", c.lam, PAPER), ("usual", min(c.lam, c.below_ceiling), USUAL))
    return [
        Comparison(
            name=name, source=lambda: car, rules=chosen_rules(options.rules, lam, c.zeta),
            grid=grid, count=c.episodes, unit="episodes",
            points=scaled_points(c.episodes, c.points), runs=c.runs, seed=options.seed,
            theta0=0.0, metrics=partial(truth(c, options.seed).metrics, lam=lam),
        )
        for name, lam, grid in cases
    ]  # fmt: skip


def simulation(c: Choices) -> Simulation:
    """MountainCar with the tiles chosen."""
    return mountain_car(c.gamma, features=Tiles(LOW, HIGH, bins=c.bins, tilings=c.tilings))


@cache
def truth(c: Choices, seed: int) -> Truth:
    """What both comparisons and the fixed points are measured by."""
    return Truth(simulation(c), c.effort, c.metric_steps, seed)


def check(options: Options) -> int:
    """Refuse what cannot be run; return how many bytes the results will be."""
    return sum(comparison.check() for comparison in plan(chosen(options), options))


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both comparisons and the fixed points; draw and tabulate."""
    c = chosen(options)
    comparisons = plan(c, options)
    # Side by side, so that what both are judged by is worked out at the same time.
    pairs = zip(*(comparison.tasks() for comparison in comparisons), strict=True)
    tasks = [task for pair in pairs for task in pair]
    fixed = fixed_point_tasks(c, options.seed)
    study = {"experiment": "mountain-car", "choices": _plain(c)}
    study |= {comparison.name: comparison.study() for comparison in comparisons}
    store = execute("mountain-car", study, [*tasks, *fixed], options, references(c, comparisons))
    tables, paths = [], []
    for comparison in comparisons:
        results = comparison.results(store)
        lam = c.lam if comparison.name == "paper" else min(c.lam, c.below_ceiling)
        title = f"MountainCar, λ = {lam:g}, β/α from {min(comparison.grid.ratios):.2g}"
        metrics = METRICS | {"mspbe_paper": "by Â of μ"}
        tables.append(comparison_figures.tabulate(results, title, metrics))
        paths += comparison_figures.draw(
            results, METRICS, title, options, f"mountain-car-{comparison.name}"
        )
    return [*tables, fixed_points(store, fixed)], paths


def references(c: Choices, comparisons: Iterable[Comparison]) -> list[Preparation]:
    """What learners are measured by: values of π, and the systems of each trace."""
    size = LEARNERS * (c.effort.steps + c.metric_steps)
    found = {
        (comparison.name, rule.trace): Preparation(partial(comparison.metrics, rule), size)
        for comparison in comparisons
        for rule in comparison.rules.values()
    }
    return list(found.values())


def _plain(c: Choices) -> dict[str, Any]:
    return vars(c) | {"effort": vars(c.effort)}


def fixed_point_tasks(c: Choices, seed: int) -> list[Task]:
    """MSE of the fixed points: of trusted systems, and of least squares on 5000 episodes."""
    car, known = simulation(c), truth(c, seed)
    rules = [*(GES(lam) for lam in c.lstd_lambdas), GTB(0.99), GRetrace(0.99)]

    def least_squares(number: int, progress: Progress | None) -> bytes:
        rng = np.random.SeedSequence([seed, 97, number])
        found = (from_experience(car, rule, c.metric_steps, rng) for rule in rules)
        return parquet_bytes(_errors(f"least squares, seed {number}", found, known.values))

    def exact(progress: Progress | None) -> bytes:
        found = (known.system(rule.trace) for rule in rules)
        return parquet_bytes(_errors("trusted", found, known.values))

    size = LEARNERS * len(rules) * c.metric_steps
    return [
        Task("fixed-points-trusted", exact, size),
        *(
            Task(f"fixed-points-lstd{n}", partial(least_squares, n), size)
            for n in range(c.lstd_seeds)
        ),
    ]


def _errors(kind: str, systems: Iterable[System], known: Values) -> pa.Table:
    noise = float(np.sqrt(np.mean(known.error**2)))
    rows = [
        {
            "kind": kind,
            "rule": str(system.rule),
            "mse": float(known.mse(fixed_point(system))),
            "error_of_q": noise,
        }
        for system in systems
    ]
    return pa.Table.from_pylist(rows)


def fixed_points(store: Store, tasks: list[Task]) -> Table:
    """Tabulate the errors of fixed points."""
    shards = [store.shard(task.name).to_pydict() for task in tasks]
    table = Table(
        title="MountainCar: MSE of the fixed points", box=box.SIMPLE, title_justify="left"
    )
    for heading in ("rule", "trusted A, b", "least squares"):
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for index, name in enumerate(shards[0]["rule"]):
        found = np.mean([shard["mse"][index] for shard in shards[1:]])
        table.add_row(name, f"{shards[0]['mse'][index]:.4f}", f"{found:.4f}")
    table.caption = f"q^π by simulation, standard error {shards[0]['error_of_q'][0]:.2f} (rms)."
    return table
