"""The terminal that a command writes to: how wide it is, and whether it shows colours."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from saddleback.verdict.text_report import Line

NARROWEST, USUAL, WIDEST = 20, 79, 100
"""Columns of text: at least, where there is no terminal, and at most."""

COLOURS = {
    "better": "green", "worse": "red", "inconclusive": "yellow", "doubtful": "yellow",
    "refused": "red", "unjudged": "yellow",
}  # fmt: skip
"""The colour of an answer, by its outcome."""

ASCII = {
    "−": "-", "–": "-", "…": "...", "←": "<-", "→": "->", "≤": "<=", "≥": ">=", "×": "x", "·": "*",
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ζ": "zeta", "η": "eta", "θ": "theta",
    "κ": "kappa", "λ": "lambda", "μ": "mu", "π": "pi", "ρ": "rho", "φ": "phi", "ω": "omega",
    "Â": "A^", "√": "sqrt",
}  # fmt: skip
"""What is written where the terminal has no such character: a lost minus sign would be a lie."""


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace what cannot be encoded by what can."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(ASCII.get(letter, "?") for letter in text), error.end


codecs.register_error("saddleback", _in_ascii)


def text_width() -> int:
    """Return how many columns text may have: those of the terminal, up to 100."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return USUAL
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((USUAL + 1, 24)).columns - 1))


def coloured() -> bool:
    """Whether standard output shows colours; NO_COLOR and FORCE_COLOR decide if they are set."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def echo_lines(lines: Iterable[Line]) -> None:
    """Write lines to standard output, answers in the colour of their outcome."""
    shown = coloured()
    for text, outcome in lines:
        style = {"fg": COLOURS[outcome], "bold": True} if outcome else {}
        click.echo(click.style(text, **style) if style else text, color=shown)  # type: ignore[arg-type]
