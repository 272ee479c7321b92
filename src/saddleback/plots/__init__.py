"""Figures: functions that take and return Axes, in one colour-blind-safe style."""

from saddleback.plots.analysis import overview
from saddleback.plots.curves import curve, label
from saddleback.plots.style import COLOURS, save, style

__all__ = ["COLOURS", "curve", "label", "overview", "save", "style"]
