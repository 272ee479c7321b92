"""Learning curves: the median over runs, the quartiles, and names beside the ends of lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from saddleback._typing import ArrayLike, FloatArray, IntArray

BAND = 0.2
"""Opacity of a band."""

SIZE = 6.5
"""Font size of a label in points."""


def curve(
    ax: Axes, steps: IntArray, runs: FloatArray, expected: FloatArray, *, colour: str, top: float
) -> Axes:
    """Draw the median of curves [n, runs], their quartiles as a band, and the expectation dashed.

    A curve that exceeds ``top`` (a diverged run is infinite) ends there with an arrowhead.
    """
    low, middle, high = quartiles(runs)
    inside = np.minimum.accumulate(low <= top)
    ax.fill_between(
        steps[inside], low[inside], np.minimum(high[inside], top), color=colour, alpha=BAND, lw=0
    )
    ax.plot(*_until(steps, expected, top), color=colour, ls="--", lw=1)
    ax.plot(*_until(steps, middle, top), color=colour)
    if (middle > top).any():
        ax.plot(
            steps[np.argmax(middle > top)], top, marker="^", color=colour, ms=6, clip_on=False,
            zorder=5,
        )  # fmt: skip
    return ax


def quartiles(runs: FloatArray) -> FloatArray:
    """Return the lower quartile, median and upper quartile of curves [n, runs], as [3, n].

    Quartiles are values of single runs, so that infinite runs do not make them undefined.

    Examples
    --------
    >>> quartiles(np.array([[1.0, 2.0, 3.0, 4.0, np.inf]])).ravel()
    array([2., 3., 4.])
    """
    low, high = np.quantile(runs, [0.25, 0.75], axis=1, method="nearest")
    return np.asarray([low, np.median(runs, axis=1), high])


def median_curve(
    ax: Axes,
    points: IntArray,
    runs: FloatArray,
    *,
    above: float = -np.inf,
    band: float = BAND,
    **options: Any,
) -> Axes:
    """Draw the median of curves [n, runs], and the quartiles as a band of that opacity.

    Values that are not finite, or not ``above`` a number, are left out.
    """
    values = quartiles(runs)
    low, middle, high = np.where(np.isfinite(values) & (values > above), values, np.nan)
    ax.plot(points, middle, **options)
    if runs.shape[1] > 1:
        ax.fill_between(points, low, high, color=options["color"], alpha=band, lw=0)
    return ax


def _until(steps: IntArray, values: FloatArray, top: float) -> tuple[IntArray, FloatArray]:
    """Cut a curve off where it first exceeds ``top``, ending there."""
    above = values > top
    end = int(np.argmax(above)) + 1 if above.any() else len(values)
    return steps[:end], np.minimum(values[:end], top)


def label(ax: Axes, x: float, y: float, text: str, *, colour: str, ha: str = "left") -> Axes:
    """Write the name of a curve in its colour, aligned at (x, y)."""
    ax.text(x, y, text, color=colour, fontsize=7, va="center", ha=ha)
    return ax


class End(NamedTuple):
    """Height at which a line leaves its panel, and its colour."""

    y: float
    colour: str


def label_ends(ax: Axes, ends: Mapping[str, End]) -> Axes:
    """Write names to the right of a panel, each as close to the end of its line as possible.

    A thin line connects the end to a name that had to move. The limits of the panel must be final;
    an end outside them is named at the nearest edge.
    """
    edge = ax.get_xlim()[1]
    to_panel = ax.transScale + ax.transLimits
    heights = [float(to_panel.transform((edge, end.y))[1]) for end in ends.values()]
    targets = np.clip(np.nan_to_num(heights, nan=1.0, posinf=1.0), 0.0, 1.0)
    extent = ax.get_window_extent()
    inch = ax.figure.dpi
    positions = spread(targets, 1.15 * SIZE / (72 * extent.height / inch))
    offset = 0.08 * inch / extent.width
    for (name, end), y, position in zip(ends.items(), targets, positions, strict=True):
        ax.plot(
            [1.0, 1.0 + offset], [y, position], color=end.colour, lw=0.6, transform=ax.transAxes,
            clip_on=False,
        )  # fmt: skip
        ax.text(
            1.0 + 1.25 * offset, position, name, color=end.colour, fontsize=SIZE, va="center",
            transform=ax.transAxes,
        )  # fmt: skip
    return ax


def spread(targets: ArrayLike, gap: float, low: float = 0.0, high: float = 1.0) -> FloatArray:
    """Return the positions nearest to the targets (least squares) at least ``gap`` apart.

    They stay inside the range; if there are too many for it, they are centred on it.

    Examples
    --------
    >>> spread([0.5, 0.5, 0.0], 0.2)
    array([0.4, 0.6, 0. ])
    """
    y = np.asarray(targets, dtype=np.float64)
    order = np.argsort(y, kind="stable")
    steps = gap * np.arange(len(y))
    room = (high - low) - gap * (len(y) - 1)
    if room < 0:
        low, room = low + room / 2, 0.0
    positions = np.empty(len(y))
    free = isotonic_regression(y[order] - steps).x
    positions[order] = np.clip(free, low, low + room) + steps
    return positions
