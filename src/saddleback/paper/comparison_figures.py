"""What a comparison over a grid shows: a table, curves, distributions, sensitivity maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback.paper import Options
from saddleback.paper.comparison import ComparisonResults
from saddleback.rules import (
    Correction,
    Form,
    RegularisedCorrection,
    Saddle,
    SemiGradient,
    UpdateNorm,
)

PALETTE = ("blue", "orange", "green", "pink", "black", "purple")
"""Colours of traces."""

STYLES: dict[type[Form], Any] = {
    Saddle: "-",
    Correction: "--",
    SemiGradient: ":",
    RegularisedCorrection: "-.",
    UpdateNorm: (0, (5, 1, 1, 1, 1, 1)),
}
"""Line styles of forms."""

PANEL = 1.4
"""Inches of a panel of curves."""

COLUMNS = 3
"""Maps beside each other."""


def tabulate(results: ComparisonResults, title: str, metrics: dict[str, str]) -> Table:
    """For each rule the best final value of each metric, where, and how many settings diverged."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("rule", no_wrap=True)
    table.add_column("div.", justify="right", min_width=4)
    for label in metrics.values():
        table.add_column(label, justify="right", min_width=7)
    first = next(iter(metrics))
    table.add_column("best α, β/α", no_wrap=True)
    settings = results.arrays["diverged_at"][0, 0, 0].size
    grid = results.comparison.grid
    for index, name in enumerate(results.comparison.rules):
        gone = int((results.diverged(index) > 0).sum())
        i, j = results.best(index, first)
        table.add_row(
            name,
            str(gone),
            *(_short(results.final(index, metric).min()) for metric in metrics),
            f"{grid.alphas[i]:.3g}, {grid.ratios[j]:.3g}",
        )
    table.caption_justify = "left"
    table.caption = (
        f"Best of {settings} settings: mean over runs and the last tenth of the checkpoints. div.: "
        f"settings that diverged in a run. The pair is the best by {metrics[first]}."
    )
    return table


def _short(value: float) -> str:
    return f"{value:.2g}" if np.isfinite(value) else "∞"


def draw(
    results: ComparisonResults, metrics: dict[str, str], title: str, options: Options, name: str
) -> list[Path]:
    """Draw the three figures of a comparison, each one column wide."""
    paths = []
    settings = results.arrays["diverged_at"][0, 0, 0].size
    with plots.style():
        figure, axes = plots.column(len(metrics), PANEL, gap=0.14, top=0.36, shared=True)
        for ax, (metric, label) in zip(axes, metrics.items(), strict=True):
            curves(ax, results, metric)
            ax.set(ylabel=label)
        axes[-1].set(xlabel=results.comparison.unit)
        axes[0].set_title(f"{title}\nbest setting of each rule; bands: all runs")
        paths += options.save(figure, f"{name}-curves")

        figure, axes = plots.column(len(metrics), PANEL, gap=0.46, top=0.36)
        for ax, (metric, label) in zip(axes, metrics.items(), strict=True):
            distribution(ax, results, metric)
            ax.set(xlabel=f"{label} at the end")
        axes[0].set_title(f"{title}\nsettings, of {settings}, that end at or below a value")
        paths += options.save(figure, f"{name}-distribution")

        figure, axes = plots.column(
            len(results.comparison.rules), 0.72, gap=0.22, across=COLUMNS, top=0.52, right=0.75,
            shared=True,
        )  # fmt: skip
        metric, label = next(iter(metrics.items()))
        _maps(axes, results, metric, label)
        figure.suptitle(f"{title}\n{label} at the end; × diverged", x=0.02, ha="left")
        paths += options.save(figure, f"{name}-sensitivity")
    return paths


