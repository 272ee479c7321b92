"""JSON that any parser reads: values without NaN or infinities, their text, and its errors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any


def json_ready(value: Any, text: Callable[[str], str] = str) -> Any:
    """Return nested data that JSON can represent: NaN and infinities become null.

    ``text`` is applied to all text.

    Examples
    --------
    >>> json_ready({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {text(str(name)): json_ready(item, text) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item, text) for item in value]
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_text(value: Any, default: Callable[[Any], Any] | None = None) -> str:
    r"""Return nested data as JSON text, indented; what cannot be printed is escaped.

    ``default`` converts values of types that JSON does not have.

    Examples
    --------
    >>> json_text([float("inf")])
    '[\n null\n]'
    >>> print(json_text("high\u202e"))
    "high\u202e"
    """
    content = json.dumps(
        json_ready(value), ensure_ascii=False, indent=1, allow_nan=False, default=default
    )
    lines = content.split("\n")
    return "\n".join(line if line.isprintable() else _escape(line) for line in lines)


def _escape(line: str) -> str:
    """Return JSON without characters that cannot be printed."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def saved_kind(start: bytes) -> str | None:
    """Return the kind of result that a file of JSON holds, by its first bytes; None if none.

    Examples
    --------
    >>> saved_kind(b'{"kind": "saddleback ranking", "schema": 1}'), saved_kind(b'{"reward": 1}')
    ('ranking', None)
    """
    match = re.match(rb'\s*\{\s*"kind":\s*"saddleback ([a-z]+)"', start)
    return None if match is None else match[1].decode()


def invalid_place(error: Exception) -> str:
    """Return an error of msgspec as place and problem.

    Examples
    --------
    >>> invalid_place(ValueError("Expected `int`, got `str` - at `$.verdicts[0].rank`"))
    'verdicts[0].rank: expected `int`, got `str`'
    """
    message, _, place = str(error).partition(" - at `$")
    if not message.startswith("JSON"):
        message = message[0].lower() + message[1:]
    return f"{place.strip('.`')}: {message}" if place else message
