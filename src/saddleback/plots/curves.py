"""Learning curves: the median over runs, and the quartiles."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from saddleback._typing import FloatArray, IntArray

BAND = 0.2
"""Opacity of a band."""


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


def _until(steps: IntArray, values: FloatArray, top: float) -> tuple[IntArray, FloatArray]:
    """Cut a curve off where it first exceeds ``top``, ending there."""
    above = values > top
    end = int(np.argmax(above)) + 1 if above.any() else len(values)
    return steps[:end], np.minimum(values[:end], top)


def label(ax: Axes, x: float, y: float, text: str, *, colour: str, ha: str = "left") -> Axes:
    """Write the name of a curve in its colour, aligned at (x, y)."""
    ax.text(x, y, text, color=colour, fontsize=7, va="center", ha=ha)
    return ax
