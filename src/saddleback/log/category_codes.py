"""Observation columns that look like codes of categories, such as ward 3 or unit 12.

Nothing is changed on suspicion: a finding suggests to declare them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from saddleback._typing import FloatArray
from saddleback.errors import Fix
from saddleback.log.categories import MAX_CATEGORIES
from saddleback.log.diagnostics import Finding

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
