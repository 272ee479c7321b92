"""Formatting of numbers: digits supported by the interval, and a real minus sign."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

MINUS = "−"


def decimals(record: dict[str, Any]) -> int | None:
    """Return the decimals to show of an estimate: two significant digits of half its interval.

    None where there is no interval.

    Examples
    --------
    >>> decimals({"low": -0.041, "high": 0.027}), decimals({"low": None, "high": None})
    (3, None)
    """
    low, high = record["low"], record["high"]
    half = 0.0 if low is None or high is None else (high - low) / 2
    return max(0, 1 - math.floor(math.log10(half))) if 0 < half < math.inf else None


def number(value: float | None, places: int | None, sign: bool = False) -> str:
    """Format a number with the given decimals, or with four digits if None.

    Examples
    --------
    >>> number(-0.0071, 3), number(0.027, 3, sign=True), number(-1e-9, 2), number(None, 2)
    ('−0.007', '+0.027', '0.00', 'none')
    """
    if value is None:
        return "none"
    plus = "+" if sign else ""
    if places is None or places > 12:
        text = f"{value:{plus}z.4g}"  # z: no −0
    elif abs(value) >= 1e6:
        text = f"{value:{plus}z,.{places}f}"
    else:
        text = f"{value:{plus}z.{places}f}"
    return text.replace("-", MINUS)


def span(low: float | None, high: float | None, places: int | None, sign: bool = False) -> str:
    """Format an interval as text.

    Examples
    --------
    >>> span(-0.0412, 0.0271, 3, sign=True)
    '−0.041 to +0.027'
    """
    return f"{number(low, places, sign)} to {number(high, places, sign)}"


def bracket(record: dict[str, Any], places: int | None) -> str:
    """Format the interval of an estimate in brackets; empty if it has none.

    Examples
    --------
    >>> bracket({"low": -0.5, "high": 1.0}, 1), bracket({"low": None, "high": None}, 1)
    ('[−0.5, 1.0]', '')
    """
    if record["low"] is None and record["high"] is None:
        return ""
    return f"[{number(record['low'], places)}, {number(record['high'], places)}]"


def distinct(records: Sequence[dict[str, Any]], more: int = 3) -> list[int | None]:
    """Return decimals for the estimates of a table, so that different values look different.

    At most ``more`` decimals are added to those supported by the intervals, and none where that
    many would not tell values apart.

    Examples
    --------
    >>> table = [{"value": 0.0046296, "low": 0.0006, "high": 0.0086},
    ...          {"value": 0.0045512, "low": 0.0005, "high": 0.0085}]
    >>> [number(row["value"], places) for row, places in zip(table, distinct(table))]
    ['0.00463', '0.00455']
    """
    places = [decimals(record) for record in records]
    values = [record["value"] for record in records]

    def shown(added: int) -> list[str]:
        return [
            number(value, None if digits is None else digits + added)
            for value, digits in zip(values, places, strict=True)
        ]

    apart = shown(more)
    chosen = [*places]
    for added in range(more):
        texts = shown(added)
        for k, digits in enumerate(places):
            clashes = any(
                texts[k] == text and apart[k] != last and values[k] != value
                for text, last, value in zip(texts, apart, values, strict=True)
            )
            if digits is not None and clashes:
                chosen[k] = digits + added + 1
    return chosen


def short(value: float | None) -> str:
    """Format a number with two significant digits.

    Examples
    --------
    >>> short(0.00432), short(1e-15), short(None)
    ('0.0043', '0', 'none')
    """
    if value is None:
        return "none"
    return "0" if abs(value) < 1e-12 else f"{value:.2g}".replace("-", MINUS)


def with_minus(text: str) -> str:
    """Return text whose negative numbers have a minus sign instead of a hyphen.

    Examples
    --------
    >>> with_minus("-1.5 < x-1 ≤ -0.2")
    '−1.5 < x-1 ≤ −0.2'
    """
    return re.sub(r"(?<![\w.])-(?=\d)", MINUS, text)