def _line(results: ComparisonResults, index: int) -> tuple[str, Any]:
    """Colour and line style of a rule: its trace and its form."""
    rules = list(results.comparison.rules.values())
    traces = list(dict.fromkeys(repr(rule.trace) for rule in rules))
    colour = PALETTE[traces.index(repr(rules[index].trace)) % len(PALETTE)]
    return plots.COLOURS[colour], STYLES[type(rules[index].form)]


def curves(ax: Axes, results: ComparisonResults, metric: str) -> Axes:
    """Draw the learning curve of each rule's best setting: mean, and the range over runs."""
    keep = np.array(results.comparison.points) > 0
    points = np.array(results.comparison.points)[keep]
    ends = {}
    for index, name in enumerate(results.comparison.rules):
        curve = results.curve(index, metric)[keep]
        colour, style = _line(results, index)
        shown = np.where(np.isfinite(curve), curve, np.nan)
        middle = shown.mean(axis=1)
        ax.plot(points, middle, color=colour, ls=style)
        ax.fill_between(
            points, shown.min(axis=1), shown.max(axis=1), color=colour, alpha=0.12, lw=0
        )
        last = middle[np.isfinite(middle)]
        ends[name] = plots.End(float(last[-1]) if len(last) else np.inf, colour)
    ax.set(xscale="log", yscale="log", xlim=(points[0], points[-1]))
    return plots.label_ends(ax, ends)


def distribution(ax: Axes, results: ComparisonResults, metric: str) -> Axes:
    """Draw how many settings end at or below each value; what diverged never counts."""
    lines, ends = [], {}
    for index, name in enumerate(results.comparison.rules):
        final = results.final(index, metric).ravel()
        final = np.sort(final[np.isfinite(final) & (final > 0)])
        colour, style = _line(results, index)
        lines.append((final, colour, style))
        ends[name] = plots.End(len(final), colour)
    some = [final for final, _, _ in lines if len(final)] or [np.ones(1)]
    low = min(float(final[0]) for final in some)
    high = 100 * max(float(np.quantile(final, 0.9)) for final in some)
    for final, colour, style in lines:
        counts = np.arange(len(final) + 1)
        ax.step([*final, high], [*counts[1:], len(final)], where="post", color=colour, ls=style)
    ax.set(xscale="log", xlim=(low / 2, high), ylim=(0, results.diverged(0).size * 1.03))
    return plots.label_ends(ax, ends)


def _maps(axes: list[Axes], results: ComparisonResults, metric: str, label: str) -> None:
    """Draw the final metric over (α, β/α) for each rule, with what diverged crossed out."""
    finals = [results.final(index, metric) for index in range(len(results.comparison.rules))]
    values = np.concatenate([final[np.isfinite(final) & (final > 0)] for final in finals])
    if not len(values):
        values = np.ones(2)
    low = float(values.min())
    norm = LogNorm(low, max(float(np.quantile(values, 0.8)), low * 1.01))
    grid = results.comparison.grid
    x, y = np.log2(grid.alphas), np.log2(grid.ratios)
    image = None
    for ax, name, final in zip(axes, results.comparison.rules, finals, strict=False):
        shown = np.where(np.isfinite(final), final, np.nan)
        image = ax.pcolormesh(x, y, shown.T, norm=norm, shading="nearest", rasterized=True)
        gone = np.argwhere(~np.isfinite(final))
        ax.plot(x[gone[:, 0]], y[gone[:, 1]], "x", color=plots.COLOURS["orange"], ms=3, mew=0.8)
        ax.set_title(name.replace("Expected", "Exp."), fontsize=7, pad=2)
        ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        ax.grid(False)
    figure = axes[0].figure
    figure.supxlabel("log₂ α", fontsize=8, y=0.0, va="bottom")
    figure.supylabel("log₂ β/α", fontsize=8, x=0.015, ha="left")
    if image is not None:
        top, low = axes[0].get_position().y1, axes[-1].get_position().y0
        place = figure.add_axes((0.81, low, 0.025, top - low))
        figure.colorbar(image, cax=place, extend="max").set_label(label)
