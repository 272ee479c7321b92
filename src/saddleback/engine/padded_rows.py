"""Sparse rows padded to multiples of four entries, for learners that read four at a time."""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray, OffsetArray


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
