"""A rule on a problem at a glance: spectrum, stable step sizes, expected error."""

from __future__ import annotations

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from saddleback._typing import FloatArray
from saddleback.plots.style import COLOURS
from saddleback.system import System
from saddleback.theory import Analysis, StepModel

GRID = 41
"""Step sizes in each direction of the map; half as many where each costs a chain."""

MOST = 120
"""Most moments for which the mean square is asked at every point of the map."""


def overview(found: Analysis, title: str) -> Figure:
    """Draw the three panels."""
    figure, axes = plt.subplots(1, 3, figsize=(10.2, 3.3), width_ratios=[1.0, 1.15, 1.15])
    spectrum(axes[0], found.system)
    region(axes[1], found)
    error(axes[2], found)
    figure.suptitle(title, fontsize=10)
    return figure


def spectrum(ax: Axes, system: System, name: str = "") -> Axes:
    """Draw the eigenvalues of A, with the imaginary axis they must stay left of."""
    z = system.spectrum
    reach = 1.15 * max(float(np.abs(z).max()), 1e-12)
    ax.axvspan(0, reach, color=COLOURS["orange"], alpha=0.10, lw=0)
    ax.axvline(0, color=COLOURS["black"], lw=1)
    ax.axhline(0, color=COLOURS["black"], lw=0.5, alpha=0.4)
    for inside, colour, mark in ((z.real < 0, "blue", "o"), (z.real >= 0, "orange", "X")):
        if inside.any():  # an empty line would claim the corner of the figure
            ax.plot(z.real[inside], z.imag[inside], mark, color=COLOURS[colour], ms=6)
    verdict = "stable for small α" if system.stable else "diverges for every α"
    ax.set(
        xlim=(-reach, reach), ylim=(-reach, reach), xlabel="real part", ylabel="imaginary part",
        title=f"{name}Eigenvalues of A:\noff-line update {verdict}",
    )  # fmt: skip
    return ax


def region(ax: Axes, found: Analysis) -> Axes:
    """Draw where the mean, and the mean square, converge over (α, β)."""
    if not found.system.rule.form.has_dual:
        return _one_step_size(ax, found)
    best = found.mean_best
    top = found.mean_limit if isinstance(best, str) else max(best.alpha, best.beta)
    if not 0 < top < np.inf:
        ax.text(0.5, 0.5, "no step size converges", transform=ax.transAxes, ha="center")
        ax.set(xticks=[], yticks=[], title="Which step sizes converge")
        return ax
    sizes = np.geomspace(1e-4 * top, 30 * top, GRID // 2 if found.small_chain else GRID)
    level = (found.mean.radius(sizes[:, None], sizes) < 1.0).astype(np.float64)
    if isinstance(found.model, StepModel) and found.model.moments <= MOST:
        level = _square_region(found, sizes, level)
    shades = ["#FFFFFF", "#CFE3F1", COLOURS["blue"]]
    ax.contourf(sizes, sizes, level.T, levels=[-0.5, 0.5, 1.5, 2.5], colors=shades)
    ax.contour(sizes, sizes, level.T, levels=[0.5, 1.5], colors=COLOURS["black"], linewidths=0.7)
    ax.text(0.03, 0.96, "diverges", transform=ax.transAxes, va="top", fontsize=8)
    handles: list[Artist] = [Patch(fc=shade, ec=COLOURS["black"]) for shade in shades[1:]]
    assumed = found.has_trace_memory and found.small_chain is None
    names = ["mean converges", "mean square, if independent" if assumed else "mean square too"]
    if (level < 2).all():
        handles, names = handles[:1], names[:1]
    if not isinstance(found.advice, str):
        handles += ax.plot(
            found.advice.alpha, found.advice.beta, "*", color=COLOURS["orange"], ms=11, mec="white"
        )
        names.append("advised")
    ax.legend(handles, names, loc="upper right", fontsize=7)
    ax.set(
        xscale="log", yscale="log", xlabel="α", ylabel="β", title="Which step sizes converge",
        xlim=(sizes[0], sizes[-1]), ylim=(sizes[0], sizes[-1]),
    )  # fmt: skip
    ax.grid(False)
    return ax


def _square_region(found: Analysis, sizes: FloatArray, level: FloatArray) -> FloatArray:
    """Raise the level from 1 to 2 where the mean square converges too."""
    higher = level.copy()
    for i, j in np.argwhere(level == 1.0):
        higher[i, j] += found.stable(sizes[i], sizes[j])
    return higher


def _one_step_size(ax: Axes, found: Analysis) -> Axes:
    """Draw the radius against α, for a rule with a single step size."""
    limit = found.mean_limit if 0 < found.mean_limit < np.inf else 1.0
    sizes = np.geomspace(1e-3 * limit, 2 * limit, 160)
    ax.plot(sizes, found.mean.radius(sizes), color=COLOURS["blue"], label="mean")
    if isinstance(found.model, StepModel):
        square = [found.model.radius(a, 0.0) for a in sizes]
        ax.plot(sizes, square, color=COLOURS["orange"], ls="--", label="mean square")
    ax.axhline(1, color=COLOURS["black"], lw=0.8)
    ax.legend(fontsize=7)
    ax.set(xscale="log", xlabel="α", ylabel="factor a step", ylim=(0, 2), title="Stable below 1")
    return ax


def error(ax: Axes, found: Analysis) -> Axes:
    """Draw the expected error against the number of steps, with its floor."""
    ax.set(xlabel="steps", ylabel="E‖θ − θ*‖²", title="Expected error with the advised steps")
    if isinstance(found.advice, str) or isinstance(found.model, str):
        why = found.advice if isinstance(found.advice, str) else str(found.model)
        said = "\n".join(textwrap.wrap(why, 44))
        ax.text(0.5, 0.5, said, transform=ax.transAxes, ha="center", va="center", fontsize=8)
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
        return ax
    advice = found.advice
    start = found.model.error(advice.alpha, advice.beta, 0)
    for factor, style in ((4.0, ":"), (1.0, "-"), (0.25, "--")):
        sizes = (factor * advice.alpha, factor * advice.beta)
        counts, curve = found.model.doubling(*sizes, 10 * found.steps)
        shown = np.where(np.less(curve, 1e3 * start), curve, np.nan)
        name = "advised" if factor == 1 else f"{factor:g} times that"
        ax.plot(counts, shown, ls=style, color=COLOURS["blue"], label=name)
    if not isinstance(found.floor, str) and found.floor > 0:
        ax.axhline(found.floor, color=COLOURS["orange"], lw=1, label="floor of the advised")
    ax.axvline(found.steps, color=COLOURS["black"], lw=0.6, alpha=0.5)
    lowest = found.model.error(advice.alpha, advice.beta, 10 * found.steps)
    ax.set(xscale="log", yscale="log", ylim=(max(lowest / 10, start * 1e-12), start * 10))
    ax.legend(fontsize=7, loc="lower left", frameon=True, framealpha=0.9, edgecolor="none")
    return ax
