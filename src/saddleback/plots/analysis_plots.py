"""The analysis of a rule on a problem: spectrum, stable step sizes, expected error."""

from __future__ import annotations

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from saddleback._typing import FloatArray
from saddleback.plots.style import COLOURS, mark_decades, plain_text
from saddleback.system import System
from saddleback.theory import Analysis, StepModel

GRID = 41
"""Step sizes along each axis of the map; half of that where each needs a Markov chain."""

MAX_MOMENTS = 120
"""Largest number of moments for which the mean square is computed at every point of the map."""


REGION = "Step sizes that converge"
"""Title of the map."""


def overview(analysis: Analysis, title: str) -> Figure:
    """Draw the three panels in one figure."""
    figure, axes = plt.subplots(1, 3, figsize=(10.2, 3.3), width_ratios=[1.0, 1.15, 1.15])
    spectrum(axes[0], analysis.system)
    region(axes[1], analysis)
    error(axes[2], analysis)
    figure.suptitle(plain_text(title), fontsize=10)
    return figure


def spectrum(ax: Axes, system: System, name: str = "") -> Axes:
    """Draw the eigenvalues of A; a stable update needs all of them left of the imaginary axis."""
    z = system.spectrum
    reach = 1.15 * max(float(np.abs(z).max()), 1e-12)
    ax.axvspan(0, reach, color=COLOURS["orange"], alpha=0.10, lw=0)
    ax.axvline(0, color=COLOURS["black"], lw=1)
    ax.axhline(0, color=COLOURS["black"], lw=0.5, alpha=0.4)
    for group, colour, mark in ((z.real < 0, "blue", "o"), (z.real >= 0, "orange", "X")):
        if group.any():  # an empty line would affect the limits
            ax.plot(z.real[group], z.imag[group], mark, color=COLOURS[colour], ms=6)
    verdict = "stable for small α" if system.stable else "diverges for every α"
    update = "update without ω" if system.rule.form.has_dual else "off-line update"
    ax.set(
        xlim=(-reach, reach), ylim=(-reach, reach), xlabel="real part", ylabel="imaginary part",
        title=f"{name}Eigenvalues of A:\n{update} {verdict}",
    )  # fmt: skip
    return ax


