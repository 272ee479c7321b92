"""Figures: functions that take and return Axes, in one colour-blind-safe style."""

from saddleback.errors import InvalidParameter

try:
    import matplotlib as _  # noqa: F401
except ImportError:
    raise InvalidParameter("figures need Matplotlib: pip install 'saddleback[plots]'.") from None

from saddleback.plots.analysis_plots import overview
from saddleback.plots.curves import (
    BAND,
    End,
    curve,
    label,
    label_ends,
    median_curve,
    quartiles,
    spread,
)
from saddleback.plots.style import (
    COLOURS,
    COLUMN,
    GREY,
    PAGE,
    legend_above,
    mark_decades,
    panels,
    save,
    style,
)

__all__ = [
    "BAND", "COLOURS", "COLUMN", "GREY", "PAGE", "End", "curve", "label", "label_ends",
    "legend_above", "mark_decades", "median_curve", "overview", "panels", "quartiles", "save",
    "spread", "style",
]  # fmt: skip
