"""The shared trace of a rule, recorded step by step for learners that run elsewhere.

Learners never look at the trace itself. They need a few numbers of each step and, where g is
rescaled, its entries before and after, to fold in the sums they postponed; see `update_kernel`.
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray
from saddleback.engine.lazy_trace import add_entry, clear, dot, leaves_window, rescale
from saddleback.engine.stream_columns import Columns, SparseVector
from saddleback.engine.update_kernel import UpdateSettings

NUMBERS = (
    "reward", "decay", "weight", "C", "entry", "g_phi", "g_delta", "e_phi", "ee", "a_scale",
    "b_scale", "unused",
)  # fmt: skip
"""Numbers of a step; the last makes their size a multiple of 16 bytes."""

OFFSETS = ("phi", "next", "entries", "event")
"""Where the rows of φ, those of b and x, and the recorded entries of g begin; and the event."""

RESCALED, OVERFLOWED, PHI_PADDED, NEXT_PADDED = 1, 2, 4, 8
"""Events: g is rescaled before the step; it overflows, and so do all learners; rows are padded."""


@compiled
def record_trace(
    stream: Columns,
    settings: UpdateSettings,
    begin: int,
    done: int,
    trace: SparseVector,
    scale: FloatArray,
    phi_at: IndexArray,
    next_at: IndexArray,
    numbers: FloatArray,
    offsets: IndexArray,
    index: IndexArray,
    values: FloatArray,
) -> int:
    """Record the steps of a chunk from ``begin`` on; return the step before which room ran out.

    ``done`` is the number of updates before the chunk, and ``phi_at`` and ``next_at`` are where the
    padded rows of each step begin, [T + 1]. ``numbers`` and ``offsets`` have a row per step, the
    latter one more. ``index`` and ``values`` [2, m] have the entries of g at the beginning of the
    chunk, and before and after each rescaling; they must have room for those at the beginning.
    """
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    g, touched = trace.values, trace.touched
    stride, unit_stride = np.uint64(0 if len(phi_value) == 1 else 1), np.uint64(1)
    td, window = settings.coefficients.td, settings.window
    C, ee, n = scale[0], scale[1], trace.n_touched[0]
    m, t = int(offsets[begin, 2]), begin
    if begin == 0:
        m = n
        for q in range(n):
            index[q] = touched[q]
            values[0, q] = values[1, q] = g[touched[q]]
    while t < len(stream.reward):
        update, event = done + t + 1, 0
        c, w = stream.decay[t], stream.weight[t]
        phi, successors = (phi_from[t], phi_from[t + 1]), (next_from[t], next_from[t + 1])
        offsets[t, 0], offsets[t, 1], offsets[t, 2] = phi_at[t], next_at[t], m
        if leaves_window(C, c, window):
            if m + n > len(index):
                break
            for q in range(n):
                index[m + q] = touched[q]
                values[0, m + q] = g[touched[q]]
            kept, ee = rescale(C * c, trace, n)
            for q in range(m, m + n):
                values[1, q] = g[index[q]]  # 0 if it was dropped
            m, n = m + n, kept
            C, c, event = 1.0, 1.0, RESCALED
        else:
            C *= c
            ee *= c * c
        g_phi, g_b, phi_phi = dot(g, phi_index, phi_value, stride, *phi), 0.0, 0.0
        for j in range(phi_from[t], phi_from[t + 1]):
            phi_phi += phi_value[j * stride] ** 2
        if td != 0.0:
            g_b = dot(g, next_index, next_b, unit_stride, *successors)
        ee += 2.0 * w * C * g_phi + w * w * phi_phi
        entry = w / C
        numbers[t, 0], numbers[t, 1], numbers[t, 2] = stream.reward[t], c, w
        numbers[t, 3], numbers[t, 4], numbers[t, 5] = C, entry, g_phi
        numbers[t, 6] = stream.discount[t] * g_b - g_phi
        numbers[t, 7], numbers[t, 8] = C * g_phi + w * phi_phi, ee
        numbers[t, 9] = numbers[t, 10] = 1.0
        if settings.alpha_power != 0.0:
            numbers[t, 9] = (update + settings.alpha_offset) ** -settings.alpha_power
        if settings.beta_power != 0.0:
            numbers[t, 10] = (update + settings.beta_offset) ** -settings.beta_power
        if phi_at[t + 1] - phi_at[t] != phi_from[t + 1] - phi_from[t]:
            event |= PHI_PADDED
        if next_at[t + 1] - next_at[t] != next_from[t + 1] - next_from[t]:
            event |= NEXT_PADDED
        if not ee < np.inf:
            clear(trace, n)
            C, ee, n = 1.0, 0.0, 0
            event |= OVERFLOWED
        else:
            for j in range(phi_from[t], phi_from[t + 1]):
                n = add_entry(trace, n, phi_index[j], entry * phi_value[j * stride])
        offsets[t, 3] = event
        t += 1
    offsets[t, 0], offsets[t, 1], offsets[t, 2], offsets[t, 3] = phi_at[t], next_at[t], m, 0
    scale[0], scale[1], trace.n_touched[0] = C, ee, n
    return t
