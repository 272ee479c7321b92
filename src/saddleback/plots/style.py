"""The house style of figures, and how they are written to disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from saddleback._palette import CATEGORICAL, LIGHT
from saddleback.errors import InvalidParameter

COLOURS = {name: LIGHT[name] for name in (*CATEGORICAL, "black")} | {"pink": "#CC79A7"}
"""Colours by name: those of the pages, and one more."""

WIDTH = 3.5
"""Inches of one column of print: figures of the paper are made at the size they are read at."""

LEFT = 0.54
"""Inches left of the panels, for the numbers and the name of the axis."""

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the house style inside the block; global settings are left alone."""
    with (
        as_file(files("saddleback.plots") / "saddleback.mplstyle") as sheet,
        plt.style.context(sheet),
    ):
        yield


def column(
    panels: int,
    height: float,
    *,
    gap: float,
    across: int = 1,
    top: float = 0.22,
    bottom: float = 0.36,
    right: float = 0.88,
    shared: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure one column wide, with panels of so many inches, a gap between them.

    Margins are in inches too; the right one takes names of lines. Known beforehand, they save the
    time that working them out from the text would take, half of that of a figure.
    """
    rows = -(-panels // across)
    whole = top + rows * height + (rows - 1) * gap + bottom
    width = (WIDTH - LEFT - right - (across - 1) * 0.12) / across
    figure, axes = plt.subplots(
        rows, across, figsize=(WIDTH, whole), sharex=shared, sharey=shared and across > 1,
        squeeze=False, layout="none",
        gridspec_kw={
            "left": LEFT / WIDTH, "right": 1 - right / WIDTH, "wspace": 0.12 / width,
            "bottom": bottom / whole, "top": 1 - top / whole, "hspace": gap / height,
        },
    )  # fmt: skip
    for ax in axes.ravel()[panels:]:
        ax.remove()
    return figure, list(axes.ravel()[:panels])


def save(
    figure: Figure,
    out: Path,
    name: str,
    formats: Sequence[str] = ("png", "pdf"),
    dpi: float | None = None,
) -> list[Path]:
    """Write a figure, the same bytes for the same picture, and close it."""
    paths = [out / f"{name}.{kind}" for kind in formats]
    for ax in figure.axes:
        _plain_decades(ax)
    figure.set_dpi(dpi or plt.rcParams["savefig.dpi"])
    engine = figure.get_layout_engine()
    if engine is not None:  # lay it out once for both files
        engine.execute(figure)
        figure.set_layout_engine("none")
    pdf: Any = FigureCanvasPdf
    png: Any = FigureCanvasAgg
    try:
        for path in paths:  # savefig would draw each of them twice
            if path.suffix == ".pdf":
                pdf(figure).print_pdf(path, metadata={"CreationDate": None})
            else:
                png(figure).print_png(path, metadata={"Software": None})
    except OSError as error:
        raise InvalidParameter(f"cannot write {path}: {error.strerror}.") from None
    finally:
        plt.close(figure)
    return paths


def _plain_decades(ax: Axes) -> None:
    """Mark logarithmic axes at whole decades, few of them, in plain text.

    The usual minor ticks and typeset exponents are most of the time that a figure takes.
    """
    for axis in (ax.xaxis, ax.yaxis):
        if axis.get_scale() == "log":
            low, high = sorted(axis.get_view_interval())
            narrow = high < 60 * low
            subs = (1.0, 2.0, 5.0) if narrow else (1.0,)
            axis.set_major_locator(LogLocator(subs=subs, numticks=7))
            axis.set_major_formatter(FuncFormatter(lambda value, _: decade(value)))
            axis.set_minor_locator(NullLocator())


def decade(value: float) -> str:
    """Write a number of a logarithmic axis.

    Examples
    --------
    >>> decade(1e-3), decade(0.2), decade(10.0), decade(5e-4)
    ('10⁻³', '0.2', '10', '5·10⁻⁴')
    """
    power = int(np.floor(np.log10(value) + 1e-9))
    if -2 <= power <= 2:
        return f"{value:g}"
    lead = round(value / 10.0**power)
    if not np.isclose(value, lead * 10.0**power, rtol=1e-6, atol=0.0):
        return f"{value:.3g}"
    return ("" if lead == 1 else f"{lead}·") + f"10{str(power).translate(RAISED)}"
