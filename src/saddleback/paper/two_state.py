"""Expected Sarsa diverges and GES converges, on the two-state problem.

At γ = 0.999 and λ = 0 the exact A has the eigenvalue (6γ − 5)/4 > 0: the expected update of
Expected Sarsa grows without bound, and so does the sampled one. GES descends the MSPBE instead.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from rich.table import Table

from saddleback import plots
from saddleback.paper import Options, comparison, comparison_figures
from saddleback.paper.comparison_figures import SMALL_METRICS, small_titles
from saddleback.paper.learning_curves import LearnerCurves, add, learner_curves, tabulate

GAMMA = 0.999
"""Discount of the study."""

COLOURS = (plots.COLOURS["orange"], plots.COLOURS["blue"])
"""Colours of Expected Sarsa and GES."""

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
    results = learner_curves("two-state-curves", options)
    case, (sarsa, ges) = results[-1]
    table = tabulate(f"Two-state problem, γ = {GAMMA:g}, {case.count:,} steps", "problem")
    caption = (
        f"Two-state problem, γ = {GAMMA:g}, λ = 0, α = {sarsa.alpha:g}, and "
        f"for GES β = {ges.beta:g}; θ₀ = 1 without reward, 0 with rewards. Lines: median of "
        f"{ges.mspbe.shape[1]} sampled runs; bands: quartiles; dashed: expected update; ▲: "
        "diverges."
    )
    with plots.style():
        figure, axes = plots.panels(1, 2, 1.9, caption=caption, gap=(0.2, 0.0), sharey=True)
        for ax, (case, curves) in zip(axes, results, strict=True):
            draw(ax, curves)
            ax.set(title=TITLES[case.label], xlabel="step")
            for learner in curves:
                add(table, case.label, learner)
        axes[0].set(ylabel="MSPBE")
        solution = ges.system
        error, relative = (
            float(measure(solution.fixed_point))
            for measure in (solution.mse_absolute, solution.mse)
        )
        table.caption = (
            f"{table.caption}\nWith rewards the fixed point itself has RMS error {error**0.5:.3g}, "
            f"relative MSE {relative:.3g}."
        )
        for ax in axes:
            plots.label(ax, 230, 3e3, "Expected Sarsa(0)", colour=COLOURS[0], ha="right")
        plots.label(axes[0], 900, 1e-5, "GES(0)", colour=COLOURS[1], ha="right")
        plots.label(axes[1], 1.2e3, 5, "GES(0), sampled", colour=COLOURS[1])
        plots.label(axes[1], 1.5e3, 1e-6, "GES(0), expected", colour=COLOURS[1], ha="right")
        paths = options.save(figure, "two-state")
    tables, more = comparison_figures.compare(
        "two-state", options, SMALL_METRICS, small_titles("two-state")
    )
    return [table, *tables], paths + more


def draw(ax: Axes, curves: list[LearnerCurves], top: float = 1e6, bottom: float = 1e-8) -> Axes:
    """Draw the MSPBE of each learner over steps, sampled (bands) and expected (dashed)."""
    for result, colour in zip(curves, COLOURS, strict=True):
        plots.curve(ax, result.steps, result.mspbe, result.expected_mspbe, colour=colour, top=top)
    ax.set(xscale="log", yscale="log", ylim=(bottom, top))
    return ax
