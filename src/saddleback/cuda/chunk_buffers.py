"""A chunk of experience as the kernel reads it: rows of features and recorded traces of all groups.

A row is the weights of a feature for one tile of learners, given by its offset in bytes. The rows
of a step are padded to a multiple of four with the row p, whose weights are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray, OffsetArray
from saddleback.cuda.trace_records import NUMBERS, OFFSETS
from saddleback.engine import Columns
from saddleback.rules import Coefficients

COLUMNS = ("steps", "offsets", "phi_row", "phi_value", "next_row", "next_c", "next_v")
ENTRIES = ("row", "before", "after")
GROUP = np.dtype(
    [(name, np.uint64) for name in (*COLUMNS, *ENTRIES)]
    + [(name, np.int64) for name in ("count", "done", "with_omega")]
    + [(name, np.float64) for name in (*Coefficients._fields, "bound", "smallest")]
)
"""The structure ``Group`` in ``update_kernel.cu``: addresses, counts, constants."""

ALIGNMENT = 128
"""Bytes to which arrays in a buffer are aligned."""

ONE = np.ones(1)


class Part(NamedTuple):
    """A stream for a group of learners, by its number, from the step ``begin`` on."""

    group: int
    stream: Columns
    begin: int


class Buffer:
    """Arrays one after the other, sent to the device at once.

    Places are planned first, and filled in when there is memory for them. Columns that groups of
    learners share have one place.
    """

    def __init__(self) -> None:
        self.size = 0
        self.fills: list[tuple[Callable[..., None], int, Any, tuple[Any, ...]]] = []
        self._known: dict[tuple[Any, ...], Any] = {}

    def place(self, nbytes: int) -> int:
        """Plan a place for some bytes; return its offset."""
        offset = self.size
        self.size += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return offset

    def padded(self, first: OffsetArray, index: IndexArray) -> IndexArray:
        """Return where the rows of each step begin, padded to multiples of four."""
        key = (id(index), int(first[0]), int(first[-1]))
        if key not in self._known:
            self._known[key] = np.zeros(len(first), np.uint32)
            np.cumsum(-(-np.diff(first).astype(np.int64) // 4) * 4, out=self._known[key][1:])
        return self._known[key]  # type: ignore[no-any-return]

    def _column(self, fill: Any, dtype: Any, rows: tuple[Any, Any], *given: Any) -> int:
        """Plan a place for what ``fill`` computes of the rows of a stream; return its offset."""
        key = (fill, id(rows[1]), *(x if isinstance(x, (int, float)) else id(x) for x in given))
        if key not in self._known:
            to = self.padded(*rows)
            self._known[key] = self.place(int(to[-1]) * np.dtype(dtype).itemsize)
            self.fills.append((fill, self._known[key], dtype, (rows[0], to, *given)))
        return int(self._known[key])

    def place_stream(self, group: Any, part: Part, real: Any, p: int, row_bytes: int) -> None:
        """Plan places for a stream and the record of its trace, as offsets in ``group``."""
        s, steps = part.stream, len(part.stream.reward) - part.begin
        saddle, correction = float(group["saddle"]), float(group["correction"])
        factors = (saddle, correction) if saddle or correction else (1.0, 0.0)
        x = s.next_x if correction else s.next_b
        phi, successors, none = (s.phi_from, s.phi_index), (s.next_from, s.next_index), (1.0, 0.0)
        row, size = (fill_rows, np.uint32), (p * row_bytes, row_bytes)
        values = (fill_values, real)
        group["steps"] = self.place(steps * len(NUMBERS) * real.itemsize)
        group["offsets"] = self.place((steps + 1) * len(OFFSETS) * 4)
        group["phi_row"] = self._column(*row, phi, phi[1], s.phi_value, s.phi_value, *size)
        group["phi_value"] = self._column(*values, phi, s.phi_value, s.phi_value, ONE, *none)
        group["next_row"] = self._column(*row, successors, successors[1], s.next_b, x, *size)
        group["next_c"] = self._column(*values, successors, s.next_b, s.next_b, s.discount, *none)
        group["next_v"] = self._column(*values, successors, s.next_b, x, s.discount, *factors)

    def reserve(self, slot: Any, number: int) -> int:
        """Take memory for all places from a slot; return its address on the device."""
        self._host, address = slot.reserve(number, self.size)
        return int(address)

    def array(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return the memory of a place, to fill in."""
        return np.ndarray(shape, dtype, buffer=self._host, offset=offset)

    def fill(self, planned: tuple[Callable[..., None], int, Any, tuple[Any, ...]]) -> None:
        """Fill in a column."""
        function, offset, dtype, given = planned
        function(self.array(offset, (int(given[1][-1]),), dtype), *given)


@compiled
def fill_rows(
    out: IndexArray,
    first: OffsetArray,
    to: IndexArray,
    index: IndexArray,
    value: FloatArray,
    other: FloatArray,
    padding: int,
    row_bytes: int,
) -> None:
    """Fill in the rows of features; those of which both values are 0 count as padding."""
    stride = 0 if len(value) == 1 else 1
    for t in range(len(to) - 1):
        for k in range(to[t], to[t + 1]):
            j = int(first[t]) + k - int(to[t])
            used = j < first[t + 1] and (value[j * stride] != 0.0 or other[j * stride] != 0.0)
            out[k] = index[j] * row_bytes if used else padding


@compiled
def fill_values(
    out: FloatArray,
    first: OffsetArray,
    to: IndexArray,
    value: FloatArray,
    other: FloatArray,
    scale: FloatArray,
    by_value: float,
    by_other: float,
) -> None:
    """Fill in scale·(by_value·value + by_other·other), with a scale for each step or for all."""
    stride, per_step = 0 if len(value) == 1 else 1, 0 if len(scale) == 1 else 1
    for t in range(len(to) - 1):
        a, b = scale[t * per_step] * by_value, scale[t * per_step] * by_other
        for k in range(to[t], to[t + 1]):
            j = int(first[t]) + k - int(to[t])
            out[k] = 0.0
            if j < first[t + 1]:
                out[k] = a * value[j * stride]
                if b != 0.0:
                    out[k] += b * other[j * stride]
