"""Sparse rows padded to multiples of four entries, for learners that read four at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray, OffsetArray
from saddleback.engine.stream_columns import Columns
from saddleback.rules import Form

ONE = np.ones(1)
"""The scale of rows that have none."""


class PaddedRows:
    """Rows and values of the streams of several rules; what rules share is computed once.

    ``longest`` is the largest number of rows of a step: of φ, and of b and x.
    """

    def __init__(self, p: int, dtype: Any) -> None:
        self._p, self._dtype, self.longest = p, dtype, [0, 0]
        self._computed: dict[Any, Any] = {}

    def of(self, s: Columns, form: Form) -> tuple[Any, ...]:
        """Return rows and values of φ; rows of b and x, γ'b and the factors of u; and starts.

        Learners with dutch traces need b instead of γ'b.
        """
        phi = self._starts(0, s.phi_from, s.phi_index)
        successors = self._starts(1, s.next_from, s.next_index)
        c, discount = form.coefficients, ONE if form.true_online else s.discount
        x, of_u = s.next_x if c.correction else s.next_b, (discount, 1.0, 0.0)
        if c.saddle or c.correction:
            of_u = s.discount, float(c.saddle), float(c.correction)
        columns = (
            self._column(pad_indices, *phi, s.phi_index, s.phi_value, s.phi_value, self._p),
            self._column(pad_values, *phi, s.phi_value, s.phi_value, ONE, 1.0, 0.0),
            self._column(pad_indices, *successors, s.next_index, s.next_b, x, self._p),
            self._column(pad_values, *successors, s.next_b, s.next_b, discount, 1.0, 0.0),
            self._column(pad_values, *successors, s.next_b, x, *of_u),
        )
        return columns, phi[1], successors[1]

    def _starts(self, kind: int, first: Any, index: Any) -> Any:
        key = kind, id(index)  # φ and the successors may share their indices, not where they begin
        if key not in self._computed:
            starts = padded_starts(first)
            self._computed[key] = first, starts
            self.longest[kind] = max(self.longest[kind], int(np.diff(starts).max()))
        return self._computed[key]

    def _column(self, fill: Any, first: Any, starts: Any, *given: Any) -> Any:
        key = fill, id(starts), *(x if isinstance(x, float) else id(x) for x in given)
        if key not in self._computed:
            self._computed[key] = np.empty(
                starts[-1], np.uint32 if fill is pad_indices else self._dtype
            )
            fill(self._computed[key], first, starts, *given)
        return self._computed[key]


def padded_starts(first: OffsetArray) -> IndexArray:
    """Return where rows begin after padding.

    Examples
    --------
    >>> padded_starts(np.array([5, 9, 10, 10], dtype=np.uint64))
    array([0, 4, 8, 8], dtype=uint32)
    """
    sizes = -(-np.diff(first).astype(np.int64) // 4) * 4
    return np.append(0, np.cumsum(sizes)).astype(np.uint32)


@compiled
def pad_indices(
    out: IndexArray,
    first: OffsetArray,
    starts: IndexArray,
    index: IndexArray,
    value: FloatArray,
    other: FloatArray,
    padding: int,
) -> None:
    """Fill in the indices of rows; entries of which both values are 0 count as padding, too."""
    stride = 0 if len(value) == 1 else 1
    for t in range(len(starts) - 1):
        for k in range(starts[t], starts[t + 1]):
            j = int(first[t]) + k - int(starts[t])
            used = j < first[t + 1] and (value[j * stride] != 0.0 or other[j * stride] != 0.0)
            out[k] = index[j] if used else padding


@compiled
def pad_values(
    out: FloatArray,
    first: OffsetArray,
    starts: IndexArray,
    value: FloatArray,
    other: FloatArray,
    scale: FloatArray,
    by_value: float,
    by_other: float,
) -> None:
    """Fill in scale·(by_value·value + by_other·other), with a scale for each row or for all."""
    stride, per_row = 0 if len(value) == 1 else 1, 0 if len(scale) == 1 else 1
    for t in range(len(starts) - 1):
        a, b = scale[t * per_row] * by_value, scale[t * per_row] * by_other
        for k in range(starts[t], starts[t + 1]):
            j = int(first[t]) + k - int(starts[t])
            out[k] = 0.0
            if j < first[t + 1]:
                out[k] = a * value[j * stride]
                if b != 0.0:
                    out[k] += b * other[j * stride]
