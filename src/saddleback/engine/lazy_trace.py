"""The trace e = C·g that learners of one rule on one stream share; see `update_kernel`.

A scalar C takes the decay, and g is sparse. Compiled into the kernels that call these functions:
after a change here, delete the caches (``__pycache__``).
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import inlined
from saddleback._typing import FloatArray, IndexArray
from saddleback.engine.stream_columns import SparseVector

NEGLIGIBLE = 1e-18
"""Entries of a sparse vector below this share of the largest are dropped when it is rescaled."""


@inlined
def leaves_window(C: float, c: float, window: float) -> bool:
    """Whether C·c is 0 or outside [1/window, window], so that g must take the decay itself."""
    return c == 0.0 or C * c < 1.0 / window or C * c > window


@inlined
def rescale(C: float, trace: SparseVector, n: int) -> tuple[int, float]:
    """Set g to C·g and drop negligible entries; return how many remain, and ‖g‖²."""
    g, touched, is_touched = trace.values, trace.touched, trace.is_touched
    largest = 0.0
    for q in range(n):
        i = touched[q]
        g[i] *= C
        largest = max(largest, abs(g[i]))
    kept, squares = 0, 0.0
    for q in range(n):
        i = touched[q]
        if abs(g[i]) <= NEGLIGIBLE * largest:
            g[i] = 0.0
            is_touched[i] = False
        else:
            touched[kept] = i
            kept += 1
            squares += g[i] * g[i]
    return kept, squares


@inlined
def dot(
    g: FloatArray, index: IndexArray, values: FloatArray, stride: np.uint64, begin: int, end: int
) -> float:
    """Return the product of g and a sparse row."""
    total = 0.0
    for j in range(begin, end):
        total += g[index[j]] * values[j * stride]
    return total


@inlined
def add_entry(trace: SparseVector, n: int, i: np.uint32, value: float) -> int:
    """Add a value to an entry of g; return the number of entries that may not be 0."""
    if not trace.is_touched[i]:
        trace.is_touched[i] = True
        trace.touched[n] = i
        n += 1
    trace.values[i] += value
    return n


@inlined
def clear(trace: SparseVector, n: int) -> None:
    """Set g to 0."""
    for q in range(n):
        trace.values[trace.touched[q]] = 0.0
        trace.is_touched[trace.touched[q]] = False
