"""Workers that advance learners on a device: one kernel per chunk, for all runs and rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from saddleback._threads import thread_pool
from saddleback.cuda.learner_tiles import STATE, TILE, DeviceMemory, LearnerTiles, tables
from saddleback.engine import Columns
from saddleback.engine.padded_rows import PaddedRows
from saddleback.errors import InvalidParameter
from saddleback.rules import Coefficients, Form

ARRAYS = (
    "phi_row", "phi_value", "next_row", "next_c", "next_v", "steps", "offsets", "index", "before",
    "after",
)  # fmt: skip
GROUP = np.dtype(
    [(name, np.uint64) for name in ARRAYS]
    + [(name, np.int64) for name in ("count", "done", "with_omega", "true_online")]
    + [(name, np.float64) for name in (*Coefficients._fields, "bound", "smallest")]
)
"""The structure ``Group`` in ``update_kernel.cu``: addresses, counts, constants."""

SLOTS = 2
"""Chunks on the device: the kernel learns from one while the next is produced and copied."""

STAGED_STEPS, STAGE_BYTES = 16, 8192
"""Steps that a block keeps in shared memory, and its bytes if possible."""

ALIGNMENT = 128
"""Bytes to which arrays in a buffer are aligned."""

WORKSPACE = 3
"""Copies of the weights of a group of learners while an objective is computed."""


class TileWorkers:
    """Advances groups of learners, by run and rule; see `saddleback.engine.Workers`.

    ``threads`` produce the chunks of different runs, and record the traces of their rules.
    """

    def __init__(self, groups: Sequence[LearnerTiles], threads: int, device: Any) -> None:
        self._groups, self._threads, self._device = groups, threads, device
        tiles = [group.tiles for group in groups]
        forms = [group.form for group in groups]
        self._memory = DeviceMemory(device, sum(tiles), groups[0].p, groups[0].dtype, forms)
        self._constants = np.zeros(len(groups), GROUP)
        for group, end, constants in zip(groups, np.cumsum(tiles), self._constants, strict=True):
            group.place(self._memory, int(end) - group.tiles, constants)
        self._group_of_tile = device.xp.asarray(np.repeat(np.arange(len(groups)), tiles), np.int32)
        self._slots = deque(device.slot(len(groups) + 1) for _ in range(SLOTS))

    def advance(self, *runs: Iterator[Sequence[Columns]]) -> None:
        """Learn from the next chunks of each run, one stream per rule, while later ones come."""
        rules, count = len(self._groups) // len(runs), min(self._threads, len(runs))
        with thread_pool(count) as producers, thread_pool(count) as pool:
            streams = [producers.submit(next, run, None) for run in runs]

            def prepare(r: int, slot: Any) -> Any:
                of_run: Any = streams[r].result()
                if of_run is None:
                    return None
                streams[r] = producers.submit(next, runs[r], None)
                return self._chunk(r * rules, of_run, slot)

            def prepare_all() -> list[Any]:
                return [pool.submit(prepare, r, self._slots[0]) for r in range(len(runs))]

            coming = prepare_all()
            while any(chunks := [future.result() for future in coming]):
                slot = self._slots[0]
                self._slots.rotate()
                coming = prepare_all()
                self._launch(slot, [chunk for chunk in chunks if chunk is not None])

    def _chunk(self, first: int, streams: Sequence[Columns], slot: Any) -> Any:
        """Copy a chunk of a run, whose groups begin at ``first``, to a slot."""
        of_run = slice(first, first + len(streams))
        learners, groups = self._groups[of_run], self._constants[of_run].copy()
        groups["done"], groups["count"] = learners[0].done, len(streams[0].reward)
        rows, size = PaddedRows(learners[0].p, learners[0].dtype), 0
        placed: dict[int, tuple[int, Any]] = {}
        for one, stream, group in zip(learners, streams, groups, strict=True):
            columns, phi_at, next_at = rows.of(stream, one.form)
            width = self._memory.numbers
            recorded = one.recorder.record(stream, one.done, phi_at, next_at, width)
            one.done += len(stream.reward)
            for name, array in zip(ARRAYS, (*columns, *recorded), strict=True):
                if id(array) not in placed:
                    placed[id(array)] = size, array
                    size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
                group[name] = placed[id(array)][0]
        host, address = slot.reserve(first, size)
        for offset, array in placed.values():
            np.ndarray(array.shape, array.dtype, buffer=host, offset=offset)[...] = array
        for name in ARRAYS:
            groups[name] += np.uint64(address)
        return first, groups, rows.longest, size

    def _launch(self, slot: Any, chunks: Sequence[Any]) -> None:
        """Run the kernel on a chunk of each run that has not ended."""
        groups, memory = self._constants.copy(), self._memory
        for first, filled, _, _ in chunks:
            groups[first : first + len(filled)] = filled
        host, address = slot.reserve(len(groups), groups.nbytes)
        np.ndarray(groups.shape, GROUP, buffer=host)[...] = groups
        sizes = {first: size for first, _, _, size in chunks} | {len(groups): groups.nbytes}
        phi, successors = np.max([longest for _, _, longest, _ in chunks], axis=0).tolist()
        capacity, shared = stage_capacity(phi, successors, memory)
        if shared > self._device.shared_memory:
            raise InvalidParameter(
                f"{phi + successors:,} features active in a step need {shared:,} bytes on a "
                f"multiprocessor of {self._device.name}, which has {self._device.shared_memory:,}."
            )
        memory.launches += 1
        self._device.launch(
            slot, sizes, len(self._group_of_tile), shared, memory.further,
            (np.uint64(address), self._group_of_tile, np.int64(memory.weights.shape[2] - 1),
             *map(np.int32, capacity), memory.weights, memory.state, memory.diverged_at),
        )  # fmt: skip


def stage_capacity(phi: int, successors: int, memory: DeviceMemory) -> tuple[Any, int]:
    """Return the steps and rows that a block keeps in shared memory, and the bytes they need.

    ``phi`` and ``successors`` are the largest numbers of rows of a step.
    """
    numbers, size = memory.numbers, memory.state.dtype.itemsize
    per_step = numbers * size + 16 + phi * (4 + size) + successors * (4 + 2 * size)
    steps = max(1, min(STAGED_STEPS, STAGE_BYTES // per_step))
    return (steps, steps * phi, steps * successors), steps * per_step + 16


def bytes_needed(groups: Sequence[int], p: int, dtype: Any, forms: Sequence[Form]) -> int:
    """Return the memory of groups of so many learners on the device, and of an objective."""
    if (p + 1) * TILE * dtype.itemsize >= 1 << 32:
        raise InvalidParameter(f"{p:,} features are too many for a GPU.")
    lanes = [-(-learners // TILE) * TILE for learners in groups]
    state: int = sum(lanes) * (tables(forms) * (p + 1) + len(STATE) + 1) * dtype.itemsize
    return state + max(lanes, default=0) * p * 8 * WORKSPACE
