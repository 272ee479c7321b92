"""Table and figures of a comparison over a grid: curves, distributions, sensitivity maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.paper import Options
from saddleback.paper.claims import number
from saddleback.paper.comparison import Comparison, run
from saddleback.plots.style import tick_label
from saddleback.rules import (
    Correction,
    Form,
    RegularisedCorrection,
    Rule,
    Saddle,
    SemiGradient,
    UpdateNorm,
)

TRACES = (("blue", "o"), ("orange", "s"), ("green", "^"), ("pink", "D"), ("purple", "v"))
"""Colours and markers of traces."""

FORMS: dict[type[Form], tuple[Any, str]] = {
    Saddle: ("-", "full"),
    Correction: ("--", "none"),
    SemiGradient: (":", "none"),
    RegularisedCorrection: ("-.", "none"),
    UpdateNorm: ((0, (5, 1, 1, 1, 1, 1)), "full"),
}
"""Line styles and marker fills of forms."""

PANEL = 1.75
"""Height of a panel, in inches."""

LEGEND_COLUMNS = 5
"""Columns of the legend, and of maps."""

OFFSETS = 6
"""Positions of markers between two of the same line."""

LEVELS = 8
"""Colours of a sensitivity map, separated by quantiles of all settings."""


SMALL_METRICS = {"error": "value error", "mspbe": "own MSPBE", "mspbe_common": "MSPBE of GES"}
"""Metrics of the small problems, and their labels."""


EMPIRICAL = {"mspbe_paper": "empirical MSPBE"}
"""The metric of the paper's figures, with Â from experience."""


def small_titles(name: str) -> dict[str, str]:
    """Return the titles of the cases of a small problem, by the names of their figures."""
    kinds = {"rewards": "rewards", "zero": "no reward"}
    grids = ("paper", "usual")
    return {f"{grid}-{kind}": f"{name}, {kinds[kind]}" for grid in grids for kind in kinds}


def compare(
    name: str, options: Options, metrics: dict[str, str], titles: Mapping[str, str]
) -> tuple[list[Table], list[Path]]:
    """Run the study of an experiment; tabulate and draw each case.

    ``titles`` are the titles of the cases by the names of their figures.
    """
    tables, paths = [], []
    for (figure, title), results in zip(titles.items(), run(name, options), strict=True):
        title = case_title(title, results)
        tables.append(tabulate(results, title, metrics | {"mspbe_paper": "MSPBE, Â"}))
        paths += draw(results, metrics, title, options, f"{name}-{figure}")
    return tables, paths


def case_title(title: str, results: Comparison) -> str:
    """Return the title of a case, with its λ and, unless it is the paper's, its grid."""
    above_one = max(results.grid.betas) > 1
    return f"{title}, λ = {results.case.lam:g}" + ", β/α from 2⁻⁵ to 2⁵" * above_one


