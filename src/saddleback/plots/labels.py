"""Names of lines beside their ends, in their colours, kept apart where they would overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from saddleback._typing import ArrayLike, FloatArray

SIZE = 6.5
"""Points of a label."""


class End(NamedTuple):
    """Where a line leaves its panel, and its colour."""

    y: float
    colour: str


def label_ends(ax: Axes, ends: Mapping[str, End], lines: int = 1) -> Axes:
    """Write names to the right of a panel of `column`, each as near its line as it may be.

    Names have so many lines at most. A thin line leads from the edge to a name that had to make
    room. The limits of the panel must be final; an end outside them is named at the nearest edge.
    """
    edge = ax.get_xlim()[1]
    to_panel = ax.transScale + ax.transLimits
    heights = [float(to_panel.transform((edge, end.y))[1]) for end in ends.values()]
    wanted = np.clip(np.nan_to_num(heights, nan=1.0, posinf=1.0), 0.0, 1.0)
    height = ax.get_window_extent().height / ax.figure.dpi
    places = spread(wanted, 1.15 * SIZE * lines / (72 * height))
    for (name, end), y, place in zip(ends.items(), wanted, places, strict=True):
        ax.plot(
            [1.0, 1.04], [y, place], color=end.colour, lw=0.6, transform=ax.transAxes,
            clip_on=False,
        )  # fmt: skip
        ax.text(
            1.05, place, name, color=end.colour, fontsize=SIZE, va="center", linespacing=0.95,
            transform=ax.transAxes,
        )  # fmt: skip
    return ax


def spread(wanted: ArrayLike, gap: float, low: float = 0.0, high: float = 1.0) -> FloatArray:
    """Nearest places (least squares) with at least ``gap`` between them, inside a range.

    More than fit the range are centred on it, with the same gap.

    Examples
    --------
    >>> spread([0.5, 0.5, 0.0], 0.2)
    array([0.4, 0.6, 0. ])
    """
    y = np.asarray(wanted, dtype=np.float64)
    order = np.argsort(y, kind="stable")
    steps = gap * np.arange(len(y))
    room = (high - low) - gap * (len(y) - 1)
    if room < 0:
        low, room = low + room / 2, 0.0
    places = np.empty(len(y))
    free = isotonic_regression(y[order] - steps).x
    places[order] = np.clip(free, low, low + room) + steps
    return places
