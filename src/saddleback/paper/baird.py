"""TD(0) diverges, GTD2(0) and TDC(0) do not, on Baird's star with the classic features.

The features printed in the paper are equivalent to a tabular representation and give no
counterexample; these are the ones of Sutton & Barto, chapter 11, on state values. With γ = 0.99 the
gradient rules bring the MSPBE down quickly but the value error stalls near 1.93 for a long time;
with γ = 0.9 it falls.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich.table import Table

from saddleback import plots
from saddleback.paper import Options, comparison, comparison_figures
from saddleback.paper.comparison_figures import SMALL_METRICS, small_titles
from saddleback.paper.learning_curves import LearnerCurves, add, learner_curves, tabulate

COLOURS = [plots.COLOURS[name] for name in ("orange", "green", "blue")]
"""Colours of TD, GTD2 and TDC."""

LIMITS = {"MSPBE": (1e-6, 1e4), "RMS value error": (1e-2, 1e3)}
"""Limits of the value axes."""

TITLES = {0.99: "the value error stalls", 0.9: "the value error falls"}
"""Titles of the columns, by γ."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return comparison.check("baird", options)


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run the three rules at both discounts, draw MSPBE and value error, tabulate the end."""
    results = learner_curves("baird-curves", options)
    case, (first, *_, last) = results[0]
    table = tabulate(f"Classic Baird, state values, {case.count:,} steps", "γ")
    caption = (
        f"Baird's star with the classic features, no reward. α = {first.alpha:g}, and for GTD2 "
        f"and TDC β = {last.beta:g}. Lines: median of {first.mspbe.shape[1]} sampled runs; bands: "
        "quartiles; dashed: expected update; ▲: diverges."
    )
    with plots.style():
        figure, axes = plots.panels(
            2, len(results), 1.35, caption=caption, gap=(0.75, 0.12), right=0.6, sharex=True,
            sharey="row",
        )  # fmt: skip
        for column, (case, curves) in enumerate(results):
            gamma, result = case.parameters["gamma"], curves[-1]
            for learner in curves:
                add(table, f"{gamma:g}", learner)
            early = int(np.searchsorted(result.steps, 1000))
            table.caption = (
                f"{table.caption}\nγ = {gamma:g}, expected {result.rule.display_name}: RMS error "
                f"{result.expected_error[early]:.3f} after {result.steps[early]:,} steps, "
                f"{result.expected_error[-1]:.3f} at the end."
            )
            for row, name in enumerate(LIMITS):
                draw(axes[row * len(results) + column], curves, name)
            axes[column].set(title=f"γ = {gamma:g}: {TITLES[gamma]}")
            axes[len(results) + column].set(xlabel="step")
        for row, name in enumerate(LIMITS):
            axes[row * len(results)].set(ylabel=name)
        paths = options.save(figure, "baird")
    tables, more = comparison_figures.compare(
        "baird", options, SMALL_METRICS, small_titles("baird")
    )
    return [table, *tables], paths + more


def draw(ax: Axes, curves: list[LearnerCurves], name: str) -> Axes:
    """Draw the MSPBE or the value error of each learner, named at its end or where it diverges."""
    bottom, top = LIMITS[name]
    ends = {}
    for result, colour in zip(curves, COLOURS, strict=True):
        sampled, expected = (
            (result.mspbe, result.expected_mspbe)
            if name == "MSPBE"
            else (result.error, result.expected_error)
        )
        rule = result.rule.display_name
        plots.curve(ax, result.steps, sampled, expected, colour=colour, top=top)
        middle = np.median(sampled, axis=1)
        if middle[-1] <= top:
            ends[rule] = plots.End(float(middle[-1]), colour)
        else:
            x = result.steps[int(np.argmax(middle > top))]
            ax.annotate(
                rule, (x, top), (-10, -8), textcoords="offset points", color=colour, fontsize=7,
                ha="right", va="center",
            )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(1, curves[0].steps[-1]), ylim=(bottom, top))
    return plots.label_ends(ax, ends)
