"""Constant step sizes against c/√t: on the paper's grid, and on one where both are tuned.

The paper's grid gives both schedules the same numbers, so c/√t is hundreds of times smaller after
50,000 steps. The wide grid lets its scale c grow as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback.paper import Options, comparison
from saddleback.paper.comparison import Comparison
from saddleback.sweep import RuleResults

STYLES = {
    "constant, paper's grid": ("blue", "-"), "c/√t, paper's grid": ("orange", "-"),
    "constant, wide grid": ("blue", "--"), "c/√t, wide grid": ("orange", "--"),
}  # fmt: skip
"""Colour and dashes of each schedule, by the labels of the grids in the study."""

KINDS = ("no reward", "rewards")
"""Labels of the problems in the study."""

LOWEST = 1e-30
"""Smaller values are not drawn."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return comparison.check("step-size", options)


Results = dict[tuple[str, float | None, str], tuple[Comparison, RuleResults]]


def by_schedule(comparisons: Sequence[Comparison]) -> Results:
    """Return the results by reward, λ and schedule."""
    cases = {case.case.label: case for case in comparisons}
    return {
        (kind, result.lam, schedule): (cases[f"{schedule}, {kind}"], own)
        for kind in KINDS
        for result in comparisons[0].results
        for schedule in STYLES
        for own in cases[f"{schedule}, {kind}"].results
        if own.rule == result.rule
    }


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Compare the schedules on their best settings, with and without reward."""
    results = by_schedule(comparison.run("step-size", options))
    table = Table(title="GES, two-state: constant steps against c/√t", box=box.SIMPLE)
    for heading in ("problem", "λ", "schedule", "div.", "best MSPBE", "scale α, β/α"):
        table.add_column(heading)
    for (kind, lam, name), (case, result) in results.items():
        i, j = result.best("mspbe") or (0, 0)
        table.add_row(
            kind, f"{lam:g}", name, str(int((result.diverged > 0).sum())),
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
    """Draw the MSPBE of the best setting of each grid, a panel for each reward and λ."""
    first, _ = next(iter(results.values()))
    gamma, runs = first.case.parameters["gamma"], first.study.runs
    caption = (
        f"GES on the two-state problem, γ = {gamma:g}: the setting with the lowest final "
        f"mean MSPBE of each grid. Lines: median of {runs} runs; bands: quartiles. Paper's "
        "grid: α (or c) and β/α from 9.8·10⁻⁵ to 0.1. Wide grid: β/α from 2⁻⁵ to 2⁵, and c up to "
        "6.4."
    )
    kinds = list(dict.fromkeys((kind, lam) for kind, lam, _ in results))
    figure, axes = plots.panels(
        2, 2, 1.3, caption=caption, legend_rows=1, top=0.26, gap=(0.6, 0.3), sharex=True
    )
    panels = dict(zip(kinds, axes, strict=False))
    for ax in axes[len(kinds) :]:  # one λ has fewer panels
        ax.set_visible(False)
    for (kind, lam, name), (_, result) in results.items():
        colour, dashes = STYLES[name]
        points, ax = result.points[1:], panels[kind, lam]
        values = plots.quartiles(result.curve("mspbe"))[:, 1:]
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
        for name, (colour, dashes) in STYLES.items()
    ]
    plots.legend_above(figure, handles, len(handles))
    return figure
