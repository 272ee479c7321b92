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
        "rows": rows, "file": f"{kind}-{k}.csv", "columns": (), "column": "", "axis": "",
        "ways": {}, **more,
    }  # fmt: skip


def axis(field: str, title: str, **more: Any) -> Plain:
    """Encode a number."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def decades(rows: list[Plain], field: str) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten; where these are few, also twice and five times.

    Examples
    --------
    >>> decades([{"x": 0.02}, {"x": 150.0}], "x")
    [0.1, 1.0, 10.0, 100.0]
    >>> decades([{"x": 53.0}, {"x": 240.0}], "x")
    [100.0, 200.0]
    """
    found = [each[field] for each in rows]
    low, high = min(found), max(found)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [times * 10.0**k for k in powers for times in (1, 2, 5)]
    within = [each for each in ticks if low * (1 - 1e-9) <= each <= high * (1 + 1e-9)]
    tens = [each for each in within if math.isclose(math.log10(each) % 1, 0, abs_tol=1e-9)]
    return tens if len(tens) > 2 else within
