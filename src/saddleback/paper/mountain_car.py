"""MSPBE and MSE on MountainCar, all 121 pairs of step sizes, beside what holds.

The paper's comparison at λ = γ = .99 with its grid, then once more below the λ ceiling with the
usual time scales; and the fixed points themselves, as they are and as least squares finds them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from saddleback.paper import Options, execute, grids
from saddleback.paper.car import Effort, Values, objectives, trusted, values
from saddleback.paper.comparison import PAPER, USUAL, Comparison, Metrics, family, scaled_points
from saddleback.problems import mountain_car
from saddleback.rules import GES, GTB, GRetrace, Rule
from saddleback.sweep import Store, Task
from saddleback.system import System

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
    tiles: str = "4 tilings of 8×8 tiles, 9×9 with displacement, for each action: p = 972"
    """The paper says "4 tilings" and names a library; its table size and layout are not given."""
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
            c, episodes=60, runs=1, metric_steps=20_000, effort=small, lstd_seeds=0,
            points=6,
        )  # fmt: skip
    given = {
        name: value
        for name in ("runs", "episodes", "lam", "zeta")
        if (value := getattr(options, name)) is not None
    }
    return replace(c, **given)


class Judge:
    """What learners are measured by; computed once, when the first task asks."""

    def __init__(self, c: Choices, lam: float, seed: int) -> None:
        self._c, self._lam, self._seed = c, lam, seed
        self._lock = threading.Lock()
        self._known: tuple[Values, dict[str, Metrics]] | None = None

    def _prepare(self) -> tuple[Values, dict[str, Metrics]]:
        c, car = self._c, mountain_car(self._c.gamma)
        truth, systems, paper = np.random.SeedSequence([self._seed, 99]).spawn(3)
        known = values(car, c.effort, truth)
        rules = list({rule.trace: rule for rule in family(self._lam, c.zeta).values()}.values())
        exact = objectives(trusted(car, rules, c.effort, systems))
        noisy = objectives(System.estimate(car, rules, steps=c.metric_steps, rng=paper))
        metrics: dict[str, Metrics] = {
            repr(rule.trace): {
                "mse": known.mse,
                "mspbe": own.mspbe,
                "mspbe_common": exact[0].mspbe,
                "mspbe_paper": theirs.mspbe,
            }
            for rule, own, theirs in zip(rules, exact, noisy, strict=True)
        }
        return known, metrics

    def __call__(self, rule: Rule) -> Metrics:
        """Metrics of a rule, by its trace."""
        with self._lock:
            if self._known is None:
                self._known = self._prepare()
        return self._known[1][repr(rule.trace)]


def plan(c: Choices, seed: int) -> list[Comparison]:
    """The two comparisons."""
    car = mountain_car(c.gamma)
    cases = (("paper", c.lam, PAPER), ("usual", min(c.lam, c.below_ceiling), USUAL))
    return [
        Comparison(
            name=name, source=lambda: car, rules=family(lam, c.zeta), grid=grid,
            count=c.episodes, unit="episodes", points=scaled_points(c.episodes, c.points),
            runs=c.runs, seed=seed, theta0=0.0, metrics=Judge(c, lam, seed),
        )
        for name, lam, grid in cases
    ]  # fmt: skip


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both comparisons and the fixed points; draw and tabulate."""
    c = chosen(options)
    comparisons = plan(c, options.seed)
    # Side by side, so that what both are judged by is worked out at the same time.
    pairs = zip(*(comparison.tasks() for comparison in comparisons), strict=True)
    tasks = [task for pair in pairs for task in pair]
    fixed = fixed_point_tasks(c, options.seed)
    study = {"experiment": "mountain-car", "choices": _plain(c)}
    study |= {comparison.name: comparison.study() for comparison in comparisons}
    store = execute("mountain-car", study, [*tasks, *fixed], options)
    tables, paths = [], []
    for comparison in comparisons:
        results = comparison.results(store)
        lam = c.lam if comparison.name == "paper" else min(c.lam, c.below_ceiling)
        title = f"MountainCar, λ = {lam:g}, β/α from {min(comparison.grid.ratios):.2g}"
        metrics = METRICS | {"mspbe_paper": "by Â of μ"}
        tables.append(grids.tabulate(results, title, metrics))
        paths += grids.draw(results, METRICS, title, options, f"mountain-car-{comparison.name}")
    return [*tables, *([fixed_points(store, fixed)] if fixed else [])], paths


def _plain(c: Choices) -> dict[str, Any]:
    return vars(c) | {"effort": vars(c.effort)}


def fixed_point_tasks(c: Choices, seed: int) -> list[Task]:
    """MSE of the fixed points: of trusted systems, and of least squares on 5000 episodes."""
    if not c.lstd_seeds:
        return []
    car = mountain_car(c.gamma)
    rules = [*(GES(lam) for lam in c.lstd_lambdas), GTB(0.99), GRetrace(0.99)]

    def known() -> Values:
        return values(car, c.effort, np.random.SeedSequence([seed, 98]))

    def least_squares(number: int) -> Callable[[], pa.Table]:
        def work() -> pa.Table:
            rng = np.random.SeedSequence([seed, 97, number])
            found = System.estimate(car, rules, steps=c.metric_steps, rng=rng)
            return _errors(f"least squares, seed {number}", found, known())

        return work

    def truth() -> pa.Table:
        exact = trusted(car, rules, c.effort, np.random.SeedSequence([seed, 96]))
        return _errors("trusted", exact, known())

    return [
        Task("fixed-points-trusted", truth),
        *(Task(f"fixed-points-lstd{n}", least_squares(n)) for n in range(c.lstd_seeds)),
    ]


def _errors(kind: str, systems: list[System], known: Values) -> pa.Table:
    return pa.table(
        {
            "kind": [kind] * len(systems),
            "rule": [str(system.rule) for system in systems],
            "mse": [float(known.mse(system.fixed_point)) for system in systems],
            "error_of_q": [float(np.sqrt(np.mean(known.error**2)))] * len(systems),
        }
    )


def fixed_points(store: Store, tasks: list[Task]) -> Table:
    """Tabulate the errors of fixed points."""
    shards = [store.shard(task.name).to_pydict() for task in tasks]
    table = Table(
        title="MountainCar: MSE of the fixed points", box=box.SIMPLE, title_justify="left"
    )
    for heading in ("rule", "trusted A, b", "least squares, 5000 episodes"):
        table.add_column(heading, justify="left" if heading == "rule" else "right")
    for index, name in enumerate(shards[0]["rule"]):
        found = np.mean([shard["mse"][index] for shard in shards[1:]])
        table.add_row(name, f"{shards[0]['mse'][index]:.4f}", f"{found:.4f}")
    table.caption = f"q^π by simulation, standard error {shards[0]['error_of_q'][0]:.2f} (rms)."
    return table
