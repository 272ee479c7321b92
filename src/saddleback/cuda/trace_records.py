"""The shared trace of a rule, recorded step by step for learners that run elsewhere.

Learners never look at the trace itself. They need a few numbers of each step, and, where g is
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
    "reward", "discount", "decay", "weight", "C", "entry", "g_phi", "g_delta", "e_phi", "ee",
    "a_scale", "b_scale",
)  # fmt: skip
"""Numbers of a step, in the order of the structure ``Step`` in ``update_kernel.cu``."""

OFFSETS = ("phi", "next", "entries", "event")
"""Where φ, b and x and the entries of g begin that belong to a step, and what happens in it."""

RESCALED, OVERFLOWED = 1, 2
"""Events: g is rescaled before the step; the trace overflows in it, and so do all learners."""


@compiled
def record_trace(
    stream: Columns,
    settings: UpdateSettings,
    begin: int,
    done: int,
    trace: SparseVector,
    scale: FloatArray,
    numbers: FloatArray,
    offsets: IndexArray,
    index: IndexArray,
    values: FloatArray,
) -> int:
    """Record the steps of a chunk from ``begin`` on, after ``done`` updates; return the end.

    ``numbers`` and ``offsets`` have a row per step, the latter one more. ``index`` and ``values``
    [2, m] have the entries of g at the beginning, and before and after each rescaling. Recording
    ends early where they are full; they must have room for twice the entries at the beginning.
    """
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    g, touched = trace.values, trace.touched
    stride, unit_stride = np.uint64(0 if len(phi_value) == 1 else 1), np.uint64(1)
    td, window = settings.coefficients.td, settings.window
    C, ee, n = scale[0], scale[1], trace.n_touched[0]
    m = n
    for q in range(n):
        index[q] = touched[q]
        values[0, q] = values[1, q] = g[touched[q]]
    t = begin
    while t < len(stream.reward):
        update, row, event = done + t - begin + 1, t - begin, 0
        gamma, c, w = stream.discount[t], stream.decay[t], stream.weight[t]
        offsets[row, 0], offsets[row, 1] = phi_from[t] - phi_from[0], next_from[t] - next_from[0]
        offsets[row, 2] = m
        if leaves_window(C, c, window):
            if m + n > len(index):
                break
            for q in range(n):
                index[m + q] = touched[q]
                values[0, m + q] = g[touched[q]]
            kept, ee = rescale(C * c, trace, n)
            for q in range(n):  # those that were dropped are 0 now
                values[1, m + q] = g[index[m + q]]
            m, n = m + n, kept
            C, c, event = 1.0, 1.0, RESCALED
        else:
            C *= c
            ee *= c * c
        phi, successors = (phi_from[t], phi_from[t + 1]), (next_from[t], next_from[t + 1])
        g_phi, g_b, phi_phi = dot(g, phi_index, phi_value, stride, *phi), 0.0, 0.0
        for j in range(phi_from[t], phi_from[t + 1]):
            phi_phi += phi_value[j * stride] ** 2
        if td != 0.0:
            g_b = dot(g, next_index, next_b, unit_stride, *successors)
        e_phi = C * g_phi + w * phi_phi
        ee += 2.0 * w * C * g_phi + w * w * phi_phi
        entry = w / C
        a_scale, b_scale = 1.0, 1.0
        if settings.alpha_power != 0.0:
            a_scale = (update + settings.alpha_offset) ** -settings.alpha_power
        if settings.beta_power != 0.0:
            b_scale = (update + settings.beta_offset) ** -settings.beta_power
        numbers[row, 0], numbers[row, 1], numbers[row, 2] = stream.reward[t], gamma, c
        numbers[row, 3], numbers[row, 4], numbers[row, 5] = w, C, entry
        numbers[row, 6], numbers[row, 7] = g_phi, gamma * g_b - g_phi
        numbers[row, 8], numbers[row, 9] = e_phi, ee
        numbers[row, 10], numbers[row, 11] = a_scale, b_scale
        if not ee < np.inf:
            clear(trace, n)
            C, ee, n = 1.0, 0.0, 0
            event |= OVERFLOWED
        else:
            for j in range(phi_from[t], phi_from[t + 1]):
                n = add_entry(trace, n, phi_index[j], entry * phi_value[j * stride])
        offsets[row, 3] = event
        t += 1
    row = t - begin
    offsets[row, 0], offsets[row, 1] = phi_from[t] - phi_from[0], next_from[t] - next_from[0]
    offsets[row, 2], offsets[row, 3] = m, 0
    scale[0], scale[1], trace.n_touched[0] = C, ee, n
    return t
