"""Theorems 2, 3 and 4: the linear rate and its bound, the error floor, and the primal-dual gap."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback._typing import ArrayLike, FloatArray
from saddleback.paper import Options, comparison
from saddleback.paper.comparison import Comparison, Metric
from saddleback.problem import Problem
from saddleback.problems import two_state
from saddleback.rules import GES, Rule
from saddleback.system import System
from saddleback.theory import MeanStability, mean_square, projected_descent, theorem2

PANEL = 1.75
"""Height of a panel, in inches."""

ROUNDING = 1e-9
"""D_t ÷ D_0 below which rounding errors dominate."""


ITERATIONS = 3000
"""Iterations of the expected update."""


def error(problem: Problem, rule: Rule) -> Metric:
    """‖θ − θ*‖²."""
    star = System.exact(problem, rule).fixed_point
    return lambda theta: np.sum((theta - star) ** 2, axis=-1)


def gap(
    gamma: float, radius: float, rewards: ArrayLike, steps: int, paths: int, seed: int
) -> dict[str, FloatArray]:
    """Return the primal-dual gap over steps: mean and 95% quantile of paths, and their bounds."""
    run = projected_descent(
        two_state(gamma, rewards),
        GES(0.0),
        theta_radius=radius,
        omega_radius=radius,
        steps=steps,
        runs=paths,
        rng=seed,
        record=np.unique(np.geomspace(10, steps, 25).astype(np.int64)),
    )
    return {
        "step": run.steps, "mean": run.gap.mean(axis=1),
        "high": np.quantile(run.gap, 0.95, axis=1), "bound": run.bound,
        "high_bound": run.high_probability_bound(0.05),
    }  # fmt: skip


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Draw the three panels and tabulate the predicted and measured values."""
    own = replace(options, runs=None, lam=None)
    (floor,) = comparison.run("theory-floor", own)
    comparison.compute("theory-gap", own)
    problem, (rule,) = floor.case.build(comparison.STUDIES), floor.rules
    assert isinstance(problem, Problem)
    table = Table(title="The theory, measured", box=box.SIMPLE, title_justify="left")
    for heading in ("statement", "predicted", "measured"):
        table.add_column(heading)
    with plots.style():
        figure, axes = plots.panels(
            1, 3, PANEL, caption=_caption(floor, own), gap=(0.98, 0.0), right=0.5
        )
        _linear_rate(axes[0], System.exact(problem, rule), table)
        _floor(axes[1], problem, rule, floor, table)
        _gap(axes[2], comparison.stored("theory-gap", own).table(), table)
        paths = options.save(figure, "theory")
    return [table], paths


def _linear_rate(ax: Axes, system: System, table: Table) -> None:
    """D_t of the expected iteration against the bound of Theorem 2."""
    bounds, mean = theorem2(system), MeanStability(system)
    counts = np.arange(ITERATIONS + 1)
    p = system.p
    z = np.concatenate([-system.fixed_point, np.zeros(p)])
    step = mean.mean_map(bounds.alpha, bounds.beta)
    distances = []
    for _ in counts:
        distances.append(float(bounds.distance(system.fixed_point + z[:p], z[p:])))
        z = step @ z
    resolved = [d for d in distances if d > ROUNDING * distances[0]]
    ends = {}
    for name, values, colour, line in (
        ("Dₜ", resolved, "blue", "-"),
        ("proof", distances[0] * bounds.contraction_tight**counts, "orange", "--"),
        ("theorem", distances[0] * bounds.contraction**counts, "black", ":"),
    ):
        ax.plot(counts[: len(values)] / 1000, values, color=plots.COLOURS[colour], ls=line)
        ends[name] = plots.End(float(values[-1]), plots.COLOURS[colour])
    plots.label(ax, 0.3, 10 * resolved[-1], "Dₜ", colour=ends.pop("Dₜ").colour)
    ax.set(
        yscale="log", xlabel="iteration t (thousands)", ylabel="Dₜ",
        title="Dₜ falls faster than its bounds", xlim=(0, ITERATIONS / 1000),
    )  # fmt: skip
    plots.label_ends(ax, ends)
    worst = max(b / a for a, b in itertools.pairwise(resolved))
    table.add_row("Theorem 2: D_{t+1}/D_t at most", f"{bounds.contraction:.6f}", f"{worst:.6f}")


