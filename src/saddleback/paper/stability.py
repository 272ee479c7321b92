"""The stable region of the off-line update of Expected Sarsa(λ) on the two-state problem.

Example 1 of the paper: unstable exactly when γ > 5/(6−λ). The map is computed from the exact
matrix A at each (γ, λ); the formula is drawn over it.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, TwoSlopeNorm
from rich import box
from rich.table import Table
from scipy.optimize import brentq

from saddleback import plots
from saddleback._typing import FloatArray
from saddleback.paper import Options
from saddleback.paper.comparison import compute, stored
from saddleback.problems import two_state
from saddleback.rules import NAMED
from saddleback.system import System

EXPERIMENTS = (0.99, 0.99)
"""γ and λ of the paper's experiments, marked on the map."""

RANGE = (-0.5, 0.25)
"""Range of the colours; smaller values are drawn as the lowest."""

CAPTION = (
    "Off-line Expected Sarsa(λ) on the two-state problem: largest real part of the eigenvalues of "
    "the exact A. The update converges for small α where it is negative (blue), and diverges for "
    "every α where it is positive (red)."
)


def growth(gamma: float, lam: float, rule: str = "ExpectedSarsa") -> float:
    """Largest real part of an eigenvalue of the exact A: positive means divergence."""
    return float(System.exact(two_state(gamma), NAMED[rule](lam)).spectrum[0].real)


def boundary(lam: float, rule: str = "ExpectedSarsa") -> float:
    """Smallest γ at which the exact A loses stability."""
    return float(brentq(growth, 0.5, 1 - 1e-9, args=(lam, rule), xtol=1e-13))


def run(options: Options) -> tuple[list[Table], list[Path]]:
    """Compute the map, draw it, and tabulate the boundary; nothing is random."""
    compute("stability", options)
    rows = stored("stability", options).table()
    gammas, lambdas = (np.unique(rows[name]) for name in ("gamma", "lam"))
    values = rows["growth"].to_numpy().reshape(len(gammas), len(lambdas)).T
    with plots.style():
        figure, (ax,) = plots.panels(1, 1, 2.6, caption=CAPTION, width=4.6, right=0.95, top=0.26)
        draw(ax, gammas, lambdas, values)
        paths = options.save(figure, "stability")

    table = Table(
        title="Two-state problem: the γ at which instability begins, computed and by formula",
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


def draw(ax: Axes, gammas: FloatArray, lambdas: FloatArray, values: FloatArray) -> Axes:
    """Draw the largest real part over (γ, λ), with the boundary of the paper on it."""
    norm = TwoSlopeNorm(0.0, *RANGE)
    ramp = [*np.linspace(0.08, 0.5, 128), *np.linspace(0.5, 0.8, 128)]
    shades = ListedColormap(plt.get_cmap("RdBu_r")(ramp))
    image = ax.pcolormesh(
        gammas, lambdas, np.maximum(values, RANGE[0]), cmap=shades, norm=norm, shading="gouraud",
        rasterized=True,
    )  # fmt: skip
    figure = ax.figure
    place = ax.get_position()
    bar = figure.colorbar(
        image, cax=figure.add_axes((place.x1 + 0.025, place.y0, 0.025, place.height)), extend="min",
        ticks=(-0.5, -0.25, 0.0, 0.1, 0.2), spacing="proportional",
    )  # fmt: skip
    bar.set_label("largest real part of an eigenvalue of A")
    fine = np.linspace(0, 1, 400)
    ax.plot(5 / (6 - fine), fine, color="black", lw=1.6)
    ax.text(0.905, 0.36, "γ = 5/(6−λ)", rotation=52, ha="left", va="center", fontsize=7)
    ax.text(0.84, 0.5, "converges", ha="center")
    ax.text(0.955, 0.1, "diverges", ha="center")
    ax.plot(*EXPERIMENTS, marker="o", ms=4, mfc="white", mec="black", mew=0.8, clip_on=False)
    ax.annotate(
        "the paper's\nexperiments:\nγ = λ = 0.99", EXPERIMENTS, xytext=(0.996, 0.62), ha="right",
        va="center", fontsize=7, linespacing=1.1,
        arrowprops={"arrowstyle": "-", "color": "black", "lw": 0.7, "shrinkB": 2},
    )  # fmt: skip
    ax.set(
        xlabel="discount γ", ylabel="trace decay λ", xlim=(gammas[0], 1.0), ylim=(0, 1),
        title="Expected Sarsa(λ) is unstable to the right of the line",
    )  # fmt: skip
    ax.grid(False)
    return ax
