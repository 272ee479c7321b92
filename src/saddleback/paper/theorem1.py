"""Theorem 1: the off-line update is stable where the spectrum of A is in the left half-plane.

For small α its expectation, θ + α(Aθ + b), grows like e^(αkx) with x the largest real part of an
eigenvalue of A. We iterate it and measure the growth: on the two-state problem over (γ, λ), where
both signs occur, and on random problems; then on both sides of the threshold of Example 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.learning import iterate
from saddleback.paper import Options
from saddleback.paper.comparison import compute, stored, study_of
from saddleback.problem import Problem
from saddleback.problems import random_mdp, two_state
from saddleback.rules import ExpectedSarsa
from saddleback.system import System

BESIDE = (-0.018, -0.009, 0.0, 0.009, 0.018)
"""Distances of γ from the threshold 5/(6−λ) at which iterates are shown, at λ = ½."""


@dataclass(frozen=True)
class GrowthRates:
    """Growth of ‖θ_k‖ per unit of αk: the largest real parts of eigenvalues, and as measured."""

    predicted: FloatArray
    measured: FloatArray

    @property
    def agree(self) -> int:
        """Number of points where prediction and measurement have the same sign."""
        return int((np.sign(self.predicted) == np.sign(self.measured)).sum())

    @property
    def error(self) -> float:
        """Largest difference."""
        return float(np.abs(self.predicted - self.measured).max())


def norms(
    problem: Problem, lam: float, points: list[int], *, alpha: float, steps: int
) -> FloatArray:
    """‖θ_k‖ of the expected off-line update from θ_0 = 1 without reward, at these k."""
    system = System.exact(problem, ExpectedSarsa(lam))
    run = iterate(
        replace(system, b=np.zeros(system.p)),
        alpha=alpha,
        steps=steps,
        theta0=1.0,
        record=points,
        metrics={"norm": lambda theta: np.linalg.norm(theta, axis=-1)},
        bound=1e300,
    )
    return np.asarray(run.curves["norm"])


def growth(
    problem: str, gamma: float, lam: float, alpha: float, steps: int, number: int = 0
) -> dict[str, float]:
    """Predict and measure growth on the two-state problem, or on a random one."""
    if problem == "random":
        chosen = random_mdp(gamma, rng=number, states=3, actions=2, features=3)
    else:
        chosen = two_state(gamma)
    predicted = System.exact(chosen, ExpectedSarsa(lam)).spectrum[0].real
    early, late = norms(chosen, lam, [steps // 2, steps], alpha=alpha, steps=steps)
    measured = np.log(late / early) / (alpha * (steps - steps // 2))
    return {"predicted": float(predicted), "measured": float(measured)}


def growth_rates(options: Options) -> dict[str, GrowthRates]:
    """Return the results of the study by the names of its problems."""
    rows = stored("theorem1", options).table()
    names = rows["problem"].to_numpy(zero_copy_only=False)
    predicted, measured = (rows[name].to_numpy() for name in ("predicted", "measured"))
    return {
        name: GrowthRates(predicted[names == name], measured[names == name])
        for name in dict.fromkeys(names.tolist())
    }


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Draw measured against predicted growth, and iterates; tabulate. Nothing is random."""
    compute("theorem1", options)
    rates, chosen = growth_rates(options), study_of("theorem1", options).parameters
    caption = (
        "Expected off-line update of Expected Sarsa(λ), no reward, θ₀ = 1, "
        f"α = {chosen['alpha']:g}. Left: growth of log ‖θₖ‖ per unit of αk, over the second half "
        f"of {chosen['steps']:,} iterations, for the two-state problem over (γ, λ) and "
        f"{rates['random'].predicted.size} random problems (3 states, γ = 0.99, λ = 0). "
        "Right: two-state problem, λ = ½; the threshold is γ = 5/(6−λ) = 0.909."
    )
    with plots.style():
        figure, axes = plots.panels(1, 2, 2.1, caption=caption, gap=(0.7, 0.0), right=0.75)
        agreement(axes[0], rates)
        iterates(axes[1], **chosen)
        paths = options.save(figure, "theorem1")
    table = Table(title="Theorem 1: growth of off-line iterates", box=box.SIMPLE)
    for heading in ("problems", "points", "unstable", "sign agrees", "largest difference"):
        table.add_column(heading, justify="left" if heading == "problems" else "right")
    for name, group in rates.items():
        table.add_row(
            name,
            str(group.predicted.size),
            str(int((group.predicted > 0).sum())),
            str(group.agree),
            f"{group.error:.1e}",
        )
    return [table], paths


def agreement(ax: Axes, rates: dict[str, GrowthRates]) -> Axes:
    """Draw measured against predicted growth; Theorem 1 is about the signs."""
    predicted = np.concatenate([group.predicted for group in rates.values()])
    low, high = predicted.min() - 0.08, predicted.max() + 0.12
    ax.axvspan(0, high, color=plots.COLOURS["orange"], alpha=0.08, lw=0)
    ax.axhline(0, color=plots.COLOURS["black"], lw=0.6)
    ax.axvline(0, color=plots.COLOURS["black"], lw=0.6)
    ax.plot([low, high], [low, high], color=plots.COLOURS["black"], lw=0.8, ls=":", label="y = x")
    marks = (("o", "blue"), ("^", "orange"))
    for (name, group), (mark, colour) in zip(rates.items(), marks, strict=True):
        ax.plot(
            group.predicted, group.measured, mark, color=plots.COLOURS[colour], ms=3.5, mfc="none",
            label=f"{name} ({group.predicted.size})",
        )  # fmt: skip
    ax.legend(loc="upper left", handlelength=1.2)
    ax.text(-0.02, low + 0.06, "stable", ha="right", fontsize=7)
    ax.text(0.02, low + 0.06, "unstable", fontsize=7)
    ax.set(
        xlim=(low, high), ylim=(low, high), xlabel="largest real part of an eigenvalue of A",
        ylabel="measured growth", title="Iterates grow at the predicted rate",
    )  # fmt: skip
    return ax


def iterates(ax: Axes, alpha: float, steps: int) -> Axes:
    """Draw ‖θ_k‖ at λ = ½ on both sides of γ = 5/(6−λ)."""
    lam = 0.5
    points = list(range(0, steps + 1, steps // 50))
    ends = {}
    for distance in BESIDE:
        gamma = 5 / (6 - lam) + distance
        values = norms(two_state(gamma), lam, points, alpha=alpha, steps=steps)
        colour = plots.COLOURS["blue" if distance < 0 else "orange" if distance > 0 else "black"]
        ax.plot(np.array(points) / 1000, values, color=colour)
        ends[f"γ = {gamma:.3f}"] = plots.End(float(values[-1]), colour)
    ax.set(
        yscale="log", xlim=(0, steps / 1000), ylim=(5e-5, 5e4), ylabel="‖θₖ‖",
        xlabel="iteration k (thousands)", title="Above γ = 0.909 they diverge, below they shrink",
    )  # fmt: skip
    ax.set_xticks(np.linspace(0, steps / 1000, 5))
    return plots.label_ends(ax, ends)
