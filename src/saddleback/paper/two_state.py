"""Expected Sarsa diverges and GES converges, on the two-state problem.

At γ = 0.999 and λ = 0 the exact A has the eigenvalue (6γ − 5)/4 > 0: the expected update of
Expected Sarsa grows without bound, and so does the sampled one. GES descends the MSPBE instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.axes import Axes
from rich.table import Table

from saddleback import plots
from saddleback._typing import ArrayLike
from saddleback.paper import Options, small_comparison
from saddleback.paper.learning_curves import Learner, LearnerCurves, add, compare, tabulate
from saddleback.problem import Problem
from saddleback.problems import two_state
from saddleback.rules import GES, ExpectedSarsa


@dataclass(frozen=True)
class TwoStateConfig:
    """What the paper leaves open, and what we chose."""

    gamma: float = 0.999
    lam: float = 0.0
    rewards: tuple[tuple[float, float], ...] = ((1.0, -1.0), (0.5, 2.0))
    """The paper names no reward. With none and θ_0 = 0 nothing ever moves, so we show zero reward
    from θ_0 = 1, and this reward from θ_0 = 0."""
    alpha: float = 0.05
    """One step size for both rules, so that only the form differs."""
    beta: float = 0.05
    steps: int = 30_000
    runs: int = 10


COMPARISON = small_comparison.SmallComparisonConfig(
    below_ceiling=0.5, rewards=TwoStateConfig().rewards
)
"""The ceiling of importance traces is .714 at γ = .99."""


def make(rewards: ArrayLike | None) -> Problem:
    """The problem of the comparison."""
    return two_state(0.99, rewards)


def check(options: Options) -> int:
    """Refuse what cannot be run; return how many bytes the results will be."""
    return small_comparison.check("two-state", make, COMPARISON, options)


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Run both rules with and without reward, draw the MSPBE, tabulate the end."""
    config = TwoStateConfig()
    runs, seed = options.runs or (2 if options.quick else config.runs), options.seed
    config = replace(config, steps=config.steps // 10) if options.quick else config
    learners = [
        Learner(ExpectedSarsa(config.lam), config.alpha, 0.0, plots.COLOURS["orange"]),
        Learner(GES(config.lam), config.alpha, config.beta, plots.COLOURS["blue"]),
    ]
    settings = {
        "no reward": (two_state(config.gamma), 1.0),
        "rewards": (two_state(config.gamma, config.rewards), 0.0),
    }
    table = tabulate(f"Two-state problem, γ = {config.gamma:g}, {config.steps:,} steps", "problem")
    with plots.style():
        figure, axes = plots.column(2, 1.5, gap=0.28, right=0.1, shared=True)
        for ax, (title, (problem, theta0)) in zip(axes, settings.items(), strict=True):
            results = [
                compare(problem, learner, theta0=theta0, steps=config.steps, runs=runs, seed=seed)
                for learner in learners
            ]
            draw(ax, results)
            ax.set(title=f"{title}, θ₀ = {theta0:g}")
            for result in results:
                add(table, title, result)
        star = results[-1].system
        error, relative = (
            float(measure(star.fixed_point)) for measure in (star.mse_absolute, star.mse)
        )
        table.caption = (
            f"{table.caption}\nWith rewards the fixed point itself has RMS error {error**0.5:.3g}, "
            f"relative MSE {relative:.3g}."
        )
        axes[-1].set(xlabel="step")
        plots.label(axes[0], 3, 3e4, "Expected Sarsa(0)\ndiverges", colour=learners[0].colour)
        plots.label(axes[0], 20, 1e-5, "GES(0)\nconverges", colour=learners[1].colour)
        plots.label(
            axes[1], 3, 1e-5, "GES(0), sampled: to a\nfloor set by α", colour=learners[1].colour
        )
        plots.label(axes[1], 3, 1e-7, "dashed: in expectation", colour=learners[1].colour)
        paths = options.save(figure, "two-state")
    tables, more = small_comparison.compare("two-state", make, COMPARISON, options)
    return [table, *tables], paths + more


def draw(ax: Axes, results: list[LearnerCurves], top: float = 1e6, bottom: float = 1e-8) -> Axes:
    """Draw the MSPBE of each learner over steps, sampled (bands) and expected (dashed)."""
    for result in results:
        plots.curve(
            ax, result.steps, result.mspbe, result.expected_mspbe, colour=result.learner.colour,
            top=top,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", ylim=(bottom, top), ylabel="MSPBE")
    return ax
