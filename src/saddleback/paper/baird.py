"""TD(0) diverges, GTD2(0) and TDC(0) do not, on Baird's star with the classic features.

The features printed in the paper are equivalent to a tabular representation and give no
counterexample; these are the ones of Sutton & Barto, chapter 11, on state values. With γ = 0.99 the
gradient rules bring the MSPBE down quickly but the value error stalls near 1.93 for a long time;
with γ = 0.9 it falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich.table import Table

from saddleback import plots
from saddleback.paper import Options, comparison, comparison_figures
from saddleback.paper.comparison_figures import SMALL_METRICS, small_titles
from saddleback.paper.learning_curves import Learner, LearnerCurves, add, compare, tabulate
from saddleback.problems import baird
from saddleback.rules import GTD2, TD, TDC


@dataclass(frozen=True)
class BairdConfig:
    """Our choices where the paper leaves the protocol open."""

    gammas: tuple[float, ...] = (0.99, 0.9)
    theta0: tuple[float, ...] = (1, 1, 1, 1, 1, 1, 10, 1)
    """As in Sutton & Barto, figures 11.2 and 11.5."""
    alpha: float = 0.005
    beta: float = 0.05
    """As in Sutton & Barto, figure 11.5 (TDC)."""
    steps: int = 200_000
    runs: int = 20


LIMITS = {"MSPBE": (1e-6, 1e4), "RMS value error": (1e-2, 1e3)}
"""Limits of the value axes."""

TITLES = {0.99: "the value error stalls", 0.9: "the value error falls"}
"""Titles of the columns, by γ."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return comparison.check("baird", options)


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run the three rules at both discounts, draw MSPBE and value error, tabulate the end."""
    config = options.apply(BairdConfig(), "runs", runs=2, steps=BairdConfig.steps // 10)
    runs, seed = config.runs, options.seed
    learners = [
        Learner(TD(0.0), config.alpha, 0.0, plots.COLOURS["orange"]),
        Learner(GTD2(0.0), config.alpha, config.beta, plots.COLOURS["green"]),
        Learner(TDC(0.0), config.alpha, config.beta, plots.COLOURS["blue"]),
    ]
    table = tabulate(f"Classic Baird, state values, {config.steps:,} steps", "γ")
    caption = (
        f"Baird's star with the classic features, no reward. α = {config.alpha:g}, and for GTD2 "
        f"and TDC β = {config.beta:g}. Lines: median of {runs} sampled runs; bands: quartiles; "
        "dashed: expected update; ▲: diverges."
    )
    with plots.style():
        figure, axes = plots.panels(
            2, len(config.gammas), 1.35, caption=caption, gap=(0.75, 0.12), right=0.6, sharex=True,
            sharey="row",
        )  # fmt: skip
        for column, gamma in enumerate(config.gammas):
            curves = []
            for learner in learners:
                result = compare(
                    baird(gamma, features="classic"), learner, theta0=config.theta0,
                    steps=config.steps, runs=runs, seed=seed,
                )  # fmt: skip
                add(table, f"{gamma:g}", result)
                curves.append(result)
            early = int(np.searchsorted(result.steps, 1000))
            table.caption = (
                f"{table.caption}\nγ = {gamma:g}, expected {learner.rule.display_name}: RMS error "
                f"{result.expected_error[early]:.3f} after {result.steps[early]:,} steps, "
                f"{result.expected_error[-1]:.3f} at the end."
            )
            for row, name in enumerate(LIMITS):
                draw(axes[row * len(config.gammas) + column], curves, name)
            axes[column].set(title=f"γ = {gamma:g}: {TITLES[gamma]}")
            axes[len(config.gammas) + column].set(xlabel="step")
        for row, name in enumerate(LIMITS):
            axes[row * len(config.gammas)].set(ylabel=name)
        paths = options.save(figure, "baird")
    tables, more = comparison_figures.compare(
        "baird", options, SMALL_METRICS, small_titles("baird")
    )
    return [table, *tables], paths + more


def draw(ax: Axes, curves: list[LearnerCurves], name: str) -> Axes:
    """Draw the MSPBE or the value error of each learner, named at its end or where it diverges."""
    bottom, top = LIMITS[name]
    ends = {}
    for result in curves:
        sampled, expected = (
            (result.mspbe, result.expected_mspbe)
            if name == "MSPBE"
            else (result.error, result.expected_error)
        )
        colour, rule = result.learner.colour, result.learner.rule.display_name
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
