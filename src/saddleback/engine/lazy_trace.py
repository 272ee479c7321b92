"""The trace e = C·g that learners of one rule on one stream share; see `update_kernel`.

A scalar C takes the decay, and g is sparse. Compiled into the kernels that call these functions:
after a change here, delete the caches (``__pycache__``).
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import inlined
from saddleback._typing import FloatArray
from saddleback.engine.stream_columns import Columns, SparseVector

NEGLIGIBLE = 1e-18
"""Entries of the trace below this share of the largest are dropped when it is rescaled."""


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
def products(g: FloatArray, stream: Columns, t: int, with_b: bool) -> tuple[float, float, float]:
    """Return gᵀφ, gᵀb (0 unless ``with_b``) and φᵀφ of a step."""
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    stride = np.uint64(0 if len(phi_value) == 1 else 1)  # binary features store one 1
    g_phi, g_b, phi_phi = 0.0, 0.0, 0.0
    for j in range(phi_from[t], phi_from[t + 1]):
        g_phi += g[phi_index[j]] * phi_value[j * stride]
        phi_phi += phi_value[j * stride] ** 2
    if with_b:
        for j in range(next_from[t], next_from[t + 1]):
            g_b += g[next_index[j]] * next_b[j]
    return g_phi, g_b, phi_phi


@inlined
def add_phi(trace: SparseVector, n: int, stream: Columns, t: int, entry: float) -> int:
    """Add ``entry``·φ of a step to g; return the number of entries that may not be 0."""
    g, touched, is_touched = trace.values, trace.touched, trace.is_touched
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    stride = np.uint64(0 if len(phi_value) == 1 else 1)
    for j in range(phi_from[t], phi_from[t + 1]):
        i = phi_index[j]
        if not is_touched[i]:
            is_touched[i] = True
            touched[n] = i
            n += 1
        g[i] += entry * phi_value[j * stride]
    return n


@inlined
def clear(trace: SparseVector, n: int) -> None:
    """Set g to 0."""
    for q in range(n):
        trace.values[trace.touched[q]] = 0.0
        trace.is_touched[trace.touched[q]] = False
