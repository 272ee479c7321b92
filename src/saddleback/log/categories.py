"""Categorical observations: text or codes, encoded as one column per category.

Column ``ward`` with the values icu and er becomes the entries ``ward=er`` and ``ward=icu``, each 1
where the row has that value and 0 elsewhere. Rows without a value are a category of their own.

Columns that look like codes of categories, such as ward 3 or unit 12, are not changed on suspicion:
a finding suggests to declare them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback._typing import FloatArray
from saddleback.errors import Fix
from saddleback.log.column_types import decode_dictionary
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.likely_columns import without_column
from saddleback.log.row_source import RowSource

MAX_CATEGORIES = 100
"""Largest number of different values of a column."""

MAX_TEXTS, LEAST_NUMBERS = 3, 10
"""Different texts and numbers with which a column is taken as one of numbers."""

MISSING = "missing"
"""Category of rows without a value."""

Categories = Mapping[str, tuple[str, ...]]
"""Values of each categorical column."""

KINDS = frozenset(
    {
        "campaign", "category", "channel", "class", "clinic", "code", "country", "department",
        "device", "diagnosis", "ethnicity", "gender", "hospital", "id", "kind", "language", "race",
        "region", "sex", "site", "state", "type", "unit", "ward", "zone",
    }
)  # fmt: skip
"""Words in the names of columns whose numbers say which, not how much."""

QUANTITIES = frozenset(
    {"age", "count", "grade", "level", "number", "rank", "score", "size", "stage", "value"}
)
"""Words in the names of columns whose numbers have an order."""

FEWEST = 3
"""Smallest number of different values for which an encoding differs from the number."""


def sorted_names(values: Iterable[str]) -> tuple[str, ...]:
    """Sort names: as numbers if all of them are numbers, otherwise as text.

    Examples
    --------
    >>> sorted_names(["10", "2", "1"]), sorted_names(["b", "10", "2"])
    (('1', '2', '10'), ('10', '2', 'b'))
    """
    names = sorted(values)
    return tuple(sorted(names, key=float) if are_numbers(names) else names)


def are_numbers(names: Iterable[str]) -> bool:
    """Whether all names are finite numbers."""
    try:
        return all(np.isfinite(float(name)) for name in names)
    except ValueError:
        return False


def text_among_numbers(values: Iterable[str]) -> str | None:
    """Return a text that makes a column of measurements one of text, such as "?"; usually None.

    Examples
    --------
    >>> text_among_numbers(["?", *(f"{k / 8}" for k in range(20))])
    '?'
    >>> text_among_numbers(["er", "icu", "4.5"])
    """
    values = list(values)
    texts = [value for value in values if not are_numbers([value])]
    numbers = [float(value) for value in values if value not in texts]
    real = any(number % 1 for number in numbers)
    if not real or not 0 < len(texts) <= MAX_TEXTS or len(numbers) < LEAST_NUMBERS:
        return None
    return min(texts)


def find_categories(
    sources: Sequence[RowSource],
    columns: Sequence[str],
    declared: Mapping[str, Sequence[str]],
    observations: Sequence[str] = (),
) -> Categories:
    """Return the values of categorical columns: as declared, or all that occur, in order.

    ``observations`` are all columns of the observation, for the fix of an error.
    """
    values: dict[str, set[Any]] = {name: set() for name in columns if name not in declared}
    for source in sources if values else ():
        for batch in source.batches(list(values)):
            for name, seen in values.items():
                seen |= set(pc.unique(as_text(batch.column(name))).to_pylist())
                if len(seen) > MAX_CATEGORIES:
                    message = (
                        f"observation column {name!r} has more than {MAX_CATEGORIES} different "
                        f"values, such as {min(map(str, seen - {None}))!r}, too many for "
                        "categories: encode it as numbers."
                    )
                    raise LogError(Finding("E142", message, without_column(name, observations)))
    categories = {name: tuple(map(str, names)) for name, names in declared.items()}
    for name, seen in values.items():
        if text := text_among_numbers(seen - {None}):
            message = (
                f"observation column {name!r} contains {text!r} among numbers: leave the value out "
                "if it is missing."
            )
            raise LogError(Finding("E142", message, without_column(name, observations)))
        missing = (MISSING,) if None in seen and MISSING not in seen else ()
        categories[name] = sorted_names(seen - {None}) + missing
    return categories


def as_text(column: Any) -> Any:
    """Return a column of text, numbers or flags as text."""
    return decode_dictionary(column).cast(pa.large_string())


def one_hot(column: Any, names: Sequence[str], *, keep_missing: bool) -> FloatArray:
    """Return one entry per category, [n, len(names)]; NaN where the value is none of them.

    With ``keep_missing``, a missing value is not a category, but unknown.
    """
    text = as_text(column)
    if not keep_missing and MISSING in names:
        text = text.fill_null(MISSING)
    index = pc.index_in(text, value_set=pa.array(names, pa.large_string()), skip_nulls=True)
    index = index.fill_null(len(names)).to_numpy(zero_copy_only=False)
    rows = np.vstack([np.eye(len(names)), np.full((1, len(names)), np.nan)])
    return np.asarray(rows[index])


def entry_names(columns: Sequence[str], categories: Categories) -> tuple[str, ...]:
    """Return the names of the entries of an observation.

    Examples
    --------
    >>> entry_names(["age", "ward"], {"ward": ("er", "icu")})
    ('age', 'ward=er', 'ward=icu')
    """
    return tuple(
        entry
        for name in columns
        for entry in (
            [f"{name}={value}" for value in categories[name]] if name in categories else [name]
        )
    )


class CategoryCodes:
    """Finds columns of few whole numbers whose names are those of categories.

    Examples
    --------
    >>> codes = CategoryCodes(["hr", "ward", "unit_count"])
    >>> codes.add(np.array([[81.5, 2.0, 1.0], [77.0, 7.0, 2.0], [80.0, 10.0, 3.0]]))
    >>> codes.columns
    ['ward']
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._values: dict[int, set[float]] = {
            j: set() for j, name in enumerate(names) if _names_a_category(name)
        }

    def add(self, observations: FloatArray) -> None:
        """Add the next rows."""
        for j, seen in list(self._values.items()):
            column = observations[:, j]
            new = np.unique(column[np.isfinite(column)])
            seen.update(new.tolist())
            if (new != np.floor(new)).any() or len(seen) > MAX_CATEGORIES:
                del self._values[j]

    @property
    def columns(self) -> list[str]:
        """The columns that look like codes."""
        return [self._names[j] for j, seen in self._values.items() if len(seen) >= FEWEST]

    def findings(self, declared: Sequence[str]) -> list[Finding]:
        """Return a warning with the option that encodes them besides those ``declared``."""
        columns = self.columns
        if not columns:
            return []
        one = len(columns) == 1
        message = (
            f"observation column{'' if one else 's'} {', '.join(map(repr, columns))} "
            f"look{'s' if one else ''} like codes, but the numbers are used as quantities."
        )
        fix = Fix("Encode categories as one entry per value", "categorical", [*declared, *columns])
        return [Finding("W158", message, fix)]


def _names_a_category(name: str) -> bool:
    """Whether the name of an entry of the observation is that of a category, not yet encoded."""
    words = set(re.split(r"[^a-z]+", name.lower()))
    return "=" not in name and bool(words & KINDS) and not words & QUANTITIES
