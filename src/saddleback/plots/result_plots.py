"""What results look like when they draw themselves; each function takes and returns Axes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from saddleback._typing import FloatArray, IntArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.learning import Run
from saddleback.plots.analysis_plots import overview, spectrum
from saddleback.plots.style import COLOURS, style
from saddleback.system import System
from saddleback.theory import Analysis

SIZE = (5.2, 3.2)
"""Inches of a figure of one panel."""

WIDE = 30.0
"""Values that span so many times the least are drawn on a logarithmic axis."""

NAMES = {"mspbe": "MSPBE", "mse": "relative MSE", "mse_absolute": "MSE"}
"""Metrics as they are written."""


@contextlib.contextmanager
def titled() -> Iterator[None]:
    """Draw in the house style, with titles in the middle, where a title set later replaces them."""
    with style(), plt.rc_context({"axes.titlelocation": "center"}):
        yield


def panel(ax: Axes | None, square: bool = False) -> Axes:
    """Return the panel that was given, or one of a new figure."""
    if ax is not None:
        return ax
    new: Axes = plt.subplots(figsize=(SIZE[1], SIZE[1]) if square else SIZE)[1]
    return new


def eigenvalues(system: System, ax: Axes | None) -> Axes:
    """Draw the eigenvalues of A, named by the rule."""
    with titled():
        return spectrum(panel(ax, square=True), system, f"{system.rule.display_name}\n")


def analysis(found: Analysis) -> npt.NDArray[np.object_]:
    """Draw the three panels of `overview`; return them."""
    with titled():
        figure = overview(found, f"{found.system.rule.display_name}, p = {found.system.p}")
    return np.array(figure.axes[:3], dtype=object)


def learning_curve(
    run: Run, metric: str, index: int | tuple[int, ...] | None, ax: Axes | None
) -> Axes:
    """Draw one setting of a run: its curve, or the median and the quartiles over runs."""
    place: Any = _place(run, metric, index)
    values = run.curve(metric)[:, :, *place]
    runs = values.shape[1]
    diverged = run.diverged_at.reshape(runs, *run.alpha.shape)[:, *place]
    low, high = np.quantile(values, [0.25, 0.75], axis=1, method="nearest")
    middle = np.median(values, axis=1)
    with style():
        ax = panel(ax)
        colours = list(COLOURS.values())
        colour = colours[len(ax.get_legend_handles_labels()[1]) % len(colours)]
        ax.plot(run.recorded, _finite(middle), color=colour, label=_label(run, place, diverged))
        if runs > 1:
            ax.fill_between(
                run.recorded, _finite(low), _finite(high), color=colour, alpha=0.18, lw=0
            )
        known = np.isfinite(middle)
        if known.any() and not known.all():  # where the curve leaves the picture
            end = int(np.flatnonzero(known)[-1])
            ax.plot(run.recorded[end], middle[end], "X", color=colour, ms=7)
        _scale(ax)
        in_updates = (run.recorded == run.updates.reshape(len(run.recorded), -1).T).all()
        ax.set(xlabel="updates" if in_updates else "episodes", ylabel=NAMES.get(metric, metric))
        before = ax.get_legend()
        several = runs > 1 or (before is not None and bool(before.get_title().get_text()))
        title = "median and quartiles over runs" if several else None
        ax.legend(title=title, title_fontsize=7, alignment="left")
    return ax


def _place(run: Run, metric: str, index: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the setting to draw: the one given, else the best, else the last to diverge."""
    if index is not None:
        place = index if isinstance(index, tuple) else (index,)
        if len(place) != run.alpha.ndim or any(
            not -size <= k < size for k, size in zip(place, run.alpha.shape, strict=False)
        ):
            raise InvalidParameter(
                f"index {index!r} is not a setting of step sizes of shape {list(run.alpha.shape)}."
            )
        return place
    try:
        return run.best(metric).index
    except Undefined:
        known = np.isfinite(run.curve(metric)).sum(axis=(0, 1))
        return tuple(map(int, np.unravel_index(int(np.argmax(known)), known.shape)))


def _label(run: Run, place: tuple[int, ...], diverged: IntArray) -> str:
    """Name a curve: rule, step sizes, how many runs, and how many of them diverged."""
    parts = [run.rule.display_name, f"α = {run.alpha[place]:.3g}"]
    if run.rule.form.has_dual:
        parts.append(f"β = {run.beta[place]:.3g}")
    gone = int((diverged >= 0).sum())
    if len(diverged) > 1:
        parts.append(f"{len(diverged)} runs" + (f", {gone} diverged" if gone else ""))
    elif gone:
        parts.append(f"diverged at update {int(diverged[0]):,}")
    return ", ".join(parts)


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, np.nan)


def _scale(ax: Axes) -> None:
    """Make the value axis logarithmic if all that is drawn is positive and spans decades."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.lines])
    known = drawn[np.isfinite(drawn)]
    wide = known.size > 0 and known.min() > 0 and known.max() > WIDE * known.min()
    ax.set_yscale("log" if wide else "linear")
