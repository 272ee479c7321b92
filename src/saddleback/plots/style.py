"""The style of figures, their layout, and how they are written to disk."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, LogLocator, NullLocator

from saddleback._display import visible
from saddleback._palette import CATEGORICAL, LIGHT
from saddleback._paths import output_file

COLOURS = {name: LIGHT[name] for name in (*CATEGORICAL, "black")} | {"pink": "#CC79A7"}
"""Colours by name: those of the pages, and one more."""

GREY = "#767676"
"""Colour of captions, and of values that are not reliable."""

COLUMN = 3.5
"""Width of one column of print, in inches."""

PAGE = 7.0
"""Width of a page of print, in inches: figures are drawn at the size they are read at."""

LEFT = 0.54
"""Inches to the left of a panel, for the tick labels and the label of its axis."""

CAPTION_SIZE, CAPTION_LINE = 6.5, 0.125
"""Font size of a caption in points, and height of one of its lines in inches."""

LEGEND_LINE = 0.17
"""Height of one row of a legend above the panels, in inches."""

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the style of this package inside the block; global settings do not change.

    The first figure of a notebook loads its backend, which turns interactive mode on: that stays,
    or no later figure would be shown.
    """
    with (
        as_file(files("saddleback.plots") / "saddleback.mplstyle") as sheet,
        plt.style.context(sheet),
    ):
        yield
        interactive = matplotlib.is_interactive()
    matplotlib.interactive(interactive)


def plain_text(name: str) -> str:
    r"""Return a name as Matplotlib shows it unchanged: no formulas, control characters as escapes.

    Examples
    --------
    >>> print(plain_text("from $5 to $10"))
    from \$5 to \$10
    """
    return visible(name, keep="").replace("$", r"\$")