def _floor(ax: Axes, problem: Problem, rule: Rule, results: Comparison, table: Table) -> None:
    """Mean square errors of stochastic runs against their exact expectation."""
    (own,), alphas = results.results, results.grid.alphas
    ends = {}
    for alpha, colour in zip(alphas, ("blue", "orange", "green"), strict=True):
        exact = mean_square(problem, rule, alpha=alpha, beta=alpha)
        errors = np.ascontiguousarray(own.values["error"][:, :, own.alphas == alpha, 0][..., 0].T)
        ax.plot(own.points, exact.curve(own.points), color=plots.COLOURS[colour], lw=1)
        ax.plot(own.points, errors.mean(axis=1), ".", color=plots.COLOURS[colour], ms=3)
        ax.axhline(exact.floor, color=plots.COLOURS[colour], lw=0.7, ls=":")
        ends[f"α = {alpha:g}"] = plots.End(exact.floor, plots.COLOURS[colour])
        late = errors[-5:].mean()
        table.add_row(f"floor at α = β = {alpha:g}", f"{exact.floor:.4f}", f"{late:.4f}")
    ax.set(
        xscale="log", yscale="log", xlabel="step", ylabel="E‖θ − θ*‖²", xlim=(1, own.points[-1]),
        title="The error stops at a floor",
    )  # fmt: skip
    plots.label_ends(ax, ends)


def _gap(ax: Axes, results: pa.Table, table: Table) -> None:
    """Primal-dual gap of averaged iterates against C√(5/T)."""
    steps, mean, high, bound, high_bound = (
        results[name].to_numpy() for name in ("step", "mean", "high", "bound", "high_bound")
    )
    ends = {}
    for name, values, colour, line in (
        ("95%", high, "blue", "--"),
        ("mean", mean, "blue", "-"),
        ("C√(5/T)", bound, "orange", "-"),
    ):
        ax.plot(steps, values, color=plots.COLOURS[colour], ls=line)
        ends[name] = plots.End(float(values[-1]), plots.COLOURS[colour])
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="T",
        ylabel="gap",
        xlim=(10, steps[-1]),
        title="The gap stays below its bound",
    )
    plots.label_ends(ax, ends)
    late = steps >= steps[-1] / 30
    slope = np.polyfit(np.log(steps[late]), np.log(mean[late]), 1)[0]
    table.add_row("gap: slope on log axes", "-0.5", f"{slope:.2f}")
    table.add_row("final gap, mean", f"≤ {bound[-1]:.3g}", f"{mean[-1]:.3g}")
    table.add_row(
        "final gap, 95% of runs",
        f"≤ {high_bound[-1]:.3g}",
        f"{high[-1]:.3g}",
    )


def _caption(floor: Comparison, options: Options) -> str:
    alphas = ", ".join(f"{alpha:g}" for alpha in floor.grid.alphas)
    paths = comparison.study_of("theory-gap", options).parameters["paths"]
    lam = floor.rules[0].trace.parameter
    return (
        "GES on the two-state problem with rewards, γ = 0.5. Left (Theorem 2, corrected): expected "
        f"update, λ = {lam:g}, with the step sizes of the theorem; its bound 1 − "
        "1/(12κ(M)³κ(A)⁴) per step, and the tighter one of its proof. Dₜ is shown down "
        "to 10⁻⁹ D₀; below, rounding errors would show. Middle (Theorem 3): sampled update, "
        f"λ = {lam:g}, α = β = {alphas}; dots: mean of {floor.study.runs} runs; lines: exact "
        "expectation; dotted: exact floor. Right (Theorem 4): averaged and projected iterates from "
        f"independent samples, λ = 0; mean and 95% quantile of {paths} runs."
    )
