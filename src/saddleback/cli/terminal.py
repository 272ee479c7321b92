"""The terminal: its width, whether it shows colours, and characters it cannot encode."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from saddleback._display import visible

if TYPE_CHECKING:
    from saddleback.ope.text_report import Line

MIN_WIDTH, DEFAULT_WIDTH, MAX_WIDTH = 20, 79, 100
"""Columns of text: smallest, without a terminal, and largest."""

COLOURS = {
    "better": "green", "worse": "red", "inconclusive": "yellow", "doubtful": "yellow",
    "refused": "red", "unjudged": "yellow",
}  # fmt: skip
"""Colour of a line by the outcome of its verdict."""

ASCII = {
    "−": "-", "–": "-", "…": "...", "←": "<-", "→": "->", "≤": "<=", "≥": ">=", "×": "x", "·": "*",
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "φ": "phi", "ω": "omega",
    "Φ": "Phi", "Σ": "Sum", "Ξ": "Xi", "√": "sqrt", "‖": "||", "⁄": "/",
    "\N{COMBINING CIRCUMFLEX ACCENT}": "^",
}  # fmt: skip
"""Replacements for characters that a terminal cannot encode; a minus sign must not be lost."""


def _to_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that cannot be encoded, and the marks and positions of letters."""
    assert isinstance(error, UnicodeEncodeError)
    from unicodedata import combining, decomposition, normalize

    parts, raised = [], False
    for letter in error.object[error.start : error.end]:
        superscript = decomposition(letter).startswith("<super>")
        parts.append("^" if superscript and not raised else "")
        raised = superscript
        for plain in normalize("NFKD", letter):
            unknown = "" if combining(plain) else "?"
            parts.append(ASCII.get(plain, plain if plain.isascii() else unknown))
    return "".join(parts), error.end


codecs.register_error("saddleback", _to_ascii)


def text_width() -> int:
    """Return the width of text: that of the terminal, up to 100 columns."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return DEFAULT_WIDTH
    return max(
        MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size((DEFAULT_WIDTH + 1, 24)).columns - 1)
    )


def shows_colours() -> bool:
    """Whether standard output shows colours; NO_COLOR and FORCE_COLOR take precedence."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def echo(text: str = "", err: bool = False) -> None:
    """Write text that may contain names from files: control characters are escaped."""
    click.echo(visible(text), err=err)


def echo_lines(lines: Iterable[Line]) -> None:
    """Write lines to standard output, coloured by their outcome."""
    colours = shows_colours()
    for text, outcome in lines:
        text = visible(text, keep="")
        style = {"fg": COLOURS[outcome], "bold": True} if outcome else {}
        click.echo(click.style(text, **style) if style else text, color=colours)  # type: ignore[arg-type]
