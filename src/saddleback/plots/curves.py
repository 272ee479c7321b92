"""Learning curves: the middle run, and the spread of all."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from saddleback._typing import FloatArray, IntArray


def curve(
    ax: Axes, steps: IntArray, runs: FloatArray, expected: FloatArray, *, colour: str, top: float
) -> Axes:
    """Draw the median of curves [n, runs], a band over all runs, and the expectation dashed.

    A curve that passes ``top`` (a diverged run is infinite) leaves the picture with an arrowhead.
    """
    middle = np.median(runs, axis=1)
    low, high = runs.min(axis=1), runs.max(axis=1)
    inside = np.minimum.accumulate(low <= top)
    ax.fill_between(
        steps[inside], low[inside], np.minimum(high[inside], top), color=colour, alpha=0.18, lw=0
    )
    ax.plot(*_until(steps, expected, top), color=colour, ls="--", lw=1)
    ax.plot(*_until(steps, middle, top), color=colour)
    if (middle > top).any():
        ax.plot(
            steps[np.argmax(middle > top)], top, marker="^", color=colour, ms=7, clip_on=False,
            zorder=5,
        )  # fmt: skip
    return ax


def _until(steps: IntArray, values: FloatArray, top: float) -> tuple[IntArray, FloatArray]:
    """Cut a curve off where it first passes ``top``, ending there."""
    gone = values > top
    end = int(np.argmax(gone)) + 1 if gone.any() else len(values)
    return steps[:end], np.minimum(values[:end], top)


def label(ax: Axes, x: float, y: float, text: str, *, colour: str) -> Axes:
    """Write a curve's name, in its colour, with its left end at (x, y)."""
    ax.text(x, y, text, color=colour, fontsize=8, va="center")
    return ax
