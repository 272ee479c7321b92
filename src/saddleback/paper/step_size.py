"""Constant step sizes against c/√t, as the paper compares them and fairly.

The paper's grid gives both schedules the same numbers, so c/√t is hundreds of times smaller after
50,000 steps. The fair version lets its scale c grow as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.engine import inverse_sqrt
from saddleback.paper import Options, execute
from saddleback.paper.comparison import PAPER, USUAL, Comparison, Grid, scaled_points
from saddleback.problems import two_state
from saddleback.rules import GES
from saddleback.system import System

WIDE = Grid(tuple(0.1 * 2.0**j for j in range(-4, 7)), USUAL.ratios)
"""Scales of c/√t up to 6.4, with the usual time scales."""


PANEL = 1.05
"""Inches of a panel."""


@dataclass(frozen=True)
class StepSizeConfig:
    """What the paper leaves open, and what we chose."""

    gamma: float = 0.99
    lam: float = 0.99
    rewards: tuple[tuple[float, float], ...] = ((1.0, -1.0), (0.5, 2.0))
    """The paper names neither problem nor rewards; this is the two-state problem."""
    below_ceiling: float = 0.5
    steps: int = 50_000
    runs: int = 10


def config_from(options: Options) -> StepSizeConfig:
    """Apply the options to the choices."""
    config = StepSizeConfig(lam=StepSizeConfig.lam if options.lam is None else options.lam)
    config = replace(config, steps=2000, runs=2) if options.quick else config
    return config if options.runs is None else replace(config, runs=options.runs)


def plan(config: StepSizeConfig, seed: int) -> dict[tuple[str, float, str], Comparison]:
    """The comparisons, by reward, λ and schedule."""
    schedules: dict[str, tuple[Grid, Callable[[FloatArray], Any]]] = {
        "constant, paper's grid": (PAPER, np.asarray),
        "c/√t, paper's grid": (PAPER, inverse_sqrt),
        "constant, usual ratios": (USUAL, np.asarray),
        "c/√t, larger scales": (WIDE, inverse_sqrt),
    }
    cases = {}
    for kind, rewards, theta0 in (("no reward", None, 1.0), ("rewards", config.rewards, 0.0)):
        for lam in (config.lam, min(config.lam, config.below_ceiling)):
            problem, rule = two_state(config.gamma, rewards), GES(lam)
            system = System.exact(problem, rule)
            for number, (name, (grid, schedule)) in enumerate(schedules.items()):
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
    """Refuse what cannot be run; return how many bytes the results will be."""
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
    with plots.style():
        kinds = list(dict.fromkeys((kind, lam) for kind, lam, _ in cases))
        figure, axes = plots.column(len(kinds), PANEL, gap=0.26, shared=True)
        panels = dict(zip(kinds, axes, strict=True))
        ends: dict[tuple[str, float], dict[str, plots.End]] = {kind: {} for kind in kinds}
        colours = ("blue", "orange", "blue", "orange")
        for number, ((kind, lam, name), case) in enumerate(cases.items()):
            results = case.results(store)
            i, j = results.best(0, "mspbe")
            table.add_row(
                kind, f"{lam:g}", name, str(int((results.diverged(0) > 0).sum())),
                f"{results.final(0, 'mspbe')[i, j]:.2g}",
                f"{case.grid.alphas[i]:.3g}, {case.grid.ratios[j]:.3g}",
            )  # fmt: skip
            curve = results.curve(0, "mspbe")
            points, ax = np.array(case.points)[1:], panels[kind, lam]
            shown = np.where(curve > 1e-30, curve, np.nan)[1:]
            colour, middle = plots.COLOURS[colours[number % 4]], np.exp(np.log(shown).mean(axis=1))
            ax.plot(points, middle, color=colour, ls="-" if number % 4 < 2 else "--")
            ax.set(xscale="log", yscale="log", title=f"{kind}, λ = {lam:g}", ylabel="MSPBE")
            ax.set_xlim(points[0], points[-1])
            told = middle[np.isfinite(middle)]
            ends[kind, lam][name.replace(", ", ",\n")] = plots.End(float(told[-1]), colour)
        for ax, named in zip(axes, ends.values(), strict=True):
            plots.label_ends(ax, named, lines=2)
        axes[-1].set(xlabel="steps")
        paths = options.save(figure, "step-size")
    table.caption = (
        "Best setting of each grid by the mean MSPBE of the last tenth; the figure shows the "
        "geometric mean of its runs."
    )
    return [table], paths
