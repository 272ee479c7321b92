"""The house style of figures, and how they are written to disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from saddleback.errors import InvalidParameter

COLOURS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "pink": "#CC79A7",
    "purple": "#AA4499",
    "black": "#222222",
}
"""Colours with at least 3:1 contrast on white that stay apart without red-green vision."""


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Draw in the house style inside the block; global settings are left alone."""
    with (
        as_file(files("saddleback.plots") / "saddleback.mplstyle") as sheet,
        plt.style.context(sheet),
    ):
        yield


def save(
    figure: Figure, out: Path, name: str, formats: Sequence[str] = ("png", "pdf")
) -> list[Path]:
    """Write a figure, the same bytes for the same picture, and close it."""
    paths = [out / f"{name}.{kind}" for kind in formats]
    # Lay it out once for both files.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    inches = figure.get_tightbbox().padded(0.05)
    try:
        for path in paths:
            stamp = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
            figure.savefig(path, metadata=stamp, bbox_inches=inches)
    except OSError as error:
        raise InvalidParameter(f"cannot write {path}: {error.strerror}.") from None
    finally:
        plt.close(figure)
    return paths
