"""Learners on a device, in tiles of 32 that share a rule and a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import Columns, MeasuredWeights, Metric, Quadratic, Schedule, update_settings
from saddleback.engine.stream_columns import SparseVector
from saddleback.engine.trace_records import NUMBERS, OFFSETS, record_trace
from saddleback.rules import Form

TILE = 32
"""Learners whose weights of a feature are adjacent in memory: those of a warp."""

STATE = ("alpha", "beta", "F", "F_theta", "s", "u")
"""Numbers of each learner between chunks."""

ROOM = 4
"""Entries of the trace that may be recorded for each active feature before room must be added."""


class LearnerTiles(MeasuredWeights):
    """K learners of one rule in one run; the interface is that of `saddleback.engine.Learners`."""

    def __init__(
        self, form: Form, alpha: Schedule, beta: Schedule, theta: FloatArray, omega: FloatArray,
        bound: float, blocks: int = 1,
    ) -> None:  # fmt: skip
        self.done, self.bound, self.dtype = 0, bound, theta.dtype
        self.count, self.p = theta.shape
        self.tiles = -(-self.count // TILE)
        self.settings = update_settings(form, alpha, beta, theta.dtype)
        self._initial: Any = np.stack([alpha.scale, beta.scale]), theta, omega
        self._trace, self._scale = SparseVector.zeros(self.p), np.array([1.0, 0.0])
        self._index, self._values = np.zeros(0, np.uint32), np.zeros((2, 0), self.dtype)
        self._steps: Any = ()

    def place(self, memory: DeviceMemory, first: int, constants: Any) -> None:
        """Take tiles from ``first`` on, copy the initial state there, and fill in constants."""
        self._memory, xp = memory, memory.device.xp
        self._at = slice(first, first + self.tiles)
        self._lanes = slice(first * TILE, first * TILE + self.count)
        sizes, theta, omega = self._initial
        memory.state[:2, self._lanes] = xp.asarray(sizes, self.dtype)
        memory.state[4, self._lanes] = 1.0
        memory.diverged_at[self._lanes] = -1
        for table, initial in ((memory.theta, theta), (memory.omega, omega)):
            if initial.any():
                lanes = xp.zeros((self.tiles, TILE, self.p), self.dtype)
                lanes.reshape(-1, self.p)[: self.count] = xp.asarray(initial)
                table[self._at, : self.p] = lanes.transpose(0, 2, 1)
        coefficients = self.settings.coefficients
        for name, value in coefficients._asdict().items():
            constants[name] = value
        constants["bound"], constants["smallest"] = self.bound, self.settings.smallest
        constants["with_omega"] = coefficients.dual or coefficients.gram or omega.any()
        self._initial = None

    def record(self, stream: Columns, phi_at: Any, next_at: Any) -> tuple[Any, ...]:
        """Record the trace of a chunk: numbers and offsets of its steps, entries of g."""
        count, end = len(stream.reward), 0
        if len(self._steps) < count:  # memory that is used again costs half as much
            self._steps = np.zeros((count, len(NUMBERS)), self.dtype)
            self._offsets = np.zeros((count + 1, len(OFFSETS)), np.uint32)
        steps, offsets = self._steps[:count], self._offsets[: count + 1]
        room = 2 * int(self._trace.n_touched[0]) + ROOM * int(phi_at[-1])
        while end < count:
            if len(self._index) < room:
                more = room - len(self._index)
                self._index = np.append(self._index, np.zeros(more, np.uint32))
                self._values = np.append(self._values, np.zeros((2, more), self.dtype), axis=1)
            end = record_trace(
                stream, self.settings, end, self.done, self._trace, self._scale, phi_at, next_at,
                steps, offsets, self._index, self._values,
            )  # fmt: skip
            room = 2 * (len(self._index) + int(self._trace.n_touched[0]))
        self.done, m = self.done + count, int(offsets[-1, 2])
        return steps, offsets, self._index[:m], *self._values[:, :m]

    @property
    def diverged_at(self) -> IntArray:
        """The update at which each learner diverged, or −1."""
        return self._memory.device.to_host(self._memory.diverged_at[self._lanes])  # type: ignore[no-any-return]

    def folded(self, table: Any, row: int) -> Any:
        """Return θ or ω with the postponed sums folded in, [p, K], on the device."""
        g = self._memory.device.xp.asarray(self._trace.values)
        columns = table[self._at, : self.p].transpose(1, 0, 2).reshape(self.p, -1)
        return columns[:, : self.count] + g[:, None] * self._memory.state[row, self._lanes]

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with the postponed sums folded in."""
        memory = self._memory
        theta, omega = self.folded(memory.theta, 3), self.folded(memory.omega, 2)
        omega *= memory.state[4, self._lanes]
        return tuple(memory.device.to_host(w.T.astype(self.dtype)) for w in (theta, omega))

    def measure(self, metrics: Mapping[str, Metric], shape: tuple[int, ...]) -> Mapping[str, Any]:
        """Return metrics of θ: quadratic objectives, computed on the device, and others."""
        values: dict[str, Any] = {}
        for name, metric in metrics.items():
            if quadratic_form(metric) is not None:
                value = self._memory.objective(self, metric).reshape(shape)
                values[name] = DeviceArray(value, self._memory.device)
        others = {name: metric for name, metric in metrics.items() if name not in values}
        values |= super().measure(others, shape) if others else {}
        return {name: values[name] for name in metrics}


class DeviceMemory:
    """The state of all learners, [tiles, p + 1, TILE] or [lanes], and their objectives."""

    def __init__(self, device: Any, tiles: int, p: int, dtype: Any) -> None:
        self.device, self.launches, xp = device, 0, device.xp
        self.theta, self.omega = (xp.zeros((tiles, p + 1, TILE), dtype) for _ in range(2))
        self.state = xp.zeros((len(STATE), tiles * TILE), dtype)
        self.diverged_at = xp.zeros(tiles * TILE, np.int64)  # lanes without a learner do not run
        self._matrices: dict[Metric, list[Any]] = {}
        self._values: dict[Metric, dict[LearnerTiles, tuple[int, Any]]] = {}

    def objective(self, learners: LearnerTiles, metric: Metric) -> Any:
        """Return a quadratic objective, computed for all learners that asked for it at once."""
        xp, form, values = (
            self.device.xp,
            quadratic_form(metric),
            self._values.setdefault(metric, {}),
        )
        if metric not in self._matrices:
            self._matrices[metric] = [xp.asarray(array) for array in form[:3]]
        if values.setdefault(learners, (-1, None))[0] != self.launches:
            H, h, G = self._matrices[metric]
            columns = xp.concatenate([one.folded(self.theta, 3) for one in values], axis=1)
            residual = H @ columns + h[:, None]
            weighted = G[:, None] * residual if G.ndim == 1 else G @ residual
            result = form.factor * (weighted * residual).sum(axis=0) + form.constant
            for one, end in zip(values, np.cumsum([one.count for one in values]), strict=True):
                values[one] = self.launches, result[end - one.count : end]
        return values[learners][1]


def quadratic_form(metric: Metric) -> Quadratic | Any:
    """Return a metric as a quadratic form, None if it is not; see `Quadratic`."""
    form = getattr(getattr(metric, "__self__", None), "quadratic_form", None)
    return None if form is None else form(metric.__name__)


class DeviceArray:
    """Values on a device, which is not waited for until they are needed."""

    def __init__(self, values: Any, device: Any) -> None:
        self._values, self._device, self.shape = values, device, values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return self._device.to_host(self._values)  # type: ignore[no-any-return]
