"""Constant step sizes against c/√t: on the paper's grid, and on one where both are tuned.

The paper's grid gives both schedules the same numbers, so c/√t is hundreds of times smaller after
50,000 steps. The wide grid lets its scale c grow as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.engine import inverse_sqrt
from saddleback.paper import Options, execute
from saddleback.paper.comparison import (
    PAPER_GRID,
    USUAL_GRID,
    Comparison,
    ComparisonResults,
    Grid,
    scaled_points,
)
from saddleback.problems import two_state
from saddleback.rules import GES
from saddleback.system import System

DECAYING_GRID = Grid(tuple(0.1 * 2.0**j for j in range(-4, 7)), USUAL_GRID.ratios)
"""Scales of c/√t up to 6.4, with β/α from 2⁻⁵ to 2⁵."""

SCHEDULES: dict[str, tuple[Grid, Callable[[FloatArray], Any], str, str]] = {
    "constant, paper's grid": (PAPER_GRID, np.asarray, "blue", "-"),
    "c/√t, paper's grid": (PAPER_GRID, inverse_sqrt, "orange", "-"),
    "constant, wide grid": (USUAL_GRID, np.asarray, "blue", "--"),
    "c/√t, wide grid": (DECAYING_GRID, inverse_sqrt, "orange", "--"),
}
"""Grid, schedule, colour and dashes, by name."""

LOWEST = 1e-30
"""Smaller values are not drawn."""


@dataclass(frozen=True)
class StepSizeConfig:
    """Our choices where the paper leaves the protocol open."""

    gamma: float = 0.99
    lam: float = 0.99
    rewards: tuple[tuple[float, float], ...] = ((1.0, -1.0), (0.5, 2.0))
    """The paper names neither problem nor rewards; this is the two-state problem."""
    below_ceiling: float = 0.5
    steps: int = 50_000
    runs: int = 10


def config_from(options: Options) -> StepSizeConfig:
    """Return the configuration for the options."""
    config = StepSizeConfig(lam=StepSizeConfig.lam if options.lam is None else options.lam)
    config = replace(config, steps=2000, runs=2) if options.quick else config
    return config if options.runs is None else replace(config, runs=options.runs)


def plan(config: StepSizeConfig, seed: int) -> dict[tuple[str, float, str], Comparison]:
    """Return the comparisons, by reward, λ and schedule."""
    cases = {}
    for kind, rewards, theta0 in (("no reward", None, 1.0), ("rewards", config.rewards, 0.0)):
        for lam in (config.lam, min(config.lam, config.below_ceiling)):
            problem, rule = two_state(config.gamma, rewards), GES(lam)
            system = System.exact(problem, rule)
            for number, (name, (grid, schedule, *_)) in enumerate(SCHEDULES.items()):
                cases[kind, lam, name] = Comparison(
                    name=f"{kind.replace(' ', '-')}-lam{lam:g}-{number}",
                    source=lambda problem=problem: problem,  # type: ignore[misc]
                    rules={"GES": rule}, grid=grid, count=config.steps, unit="steps",
                    points=scaled_points(config.steps, 41), runs=config.runs, seed=seed,
                    theta0=theta0, metrics=lambda _, own=system: {"mspbe": own.mspbe},  # type: ignore[misc]
                    schedule=schedule,
                )  # fmt: skip
    return cases


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return sum(case.check() for case in plan(config_from(options), options.seed).values())


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Compare the schedules on their best settings, with and without reward."""
    config = config_from(options)
    cases = plan(config, options.seed)
    study = {"experiment": "step-size", "choices": vars(config)}
    study |= {case.name: case.study() for case in cases.values()}
    tasks = [task for case in cases.values() for task in case.tasks()]
    store = execute("step-size", study, tasks, options)

    table = Table(title="GES, two-state: constant steps against c/√t", box=box.SIMPLE)
    for heading in ("problem", "λ", "schedule", "div.", "best MSPBE", "scale α, β/α"):
        table.add_column(heading)
    for (kind, lam, name), case in cases.items():
        results = case.results(store)
        i, j = results.best(0, "mspbe")
        table.add_row(
            kind, f"{lam:g}", name, str(int((results.diverged(0) > 0).sum())),
            f"{results.final(0, 'mspbe')[i, j]:.2g}",
            f"{case.grid.alphas[i]:.3g}, {case.grid.ratios[j]:.3g}",
        )  # fmt: skip
    table.caption = (
        "Best setting of each grid by the mean MSPBE of the last tenth of the checkpoints. Wide "
        "grid: β/α from 2⁻⁵ to 2⁵, and c up to 6.4."
    )
    with plots.style():
        figure = draw({key: case.results(store) for key, case in cases.items()}, config)
        paths = options.save(figure, "step-size")
    return [table], paths


def draw(
    results: dict[tuple[str, float, str], ComparisonResults], config: StepSizeConfig
) -> Figure:
    """Draw the MSPBE of the best setting of each grid, a panel for each reward and λ."""
    caption = (
        f"GES on the two-state problem, γ = {config.gamma:g}: the setting with the lowest final "
        f"mean MSPBE of each grid. Lines: median of {config.runs} runs; bands: quartiles. Paper's "
        "grid: α (or c) and β/α from 9.8·10⁻⁵ to 0.1. Wide grid: β/α from 2⁻⁵ to 2⁵, and c up to "
        "6.4."
    )
    kinds = list(dict.fromkeys((kind, lam) for kind, lam, _ in results))
    figure, axes = plots.panels(
        2, 2, 1.3, caption=caption, legend_rows=1, top=0.26, gap=(0.6, 0.3), sharex=True
    )
    panels = dict(zip(kinds, axes, strict=True))
    for (kind, lam, name), result in results.items():
        *_, colour, dashes = SCHEDULES[name]
        points, ax = np.array(result.comparison.points)[1:], panels[kind, lam]
        values = plots.quartiles(result.curve(0, "mspbe"))[:, 1:]
        low, middle, high = np.where(values > LOWEST, values, np.nan)
        ax.plot(points, middle, color=plots.COLOURS[colour], ls=dashes)
        ax.fill_between(points, low, high, color=plots.COLOURS[colour], alpha=0.12, lw=0)
        ax.set(xscale="log", yscale="log", xlim=(10, points[-1]))
        ax.set_title(f"{kind.capitalize()}, λ = {lam:g}")
    for ax in axes[::2]:
        ax.set(ylabel="MSPBE")
    for ax in axes[2:]:
        ax.set(xlabel="step")
    handles = [
        Line2D([], [], color=plots.COLOURS[colour], ls=dashes, label=name)
        for name, (*_, colour, dashes) in SCHEDULES.items()
    ]
    plots.legend_above(figure, handles, len(handles))
    return figure
