"""Display of results: short text, HTML for notebooks, and pandas or polars data frames."""

from __future__ import annotations

import html
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from unicodedata import category

from saddleback.errors import InvalidParameter

if TYPE_CHECKING:
    import pandas
    import polars

LINES = 20
"""Largest number of lines in a ``repr``."""

Pairs: TypeAlias = Iterable[tuple[str, Any]]

ROWS = 40
"""Largest number of rows shown in a notebook."""


class Tabular(ABC):
    """A result that converts to a pandas or polars data frame."""

    @abstractmethod
    def _columns(self) -> Mapping[str, Any]:
        """Return the columns of the table, all of the same length."""

    def to_pandas(self) -> pandas.DataFrame:
        """Return a tidy pandas data frame; the class documents its columns."""
        return frame("pandas", self._columns())

    def to_polars(self) -> polars.DataFrame:
        """Return a tidy polars data frame with the columns of `to_pandas`."""
        table: polars.DataFrame = frame("polars", self._columns())
        return table


def join_names(names: Iterable[str]) -> str:
    """Return names in a sentence; those that do not end where a comma does are in quotes.

    Examples
    --------
    >>> print(join_names(["home", "unknown, moved", "ER "]))
    home, 'unknown, moved', 'ER '
    """
    return ", ".join(
        repr(name) if not name or set(name) & set(",'\"") or name != name.strip() else name
        for name in names
    )


def frame(kind: str, columns: Mapping[str, Any]) -> Any:
    """Return columns as a ``DataFrame`` of the package ``kind``, "pandas" or "polars".

    Examples
    --------
    >>> frame("pandas", {"alpha": [0.1, 0.2]}).shape
    (2, 1)
    """
    try:
        package = importlib.import_module(kind)
    except ImportError:
        raise InvalidParameter(
            f"a {kind} data frame needs {kind}, which is not installed: pip install {kind}"
        ) from None
    return package.DataFrame(dict(columns))


def visible(text: str, keep: str = "\n") -> str:
    r"""Return text with control characters, such as those that reverse or hide text, as escapes.

    Examples
    --------
    >>> print(visible("low\x1b[2K\u202ehgih"))
    low\x1b[2K\u202ehgih
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in keep or category(letter) == "Zs"
        else letter.encode("unicode_escape").decode()
        for letter in text
    )  # fmt: skip


def shorten(text: str, more: str, lines: int = LINES) -> str:
    r"""Return at most ``lines`` lines of a text; the last one refers to ``more`` for the rest.

    Examples
    --------
    >>> print(shorten("1\n2\n3\n4", "x.text", lines=3))
    1
    2
    … and 2 more lines: print(x.text)
    """
    all_lines = text.split("\n")
    if len(all_lines) <= lines:
        return text
    kept = all_lines[: lines - 1]
    return "\n".join([*kept, f"… and {len(all_lines) - len(kept)} more lines: print({more})"])


def _escape(value: Any) -> str:
    return html.escape(visible(str(value)))


def card_html(title: str, facts: Mapping[str, Any] | Pairs, *parts: str) -> str:
    """Return a title, named facts and parts, as HTML for a notebook.

    ``parts`` are inserted as HTML; everything else is escaped. Colours are inherited from the page,
    so the card is legible on dark and light backgrounds.

    Examples
    --------
    >>> "a &lt; b" in card_html("a < b", {"p": 2})
    True
    """
    rows = "".join(
        f'<tr><th style="{CELL};font-weight:600">{_escape(name)}</th>'
        f'<td style="{CELL}">{_escape(value)}</td></tr>'
        for name, value in (facts.items() if isinstance(facts, Mapping) else facts)
    )
    table = f'<table style="{TABLE}">{rows}</table>' if rows else ""
    return f"<div><strong>{_escape(title)}</strong>{table}{''.join(parts)}</div>"


def html_table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return an escaped HTML table of at most `ROWS` rows.

    Examples
    --------
    >>> html_table(["x"], [["<b>"]]).count("&lt;b&gt;")
    1
    """
    listed = [[str(value) for value in row] for row in rows]
    head = "".join(f'<th scope="col" style="{CELL}">{_escape(name)}</th>' for name in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{_escape(cell)}</td>' for cell in row) + "</tr>"
        for row in listed[:ROWS]
    )
    left = len(listed) - ROWS
    notes = [caption] if caption else []
    notes += [f"and {left} more rows"] if left > 0 else []
    below = f'<caption style="{CAPTION}">{_escape("; ".join(notes))}</caption>' if notes else ""
    return (
        f'<table style="{TABLE}">{below}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


TABLE = "border-collapse:collapse;margin:0.4em 0"
CELL = "text-align:left;vertical-align:top;padding:0.1em 0.9em 0.1em 0"
CAPTION = "caption-side:bottom;text-align:left;color:inherit;opacity:0.8"


def axis_range(ends: Sequence[float], others: Iterable[float] = ()) -> tuple[float, float]:
    """Return limits of an axis that shows all ``ends``, and those of ``others`` that are near.

    Near is within half the range of ``ends``: an unreliable interval may leave the axis, but is
    not cut where a little more room would show all of it.

    Examples
    --------
    >>> axis_range([0.0, 2.0], [2.5, 90.0])
    (-0.2, 2.7)
    """
    low, high = min(ends), max(ends)
    margin = 0.5 * (high - low)
    near = [end for end in others if low - margin <= end <= high + margin]
    low, high = min([low, *near]), max([high, *near])
    pad = 0.08 * (high - low) or 0.1 * abs(low) or 1.0
    return low - pad, high + pad
