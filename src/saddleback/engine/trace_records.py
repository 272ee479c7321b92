"""The shared trace of a rule, recorded step by step for learners that run elsewhere.

Learners never look at the trace itself. They need a few numbers of each step and, where g is
rescaled, its entries before and after, to fold in the sums they postponed; see `update_kernel`.
For forms with further traces (`explicit_kernel`) the same is done with e' = C'g'. With dutch traces
d = CD and d' = C'D' each learner has its own D and D', rescaled with g where C or C' requires.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray
from saddleback.engine.lazy_trace import add_entry, clear, dot, leaves_window, rescale
from saddleback.engine.stream_columns import Columns, SparseVector
from saddleback.engine.update_kernel import UpdateSettings

NUMBERS = (
    "reward", "decay", "weight", "C", "entry", "g_phi", "g_delta", "e_phi", "ee", "a_scale",
    "b_scale", "discount",
)  # fmt: skip
"""Numbers of a step."""

FURTHER_NUMBERS = (
    "second_decay", "second_weight", "e_b", "second_phi", "second_b", "second_e", "unused",
    "unused",
)  # fmt: skip
"""Those of further traces; the last make their size a multiple of 16 bytes."""

OFFSETS = ("phi", "next", "entries", "event")
"""Where the rows of φ, those of b and x, and the recorded entries of g begin; and the event."""

RESCALED, OVERFLOWED, PHI_PADDED, NEXT_PADDED = 1, 2, 4, 8
"""Events: g is rescaled before the step; it overflows, and so do all learners; rows are padded."""

ROOM = 4
"""Entries of the trace that may be recorded for each active feature before room must be added."""


class TraceRecorder:
    """Records the trace of a rule chunk by chunk, in memory that is used again.

    ``trace`` is g, of the trace e = C·g.
    """

    def __init__(self, p: int, settings: UpdateSettings, true_online: bool, dtype: Any) -> None:
        self.trace = SparseVector.zeros(p)
        self._second = SparseVector.zeros(p if settings.coefficients.hybrid else 0)
        self._scale = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
        self._settings, self._true_online = settings, true_online
        self._numbers = np.zeros((0, 0), dtype)
        self._index, self._values = np.zeros(0, np.uint32), np.zeros((2, 0), dtype)

    def record(
        self, stream: Columns, done: int, phi_at: IndexArray, next_at: IndexArray, width: int
    ) -> tuple[Any, ...]:
        """Return ``width`` numbers and the offsets of each step; and indices and values of g.

        ``done``, ``phi_at`` and ``next_at`` are as in `record_trace`.
        """
        count, end = len(stream.reward), 0
        if len(self._numbers) < count:
            self._numbers = np.zeros((count, width), self._numbers.dtype)
            self._offsets = np.zeros((count + 1, len(OFFSETS)), np.uint32)
        numbers, offsets = self._numbers[:count], self._offsets[: count + 1]
        room = 2 * int(self.trace.n_touched[0]) + ROOM * int(phi_at[-1])
        while end < count:
            if len(self._index) < room:
                more = room - len(self._index)
                self._index = np.append(self._index, np.zeros(more, np.uint32))
                added = np.zeros((2, more), self._values.dtype)
                self._values = np.append(self._values, added, axis=1)
            end = record_trace(
                stream, self._settings, self._true_online, end, done, self.trace, self._second,
                self._scale, phi_at, next_at, numbers, offsets, self._index, self._values,
            )  # fmt: skip
            room = 2 * (len(self._index) + int(self.trace.n_touched[0])) + ROOM
        m = int(offsets[-1, 2])
        return numbers, offsets, self._index[:m], *self._values[:, :m]


@compiled
def record_trace(
    stream: Columns,
    settings: UpdateSettings,
    true_online: bool,
    begin: int,
    done: int,
    trace: SparseVector,
    second: SparseVector,
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
    padded rows of each step begin, [T + 1]. ``scale`` is (C, ‖e‖², C', ‖e'‖², eᵀe'), and ``second``
    is g', without entries if the form is not hybrid. ``numbers`` and ``offsets`` have a row per
    step, the latter one more; that of ``numbers`` may end before `FURTHER_NUMBERS`. ``index`` and
    ``values`` [2, m] have the entries of g before and after each rescaling, padded to fours.
    """
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    g, touched, g2 = trace.values, trace.touched, second.values
    stride, unit_stride = np.uint64(0 if len(phi_value) == 1 else 1), np.uint64(1)
    td, window = settings.coefficients.td, settings.window
    C, ee, C2, ee2, e_second = scale[0], scale[1], scale[2], scale[3], scale[4]
    n, n2, t = trace.n_touched[0], second.n_touched[0], begin
    m = int(offsets[begin, 2]) if begin else 0
    hybrid, two = len(g2) > 0, len(stream.second_decay) > 0
    while t < len(stream.reward):
        update, event = done + t + 1, 0
        c, w = stream.decay[t], stream.weight[t]
        c2, w2 = (stream.second_decay[t], stream.second_weight[t]) if two else (0.0, 0.0)
        phi, successors = (phi_from[t], phi_from[t + 1]), (next_from[t], next_from[t + 1])
        offsets[t, 0], offsets[t, 1], offsets[t, 2] = phi_at[t], next_at[t], m
        both = true_online and two
        if leaves_window(C, c, window) or (both and leaves_window(C2, c2, window)):
            padded = -(-n // 4) * 4
            if m + padded > len(index):
                break
            for q in range(n):
                index[m + q] = touched[q]
                values[0, m + q] = g[touched[q]]
            kept, ee = rescale(C * c, trace, n)
            for q in range(m, m + n):
                values[1, q] = g[index[q]]  # 0 if it was dropped
            for q in range(m + n, m + padded):
                index[q], values[0, q], values[1, q] = len(g), 0.0, 0.0
            m, n = m + padded, kept
            C, event = 1.0, RESCALED
            if both:
                C2 = 1.0
        else:
            C *= c
            ee *= c * c
            if both:
                C2 *= c2
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
        numbers[t, 11] = stream.discount[t]
        if phi_at[t + 1] - phi_at[t] != phi_from[t + 1] - phi_from[t]:
            event |= PHI_PADDED
        if next_at[t + 1] - next_at[t] != next_from[t + 1] - next_from[t]:
            event |= NEXT_PADDED
        if two:
            numbers[t, 12], numbers[t, 13] = c2, w2
        if hybrid:  # decay e', and let φ enter
            if leaves_window(C2, c2, window):
                n2, ee2 = rescale(C2 * c2, second, n2)
                C2 = 1.0
            else:
                C2 *= c2
                ee2 *= c2 * c2
            second_phi = C2 * dot(g2, phi_index, phi_value, stride, *phi)
            e_second = c * c2 * e_second + w * second_phi + w2 * (C * g_phi + w * phi_phi)
            ee2 += 2.0 * w2 * second_phi + w2 * w2 * phi_phi
            for j in range(phi_from[t], phi_from[t + 1]):
                n2 = add_entry(second, n2, phi_index[j], w2 / C2 * phi_value[j * stride])
            numbers[t, 15], numbers[t, 17] = second_phi + w2 * phi_phi, e_second
        if not ee + ee2 < np.inf:
            clear(trace, n)
            clear(second, n2)
            C, ee, n, C2, ee2, e_second, n2 = 1.0, 0.0, 0, 1.0, 0.0, 0.0, 0
            event |= OVERFLOWED
        else:
            for j in range(phi_from[t], phi_from[t + 1]):
                n = add_entry(trace, n, phi_index[j], entry * phi_value[j * stride])
        if hybrid:
            by_g, by_g2 = stream.discount[t] * C, stream.discount[t] * C2
            numbers[t, 14] = by_g * dot(g, next_index, next_b, unit_stride, *successors)
            numbers[t, 16] = by_g2 * dot(g2, next_index, next_b, unit_stride, *successors)
        offsets[t, 3] = event
        t += 1
    offsets[t, 0], offsets[t, 1], offsets[t, 2], offsets[t, 3] = phi_at[t], next_at[t], m, 0
    scale[0], scale[1], scale[2], scale[3], scale[4] = C, ee, C2, ee2, e_second
    trace.n_touched[0], second.n_touched[0] = n, n2
    return t
