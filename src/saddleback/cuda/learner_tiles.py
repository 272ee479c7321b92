"""Learners on a device: those of many rules and runs side by side, advanced by one kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from saddleback._typing import FloatArray, IndexArray, IntArray
from saddleback.cuda.chunk_buffers import COLUMNS, ENTRIES, GROUP, Buffer, Part
from saddleback.cuda.trace_records import NUMBERS, OFFSETS, record_trace
from saddleback.engine import Columns, Schedule, update_settings
from saddleback.engine.stream_columns import SparseVector
from saddleback.errors import InvalidParameter
from saddleback.rules import Form

TILE = 32
"""Learners that are adjacent in memory: those of a warp."""

STATE = ("alpha", "beta", "F", "F_theta", "s", "u")
"""Numbers of each learner between chunks."""

SLOTS = 2
"""Chunks on the device: the kernel learns from one while the next is recorded and copied."""

ROOM = 4
"""Recorded entries of the trace for each feature that is active in a step, at most."""

STAGED_STEPS, STAGED_ENTRIES, STAGE_BYTES = 16, 64, 8192
"""Steps and entries of traces that a block keeps in shared memory, and its bytes if possible."""

WORKSPACE = 3
"""Copies of the weights of a group while a metric is computed."""


class Learners:
    """K learners of one rule in one run, that differ only in their step sizes.

    The interface is that of `saddleback.engine.Learners`.

    Attributes
    ----------
    done
        Number of updates so far.
    """

    def __init__(
        self,
        form: Form,
        alpha: Schedule,
        beta: Schedule,
        theta: FloatArray,
        omega: FloatArray,
        bound: float,
        blocks: int = 1,
    ) -> None:
        self.done, self.bound = 0, bound
        self.count, self.p = theta.shape
        self.tiles = -(-self.count // TILE)
        self.dtype = theta.dtype
        self.initial = (alpha.scale, beta.scale, theta, omega)
        self.settings = update_settings(form, alpha, beta, theta.dtype)
        coefficients = self.settings.coefficients
        self.with_omega = bool(coefficients.dual or coefficients.gram or omega.any())
        self._trace, self._scale = SparseVector.zeros(self.p), np.array([1.0, 0.0])
        self._rows, self._values = np.zeros(0, np.uint32), np.zeros((2, 0), self.dtype)
        self._memory: DeviceMemory

    def place(self, memory: DeviceMemory, first: int) -> None:
        """Take tiles of the device's memory from ``first`` on, and copy the initial state there."""
        self._memory, xp = memory, memory.device.xp
        self._at = slice(first, first + self.tiles)
        self._lanes = slice(first * TILE, first * TILE + self.count)
        alpha, beta, *weights = self.initial
        self.initial = ()  # type: ignore[assignment]
        memory.state[:2, self._lanes] = xp.asarray(np.stack([alpha, beta]), self.dtype)
        memory.state[4, self._lanes] = 1.0
        memory.diverged_at[self._lanes] = -1
        for table, initial in zip((memory.theta, memory.omega), weights, strict=True):
            if initial.any():
                padded = xp.zeros((self.tiles * TILE, self.p), self.dtype)
                padded[: self.count] = xp.asarray(initial)
                table[self._at, : self.p] = padded.reshape(self.tiles, TILE, self.p).transpose(
                    0, 2, 1
                )

    def record(
        self, part: Part, padded: tuple[IndexArray, IndexArray], steps: Any, offsets: Any
    ) -> tuple[int, Any, Any]:
        """Record the trace of a stream; return where it ends, and the entries of g, [m], [2, m]."""
        first, n = part.stream.phi_from, int(self._trace.n_touched[0])
        room = 2 * n + ROOM * int(first[-1] - first[0])
        if len(self._rows) < room:
            self._rows, self._values = np.zeros(room, np.uint32), np.zeros((2, room), self.dtype)
        end = record_trace(
            part.stream, self.settings, part.begin, self.done, self._trace, self._scale,
            TILE * self.dtype.itemsize, *padded, steps, offsets, self._rows, self._values,
        )  # fmt: skip
        self.done += end - part.begin
        m = int(offsets[end - part.begin, 2])
        return end, self._rows[:m], self._values[:, :m]

    @property
    def diverged_at(self) -> IntArray:
        """The update at which each learner diverged, or −1."""
        host: IntArray = self._memory.device.to_host(self._memory.diverged_at[self._lanes])
        return host

    def _columns(self, table: Any, row: int) -> Any:
        """Return θ or ω with the postponed sums folded in, [p, lanes], on the device."""
        xp, state = self._memory.device.xp, self._memory.state
        lanes = slice(self._at.start * TILE, self._at.stop * TILE)
        columns = (
            table[self._at, : self.p].transpose(1, 0, 2).reshape(self.p, -1).astype(np.float64)
        )
        columns += xp.asarray(self._trace.values)[:, None] * state[row, lanes]
        return columns

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with the postponed sums folded in."""
        memory, count = self._memory, self.count
        theta, omega = self._columns(memory.theta, 3), self._columns(memory.omega, 2)
        omega *= memory.state[4, self._at.start * TILE : self._at.stop * TILE]
        to_host = memory.device.to_host
        return tuple(to_host(w.T[:count].astype(self.dtype)) for w in (theta, omega))

    def measure(
        self, metrics: Mapping[str, Callable[..., Any]], shape: tuple[int, ...]
    ) -> dict[str, Any]:
        """Return the metrics of θ: quadratic objectives on the device, others on the host."""
        columns, theta, values = None, None, {}
        for name, metric in metrics.items():
            owner = getattr(metric, "__self__", None)
            form = getattr(owner, "quadratic_form", None)
            objective = None if form is None else form(metric.__name__)
            if objective is None:
                if theta is None:
                    theta = self.weights()[0].reshape(*shape, self.p)
                    theta.flags.writeable = False
                values[name] = metric(theta)
            else:
                if columns is None:
                    columns = self._columns(self._memory.theta, 3)
                H, h, G = self._memory.objective(owner, name, objective)
                residual = H @ columns + h[:, None]
                weighted = G[:, None] * residual if G.ndim == 1 else G @ residual
                value = objective.factor * (weighted * residual).sum(axis=0)[: self.count]
                values[name] = self._memory.device.to_host(value).reshape(shape)
        return values


class DeviceMemory:
    """The state of all learners, [tiles, p, TILE] or [lanes], and objectives, on the device."""

    def __init__(self, device: Any, tiles: int, p: int, dtype: npt.DTypeLike) -> None:
        xp = self._xp = device.xp
        self.device = device
        self.theta, self.omega = (xp.zeros((tiles, p + 1, TILE), dtype) for _ in range(2))
        self.state = xp.zeros((len(STATE), tiles * TILE), dtype)
        self.diverged_at = xp.zeros(tiles * TILE, np.int64)  # lanes without a learner do not run
        self._objectives: dict[tuple[int, str], tuple[Any, list[Any]]] = {}

    def objective(self, owner: object, name: str, objective: Any) -> list[Any]:
        """Return the matrices of an objective, copied to the device once."""
        key = (id(owner), name)
        if key not in self._objectives:  # with the owner, so that its id stays its own
            matrices = [self._xp.asarray(matrix) for matrix in objective[:3]]
            self._objectives[key] = owner, matrices
        return self._objectives[key][1]


class Workers:
    """Advances groups of learners of one problem, all of them by one kernel per chunk.

    The interface is that of `saddleback.engine.Workers`, except that a group whose run has ended
    has None in place of a stream. ``threads`` record the traces.
    """

    def __init__(self, groups: Sequence[Learners], threads: int, device: Any) -> None:
        self._groups, self._device = groups, device
        p, dtype = groups[0].p, groups[0].dtype
        tiles = sum(group.tiles for group in groups)
        check_memory(device, groups)
        self._memory = DeviceMemory(device, tiles, p, dtype)
        first = 0
        for group in groups:
            group.place(self._memory, first)
            first += group.tiles
        numbers = np.repeat(np.arange(len(groups), dtype=np.int32), [g.tiles for g in groups])
        self._group_of_tile = device.xp.asarray(numbers)
        self._slots = deque(device.slot(buffers=2) for _ in range(SLOTS))
        self._pool = ThreadPoolExecutor(threads)
        self._constants = np.zeros(len(groups), GROUP)
        for row, group in zip(self._constants, groups, strict=True):
            row["with_omega"], row["bound"] = group.with_omega, group.bound
            row["smallest"] = group.settings.smallest
            for name, value in group.settings.coefficients._asdict().items():
                row[name] = value

    def advance(self, chunks: Iterable[Sequence[Columns | None]]) -> None:
        """Learn from the next chunks, one stream per group, while later ones are produced."""
        for streams in chunks:
            parts = [Part(g, stream, 0) for g, stream in enumerate(streams) if stream is not None]
            while parts:
                parts = self._launch(parts)

    def _launch(self, parts: Sequence[Part]) -> list[Part]:
        """Run the kernel on streams of some groups; return what is left of them."""
        slot, memory = self._slots[0], self._memory
        self._slots.rotate(-1)
        real, p = memory.state.dtype, self._groups[0].p
        groups, columns, entries = self._constants.copy(), Buffer(), Buffer()
        for part in parts:
            columns.place_stream(groups[part.group], part, real, p, TILE * real.itemsize)
            groups[part.group]["done"] = self._groups[part.group].done
        address = columns.reserve(slot, 0)
        traces = self._record(parts, groups, columns)
        for name in COLUMNS:
            groups[name] += np.uint64(address)
        entries.place(groups.nbytes)
        filled = []
        for part, (end, *arrays) in zip(parts, traces, strict=True):
            group = groups[part.group]
            group["count"] = end - part.begin
            for name, array in zip(ENTRIES, (arrays[0], *arrays[1]), strict=True):
                group[name] = entries.place(array.nbytes)
                filled.append((int(group[name]), array))
        address = entries.reserve(slot, 1)
        for offset, array in filled:
            entries.array(offset, array.shape, array.dtype)[...] = array
        for name in ENTRIES:
            groups[name] += np.uint64(address)
        entries.array(0, groups.shape, GROUP)[...] = groups
        longest = [
            max(int(np.diff(columns.padded(first, index)).max()) for first, index in rows)
            for rows in zip(*(((s.phi_from, s.phi_index), (s.next_from, s.next_index))
                              for _, s, _ in parts), strict=True)
        ]  # fmt: skip
        capacity, shared = stage_capacity(*longest, real.itemsize)
        self._device.launch(
            slot, (columns.size, entries.size), memory.theta.shape[0], shared,
            (np.uint64(address), self._group_of_tile, np.int64(p), *map(np.int32, capacity),
             memory.theta, memory.omega, memory.state, memory.diverged_at),
        )  # fmt: skip
        return [
            part._replace(begin=end)
            for part, (end, *_) in zip(parts, traces, strict=True)
            if end < len(part.stream.reward)
        ]

    def _record(self, parts: Sequence[Part], groups: Any, columns: Buffer) -> list[Any]:
        """Fill in the columns, and record the traces, in threads."""

        def record(part: Part) -> tuple[int, Any, Any]:
            s, group = part.stream, groups[part.group]
            count = len(s.reward) - part.begin
            steps = (int(group["steps"]), (count, len(NUMBERS)), self._memory.state.dtype)
            offsets = (int(group["offsets"]), (count + 1, len(OFFSETS)), np.uint32)
            padded = (
                columns.padded(s.phi_from, s.phi_index),
                columns.padded(s.next_from, s.next_index),
            )
            return self._groups[part.group].record(
                part, padded, columns.array(*steps), columns.array(*offsets)
            )

        fills = [self._pool.submit(columns.fill, planned) for planned in columns.fills]
        traces = [self._pool.submit(record, part) for part in parts]
        for fill in fills:
            fill.result()
        return [trace.result() for trace in traces]


def stage_capacity(phi: int, successors: int, itemsize: int) -> tuple[tuple[int, ...], int]:
    """Return steps and entries that a block keeps in shared memory, and the bytes they need.

    ``phi`` and ``successors`` are the largest numbers of rows of a step.
    """
    per_step = len(NUMBERS) * itemsize + 16 + phi * (4 + itemsize) + successors * (4 + 2 * itemsize)
    traces = STAGED_ENTRIES * (4 + 2 * itemsize)
    steps = max(1, min(STAGED_STEPS, (STAGE_BYTES - traces) // per_step))
    return (steps, steps * phi, steps * successors, STAGED_ENTRIES), steps * per_step + traces + 16


def bytes_needed(groups: Iterable[tuple[int, int, int]]) -> int:
    """Return the memory of groups of (learners, features, bytes per number) on the device."""
    total = largest = 0
    for learners, p, itemsize in groups:
        lanes = -(-learners // TILE) * TILE
        total += lanes * (2 * (p + 1) * itemsize + len(STATE) * itemsize + 8)
        largest = max(largest, WORKSPACE * lanes * p * 8)
    return total + largest


def check_memory(device: Any, groups: Sequence[Learners]) -> None:
    """Refuse learners that do not fit into the memory of the device, and say how many would."""
    sizes = [(group.count, group.p, group.dtype.itemsize) for group in groups]
    needed, (free, total) = bytes_needed(sizes), device.memory()
    if needed > free:
        learners = sum(group.count for group in groups)
        fit = learners * free // needed
        raise InvalidParameter(
            f"{learners:,} learners of {groups[0].p:,} features need {needed / 1e9:.3g} GB on "
            f"{device.name}, and {free / 1e9:.3g} of {total / 1e9:.3g} GB are free: about {fit:,} "
            "learners fit. Use fewer runs, rules or step sizes at once, or dtype float32."
        )
