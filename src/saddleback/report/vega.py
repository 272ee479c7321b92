"""Building blocks of charts: Vega-Lite specifications, and the figures that they belong to."""

from __future__ import annotations

import re
from typing import Any

from saddleback.ope.number_format import MINUS

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


def with_minus(text: str) -> str:
    """Return text whose negative numbers have a minus sign instead of a hyphen.

    Examples
    --------
    >>> with_minus("-1.5 < x-1 ≤ -0.2")
    '−1.5 < x-1 ≤ −0.2'
    """
    return re.sub(r"(?<![\w.])-(?=\d)", MINUS, text)
