"""A figure of a page: a specification, the rows behind it, and a sentence on what it shows."""

from __future__ import annotations

import math
from typing import Any

Plain = dict[str, Any]


def figure(
    k: int, kind: str, title: str, words: str, spec: Plain, rows: list[Plain], **more: Any
) -> Plain:
    """Return what template and script need of a figure of the k-th policy."""
    return {
        "id": f"{kind}-{k}", "kind": kind, "title": title, "words": words, "spec": spec,
        "rows": rows, "file": f"{kind}-{k}.csv", "columns": (), "column": "", "axis": False, **more,
    }  # fmt: skip


def axis(field: str, title: str, **more: Any) -> Plain:
    """Encode a number."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def decades(rows: list[Plain], field: str) -> list[float]:
    """Powers of ten within the range of a field, for the ticks of a logarithmic axis.

    Examples
    --------
    >>> decades([{"x": 0.02}, {"x": 150.0}], "x")
    [0.1, 1.0, 10.0, 100.0]
    """
    found = [each[field] for each in rows]
    low, high = (math.log10(edge) for edge in (min(found), max(found)))
    between = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    return [10.0**k for k in between]
