"""A small schema for JSON data, and the first violation of it.

A schema is one of the kinds below, a frozenset of allowed strings, or built of other schemas:

    [item]                 a list; ``[item, ...]`` is a list that is not empty
    (first, second)        a list of exactly this length
    {"name": item}         an object with these keys, and possibly others; ``"name?"`` is optional
    {...: item}            an object with arbitrary keys
    Maybe(item)            that, or null
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

NUMBER, POSITIVE = "a number", "a number above 0"
INTEGER, COUNT = "a whole number", "a whole number above 0"
TEXT, FLAG = "text", "true or false"


@dataclass(frozen=True)
class Maybe:
    """A value that may be null."""

    item: Any


def first_violation(value: Any, schema: Any, path: str = "it") -> str | None:
    """Describe the first violation of a schema; None if the data conform to it.

    Examples
    --------
    >>> schema = {"name": TEXT, "runs": [{"error": Maybe(NUMBER)}]}
    >>> first_violation({"name": "x", "runs": [{"error": None}, {"error": "y"}]}, schema)
    'runs[1].error is not a number'
    >>> first_violation({"name": "x"}, schema)
    'runs is missing'
    """
    if isinstance(schema, Maybe):
        return None if value is None else first_violation(value, schema.item, path)
    if isinstance(schema, str):
        return None if _is_kind(value, schema) else f"{path} is not {schema}"
    if isinstance(schema, frozenset):
        allowed = isinstance(value, str) and value in schema
        return None if allowed else f"{path} is not one of {', '.join(sorted(schema))}"
    if isinstance(schema, dict):
        return _violation_in_object(value, schema, path)
    return _violation_in_list(value, schema, path)


def _is_kind(value: Any, kind: str) -> bool:
    if kind == TEXT:
        return isinstance(value, str)
    if kind == FLAG or isinstance(value, bool):
        return kind == FLAG and isinstance(value, bool)
    if kind in (INTEGER, COUNT):
        return isinstance(value, int) and (kind == INTEGER or value > 0)
    real = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
    return real and (kind == NUMBER or value > 0)


def _violation_in_list(value: Any, schema: Any, path: str) -> str | None:
    if not isinstance(value, list):
        return f"{path} is not a list"
    schemas = schema if isinstance(schema, tuple) else (schema[0],) * len(value)
    if len(schemas) != len(value):
        return f"{path} is not a list of length {len(schemas)}"
    if not value and schema[1:] == [...]:
        return f"{path} is empty"
    violations = (
        first_violation(item, inner, f"{path}[{k}]")
        for k, (item, inner) in enumerate(zip(value, schemas, strict=True))
    )
    return next(filter(None, violations), None)


def _violation_in_object(value: Any, schema: dict[Any, Any], path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path} is not an object"
    prefix = "" if path == "it" else f"{path}."
    schemas = {name: schema[...] for name in value} if ... in schema else schema
    for name, inner in schemas.items():
        key = name if ... in schema else name.removesuffix("?")
        if key in value:
            violation = first_violation(value[key], inner, f"{prefix}{key}")
        else:
            violation = None if name != key else f"{prefix}{key} is missing"
        if violation is not None:
            return violation
    return None
