"""Learners on a device, in tiles of 32 that share a rule and a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import MeasuredWeights, Metric, Schedule, update_settings
from saddleback.engine.metrics import quadratic_form
from saddleback.engine.trace_records import FURTHER_NUMBERS, NUMBERS, TraceRecorder
from saddleback.rules import Form

TILE = 32
"""Learners whose weights of a feature are adjacent in memory: those of a warp."""

STATE = ("alpha", "beta", "F", "F_theta", "s", "u", "C", "second_C", "v", "predicted", "e_dutch")
"""Numbers of each learner between chunks; all are 0 at first but s and the scales C and C'."""


class LearnerTiles(MeasuredWeights):
    """K learners of one rule in one run; the interface is that of `saddleback.engine.Learners`."""

    def __init__(
        self, form: Form, alpha: Schedule, beta: Schedule, theta: FloatArray, omega: FloatArray,
        bound: float, blocks: int = 1,
    ) -> None:  # fmt: skip
        self.form, self.bound, self.done, self.dtype = form, bound, 0, theta.dtype
        self.count, self.p = theta.shape
        self.tiles = -(-self.count // TILE)
        self.settings = update_settings(form, alpha, beta, theta.dtype)
        self.recorder = TraceRecorder(self.p, self.settings, form.true_online, self.dtype)
        self._initial: Any = np.stack([alpha.scale, beta.scale]), theta, omega

    def place(self, memory: DeviceMemory, first: int, constants: Any) -> None:
        """Take tiles from ``first`` on, copy the initial state there, and fill in constants."""
        self._memory, xp = memory, memory.device.xp
        self._at = slice(first, first + self.tiles)
        self._lanes = slice(first * TILE, first * TILE + self.count)
        sizes, theta, omega = self._initial
        memory.state[:2, self._lanes] = xp.asarray(sizes, self.dtype)
        for row in (4, 6, 7):
            memory.state[row, self._lanes] = 1.0
        memory.diverged_at[self._lanes] = -1
        for table, initial in zip(memory.weights, (theta, omega), strict=False):
            if initial.any():
                lanes = xp.zeros((self.tiles, TILE, self.p), self.dtype)
                lanes.reshape(-1, self.p)[: self.count] = xp.asarray(initial)
                table[self._at, : self.p] = lanes.transpose(0, 2, 1)
        for name, value in self.settings.coefficients._asdict().items():
            constants[name] = value
        constants["bound"], constants["smallest"] = self.bound, self.settings.smallest
        constants["with_omega"] = self.form.has_dual or omega.any()
        constants["true_online"] = self.form.true_online
        self._initial = None

    @property
    def diverged_at(self) -> IntArray:
        """The update at which each learner diverged, or −1."""
        return self._memory.device.to_host(self._memory.diverged_at[self._lanes])  # type: ignore[no-any-return]

    def folded(self, table: int, row: int) -> Any:
        """Return θ or ω with the postponed sums folded in, [p, K], on the device."""
        memory = self._memory  # every second table is of θ, the others of ω
        columns = memory.weights[table::2, self._at, : self.p].transpose(0, 2, 1, 3)
        own, *dutch = columns.reshape(len(columns), self.p, -1)[..., : self.count]
        trace = memory.device.xp.asarray(self.recorder.trace.values)[:, None]
        g = dutch[0] if self.form.true_online else trace
        return own + g * memory.state[row, self._lanes]

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with the postponed sums folded in."""
        memory = self._memory
        theta, omega = self.folded(0, 3), self.folded(1, 2)
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
    """The state of all learners, [tables, tiles, p + 1, TILE] or [lanes], and their objectives.

    ``weights`` are θ and ω, and the dutch traces of both if any learner has them.
    """

    def __init__(self, device: Any, tiles: int, p: int, dtype: Any, forms: Sequence[Form]) -> None:
        self.device, self.launches, xp = device, 0, device.xp
        self.further = any(form.has_further_traces for form in forms)
        self.numbers = len(NUMBERS) + self.further * len(FURTHER_NUMBERS)
        self.weights = xp.zeros((tables(forms), tiles, p + 1, TILE), dtype)
        self.state = xp.zeros((len(STATE), tiles * TILE), dtype)
        self.diverged_at = xp.zeros(tiles * TILE, np.int64)  # lanes without a learner do not run
        self._matrices: dict[Metric, list[Any]] = {}
        self._values: dict[Metric, dict[LearnerTiles, tuple[int, Any]]] = {}

    def objective(self, learners: LearnerTiles, metric: Metric) -> Any:
        """Return a quadratic objective, computed for all learners that asked for it at once."""
        xp, values = self.device.xp, self._values.setdefault(metric, {})
        form: Any = quadratic_form(metric)
        if metric not in self._matrices:
            self._matrices[metric] = [xp.asarray(array) for array in form[:3]]
        if values.setdefault(learners, (-1, None))[0] != self.launches:
            H, h, G = self._matrices[metric]
            columns = xp.concatenate([one.folded(0, 3) for one in values], axis=1)
            residual = H @ columns + h[:, None]
            weighted = G[:, None] * residual if G.ndim == 1 else G @ residual
            result = form.factor * (weighted * residual).sum(axis=0) + form.constant
            for one, end in zip(values, np.cumsum([one.count for one in values]), strict=True):
                values[one] = self.launches, result[end - one.count : end]
        return values[learners][1]


def tables(forms: Sequence[Form]) -> int:
    """Return how many weights learners of these forms have for each feature."""
    return 4 if any(form.true_online for form in forms) else 2


class DeviceArray:
    """Values on a device, which is not waited for until they are needed."""

    def __init__(self, values: Any, device: Any) -> None:
        self._values, self._device, self.shape = values, device, values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return self._device.to_host(self._values)  # type: ignore[no-any-return]
