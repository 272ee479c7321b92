"""A chunk of experience as the kernel reads it: the columns and recorded traces of all groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddleback.cuda.trace_records import NUMBERS, OFFSETS
from saddleback.engine import Columns
from saddleback.rules import Coefficients

COLUMNS = ("steps", "offsets", "phi_index", "phi_value", "next_index", "next_b", "next_x")
ENTRIES = ("index", "before", "after")
GROUP = np.dtype(
    [(name, np.uint64) for name in (*COLUMNS, *ENTRIES)]
    + [(name, np.int64) for name in ("count", "done", "phi_stride", "with_omega")]
    + [(name, np.float64) for name in (*Coefficients._fields, "bound", "smallest")]
)
"""The structure ``Group`` in ``update_kernel.cu``: addresses, numbers of steps, constants."""

ALIGNMENT = 128
"""Bytes to which arrays in a buffer are aligned."""


class Part(NamedTuple):
    """A stream for a group of learners, by its number, from the step ``begin`` on."""

    group: int
    stream: Columns
    begin: int


class Buffer:
    """Arrays one after the other, sent to the device at once.

    Places are planned first; `reserve` then gives them memory, and turns them into addresses.
    """

    def __init__(self) -> None:
        self.size = 0
        self.copies: dict[tuple[int, int, int], tuple[int, Any, Any]] = {}

    def place(self, nbytes: int) -> int:
        """Plan a place for some bytes; return its offset."""
        offset = self.size
        self.size += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return offset

    def place_column(self, array: Any, dtype: Any, first: int, last: int) -> int:
        """Plan a place for part of a column; a column that several groups share is there once."""
        key = (id(array), first, last)
        if key not in self.copies:
            offset = self.place((last - first) * np.dtype(dtype).itemsize)
            self.copies[key] = (offset, array[first:last], dtype)
        return self.copies[key][0]

    def place_stream(self, group: Any, part: Part, real: Any) -> None:
        """Plan places for a stream and the record of its trace, as offsets in ``group``."""
        stream, steps = part.stream, len(part.stream.reward) - part.begin
        phi = (int(stream.phi_from[0]), int(stream.phi_from[-1]))
        successors = (int(stream.next_from[0]), int(stream.next_from[-1]))
        binary = len(stream.phi_value) == 1
        group["steps"] = self.place(steps * len(NUMBERS) * real.itemsize)
        group["offsets"] = self.place((steps + 1) * len(OFFSETS) * 4)
        group["phi_index"] = self.place_column(stream.phi_index, np.uint32, *phi)
        values = (0, 1) if binary else phi
        group["phi_value"] = self.place_column(stream.phi_value, real, *values)
        group["next_index"] = self.place_column(stream.next_index, np.uint32, *successors)
        group["next_b"] = self.place_column(stream.next_b, real, *successors)
        if group["correction"]:
            group["next_x"] = self.place_column(stream.next_x, real, *successors)
        group["phi_stride"] = not binary

    def reserve(self, slot: Any, number: int) -> int:
        """Take memory for all places from a slot; return its address on the device."""
        self._host, address = slot.reserve(number, self.size)
        return int(address)

    def array(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return the memory of a place, to fill in."""
        return np.ndarray(shape, dtype, buffer=self._host, offset=offset)

    def copy(self, column: tuple[int, Any, Any]) -> None:
        """Fill in a column."""
        offset, values, dtype = column
        self.array(offset, values.shape, dtype)[...] = values
