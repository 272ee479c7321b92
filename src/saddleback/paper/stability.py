"""Where the off-line update of Expected Sarsa(λ) is stable on the two-state problem.

Example 1 of the paper: unstable exactly when γ > 5/(6−λ). The map is computed from the exact
matrix A at each (γ, λ); the formula is only drawn on top of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from rich import box
from rich.table import Table
from scipy.optimize import brentq

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.paper import Options
from saddleback.problem import Problem
from saddleback.problems import two_state
from saddleback.rules import NAMED
from saddleback.system import System


@dataclass(frozen=True)
class StabilityConfig:
    """What the paper leaves open, and what we chose."""

    gammas: tuple[float, float, int] = (0.75, 0.9995, 101)
    """Range and number of discounts: the boundary runs from 5/6 to 1."""
    lambdas: tuple[float, float, int] = (0.0, 1.0, 101)
    """Range and number of trace decays."""
    experiments: tuple[float, float] = (0.99, 0.99)
    """γ and λ of the paper's experiments, marked on the map."""


def growth(problem: Problem, lam: float, rule: str = "ExpectedSarsa") -> float:
    """Largest real part of an eigenvalue of the exact A: positive means divergence."""
    return float(System.exact(problem, NAMED[rule](lam)).spectrum[0].real)


def boundary(lam: float, rule: str = "ExpectedSarsa") -> float:
    """Least γ at which the exact A loses stability."""
    return float(
        brentq(lambda gamma: growth(two_state(gamma), lam, rule), 0.5, 1 - 1e-9, xtol=1e-13)
    )


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Compute the map, draw it, and tabulate the boundary; nothing here is random."""
    config = StabilityConfig()
    if options.quick:
        config = replace(config, gammas=(0.75, 0.9995, 21), lambdas=(0.0, 1.0, 21))
    gammas, lambdas = np.linspace(*config.gammas), np.linspace(*config.lambdas)
    columns = [[growth(problem, lam) for lam in lambdas] for problem in map(two_state, gammas)]
    values = np.transpose(columns)
    with plots.style():
        figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.7))
        draw(ax, gammas, lambdas, values, config.experiments)
        paths = options.save(figure, "stability")

    table = Table(
        title="Two-state problem: the γ at which instability begins, found and by formula",
        box=box.SIMPLE,
    )
    for heading in ("λ", "Expected Sarsa(λ)", "5/(6−λ)", "GTB, GRetrace", "5/(6−λ/2)"):
        table.add_column(heading, justify="right")
    for lam in (0.0, 0.25, 0.5, 0.75, 0.95):
        tree, retrace = boundary(lam, "GTB"), boundary(lam, "GRetrace")
        both = f"{tree:.9f}" if abs(tree - retrace) < 1e-12 else f"{tree:.9f}, {retrace:.9f}"
        table.add_row(
            f"{lam:g}", f"{boundary(lam):.9f}", f"{5 / (6 - lam):.9f}", both,
            f"{5 / (6 - lam / 2):.9f}",
        )  # fmt: skip
    return [table], paths


def draw(
    ax: Axes,
    gammas: FloatArray,
    lambdas: FloatArray,
    values: FloatArray,
    experiments: tuple[float, float],
) -> Axes:
    """Draw the largest real part over (γ, λ), with the boundary of the paper on it."""
    limit = 0.5
    shades = plt.get_cmap("RdBu_r")(np.linspace(0.12, 0.88, 255))
    image = ax.pcolormesh(
        gammas, lambdas, np.clip(values, -limit, limit), cmap=ListedColormap(shades),
        vmin=-limit, vmax=limit, shading="nearest", rasterized=True,
    )  # fmt: skip
    bar = ax.figure.colorbar(image, ax=ax, extend="both", shrink=0.9)
    bar.set_label("largest real part, spectrum of A")
    fine = np.linspace(0, 1, 400)
    ax.plot(5 / (6 - fine), fine, color="black", lw=2)
    ax.text(0.9, 0.36, "γ = 5/(6−λ)", rotation=57, ha="left", va="center", fontsize=7)
    ax.text(0.82, 0.62, "converges", ha="center")
    ax.text(0.955, 0.12, "diverges", ha="center")
    ax.plot(*experiments, marker="o", ms=3, mfc="white", mec="black", mew=0.8)
    ax.annotate(
        "γ = λ = 0.99, as in the\npaper's experiments", experiments, xytext=(-24, -16), ha="right",
        va="center", textcoords="offset points", fontsize=7, color="white",
        arrowprops={"arrowstyle": "-", "color": "white", "lw": 0.8},
    )  # fmt: skip
    ax.set(
        xlabel="discount γ", ylabel="trace decay λ", xlim=(gammas[0], 1.0), ylim=(0, 1),
        title="Off-line Expected Sarsa(λ), two-state problem",
    )  # fmt: skip
    ax.grid(False)
    return ax
