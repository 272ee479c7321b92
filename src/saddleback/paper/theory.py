"""Theorem 2 against its corrected bound, the floor of the stochastic run, and the gap's rate."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback.learning import learn
from saddleback.paper import Options
from saddleback.problem import Problem
from saddleback.problems import two_state
from saddleback.rules import GES
from saddleback.system import System
from saddleback.theory import MeanStability, mean_square, projected_descent, theorem2

PANEL = 1.3
"""Inches of a panel."""


@dataclass(frozen=True)
class TheoryConfig:
    """What the paper leaves open, and what we chose."""

    gamma: float = 0.5
    lam: float = 0.4
    rewards: tuple[tuple[float, float], ...] = ((1.0, -1.0), (0.5, 2.0))
    iterations: int = 3000
    alphas: tuple[float, ...] = (0.04, 0.02, 0.01)
    """Step sizes α = β of the stochastic runs."""
    steps: int = 3000
    runs: int = 300
    gap_steps: int = 100_000
    gap_runs: int = 50
    radius: float = 2.0
    """Radius of the balls that θ and ω are projected onto."""


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Draw the three panels and tabulate what they show."""
    config = TheoryConfig()
    if options.quick:
        config = replace(config, runs=50, gap_steps=10_000, gap_runs=10)
    problem = two_state(config.gamma, config.rewards)
    table = Table(title="The theory, measured", box=box.SIMPLE, title_justify="left")
    for heading in ("statement", "predicted", "measured"):
        table.add_column(heading)
    with plots.style():
        figure, axes = plots.column(3, PANEL, gap=0.6)
        _linear_rate(axes[0], problem, config, table)
        _floor(axes[1], problem, config, options.seed, table)
        _gap(axes[2], problem, config, options.seed, table)
        paths = options.save(figure, "theory")
    return [table], paths


def _linear_rate(ax: Axes, problem: Problem, config: TheoryConfig, table: Table) -> None:
    """D_t of the expected iteration against the bound of Theorem 2."""
    system = System.exact(problem, GES(config.lam))
    found, mean = theorem2(system), MeanStability(system)
    counts = np.arange(config.iterations + 1)
    p = system.p
    z = np.concatenate([-system.fixed_point, np.zeros(p)])
    step = mean.mean_map(found.alpha, found.beta)
    distances = []
    for _ in counts:
        distances.append(float(found.distance(system.fixed_point + z[:p], z[p:])))
        z = step @ z
    bound = distances[0] * found.contraction**counts
    tight = distances[0] * found.contraction_tight**counts
    ends = {}
    for name, values, colour, line in (
        ("D_t", distances, "blue", "-"),
        ("tight bound", tight, "orange", "--"),
        ("1 − 1/(12κ³κ⁴)", bound, "black", ":"),
    ):
        ax.plot(counts, values, color=plots.COLOURS[colour], ls=line)
        ends[name] = plots.End(float(values[-1]), plots.COLOURS[colour])
    ax.set(
        yscale="log",
        xlabel="iteration",
        title="Theorem 2, corrected",
        ylabel="D_t",
        xlim=(0, config.iterations),
    )
    plots.label_ends(ax, ends)
    told = [d for d in distances if d > 1e-9 * distances[0]]  # below, rounding is all there is
    worst = max(b / a for a, b in itertools.pairwise(told))
    table.add_row("Theorem 2: D_{t+1}/D_t at most", f"{found.contraction:.6f}", f"{worst:.6f}")


def _floor(ax: Axes, problem: Problem, config: TheoryConfig, seed: int, table: Table) -> None:
    """Mean square errors of stochastic runs against their exact expectation."""
    rule = GES(config.lam)
    star = System.exact(problem, rule).fixed_point
    metric = {"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)}
    points = np.unique(np.geomspace(1, config.steps, 40).astype(np.int64))
    run = learn(
        rule,
        problem,
        alpha=np.array(config.alphas),
        beta=np.array(config.alphas),
        steps=config.steps,
        runs=config.runs,
        rng=seed,
        record=points,
        metrics=metric,
    )
    ends = {}
    for k, (alpha, colour) in enumerate(
        zip(config.alphas, ("blue", "orange", "green"), strict=True)
    ):
        exact = mean_square(problem, rule, alpha=alpha, beta=alpha)
        mean = run.curves["error"][:, :, k].mean(axis=1)
        ax.plot(run.recorded, exact.curve(run.recorded), color=plots.COLOURS[colour], lw=1)
        ax.plot(run.recorded, mean, ".", color=plots.COLOURS[colour], ms=3)
        ax.axhline(exact.floor, color=plots.COLOURS[colour], lw=0.7, ls=":")
        ends[f"α = {alpha:g}"] = plots.End(exact.floor, plots.COLOURS[colour])
        late = run.curves["error"][-5:, :, k].mean()
        table.add_row(f"floor at α = β = {alpha:g}", f"{exact.floor:.4f}", f"{late:.4f}")
    ax.set(xscale="log", yscale="log", xlabel="step", ylabel="E‖θ − θ*‖²")
    ax.set(title="Runs (dots), exact curve, exact floor", xlim=(1, config.steps))
    plots.label_ends(ax, ends)


def _gap(ax: Axes, problem: Problem, config: TheoryConfig, seed: int, table: Table) -> None:
    """Primal-dual gap of averaged iterates against C√(5/T)."""
    points = np.unique(np.geomspace(10, config.gap_steps, 25).astype(np.int64))
    run = projected_descent(
        problem,
        GES(0.0),
        theta_radius=config.radius,
        omega_radius=config.radius,
        steps=config.gap_steps,
        runs=config.gap_runs,
        rng=seed,
        record=points,
    )
    mean, high = run.gap.mean(axis=1), np.quantile(run.gap, 0.95, axis=1)
    ends = {}
    for name, values, colour, line in (
        ("95 % of runs", high, "blue", "--"),
        ("mean gap", mean, "blue", "-"),
        ("C√(5/T)", run.bound, "orange", "-"),
    ):
        ax.plot(run.steps, values, color=plots.COLOURS[colour], ls=line)
        ends[name] = plots.End(float(values[-1]), plots.COLOURS[colour])
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="T",
        ylabel="gap",
        xlim=(10, config.gap_steps),
        title="Primal-dual gap, independent samples",
    )
    plots.label_ends(ax, ends)
    late = run.steps >= config.gap_steps / 30
    slope = np.polyfit(np.log(run.steps[late]), np.log(mean[late]), 1)[0]
    table.add_row("gap: slope on log axes", "-0.5", f"{slope:.2f}")
    table.add_row("gap at the end, mean", f"≤ {run.bound[-1]:.3g}", f"{mean[-1]:.3g}")
    table.add_row(
        "gap at the end, 95 % of runs",
        f"≤ {run.high_probability_bound(0.05)[-1]:.3g}",
        f"{high[-1]:.3g}",
    )
