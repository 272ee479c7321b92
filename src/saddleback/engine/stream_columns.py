"""The columns of a stream: T steps with the active features of each, as the kernels read them.

Compiled kernels are cached by the file they are in. After a change of the order of fields here,
delete the caches (``__pycache__``).
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray, OffsetArray

NONE = np.zeros(0)
"""A column that a stream does not have."""


class Columns(NamedTuple):
    """T steps in columns, with the active features of each.

    Attributes
    ----------
    phi_from, phi_index, phi_value
        φ_t has the values ``phi_value[phi_from[t]:phi_from[t+1]]`` at ``phi_index[…]``. Binary
        features have a single value 1 for all entries.
    next_from, next_index, next_b, next_x
        The bootstrap b_t and the correction x_t in the same layout, with common indices.
    reward, discount, decay, weight
        R, γ', c and w, [T].
    second_decay, second_weight
        Those of a second trace, [T]; empty without one.
    """

    phi_from: OffsetArray
    phi_index: IndexArray
    phi_value: FloatArray
    next_from: OffsetArray
    next_index: IndexArray
    next_b: FloatArray
    next_x: FloatArray
    reward: FloatArray
    discount: FloatArray
    decay: FloatArray
    weight: FloatArray
    second_decay: FloatArray = NONE
    second_weight: FloatArray = NONE

    def part(self, begin: int, end: int) -> Columns:
        """Return some of the steps."""
        offsets = {name: getattr(self, name)[begin : end + 1] for name in ("phi_from", "next_from")}
        columns = ("reward", "discount", "decay", "weight", "second_decay", "second_weight")
        return self._replace(
            **offsets, **{name: getattr(self, name)[begin:end] for name in columns}
        )


class SparseVector(NamedTuple):
    """A vector [p] with the list of its entries that may not be 0, which kernels update in place.

    ``touched[:n_touched[0]]`` are those entries, for which ``is_touched``.
    """

    values: FloatArray
    touched: IndexArray
    is_touched: BoolArray
    n_touched: IntArray

    @classmethod
    def zeros(cls, p: int) -> Self:
        """Return the vector 0."""
        index, flags = np.zeros(p, dtype=np.uint32), np.zeros(p, dtype=np.bool_)
        return cls(np.zeros(p), index, flags, np.zeros(1, dtype=np.int64))


class SparseRows(NamedTuple):
    """A sparse table: row i has ``values[:, first[i]:first[i+1]]`` at ``column[…]``."""

    first: OffsetArray
    column: IndexArray
    values: FloatArray


def sparse_rows(*tables: FloatArray) -> SparseRows:
    """Return dense tables [n, p] as one sparse table, over the union of their non-zero entries."""
    active = np.any([table != 0 for table in tables], axis=0)
    row, index = np.nonzero(active)
    first = np.searchsorted(row, np.arange(len(active) + 1)).astype(np.uint64)
    values = np.stack([table[row, index] for table in tables])
    return SparseRows(first, index.astype(np.uint32), values)
