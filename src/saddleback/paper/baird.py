"""TD(0) diverges, GTD2(0) and TDC(0) do not, on Baird's star with the classic features.

The features printed in the paper are tabular in disguise and no counterexample; these are the
ones of Sutton & Barto, chapter 11, on state values. With γ = .99 the gradient rules bring the
MSPBE down quickly but the value error stalls near 1.93 for a long time; with γ = .9 it falls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from saddleback import plots
from saddleback._typing import ArrayLike
from saddleback.paper import Options, small_comparison
from saddleback.paper.learning_curves import Learner, add, compare, tabulate
from saddleback.problem import Problem
from saddleback.problems import baird
from saddleback.rules import GTD2, TD, TDC


@dataclass(frozen=True)
class BairdConfig:
    """What the paper leaves open, and what we chose."""

    gammas: tuple[float, ...] = (0.99, 0.9)
    theta0: tuple[float, ...] = (1, 1, 1, 1, 1, 1, 10, 1)
    """As in Sutton & Barto, figures 11.2 and 11.5."""
    alpha: float = 0.005
    beta: float = 0.05
    """As in Sutton & Barto, figure 11.5 (TDC)."""
    steps: int = 200_000
    runs: int = 10


PANEL = 1.05
"""Inches of a panel."""

COMPARISON = small_comparison.SmallComparisonConfig(below_ceiling=0.3, rewards=((1.0, -1.0),) * 7)
"""The ceiling of importance traces is .382. Rewards: 1 for dashed, −1 for solid."""


def make(rewards: ArrayLike | None) -> Problem:
    """The problem of the comparison."""
    return baird(0.99, rewards=rewards)


def check(options: Options) -> int:
    """Refuse what cannot be run; return how many bytes the results will be."""
    return small_comparison.check("baird", make, COMPARISON, options)


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run the three rules at both discounts, draw MSPBE and value error, tabulate the end."""
    config = BairdConfig()
    runs, seed = options.runs or (2 if options.quick else config.runs), options.seed
    config = replace(config, steps=config.steps // 10) if options.quick else config
    learners = [
        Learner(TD(0.0), config.alpha, 0.0, plots.COLOURS["orange"]),
        Learner(GTD2(0.0), config.alpha, config.beta, plots.COLOURS["green"]),
        Learner(TDC(0.0), config.alpha, config.beta, plots.COLOURS["blue"]),
    ]
    table = tabulate(f"Classic Baird, state values, {config.steps:,} steps", "γ")
    with plots.style():
        figure, axes = plots.column(
            2 * len(config.gammas), PANEL, gap=0.22, bottom=0.5, shared=True
        )
        for row, gamma in zip(zip(axes[::2], axes[1::2], strict=True), config.gammas, strict=True):
            ends: tuple[dict[str, plots.End], ...] = ({}, {})
            for learner in learners:
                result = compare(
                    baird(gamma, features="classic"),
                    learner,
                    theta0=config.theta0,
                    steps=config.steps,
                    runs=runs,
                    seed=seed,
                )
                add(table, f"{gamma:g}", result)
                colour = learner.colour
                mspbe, error = row
                for each, values in zip(ends, (result.mspbe, result.error), strict=True):
                    end = plots.End(float(np.median(values[-1])), colour)
                    each[learner.rule.display_name] = end
                plots.curve(
                    mspbe, result.steps, result.mspbe, result.expected_mspbe, colour=colour, top=1e4
                )
                plots.curve(
                    error, result.steps, result.error, result.expected_error, colour=colour, top=1e3
                )
            early = int(np.searchsorted(result.steps, 1000))
            table.caption = (
                f"{table.caption}\nγ = {gamma:g}, expected {learner.rule.display_name}: RMS error "
                f"{result.expected_error[early]:.3f} after {result.steps[early]:,} steps, "
                f"{result.expected_error[-1]:.3f} at the end."
            )
            mspbe.set(ylabel="MSPBE", title=f"γ = {gamma:g}", ylim=(1e-6, 1e4))
            error.set(ylabel="RMS error", ylim=(1e-2, 1e3))
            for ax, named in zip(row, ends, strict=True):
                ax.set(xscale="log", yscale="log", xlim=(1, config.steps))
                plots.label_ends(ax, named)
        axes[-1].set(xlabel="step\nlines: median of the runs; bands: all; dashed: expected")
        paths = options.save(figure, "baird")
    tables, more = small_comparison.compare("baird", make, COMPARISON, options)
    return [table, *tables], paths + more