def panels(
    rows: int,
    columns: int,
    height: float,
    *,
    caption: str = "",
    legend_rows: int = 0,
    width: float = PAGE,
    gap: tuple[float, float] = (0.3, 0.3),
    left: float = LEFT,
    right: float = 0.1,
    top: float = 0.22,
    bottom: float = 0.36,
    sharex: bool = False,
    sharey: bool | str = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of panels, and its panels row by row.

    All sizes are in inches: the height of a panel, the gaps between columns and between rows, and
    the margins. The caption is set below the panels, over the width of the figure. ``legend_rows``
    leaves room for a legend above them. Explicit sizes halve the time that a figure takes.
    """
    lines = textwrap.wrap(caption, int(width * 72 / (0.535 * CAPTION_SIZE)))
    bottom += CAPTION_LINE * len(lines) + (0.06 if lines else 0.0)
    top += LEGEND_LINE * legend_rows
    total = top + rows * height + (rows - 1) * gap[1] + bottom
    panel_width = (width - left - right - (columns - 1) * gap[0]) / columns
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, total), sharex=sharex, sharey=sharey,  # type: ignore[arg-type]
        squeeze=False, layout="none",
        gridspec_kw={
            "left": left / width, "right": 1 - right / width, "wspace": gap[0] / panel_width,
            "bottom": bottom / total, "top": 1 - top / total, "hspace": gap[1] / height,
        },
    )  # fmt: skip
    if lines:
        figure.text(
            0.06 / width, 0.03 / total, "\n".join(lines), fontsize=CAPTION_SIZE, va="bottom",
            color=GREY, linespacing=72 * CAPTION_LINE / (1.17 * CAPTION_SIZE),
        )  # fmt: skip
    return figure, list(axes.ravel())


def legend_above(figure: Figure, handles: Sequence[Artist], columns: int) -> None:
    """Place one legend for all panels at the top of a figure of `panels`, row by row."""
    rows = -(-len(handles) // columns)
    ordered = [
        handles[row * columns + column]
        for column in range(columns)
        for row in range(rows)
        if row * columns + column < len(handles)
    ]
    figure.legend(
        handles=ordered, ncols=columns, loc="upper left", bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.15, borderpad=0.2, handlelength=2.6, columnspacing=1.4, labelspacing=0.3,
    )  # fmt: skip


def save(
    figure: Figure,
    out: Path,
    name: str,
    formats: Sequence[str] = ("png", "pdf"),
    dpi: float | None = None,
) -> list[Path]:
    """Write a figure and close it; identical figures give identical bytes."""
    paths = [out / f"{name}.{kind}" for kind in formats]
    for ax in figure.axes:
        mark_decades(ax)
    figure.set_dpi(dpi or plt.rcParams["savefig.dpi"])
    engine = figure.get_layout_engine()
    if engine is not None:  # compute the layout once for all files
        engine.execute(figure)
        figure.set_layout_engine("none")
    pdf: Any = FigureCanvasPdf
    png: Any = FigureCanvasAgg
    try:
        for path in paths:
            content = io.BytesIO()  # a full disk confuses the writers of Matplotlib
            if path.suffix == ".pdf":  # savefig would draw the figure twice
                pdf(figure).print_pdf(content, metadata={"CreationDate": None})
            else:
                png(figure).print_png(content, metadata={"Software": None})
            with output_file(path) as file:
                file.write(content.getbuffer())
    finally:
        plt.close(figure)
    return paths


def mark_decades(ax: Axes) -> None:
    """Label logarithmic axes in plain text, all labels of an axis in the same notation.

    Minor ticks and typeset exponents would take most of the time of a figure.
    """
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            if isinstance(axis.get_major_locator(), LogLocator):  # unless ticks were set
                axis.set_major_locator(LogTicks())
            axis.set_major_formatter(LogLabels())
            axis.set_minor_locator(NullLocator())


POWERS = 2.65
"""Decades from which a logarithmic axis is labelled in powers of ten."""


STEPS = (1, 2, 3, 5, 10, 20, 25, 50)
"""Decades between two ticks."""


def _decades(axis: Any) -> float:
    low, high = sorted(axis.get_view_interval())
    return float(np.log10(high / low)) if low > 0 else np.inf


class LogTicks(LogLocator):
    """Ticks at whole decades, and between them where an axis spans less than `POWERS`."""

    axis: Axis

    def __init__(self) -> None:
        super().__init__(numticks=7)

    def __call__(self) -> Any:
        """Return the ticks in the current limits."""
        decades = _decades(self.axis)
        if POWERS <= decades < np.inf:
            step = next((size for size in STEPS if decades <= 6 * size), STEPS[-1])
            low, high = np.log10(sorted(self.axis.get_view_interval())) / step
            return 10.0 ** (step * np.arange(np.ceil(low - 1e-9), np.floor(high + 1e-9) + 1))
        subs: tuple[float, ...] = (1.0, 3.0)
        if decades < 1.6:
            subs = (1.0, 2.0, 5.0) if decades > 0.9 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        self.set_params(subs=subs, numticks=7)
        return super().__call__()


class LogLabels(Formatter):
    """Labels of a logarithmic axis: all powers of ten, or all plain numbers."""

    axis: Axis

    def __call__(self, value: float, position: int | None = None) -> str:
        """Return the label of one tick."""
        return tick_label(value, powers=_decades(self.axis) >= POWERS)


def tick_label(value: float, *, powers: bool) -> str:
    """Write a tick of a logarithmic axis, as a power of ten or as a plain number.

    Examples
    --------
    >>> [tick_label(x, powers=True) for x in (1e-3, 1.0, 10.0, 5e-4)]
    ['10⁻³', '10⁰', '10¹', '5·10⁻⁴']
    >>> [tick_label(x, powers=False) for x in (0.003, 1.0, 3000.0, 5e-6)]
    ['0.003', '1', '3,000', '5·10⁻⁶']
    """
    power = int(np.floor(np.log10(value) + 1e-9))
    if not powers and -4 < power < 5:
        return f"{value:,.10g}" if value >= 1 else f"{value:.10g}"
    lead = f"{value / 10.0**power:.3g}"
    return ("" if lead == "1" else f"{lead}·") + f"10{str(power).translate(SUPERSCRIPTS)}"
