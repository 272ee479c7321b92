"""Arrow types of the columns of a log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

FLAGS = ("terminated", "truncated")
"""Columns that tell how an episode ended."""

EXPECTED = {
    "reward": "rewards must be numbers",
    "behavior_prob": "probabilities must be numbers",
    "behavior_logp": "log-probabilities must be numbers",
    "step": "steps must be integers 0 … T−1",
    "terminated": "flags must be true or false",
    "truncated": "flags must be true or false",
    "action": "actions must be integers 0 … K−1 or names, and those of continuous actions are "
    "named action_0, action_1 and so on",
    "episode_id": "episode ids must be integers or text",
}
"""What a standard column contains, for messages."""


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is a number or a flag."""
    types = pa.types
    real = types.is_floating(kind) or types.is_decimal(kind)
    return bool(real or types.is_integer(kind) or types.is_boolean(kind))


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is a list, whatever it contains."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_flag(kind: Any) -> bool:
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind))


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text, or categories of text."""
    types = pa.types
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def decode_dictionary(column: Any) -> Any:
    """Return a column without dictionary encoding, and text as ``large_string``."""
    if pa.types.is_dictionary(column.type):
        values = decode_dictionary(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
    return column.cast(pa.large_string()) if is_text(column.type) else column


def is_action(kind: Any) -> bool:
    """Whether an Arrow type is one of discrete actions: integers, text or flags."""
    return bool(_is_id(kind) or pa.types.is_boolean(kind))


def _is_id(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_id(kind.value_type)
    return bool(pa.types.is_integer(kind) or is_text(kind))


def content(kind: Any) -> str:
    """Return the content of a column with an Arrow type, as text."""
    if pa.types.is_null(kind):
        return "no values"
    return "text" if is_text(kind) else str(kind)


FITS = {
    "reward": is_number, "behavior_prob": is_number, "behavior_logp": is_number,
    "step": pa.types.is_integer, "terminated": _is_flag, "truncated": _is_flag,
    "action": is_action, "episode_id": _is_id,
}  # fmt: skip
"""Whether an Arrow type is one of a standard column."""