def region(ax: Axes, analysis: Analysis) -> Axes:
    """Draw the region of (α, β) where the mean, and the mean square, converge."""
    if not analysis.system.rule.form.has_dual:
        return _one_step_size(ax, analysis)
    best = analysis.mean_best
    top = analysis.mean_limit if isinstance(best, str) else max(best.alpha, best.beta)
    if not 0 < top < np.inf:
        ax.text(0.5, 0.5, "no step size converges", transform=ax.transAxes, ha="center")
        ax.set(xticks=[], yticks=[], title=REGION)
        return ax
    sizes = np.geomspace(1e-4 * top, 30 * top, GRID // 2 if analysis.small_chain else GRID)
    level = (analysis.mean.radius(sizes[:, None], sizes) < 1.0).astype(np.float64)
    if isinstance(analysis.model, StepModel) and analysis.model.moments <= MAX_MOMENTS:
        level = _square_region(analysis, sizes, level)
    shades = ["#FFFFFF", "#CFE3F1", COLOURS["blue"]]
    ax.contourf(sizes, sizes, level.T, levels=[-0.5, 0.5, 1.5, 2.5], colors=shades)
    ax.contour(sizes, sizes, level.T, levels=[0.5, 1.5], colors=COLOURS["black"], linewidths=0.7)
    ax.text(0.03, 0.96, "diverges", transform=ax.transAxes, va="top", fontsize=8)
    handles: list[Artist] = [Patch(fc=shade, ec=COLOURS["black"]) for shade in shades[1:]]
    assumed = analysis.has_trace_memory and analysis.small_chain is None
    names = ["mean converges", "mean square converges" + " (if independent)" * assumed]
    if (level < 2).all():
        handles, names = handles[:1], names[:1]
    if not isinstance(analysis.advice, str):
        handles += ax.plot(
            analysis.advice.alpha,
            analysis.advice.beta,
            "*",
            color=COLOURS["orange"],
            ms=11,
            mec="white",
        )
        names.append("advised")
    ax.legend(handles, names, loc="upper right", fontsize=7)
    ax.set(
        xscale="log", yscale="log", xlabel="α", ylabel="β", title=REGION,
        xlim=(sizes[0], sizes[-1]), ylim=(sizes[0], sizes[-1]),
    )  # fmt: skip
    ax.grid(False)
    mark_decades(ax)
    return ax


def _square_region(analysis: Analysis, sizes: FloatArray, level: FloatArray) -> FloatArray:
    """Raise the level from 1 to 2 where the mean square converges as well."""
    higher = level.copy()
    for i, j in np.argwhere(level == 1.0):
        higher[i, j] += analysis.stable(sizes[i], sizes[j])
    return higher


def _one_step_size(ax: Axes, analysis: Analysis) -> Axes:
    """Draw the spectral radius against α, for a rule with a single step size."""
    limit = analysis.mean_limit if 0 < analysis.mean_limit < np.inf else 1.0
    sizes = np.geomspace(1e-3 * limit, 2 * limit, 160)
    ax.plot(sizes, analysis.mean.radius(sizes), color=COLOURS["blue"], label="mean")
    if isinstance(analysis.model, StepModel):
        square = [analysis.model.radius(a, 0.0) for a in sizes]
        ax.plot(sizes, square, color=COLOURS["orange"], ls="--", label="mean square")
    ax.axhline(1, color=COLOURS["black"], lw=0.8)
    ax.legend(fontsize=7)
    ax.set(
        xscale="log", xlabel="α", ylabel="error factor per step", ylim=(0, 2),
        title="Step sizes converge where the factor is below 1",
    )  # fmt: skip
    mark_decades(ax)
    return ax


def error(ax: Axes, analysis: Analysis) -> Axes:
    """Draw the expected error over steps with the advised step sizes, and its floor."""
    ax.set(xlabel="steps", ylabel="E‖θ − θ*‖²", title="The error with the advised step sizes")
    if isinstance(analysis.advice, str) or isinstance(analysis.model, str):
        why = analysis.advice if isinstance(analysis.advice, str) else str(analysis.model)
        text = "\n".join(textwrap.wrap(why, 44))
        ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", fontsize=8)
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
        return ax
    advice = analysis.advice
    start = analysis.model.error(advice.alpha, advice.beta, 0)
    for factor, style in ((4.0, ":"), (1.0, "-"), (0.25, "--")):
        sizes = (factor * advice.alpha, factor * advice.beta)
        counts, curve = analysis.model.doubling(*sizes, 10 * analysis.steps)
        shown = np.where(np.less(curve, 1e3 * start), curve, np.nan)
        name = "advised" if factor == 1 else f"{factor:g} × advised"
        ax.plot(counts, shown, ls=style, color=COLOURS["blue"], label=name)
    if not isinstance(analysis.floor, str) and analysis.floor > 0:
        ax.axhline(analysis.floor, color=COLOURS["orange"], lw=1, label="floor (advised)")
    ax.axvline(analysis.steps, color=COLOURS["black"], lw=0.6, alpha=0.5)
    lowest = analysis.model.error(advice.alpha, advice.beta, 10 * analysis.steps)
    ax.set(xscale="log", yscale="log", ylim=(max(lowest / 10, start * 1e-12), start * 10))
    ax.annotate(
        f"{analysis.steps:,} steps", (analysis.steps, 0.0), (3, 3), fontsize=7, ha="left",
        va="bottom", xycoords=ax.get_xaxis_transform(), textcoords="offset points",
    )  # fmt: skip
    ax.legend(fontsize=7, loc="lower left", frameon=True, framealpha=0.9, edgecolor="none")
    mark_decades(ax)
    return ax
