"""Expected Sarsa diverges and GES converges, on the two-state problem.

At γ = 0.999 and λ = 0 the exact A has the eigenvalue (6γ − 5)/4 > 0: the expected update of
Expected Sarsa grows without bound, and so does the sampled one. GES descends the MSPBE instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from rich.table import Table

from saddleback import plots
from saddleback.paper import Options, comparison, comparison_figures
from saddleback.paper.comparison_figures import SMALL_METRICS, small_titles
from saddleback.paper.learning_curves import Learner, LearnerCurves, add, compare, tabulate
from saddleback.problems import two_state
from saddleback.rules import GES, ExpectedSarsa


@dataclass(frozen=True)
class TwoStateConfig:
    """Our choices where the paper leaves the protocol open."""

    gamma: float = 0.999
    lam: float = 0.0
    rewards: tuple[tuple[float, float], ...] = ((1.0, -1.0), (0.5, 2.0))
    """The paper names no reward. Without reward, θ_0 = 0 is the solution and nothing moves, so we
    show zero reward from θ_0 = 1, and this reward from θ_0 = 0."""
    alpha: float = 0.05
    """One step size for both rules, so that they differ in their form only."""
    beta: float = 0.05
    steps: int = 30_000
    runs: int = 20


TITLES = {
    "no reward": "No reward: GES(0) converges to the solution",
    "rewards": "Rewards: sampled GES(0) stops at a floor set by α",
}
"""Titles of the panels."""


def check(options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    return comparison.check("two-state", options)


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both rules with and without reward, draw the MSPBE, tabulate the final values."""
    config = options.apply(TwoStateConfig(), "runs", runs=2, steps=TwoStateConfig.steps // 10)
    runs, seed = config.runs, options.seed
    sarsa = Learner(ExpectedSarsa(config.lam), config.alpha, 0.0, plots.COLOURS["orange"])
    ges = Learner(GES(config.lam), config.alpha, config.beta, plots.COLOURS["blue"])
    settings = {
        "no reward": (two_state(config.gamma), 1.0),
        "rewards": (two_state(config.gamma, config.rewards), 0.0),
    }
    table = tabulate(f"Two-state problem, γ = {config.gamma:g}, {config.steps:,} steps", "problem")
    caption = (
        f"Two-state problem, γ = {config.gamma:g}, λ = {config.lam:g}, α = {config.alpha:g}, and "
        f"for GES β = {config.beta:g}; θ₀ = 1 without reward, 0 with rewards. Lines: median of "
        f"{runs} sampled runs; bands: quartiles; dashed: expected update; ▲: diverges."
    )
    with plots.style():
        figure, axes = plots.panels(1, 2, 1.9, caption=caption, gap=(0.2, 0.0), sharey=True)
        for ax, (kind, (problem, theta0)) in zip(axes, settings.items(), strict=True):
            curves = [
                compare(problem, learner, theta0=theta0, steps=config.steps, runs=runs, seed=seed)
                for learner in (sarsa, ges)
            ]
            draw(ax, curves)
            ax.set(title=TITLES[kind], xlabel="step")
            for learner_curves in curves:
                add(table, kind, learner_curves)
        axes[0].set(ylabel="MSPBE")
        solution = curves[-1].system
        error, relative = (
            float(measure(solution.fixed_point))
            for measure in (solution.mse_absolute, solution.mse)
        )
        table.caption = (
            f"{table.caption}\nWith rewards the fixed point itself has RMS error {error**0.5:.3g}, "
            f"relative MSE {relative:.3g}."
        )
        for ax in axes:
            plots.label(ax, 230, 3e3, "Expected Sarsa(0)", colour=sarsa.colour, ha="right")
        plots.label(axes[0], 900, 1e-5, "GES(0)", colour=ges.colour, ha="right")
        plots.label(axes[1], 1.2e3, 5, "GES(0), sampled", colour=ges.colour)
        plots.label(axes[1], 1.5e3, 1e-6, "GES(0), expected", colour=ges.colour, ha="right")
        paths = options.save(figure, "two-state")
    tables, more = comparison_figures.compare(
        "two-state", options, SMALL_METRICS, small_titles("two-state")
    )
    return [table, *tables], paths + more


def draw(ax: Axes, curves: list[LearnerCurves], top: float = 1e6, bottom: float = 1e-8) -> Axes:
    """Draw the MSPBE of each learner over steps, sampled (bands) and expected (dashed)."""
    for result in curves:
        plots.curve(
            ax, result.steps, result.mspbe, result.expected_mspbe, colour=result.learner.colour,
            top=top,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", ylim=(bottom, top))
    return ax
