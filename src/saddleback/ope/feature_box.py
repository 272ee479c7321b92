"""Rows whose observations are outside the box of the features, which clip them to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log import Finding, Segment
from saddleback.log.diagnostics import ProblemCounter

ROUNDING = 1e-9
"""Part of the width of a box that is attributed to rounding."""


SHARE = 0.01
"""Share of rows outside the box from which there is a warning."""


class OutsideBox:
    """Counts the rows outside the box of features, if they have one."""

    def __init__(self, features: Any, columns: tuple[str, ...]) -> None:
        self._box: FloatArray | None = None
        ends: Any = (getattr(features, "low", None), getattr(features, "high", None))
        if np.shape(ends[0]) == np.shape(ends[1]) == (len(columns),):
            self._box = np.asarray(ends, dtype=np.float64)
        self._columns, self.rows, self._all_rows = columns, 0, 0
        self._problems = [ProblemCounter() for _ in columns]
        self._by_column: FloatArray = np.zeros(len(columns))

    def add(self, segment: Segment) -> None:
        """Add the next segment."""
        if self._box is None:
            return
        rows, (low, high) = segment.rows, self._box
        distance = np.maximum(low - rows.observations, rows.observations - high)
        wrong = distance > ROUNDING * (high - low)
        self._all_rows += len(rows)
        self.rows += int(wrong.any(axis=1).sum())
        self._by_column += wrong.sum(axis=0)
        for problems, column, mask in zip(self._problems, self._columns, wrong.T, strict=True):
            problems.add("W156", rows, mask, column)

    def finding(self) -> Finding | None:
        """Return a warning that names the column with the most such rows, and the first of them."""
        if self._box is None or self.rows <= SHARE * self._all_rows:
            return None
        k = int(self._by_column.argmax())
        low, high = self._box[:, k]
        message = (
            f"{{0}} is not between {low:.6g} and {high:.6g}, the box of the features, "
            "in {rows}: observations are clipped to the box."
        )
        return self._problems[k].findings({"W156": (message, None)})[0]
