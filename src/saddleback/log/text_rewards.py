"""Rewards that are logged as text, such as an outcome, and the number of each value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.errors import Fix, InvalidParameter
from saddleback.log.column_types import decode_dictionary, is_text
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.likely_columns import listed_columns
from saddleback.log.row_source import RowSource

MAX_VALUES = 20
"""Largest number of different values of rewards as text."""

NUMBER = "NUMBER"
"""What a fix shows in place of a number."""


def checked_reward_values(values: Any) -> dict[str, float]:
    """Return the values of rewards by their text; raise unless they are finite numbers."""
    if not isinstance(values, Mapping) or not values:
        raise InvalidParameter(
            f"reward_values must map texts to numbers, such as {{'died': -1}}, got {values!r}."
        )
    numbers = {}
    for text, number in values.items():
        plain = number.item() if isinstance(number, np.generic) else number
        _validate.number("reward_values", repr(text), plain)
        if str(text) in numbers:
            raise InvalidParameter(f"reward_values contains {str(text)!r} twice.")
        numbers[str(text)] = plain
    return numbers


def decode_rewards(column: Any, values: Mapping[str, float] | None) -> FloatArray | None:
    """Return rewards that are text as numbers, NaN where there is none; None for other columns."""
    if values is None or not is_text(column.type):
        return None
    texts = pa.array(list(values), pa.large_string())
    index = pc.index_in(decode_dictionary(column), value_set=texts, skip_nulls=True)
    index = index.fill_null(len(values)).to_numpy(zero_copy_only=False)
    numbers = np.append(np.array(list(values.values()), dtype=np.float64), np.nan)
    return np.asarray(numbers[index])


def check_all_have_a_number(
    sources: Sequence[RowSource], name: str, values: Mapping[str, float]
) -> None:
    """Raise if a text in the column of rewards has no number."""
    if not is_text(sources[0].schema.field(name).type):
        message = f"column {name!r} contains numbers"
        raise InvalidParameter(f"reward_values is for rewards that are text, but {message}.")
    texts = different_texts(sources, name, values)
    missing = [text for text in texts if text not in values]
    if missing:
        message = f"column {name!r} contains {', '.join(map(repr, missing[:5]))}, without a number."
        raise LogError(Finding("E143", message, _fix(texts, values)))


def with_values_of_rewards(
    findings: Sequence[Finding], sources: Sequence[RowSource], name: str
) -> list[Finding]:
    """Return errors about columns; that of rewards as text with the values in this log."""
    start = f"column {name!r} contains text; rewards"
    about = [one for one in findings if one.code == "E143" and one.message.startswith(start)]
    if not about:
        return list(findings)
    texts = different_texts(sources, name)
    fix = _fix(texts, {})
    if fix is not None:
        changed = replace(about[0], fix=fix)
    else:
        content = f"contains text, such as {texts[0]!r}" if texts else "is text, and has no value"
        changed = Finding("E143", f"column {name!r} {content}; rewards must be numbers.")
    return [changed if one in about else one for one in findings]


def _fix(texts: Sequence[str], values: Mapping[str, float]) -> Fix | None:
    if len(texts) > MAX_VALUES or not texts:
        return None
    numbers = {text: values.get(text, NUMBER) for text in listed_columns(texts)}
    return Fix("Give each value one", "reward_values", numbers)


def different_texts(
    sources: Sequence[RowSource], name: str, values: Collection[str] = ()
) -> list[str]:
    """Return the different texts of a column, in order; not all if many have no number."""
    texts: set[str] = set()
    for source in sources:
        for batch in source.batches([name]):
            texts |= set(pc.unique(decode_dictionary(batch.column(0)).drop_null()).to_pylist())
            if len(texts.difference(values)) > MAX_VALUES:
                return sorted(texts)
    return sorted(texts)
