"""What a comparison over a grid shows: a table, curves, distributions, sensitivity maps."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback.paper import Options
from saddleback.paper.comparison import Results

PALETTE = ("blue", "orange", "green", "pink", "purple", "black")


def tabulate(results: Results, title: str, metrics: dict[str, str]) -> Table:
    """For each rule the best final value of each metric, where, and how many settings diverged."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left")
    table.add_column("rule")
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
    table.caption = (
        f"Best of {settings} settings: mean over runs and the last tenth of the checkpoints. div.: "
        f"settings that diverged in a run. The pair is the best by {metrics[first]}."
    )
    return table


def _short(value: float) -> str:
    return f"{value:.2g}" if np.isfinite(value) else "∞"


def draw(
    results: Results, metrics: dict[str, str], title: str, options: Options, name: str
) -> list[Path]:
    """Draw the three figures of a comparison; quickly, two of them."""
    paths = []
    rules = list(results.comparison.rules)
    with plots.style():
        figure, axes = plt.subplots(
            1, len(metrics), figsize=(3.4 * len(metrics), 3.0), squeeze=False
        )
        for ax, (metric, label) in zip(axes[0], metrics.items(), strict=True):
            curves(ax, results, metric)
            ax.set(ylabel=label, xlabel=results.comparison.unit)
        axes[0, 0].legend(fontsize=6, ncols=2)
        figure.suptitle(f"{title}: best setting of each rule", fontsize=9)
        paths += plots.save(figure, options.out, f"{name}-curves", options.formats)

        figure, axes = plt.subplots(
            1, len(metrics), figsize=(3.4 * len(metrics), 2.8), squeeze=False
        )
        for ax, (metric, label) in zip(axes[0], metrics.items(), strict=True):
            distribution(ax, results, metric)
            ax.set(xlabel=f"{label} at the end")
        axes[0, 0].set(ylabel="settings (of 121) at or below")
        axes[0, 0].legend(fontsize=6)
        figure.suptitle(f"{title}: all settings", fontsize=9)
        paths += plots.save(figure, options.out, f"{name}-distribution", options.formats)

        if options.quick:
            return paths
        columns = min(5, len(rules))
        rows = -(-len(rules) // columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=(1.75 * columns, 1.75 * rows + 0.4), squeeze=False
        )
        metric, label = next(iter(metrics.items()))
        _maps(axes.ravel().tolist(), results, metric, label)
        figure.suptitle(f"{title}: {label} at the end, × diverged", fontsize=9)
        paths += plots.save(figure, options.out, f"{name}-sensitivity", options.formats)
    return paths


def _colour(index: int) -> tuple[str, str]:
    """Colour and line style of a rule."""
    return plots.COLOURS[PALETTE[index % len(PALETTE)]], ("-", "--")[index // len(PALETTE)]


def curves(ax: Axes, results: Results, metric: str) -> Axes:
    """Draw the learning curve of each rule's best setting: mean, and the range over runs."""
    points = np.array(results.comparison.points)
    for index, name in enumerate(results.comparison.rules):
        curve = results.curve(index, metric)
        colour, style = _colour(index)
        shown = np.where(np.isfinite(curve), curve, np.nan)
        keep = points > 0
        ax.plot(points[keep], shown.mean(axis=1)[keep], color=colour, ls=style, lw=1.3, label=name)
        ax.fill_between(
            points[keep], shown.min(axis=1)[keep], shown.max(axis=1)[keep], color=colour,
            alpha=0.15, lw=0,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log")
    return ax


def distribution(ax: Axes, results: Results, metric: str) -> Axes:
    """Draw how many settings end at or below each value; what diverged never counts."""
    top = 0.0
    for index, name in enumerate(results.comparison.rules):
        final = results.final(index, metric).ravel()
        final = np.sort(final[np.isfinite(final) & (final > 0)])
        colour, style = _colour(index)
        if len(final):
            ax.step(
                final, np.arange(len(final)) + 1, where="post", color=colour, ls=style, lw=1.3,
                label=name,
            )  # fmt: skip
            top = max(top, float(np.quantile(final, 0.9)))
    ax.set(xscale="log", ylim=(0, 125))
    if top:
        ax.set_xlim(right=100 * top)
    return ax


def _maps(axes: list[Axes], results: Results, metric: str, label: str) -> None:
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
        ax.set_title(name, fontsize=7)
        ax.tick_params(labelsize=6)
        ax.grid(False)
    for ax in axes[len(finals) :]:
        ax.set_visible(False)
    axes[0].set_xlabel("log₂ α", fontsize=7)
    axes[0].set_ylabel("log₂ β/α", fontsize=7)
    if image is not None:
        bar = axes[0].figure.colorbar(image, ax=axes, shrink=0.8, extend="max")
        bar.set_label(label, fontsize=7)
        bar.ax.tick_params(labelsize=6)
