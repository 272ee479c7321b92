"""Building blocks of charts: Vega-Lite specifications, and the figures that they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Record = dict[str, Any]


def chart(description: str, height: int, **parts: Any) -> Record:
    """Return the specification of a chart as wide as its container."""
    return {
        "description": description, "width": "container", "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"}, **parts,
    }  # fmt: skip


def figure(
    kind: str, title: str, caption: str, spec: Record, rows: list[Record], **options: Any
) -> Record:
    """Return the data that template and script need for a figure; the page gives it an id."""
    return {
        "kind": kind, "title": title, "caption": caption, "spec": spec, "rows": rows,
        "columns": (), "column": "", "axis": "", "scales": {}, **options,
    }  # fmt: skip


def axis(field: str, title: str, **options: Any) -> Record:
    """Encode a number."""
    return {"field": field, "type": "quantitative", "title": title, **options}


def category(field: str, styles: Mapping[str, Any], **options: Any) -> Record:
    """Encode a text by the colour, shape or dashes of each of its values; without a legend."""
    scale = {"domain": list(styles), "range": list(styles.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": None, **options}


def tooltip(**fields: str | tuple[str, str]) -> list[Record]:
    """Return the lines of a tooltip: fields with their format, or with title and format.

    Examples
    --------
    >>> tooltip(step="", ess=("ESS", ".1f"))
    [{'field': 'step'}, {'field': 'ess', 'title': 'ESS', 'format': '.1f'}]
    """
    lines = []
    for field, given in fields.items():
        title, form = ("", given) if isinstance(given, str) else given
        parts = {"title": title, "format": form}
        lines.append({"field": field} | {key: text for key, text in parts.items() if text})
    return lines


def dashed(
    value: Record, channel: str, colour: str, dash: Sequence[int] = (4, 3), **others: Any
) -> Record:
    """Draw a dashed line of reference at a datum or field of the x or y axis."""
    mark = {"type": "rule", "color": colour, "strokeDash": list(dash), "aria": False}
    return {"mark": mark, "encoding": {channel: {**value, "type": "quantitative"}, **others}}
