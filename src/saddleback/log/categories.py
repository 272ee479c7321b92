"""Categorical observations: text or codes, encoded as one column per category.

Column ``ward`` with the values icu and er becomes the entries ``ward=er`` and ``ward=icu``, each 1
where the row has that value and 0 elsewhere. Rows without a value are a category of their own.

Columns that look like codes of categories, such as ward 3 or unit 12, are not changed on suspicion:
a finding suggests to declare them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback._typing import BoolArray, FloatArray
from saddleback.errors import Fix
from saddleback.log.column_types import decode_dictionary
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.likely_columns import without_column
from saddleback.log.row_locations import find_rows

if TYPE_CHECKING:
    from saddleback.log.log import Log

MAX_CATEGORIES = 100
"""Largest number of different values of a column."""

MAX_TEXTS, LEAST_NUMBERS = 3, 10
"""Different texts and numbers with which a column is taken as one of numbers."""

FEW_ROWS, LEAST_DIFFERENT = 0.05, 2
"""Rows with texts for each with a number, and different numbers, with which it is, too."""

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


class ColumnValues:
    """Different values of a column, read as text, and how many of its rows hold numbers.

    Examples
    --------
    >>> ages = ColumnValues()
    >>> ages.add(pa.array([*map(str, range(30, 40)), "?", None]))
    >>> ages.texts, ages.holds_numbers
    ({'?': 1}, True)
    >>> wards = ColumnValues()
    >>> wards.add(pa.array(["1", "2", "3a", "3b"] * 10))
    >>> wards.holds_numbers
    False
    """

    def __init__(self) -> None:
        # Number of rows with each value that is no number; numbers, not all if there are too many.
        self.texts: dict[str, int] = {}
        self.numbers: set[str] = set()
        self.has_missing = False
        self._in_numbers = 0  # rows with numbers

    def add(self, column: Any) -> None:
        """Add the next rows."""
        self.has_missing |= column.null_count > 0
        counted = pc.value_counts(as_text(column).drop_null())
        pairs = (counted.field(name).to_pylist() for name in ("values", "counts"))
        for value, count in zip(*pairs, strict=True):
            if not are_numbers([value]):
                self.texts[value] = self.texts.get(value, 0) + count
                continue
            self._in_numbers += count
            if len(self.numbers) <= MAX_CATEGORIES:
                self.numbers.add(value)

    @property
    def values(self) -> set[str]:
        """The different values; of numbers not all if there are too many."""
        return self.numbers | set(self.texts)

    @property
    def too_many(self) -> bool:
        """Whether there are more values than a column of categories may have."""
        return len(self.numbers) + len(self.texts) > MAX_CATEGORIES

    @property
    def holds_numbers(self) -> bool:
        """Whether nearly all values are numbers, or nearly all rows have one, but not all."""
        in_texts = sum(self.texts.values())
        few_texts = len(self.texts) <= MAX_TEXTS and len(self.numbers) >= LEAST_NUMBERS
        few_rows = in_texts <= max(1, FEW_ROWS * self._in_numbers)
        different = len(self.numbers) >= LEAST_DIFFERENT and self._in_numbers >= LEAST_NUMBERS
        return bool(self.texts) and (few_texts or (few_rows and different))


def find_categories(log: Log) -> Categories:
    """Return the values of a log's categorical columns: as declared, or all that occur, in order.

    Columns of numbers with a few texts are refused unless they are declared.
    """
    declared = log.categorical or ()
    listed = declared if isinstance(declared, Mapping) else {}
    columns = {name: ColumnValues() for name in log.roles.categorical if name not in listed}
    for source in log.sources if columns else ():
        for batch in source.batches(list(columns)):
            for name, values in columns.items():
                values.add(batch.column(name))
                if len(values.texts) > MAX_CATEGORIES or (values.too_many and name in declared):
                    raise _too_many(log, name, values)
    categories = {name: tuple(map(str, names)) for name, names in listed.items()}
    for name, values in columns.items():
        if name not in declared and values.holds_numbers:
            raise _text_among_numbers(log, name, values)
        if values.too_many:
            raise _too_many(log, name, values)
        missing = (MISSING,) if values.has_missing and MISSING not in values.values else ()
        categories[name] = sorted_names(values.values) + missing
    return categories


def _too_many(log: Log, name: str, values: ColumnValues) -> LogError:
    message = (
        f"observation column {name!r} has more than {MAX_CATEGORIES} different values, such as "
        f"{min(values.texts or values.numbers)!r}, too many for categories: encode it as numbers."
    )
    return LogError(Finding("E142", message, without_column(name, log.roles.observations)))


def _text_among_numbers(log: Log, name: str, values: ColumnValues) -> LogError:
    texts, names = sorted(values.texts), log.roles.names
    shown = ", ".join(map(repr, texts[:MAX_TEXTS])) + ", …" * (len(texts) > MAX_TEXTS)
    rows = find_rows(log.sources, names["episode_id"], names.get("step"), name, _is_text)
    message = f"observation column {name!r} contains {shown} among numbers in {rows}."
    what = "it" if sum(values.texts.values()) == 1 else "them"
    advice = f"Leave {what} empty, or list the column as categorical if these are codes"
    fix = Fix(advice, "categorical", [*(log.categorical or ()), name])
    return LogError(Finding("E142", message, fix))


def _is_text(column: Any) -> BoolArray:
    """Return which values of a column of text are no numbers."""
    values = as_text(column).to_pylist()
    return np.array(
        [value is not None and not are_numbers([value]) for value in values], dtype=bool
    )


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
