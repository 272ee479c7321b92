"""Plain data, as JSON holds them, held against a description of what they should be.

A description is one of the kinds below, a set of words, or built of others:

    [each]                 a list; ``[each, ...]`` one that is not empty
    (one, other)           a list of so many
    {"name": each}         what has these names, and maybe others; ``"name?"`` may be absent
    {...: each}            what has any names
    Maybe(each)            that, or null
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

NUMBER, POSITIVE = "a number", "a number above 0"
WHOLE, COUNT = "a whole number", "a whole number above 0"
TEXT, FLAG = "text", "true or false"


@dataclass(frozen=True)
class Maybe:
    """What may be null."""

    each: Any


def wrong(value: Any, shape: Any, place: str = "it") -> str | None:
    """Say what is the first thing wrong with plain data, if anything is.

    Examples
    --------
    >>> shape = {"name": TEXT, "runs": [{"error": Maybe(NUMBER)}]}
    >>> wrong({"name": "x", "runs": [{"error": None}, {"error": "y"}]}, shape)
    'runs[1].error is not a number'
    >>> wrong({"name": "x"}, shape)
    'runs is missing'
    """
    if isinstance(shape, Maybe):
        return None if value is None else wrong(value, shape.each, place)
    if isinstance(shape, str):
        return None if _is(value, shape) else f"{place} is not {shape}"
    if isinstance(shape, frozenset):
        known = isinstance(value, str) and value in shape
        return None if known else f"{place} is none of {', '.join(sorted(shape))}"
    if isinstance(shape, dict):
        return _in_object(value, shape, place)
    return _in_list(value, shape, place)


def _is(value: Any, kind: str) -> bool:
    if kind == TEXT:
        return isinstance(value, str)
    if kind == FLAG or isinstance(value, bool):
        return kind == FLAG and isinstance(value, bool)
    if kind in (WHOLE, COUNT):
        return isinstance(value, int) and (kind == WHOLE or value > 0)
    real = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
    return real and (kind == NUMBER or value > 0)


def _in_list(value: Any, shape: Any, place: str) -> str | None:
    if not isinstance(value, list):
        return f"{place} is not a list"
    each = shape if isinstance(shape, tuple) else (shape[0],) * len(value)
    if len(each) != len(value):
        return f"{place} is not a list of {len(each)}"
    if not value and shape[1:] == [...]:
        return f"{place} is empty"
    found = (wrong(v, s, f"{place}[{k}]") for k, (v, s) in enumerate(zip(value, each, strict=True)))
    return next(filter(None, found), None)


def _in_object(value: Any, shape: dict[Any, Any], place: str) -> str | None:
    if not isinstance(value, dict):
        return f"{place} is not an object"
    inside = "" if place == "it" else f"{place}."
    named = {name: shape[...] for name in value} if ... in shape else shape
    for name, each in named.items():
        key = name if ... in shape else name.removesuffix("?")
        if key in value:
            found = wrong(value[key], each, f"{inside}{key}")
        else:
            found = None if name != key else f"{inside}{key} is missing"
        if found is not None:
            return found
    return None