def tabulate(results: Comparison, title: str, metrics: dict[str, str]) -> Table:
    """Return the best final value of each metric for each rule, its setting, and divergences."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left", padding=(0, 1, 0, 0))
    table.add_column("rule", no_wrap=True)
    table.add_column("div.", justify="right", min_width=4)
    for label in metrics.values():
        table.add_column(label, justify="right", min_width=7)
    first = next(iter(metrics))
    table.add_column("best α, β/α", no_wrap=True)
    grid = results.grid
    for result in results.results:
        i, j = result.best(first) or (0, 0)
        table.add_row(
            result.rule,
            str(int((results.on_grid(result.diverged) > 0).sum())),
            *(_short(result.mean_final(metric).min()) for metric in metrics),
            f"{grid.alphas[i]:.3g}, {grid.betas[j]:.3g}",
        )
    table.caption_justify = "left"
    table.caption = (
        f"Best of {len(grid.alphas) * len(grid.betas)} settings: mean over runs and the last tenth "
        "of the checkpoints. div.: settings that diverged in a run. The pair is the best by "
        f"{metrics[first]}. Rules without β count each α once for every β/α."
    )
    return table


def _short(value: float) -> str:
    return f"{value:.2g}" if np.isfinite(value) else "∞"


def draw(
    results: Comparison, metrics: dict[str, str], title: str, options: Options, name: str
) -> list[Path]:
    """Draw the three figures of a comparison, each as wide as a page."""
    title = title[0].upper() + title[1:]
    with plots.style():
        return [
            *options.save(_curves_figure(results, metrics, title), f"{name}-curves"),
            *options.save(_distribution_figure(results, metrics, title), f"{name}-distribution"),
            *options.save(_sensitivity_figure(results, metrics, title), f"{name}-sensitivity"),
        ]


class LineStyle(NamedTuple):
    """How a rule is drawn: its trace by colour and marker, its form by dashes and fill."""

    colour: str
    dashes: Any
    marker: str
    fill: str
    offset: int
    """Shift of the markers, so that those of overlapping lines do not coincide."""

    def options(self, points: int) -> dict[str, Any]:
        """Return the options of `Axes.plot`, with a few markers on the inner ones of the points."""
        spacing = max(1, (points - 2) // 3)
        first = 1 + self.offset % OFFSETS * spacing // OFFSETS
        marked = list(range(first, points - 1, spacing))
        return {
            "color": self.colour, "ls": self.dashes, "marker": self.marker, "fillstyle": self.fill,
            "ms": 3.5, "mew": 0.8, "markevery": marked,
        }  # fmt: skip


def line_style(rules: Sequence[Rule], index: int) -> LineStyle:
    """Return how a rule is drawn; one that bootstraps without correction is black."""
    traces = list(dict.fromkeys(rule.trace for rule in rules))
    trace = traces.index(rules[index].trace)
    colour, marker = TRACES[trace % len(TRACES)]
    dashes, fill = FORMS.get(type(rules[index].form), ("-", "none"))
    if not rules[index].form.has_dual:
        colour, marker = "black", "x"
    form = list(FORMS).index(type(rules[index].form)) if type(rules[index].form) in FORMS else 0
    return LineStyle(plots.COLOURS[colour], dashes, marker, fill, trace + 3 * form)


def _legend(figure: Figure, results: Comparison) -> None:
    handles = [
        Line2D(
            [0, 1, 2],
            [0] * 3,
            label=result.rule,
            **line_style(results.rules, k).options(3) | {"markevery": [1]},
        )
        for k, result in enumerate(results.results)
    ]
    plots.legend_above(figure, handles, LEGEND_COLUMNS)


def _legend_rows(results: Comparison) -> int:
    return -(-len(results.results) // LEGEND_COLUMNS)


def _plain(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-3 else number(value)


def _settings(results: Comparison) -> str:
    grid = results.grid
    alphas, ratios = (
        f"{_plain(min(values))} to {_plain(max(values))}" for values in (grid.alphas, grid.betas)
    )
    pairs = len(grid.alphas) * len(grid.betas)
    return f"{pairs} pairs of α ({alphas}) and β/α ({ratios})"


def _curves_figure(results: Comparison, metrics: dict[str, str], title: str) -> Figure:
    caption = (
        f"{title}. Each rule with the best of {_settings(results)} for the metric shown, by its "
        f"final mean. Empirical MSPBE: with Â, b̂ and M̂ from experience, as in the paper's "
        f"figures. Lines: median of {results.study.runs} runs; bands: quartiles. Colour and marker "
        "give the trace, dashes and fill the form."
    )
    shown = metrics | EMPIRICAL
    figure, axes = plots.panels(
        2, -(-len(shown) // 2), PANEL, caption=caption, legend_rows=_legend_rows(results), top=0.08,
        gap=(0.62, 0.18), left=0.62, sharex=True,
    )  # fmt: skip
    for ax, (metric, label) in zip(axes, shown.items(), strict=True):
        curves(ax, results, metric)
        ax.set(ylabel=label)
    for ax in axes[2:]:
        ax.set(xlabel=results.case.unit)
    _legend(figure, results)
    return figure


def curves(ax: Axes, results: Comparison, metric: str) -> Axes:
    """Draw the learning curve of each rule's best setting: median and quartiles over runs."""
    keep = np.array(results.case.points) > 0
    points = np.array(results.case.points)[keep]
    for index, result in enumerate(results.results):
        options = line_style(results.rules, index).options(len(points))
        plots.median_curve(ax, points, result.curve(metric)[keep], above=0, band=0.12, **options)
    ax.set(xscale="log", yscale="log", xlim=(10 ** np.floor(np.log10(points[0])), points[-1]))
    return ax


def _distribution_figure(results: Comparison, metrics: dict[str, str], title: str) -> Figure:
    shown = dict(list(metrics.items())[:2])
    caption = (
        f"{title}. Fraction of {_settings(results)} (for rules without β, of the values of α) "
        f"whose final value, the mean of {results.study.runs} runs, is at most x. Settings "
        "that diverged in a run never count."
    )
    figure, axes = plots.panels(
        1, len(shown), PANEL, caption=caption, legend_rows=_legend_rows(results), top=0.08,
        gap=(0.2, 0.0), sharey=True,
    )  # fmt: skip
    for ax, (metric, label) in zip(axes, shown.items(), strict=True):
        distribution(ax, results, metric)
        ax.set(xlabel=f"final {label}")
    axes[0].set(ylabel="fraction of settings")
    _legend(figure, results)
    return figure


