"""Theorem 1: the off-line update is stable exactly where the spectrum of A lies in the left half.

For small α its expectation, θ + α(Aθ + b), grows like e^(αkx) with x the largest real part of an
eigenvalue of A. We iterate it and count: on the two-state problem over (γ, λ), where both signs
occur, and on random problems; then we look at the iterates on both sides of Example 1's threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from rich import box
from rich.table import Table

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.learning import iterate
from saddleback.paper import Options
from saddleback.problem import Problem
from saddleback.problems import random_mdp, two_state
from saddleback.rules import ExpectedSarsa
from saddleback.system import System


@dataclass(frozen=True)
class Theorem1Config:
    """What the paper leaves open, and what we chose."""

    gammas: tuple[float, float, int] = (0.75, 0.999, 12)
    lambdas: tuple[float, float, int] = (0.0, 0.95, 8)
    random: int = 60
    """Random problems of 3 states, γ = .99, λ = 0: of these a few are unstable."""
    alpha: float = 0.01
    """The paper gives none; the printed bound on it is not the right one."""
    steps: int = 20_000
    beside: tuple[float, ...] = (-0.018, -0.009, 0.0, 0.009, 0.018)
    """How far from the threshold γ = 5/(6−λ) the iterates are shown, at λ = ½."""


@dataclass(frozen=True)
class GrowthRates:
    """Largest real parts of eigenvalues, and the growth of ‖θ_k‖ for each unit of αk."""

    predicted: FloatArray
    measured: FloatArray

    @property
    def agree(self) -> int:
        """At how many points prediction and measurement have the same sign."""
        return int((np.sign(self.predicted) == np.sign(self.measured)).sum())

    @property
    def error(self) -> float:
        """Largest difference."""
        return float(np.abs(self.predicted - self.measured).max())


def norms(problem: Problem, lam: float, config: Theorem1Config, points: list[int]) -> FloatArray:
    """‖θ_k‖ of the expected off-line update from θ_0 = 1 without reward, at these k."""
    system = System.exact(problem, ExpectedSarsa(lam))
    found = iterate(
        replace(system, b=np.zeros(system.p)),
        alpha=config.alpha,
        steps=config.steps,
        theta0=1.0,
        record=points,
        metrics={"norm": lambda theta: np.linalg.norm(theta, axis=-1)},
        bound=1e300,
    )
    return np.asarray(found.curves["norm"])


@cache
def measure_growth(config: Theorem1Config) -> dict[str, GrowthRates]:
    """Predict and measure growth, on the two-state problem and on random ones."""
    two = [
        (two_state(gamma), lam)
        for gamma in np.linspace(*config.gammas)
        for lam in np.linspace(*config.lambdas)
    ]
    others = [
        (random_mdp(0.99, rng=seed, states=3, actions=2, features=3), 0.0)
        for seed in range(config.random)
    ]
    return {
        name: _measure(cases, config) for name, cases in (("two-state", two), ("random", others))
    }


def _measure(cases: list[tuple[Problem, float]], config: Theorem1Config) -> GrowthRates:
    predicted, measured = [], []
    for problem, lam in cases:
        predicted.append(System.exact(problem, ExpectedSarsa(lam)).spectrum[0].real)
        early, late = norms(problem, lam, config, [config.steps // 2, config.steps])
        measured.append(np.log(late / early) / (config.alpha * (config.steps - config.steps // 2)))
    return GrowthRates(np.array(predicted), np.array(measured))


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Draw prediction against measurement, and iterates; tabulate. Nothing here is random."""
    config = Theorem1Config()
    rates = measure_growth(config)
    with plots.style():
        figure, axes = plots.column(2, 1.9, gap=0.62)
        agreement(axes[0], rates)
        iterates(axes[1], config)
        paths = options.save(figure, "theorem1")
    table = Table(title="Theorem 1: growth of off-line iterates", box=box.SIMPLE)
    for heading in ("problems", "points", "unstable", "sign agrees", "largest difference"):
        table.add_column(heading, justify="left" if heading == "problems" else "right")
    for name, each in rates.items():
        table.add_row(
            name,
            str(each.predicted.size),
            str(int((each.predicted > 0).sum())),
            str(each.agree),
            f"{each.error:.1e}",
        )
    return [table], paths


def agreement(ax: Axes, rates: dict[str, GrowthRates]) -> Axes:
    """Draw measured against predicted growth; what Theorem 1 says is in the signs."""
    both = np.concatenate([each.predicted for each in rates.values()])
    low, high = both.min() - 0.05, both.max() + 0.05
    ax.axhline(0, color=plots.COLOURS["black"], lw=0.6)
    ax.axvline(0, color=plots.COLOURS["black"], lw=0.6)
    ax.plot([low, high], [low, high], color=plots.COLOURS["black"], lw=0.8, ls=":")
    marks = (("○", "o", "blue", 0.62), ("△", "^", "orange", 0.5))
    for (name, each), (sign, mark, colour, y) in zip(rates.items(), marks, strict=True):
        shade = plots.COLOURS[colour]
        ax.plot(each.predicted, each.measured, mark, color=shade, ms=3, mfc="none")
        ax.text(1.04, y, f"{sign} {name}", color=shade, fontsize=7, transform=ax.transAxes)
    ax.text(1.01, 1.0, "equal", va="center", fontsize=7, transform=ax.transAxes)
    ax.text(-0.02, low + 0.05, "stable ←", ha="right", fontsize=7)
    ax.text(0.02, low + 0.05, "→ unstable", fontsize=7)
    ax.set(
        xlim=(low, high),
        ylim=(low, high),
        xlabel="largest real part, spectrum of A",
        ylabel="growth of ‖θ‖",
        title="Theorem 1: predicted and counted",
    )
    return ax


def iterates(ax: Axes, config: Theorem1Config) -> Axes:
    """Draw ‖θ_k‖ at λ = ½ on both sides of γ = 5/(6−λ)."""
    lam = 0.5
    points = list(range(0, config.steps + 1, config.steps // 50))
    ends = {}
    for away in config.beside:
        gamma = 5 / (6 - lam) + away
        values = norms(two_state(gamma), lam, config, points)
        colour = plots.COLOURS["blue" if away < 0 else "orange" if away > 0 else "black"]
        ax.plot(points, values, color=colour)
        ends[f"γ = {gamma:.3f}"] = plots.End(float(values[-1]), colour)
    ax.set(
        yscale="log",
        xlim=(0, config.steps),
        ylim=(1e-4, 1e4),
        xlabel="iteration k",
        ylabel="‖θ_k‖",
        title="λ = ½, on both sides of γ = 5/(6−λ) = 0.909",
    )
    return plots.label_ends(ax, ends)
