"""Building blocks of charts: Vega-Lite specifications, and the figures that they belong to."""

from __future__ import annotations

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
