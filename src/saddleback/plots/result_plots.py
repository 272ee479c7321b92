"""Plots of systems, analyses and runs; each function takes and returns Axes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from saddleback._typing import IntArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.learning import Run
from saddleback.plots.analysis_plots import overview, spectrum
from saddleback.plots.curves import median_curve, quartiles
from saddleback.plots.style import COLOURS, mark_decades, plain_text, style
from saddleback.system import System
from saddleback.theory import Analysis

SIZE = (5.2, 3.2)
"""Size of a figure with one panel, in inches."""

LOG_SPAN = 30.0
"""Ratio of the largest to the smallest value above which the axis is logarithmic."""

NAMES = {"mspbe": "MSPBE", "mse": "relative MSE", "mse_absolute": "MSE"}
"""Labels of metrics."""


@contextlib.contextmanager
def centred_titles() -> Iterator[None]:
    """Draw in the style of this package with centred titles, which `Axes.set_title` replaces."""
    with style():
        plt.rcParams["axes.titlelocation"] = "center"
        yield


def panel(ax: Axes | None, square: bool = False) -> Axes:
    """Return the given panel, or that of a new figure."""
    if ax is not None:
        return ax
    new: Axes = plt.subplots(figsize=(SIZE[1], SIZE[1]) if square else SIZE)[1]
    return new


def eigenvalues(system: System, ax: Axes | None) -> Axes:
    """Draw the eigenvalues of A, with the rule in the title."""
    with centred_titles():
        return spectrum(panel(ax, square=True), system, f"{system.rule.display_name}\n")


def analysis(result: Analysis) -> npt.NDArray[np.object_]:
    """Draw the three panels of `overview` and return them."""
    with centred_titles():
        figure = overview(result, f"{result.system.rule.display_name}, p = {result.system.p}")
    return np.array(figure.axes[:3], dtype=object)


def learning_curve(
    run: Run, metric: str, index: int | tuple[int, ...] | None, ax: Axes | None
) -> Axes:
    """Draw the curve of one setting: the median over runs, and the quartiles."""
    setting: Any = _setting(run, metric, index)
    values = run.curve(metric)[:, :, *setting]
    runs = values.shape[1]
    diverged = run.diverged_at.reshape(runs, *run.alpha.shape)[:, *setting]
    middle = quartiles(values)[1]
    with style():
        ax = panel(ax)
        colours = list(COLOURS.values())
        colour = colours[len(ax.get_legend_handles_labels()[1]) % len(colours)]
        median_curve(ax, run.recorded, values, color=colour, label=_label(run, setting, diverged))
        finite = np.isfinite(middle)
        if finite.any() and not finite.all():  # mark the last point before divergence
            end = int(np.flatnonzero(finite)[-1])
            ax.plot(run.recorded[end], middle[end], "X", color=colour, ms=7)
        _scale(ax)
        in_updates = (run.recorded == run.updates.reshape(len(run.recorded), -1).T).all()
        ax.set(xlabel="updates" if in_updates else "episodes", ylabel=NAMES.get(metric, metric))
        before = ax.get_legend()
        several = runs > 1 or (before is not None and bool(before.get_title().get_text()))
        title = "median and quartiles over runs" if several else None
        ax.legend(title=title, title_fontsize=7, alignment="left")
    return ax


def _setting(run: Run, metric: str, index: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the setting to draw: the given one, else the best, else the last to diverge."""
    if index is not None:
        setting = index if isinstance(index, tuple) else (index,)
        if len(setting) != run.alpha.ndim or any(
            not -size <= k < size for k, size in zip(setting, run.alpha.shape, strict=False)
        ):
            raise InvalidParameter(
                f"index {index!r} is not a setting of step sizes of shape {list(run.alpha.shape)}."
            )
        return setting
    try:
        return run.best(metric).index
    except Undefined:
        finite = np.isfinite(run.curve(metric)).sum(axis=(0, 1))
        return tuple(map(int, np.unravel_index(int(np.argmax(finite)), finite.shape)))


def _label(run: Run, setting: tuple[int, ...], diverged: IntArray) -> str:
    """Return the label of a curve: rule, step sizes, number of runs, and of divergences."""
    parts = [plain_text(run.rule.display_name), f"α = {run.alpha[setting]:.3g}"]
    if run.rule.form.has_dual:
        parts.append(f"β = {run.beta[setting]:.3g}")
    count = int((diverged >= 0).sum())
    if len(diverged) > 1:
        parts.append(f"{len(diverged)} runs" + (f", {count} diverged" if count else ""))
    elif count:
        parts.append(f"diverged at update {int(diverged[0]):,}")
    return ", ".join(parts)


def _scale(ax: Axes) -> None:
    """Make the value axis logarithmic if all values are positive and span decades."""
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.lines])
    finite = drawn[np.isfinite(drawn)]
    decades = finite.size > 0 and finite.min() > 0 and finite.max() > LOG_SPAN * finite.min()
    ax.set_yscale("log" if decades else "linear")
    mark_decades(ax)
