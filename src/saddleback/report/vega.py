"""Building blocks of charts: Vega-Lite specifications, and the figures that they belong to."""

from __future__ import annotations

import math
import re
from typing import Any

from saddleback.ope.number_format import MINUS

Record = dict[str, Any]

WIDEST_PLAIN = (1e-3, 1e3)
"""A logarithmic axis within these bounds has plain numbers, a longer one powers of ten."""


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


def log_ticks(rows: list[Record], field: str) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten; where these are few, also twice and five times.

    Examples
    --------
    >>> log_ticks([{"x": 0.02}, {"x": 150.0}], "x")
    [0.1, 1.0, 10.0, 100.0]
    >>> log_ticks([{"x": 53.0}, {"x": 240.0}], "x")
    [100.0, 200.0]
    """
    values = [row[field] for row in rows]
    low, high = min(values), max(values)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [factor * 10.0**k for k in powers for factor in (1, 2, 5)]
    within = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    tens = [tick for tick in within if math.isclose(math.log10(tick) % 1, 0, abs_tol=1e-9)]
    return tens if len(tens) > 2 else within


def log_axis(rows: list[Record], field: str) -> Record:
    """Return ticks of a logarithmic axis with labels in one notation.

    Examples
    --------
    >>> log_axis([{"x": 1e-6}, {"x": 1.0}], "x")["labelExpr"]
    'powerOfTen(datum.value)'
    """
    ticks = log_ticks(rows, field)
    low, high = WIDEST_PLAIN
    plain = all(low <= tick <= high for tick in ticks)
    return {"values": ticks} | (
        {"format": "~g"} if plain else {"labelExpr": "powerOfTen(datum.value)"}
    )


def with_minus(text: str) -> str:
    """Return text whose negative numbers have a minus sign instead of a hyphen.

    Examples
    --------
    >>> with_minus("-1.5 < x-1 ≤ -0.2")
    '−1.5 < x-1 ≤ −0.2'
    """
    return re.sub(r"(?<![\w.])-(?=\d)", MINUS, text)
