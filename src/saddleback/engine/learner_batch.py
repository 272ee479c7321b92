"""Learners that share a stream: adjacent in memory, in blocks that threads advance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine.explicit_kernel import ExplicitBlock
from saddleback.engine.metrics import MeasuredWeights
from saddleback.engine.schedule import Schedule
from saddleback.engine.stream_columns import Columns, SparseVector
from saddleback.engine.update_kernel import Lanes, UpdateSettings, advance
from saddleback.rules import Coefficients, Form

WINDOW = {"float64": 1e5, "float32": 1e2}
"""C stays within this factor of 1, which bounds cancellation in the postponed sums."""

FURTHER_WINDOW = {"float64": 1e3, "float32": 1e2}
"""The same with further traces, which `explicit_kernel` stores as they are."""

SMALLEST = {"float64": 1e-100, "float32": 1e-15}
"""The scale s of ω is folded in when it falls below this, or rises above its inverse."""

CACHE_LINE = 64
"""Bytes."""

SIMD = 8
"""Lanes of a vector."""

ROWS = 8
"""Rows of weights that a step changes, at the least, on problems with several features."""


class Learners(MeasuredWeights):
    """K learners of one rule that differ only in their step sizes, in one or several blocks.

    A learner whose |δ| + |φᵀω| + |αu|, or whose step αδ or βδ, exceeds ``bound`` or is not finite
    has diverged. It is marked with the number of that update and keeps the weights it had before;
    the other learners are unaffected.

    Attributes
    ----------
    done
        Number of updates so far.
    blocks
        The learners, in blocks that advance independently.
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
        self.done = 0
        # Neighbours have similar step sizes and diverge alike: blocks take turns to stay even.
        count = min(blocks, len(theta))
        parts = [np.arange(first, len(theta), count) for first in range(count)]
        self._order = np.argsort(np.concatenate(parts))
        kind = ExplicitBlock if form.has_further_traces else Block
        self.blocks: list[Block | ExplicitBlock] = [
            kind(
                form, replace(alpha, scale=alpha.scale[k]), replace(beta, scale=beta.scale[k]),
                theta[k], omega[k], bound,
            )
            for k in parts
        ]  # fmt: skip

    @property
    def diverged_at(self) -> IntArray:
        """The update at which each learner diverged, or −1."""
        return np.concatenate([block.diverged_at for block in self.blocks])[self._order]

    def current_theta(self) -> FloatArray:
        """Return θ as [K, p], with the postponed sums folded in."""
        # One memory layout for any number of blocks, so that sums over it round the same.
        return np.concatenate([block.theta() for block in self.blocks])[self._order]

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with the postponed sums folded in."""
        omega = np.concatenate([block.omega() for block in self.blocks])[self._order]
        return self.current_theta(), omega


class Block:
    """Learners that are adjacent in memory and advance together.

    Those that have diverged keep their weights, and give up their place to those that go on.
    """

    def __init__(
        self,
        form: Form,
        alpha: Schedule,
        beta: Schedule,
        theta: FloatArray,
        omega: FloatArray,
        bound: float,
    ) -> None:
        learners, p = theta.shape
        self._learners = learners
        width = _padded(learners)
        dtype = theta.dtype

        def pad(values: FloatArray) -> FloatArray:
            padded = aligned_zeros((*values.shape[:-1], width), dtype)
            padded[..., :learners] = values
            return padded

        # The compiler knows the length of a tuple: for one learner it drops the inner loops.
        self._width = () if width == 1 else (width,)
        self._settings = update_settings(form, alpha, beta, dtype)
        self._trace, self._scale = SparseVector.zeros(p), np.array([1.0, 0.0])
        initial = (0.0, 0.0, 1.0, 1.0, 0.0, bound, 1.0, 0.0, 0.0, 0.0, 0.0)
        self._lanes = Lanes(
            pad(theta.T), pad(omega.T), pad(alpha.scale), pad(beta.scale),
            np.full(width, -1, dtype=np.int64),
            *(np.full(width, value, dtype=dtype) for value in initial),
        )  # fmt: skip
        self.diverged_at = np.full(learners, -1, dtype=np.int64)
        self._running = np.arange(learners)  # the learners in the first lanes
        self._stopped: list[StoppedLearners] = []

    def advance(self, stream: Columns, done: int) -> None:
        """Learn from the next chunk of a stream, after ``done`` updates."""
        self._drop_diverged(len(stream.reward))
        if len(self._running):
            advance(
                stream, self._settings, done, self._trace, self._scale, self._lanes, self._width
            )
            self.diverged_at[self._running] = self._lanes.diverged_at[: len(self._running)]

    def _drop_diverged(self, steps: int) -> None:
        """Move diverged learners out of the lanes, if that takes less time than to carry them."""
        alive = self.diverged_at[self._running] < 0
        (p, width), count = self._lanes.theta.shape, int(alive.sum())
        narrow = min(width, max(_padded(count), SIMD)) if count else 0
        if (width - narrow) * steps * ROWS <= p * width:
            return
        dead = np.flatnonzero(~alive)
        theta, omega = (table[:, dead].T for table in (self._lanes.theta, self._lanes.omega))
        self._stopped.append(StoppedLearners(self._running[dead], theta, omega))
        self._running = self._running[alive]
        # Lanes beyond the learners are filled with diverged ones, which do not change any more.
        kept = np.concatenate([np.flatnonzero(alive), dead, np.arange(len(alive), width)])[:narrow]
        self._lanes = Lanes._make(_aligned(values[..., kept]) for values in self._lanes)
        self._width = () if narrow == 1 else (narrow,)

    def theta(self) -> FloatArray:
        """Return θ as [K, p], with the postponed sums folded in."""
        theta, touched = self._lanes.theta.copy(), self._trace.touched[: self._trace.n_touched[0]]
        theta[touched] += self._trace.values[touched, None] * self._lanes.F_theta
        return self._of_all(theta, [stopped.theta for stopped in self._stopped])

    def omega(self) -> FloatArray:
        """Return ω as [K, p], with the postponed sums folded in."""
        omega, touched = self._lanes.omega.copy(), self._trace.touched[: self._trace.n_touched[0]]
        omega[touched] += self._trace.values[touched, None] * self._lanes.F
        omega *= self._lanes.s
        return self._of_all(omega, [stopped.omega for stopped in self._stopped])

    def _of_all(self, lanes: FloatArray, stopped: Sequence[FloatArray]) -> FloatArray:
        """Return the weights of all learners, given those in the lanes and those that stopped."""
        weights = np.empty((len(self.diverged_at), len(lanes)), dtype=lanes.dtype)
        weights[self._running] = lanes.T[: len(self._running)]
        for (learners, *_), own in zip(self._stopped, stopped, strict=True):
            weights[learners] = own
        return weights


class StoppedLearners(NamedTuple):
    """Learners that have diverged, with the weights that they had before."""

    learners: IntArray
    theta: FloatArray
    omega: FloatArray


def update_settings(
    form: Form, alpha: Schedule, beta: Schedule, dtype: np.dtype[Any]
) -> UpdateSettings:
    """Return the constants of learners, for weights of a given type."""
    window = (FURTHER_WINDOW if form.has_further_traces else WINDOW)[dtype.name]
    return UpdateSettings(
        Coefficients._make(map(float, form.coefficients)), alpha.power, alpha.offset,
        beta.power, beta.offset, window, SMALLEST[dtype.name],
    )  # fmt: skip


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> FloatArray:
    """Return zeros that begin with a cache line, so that a row occupies as few as possible."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def _aligned(values: Any) -> Any:
    """Return a copy that begins with a cache line."""
    copy = aligned_zeros(values.shape, values.dtype)
    copy[:] = values
    return copy


def _padded(learners: int) -> int:
    """Round up to full SIMD vectors, avoiding rows that share the same cache lines."""
    width = -(-learners // SIMD) * SIMD if learners > 1 else 1
    return width + SIMD if width % 512 == 0 else width