def distribution(ax: Axes, results: Comparison, metric: str) -> Axes:
    """Draw the fraction of settings with a final value at or below x; diverged ones never count."""
    lines = []
    for result in results.results:
        final = result.mean_final(metric)
        lines.append((np.sort(final[np.isfinite(final) & (final > 0)]), final.size))
    finite = [values for values, _ in lines if len(values)] or [np.ones(1)]
    low = 0.5 * min(float(values[0]) for values in finite)
    high = 100 * max(float(np.quantile(values, 0.9)) for values in finite)
    for index, (values, settings) in enumerate(lines):
        fractions = np.arange(len(values) + 1) / settings
        ax.step(
            [low, *values, high], [*fractions, fractions[-1]], where="post",
            **line_style(results.rules, index).options(len(values) + 2),
        )  # fmt: skip
    ax.set(xscale="log", xlim=(low, high), ylim=(-0.02, 1.03))
    return ax


def _sensitivity_figure(results: Comparison, metrics: dict[str, str], title: str) -> Figure:
    metric, label = next(iter(metrics.items()))
    rules = len(results.results)
    columns = min(rules, LEGEND_COLUMNS)
    caption = (
        f"{title}. Final {label} (mean of {results.study.runs} runs) of each pair of step "
        "sizes; dark is good. Colours change at the octiles of all settings. ×: diverged in a run. "
        "A rule without β has the same value for every β/α."
    )
    figure, axes = plots.panels(
        -(-rules // columns), columns, 0.95, caption=caption, gap=(0.12, 0.24), right=0.98,
        sharex=True, sharey=True,
    )  # fmt: skip
    for ax in axes[rules:]:
        ax.remove()
    _maps(figure, axes[:rules], columns, results, metric, label)
    return figure


def _levels(values: FloatArray) -> FloatArray:
    """Return the boundaries of the colours: quantiles of the values, rounded to three digits."""
    quantiles = np.quantile(values, np.arange(LEVELS) / LEVELS) if len(values) else np.ones(1)
    levels = np.unique([float(f"{value:.3g}") for value in quantiles])
    if len(values):
        levels[0] = min(levels[0], float(f"{0.995 * values.min():.3g}"))
    return levels if len(levels) > 1 else np.array([0.5, 1.0]) * levels[0]


def _maps(
    figure: Figure,
    axes: list[Axes],
    columns: int,
    results: Comparison,
    metric: str,
    label: str,
) -> None:
    """Draw the final metric over (α, β/α) for each rule, with diverged settings crossed out."""
    finals = [results.on_grid(result.mean_final(metric)) for result in results.results]
    levels = _levels(np.concatenate([final[np.isfinite(final) & (final > 0)] for final in finals]))
    norm = BoundaryNorm(levels, 256, extend="max")
    x, y = np.array(results.grid.alphas), np.array(results.grid.betas)
    image = None
    for k, (ax, result, final) in enumerate(zip(axes, results.results, finals, strict=True)):
        shown = np.where(np.isfinite(final), final, np.nan)
        image = ax.pcolormesh(_edges(x), _edges(y), shown.T, norm=norm, rasterized=True)
        diverged = np.argwhere(~np.isfinite(final))
        ax.plot(
            x[diverged[:, 0]], y[diverged[:, 1]], "x", color=plots.COLOURS["orange"], ms=2.5,
            mew=0.7,
        )  # fmt: skip
        ax.set_title(result.rule, fontsize=7, pad=2)
        ax.set(xscale="log", yscale="log")
        decades = np.arange(np.ceil(np.log10(x.min()) - 0.1), np.floor(np.log10(x.max()) + 0.1))
        ax.set_xticks(10.0**decades)
        ax.grid(False)
        if k % columns == 0:
            ax.set(ylabel="β/α")
        if k + columns >= len(axes):
            ax.set(xlabel="α")
            ax.tick_params(labelbottom=True)
    if image is not None:
        top, bottom = axes[0].get_position().y1, axes[-1].get_position().y0
        right = axes[min(columns, len(axes)) - 1].get_position().x1
        bar = figure.colorbar(
            image, cax=figure.add_axes((right + 0.015, bottom, 0.015, top - bottom)), ticks=levels,
            extend="max", spacing="uniform",
        )  # fmt: skip
        bar.ax.set_yticklabels([tick_label(level, powers=False) for level in levels])
        bar.ax.tick_params(size=0)
        bar.set_label(f"final {label}")


def _edges(values: FloatArray) -> FloatArray:
    """Return the edges of cells around a geometric grid."""
    if len(values) < 2:
        return np.asarray([values[0] / 2, values[0] * 2])
    ratio = np.sqrt(values[1] / values[0])
    return np.asarray([values[0] / ratio, *(values * ratio)])
