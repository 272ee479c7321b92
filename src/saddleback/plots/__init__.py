"""Figures: functions that take and return Axes, in one colour-blind-safe style."""

from saddleback.plots.analysis_plots import overview
from saddleback.plots.curves import curve, label
from saddleback.plots.labels import End, label_ends, spread
from saddleback.plots.style import COLOURS, WIDTH, column, save, style

__all__ = [
    "COLOURS", "WIDTH", "End", "column", "curve", "label", "label_ends", "overview", "save",
    "spread", "style",
]  # fmt: skip
