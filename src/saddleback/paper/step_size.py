"""Constant step sizes against c/√t: on the paper's grid, and on one where both are tuned.

The paper's grid gives both schedules the same numbers, so c/√t is hundreds of times smaller after
50,000 steps. The wide grid lets its scale c grow as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback._progress import split_progress
from saddleback.paper import Options, comparison
from saddleback.paper.comparison import Comparison
from saddleback.sweep import RuleResults

STYLES = {
    "constant, paper's grid": ("blue", "-"), "c/√t, paper's grid": ("orange", "-"),
    "constant, wide grid": ("blue", "--"), "c/√t, wide grid": ("orange", "--"),
}  # fmt: skip
"""Colour and dashes of each schedule, by the labels of the grids in the study."""

PROBLEMS = {
    "no reward": "two-state, no reward", "rewards": "two-state, rewards",
    "baird": "Baird, rewards", "MountainCar": "MountainCar",
}  # fmt: skip
"""Titles of the problems, by their labels in the studies."""

STUDIES = ("step-size", "step-size-mountain-car")

LOWEST = 1e-30
"""Smaller values are not drawn."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return sum(comparison.check(study, options) for study in STUDIES)


Results = dict[tuple[str, float | None, str], tuple[Comparison, RuleResults]]


def by_schedule(comparisons: Sequence[Comparison]) -> Results:
    """Return the results by problem, λ and schedule."""
    cases = {case.case.label: case for case in comparisons}
    return {
        (problem, own.lam, schedule): (cases[f"{schedule}, {problem}"], own)
        for problem in PROBLEMS
        for rule in comparisons[0].results
        for schedule in STYLES
        if f"{schedule}, {problem}" in cases
        for own in cases[f"{schedule}, {problem}"].results
        if own.rule == rule.rule
    }


def results_of(options: Options, read: Callable[[str, Options], list[Comparison]]) -> Results:
    """Return the results of all studies, which ``read`` runs or reads."""
    results: Results = {}
    for study in STUDIES:
        results |= by_schedule(read(study, options))
    return results


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Compare the schedules on their best settings."""
    progress = iter(split_progress(options.progress, [(study, 1.0) for study in STUDIES]))
    results = results_of(
        options, lambda study, own: comparison.run(study, replace(own, progress=next(progress)))
    )
    table = Table(title="GES: constant steps against c/√t", box=box.SIMPLE)
    for heading in ("problem", "λ", "schedule", "div.", "best MSPBE", "scale α, β/α"):
        table.add_column(heading)
    for (problem, lam, name), (case, result) in results.items():
        i, j = result.best("mspbe") or (0, 0)
        table.add_row(
            PROBLEMS[problem], f"{lam:g}", name, str(int((result.diverged > 0).sum())),
            f"{result.mean_final('mspbe')[i, j]:.2g}",
            f"{case.grid.alphas[i]:.3g}, {case.grid.betas[j]:.3g}",
        )  # fmt: skip
    table.caption = (
        "Best setting of each grid by the mean MSPBE of the last tenth of the checkpoints. Wide "
        "grid: β/α from 2⁻⁵ to 2⁵, and c up to 6.4."
    )
    with plots.style():
        paths = options.save(draw(results), "step-size")
    return [table], paths


def draw(results: Results) -> Figure:
    """Draw the MSPBE of the best setting of each grid, a row for each problem, a column for λ."""
    counts = sorted({case.study.runs for case, _ in results.values()})
    caption = (
        "GES, γ = 0.99: the setting with the lowest final mean MSPBE of each grid. Lines: median "
        f"of {counts[-1]} runs ({counts[0]} on MountainCar); bands: quartiles. Paper's grid: α (or "
        "c) and β/α from 9.8·10⁻⁵ to 0.1. Wide grid: β/α from 2⁻⁵ to 2⁵, and c up to 6.4."
    )
    rows = list(dict.fromkeys(problem for problem, _, _ in results))
    columns = list(dict.fromkeys(lam for _, lam, _ in results))
    figure, axes = plots.panels(
        len(rows),
        len(columns),
        1.15,
        caption=caption,
        legend_rows=1,
        top=0.26,
        gap=(0.6, 0.42),
        left=0.62,
    )
    panels = dict(zip(itertools.product(rows, columns), axes, strict=True))
    for (problem, lam, name), (_, result) in results.items():
        colour, dashes = STYLES[name]
        points, ax = result.points[1:], panels[problem, lam]
        plots.median_curve(
            ax, points, result.curve("mspbe")[1:], above=LOWEST, band=0.12,
            color=plots.COLOURS[colour], ls=dashes,
        )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlim=(points[0], points[-1]))
        title = PROBLEMS[problem]
        ax.set_title(f"{title[0].upper()}{title[1:]}, λ = {lam:g}")
    for ax in axes[:: len(columns)]:
        ax.set(ylabel="MSPBE")
    for ax in axes[-len(columns) :]:
        ax.set(xlabel="step")
    handles = [
        Line2D([], [], color=plots.COLOURS[colour], ls=dashes, label=name)
        for name, (colour, dashes) in STYLES.items()
    ]
    plots.legend_above(figure, handles, len(handles))
    return figure
