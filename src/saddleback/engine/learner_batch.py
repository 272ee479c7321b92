"""Learners that share a stream: adjacent in memory, in blocks that threads advance."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine.explicit_kernel import ExplicitBlock
from saddleback.engine.metrics import MeasuredWeights
from saddleback.engine.schedule import Schedule
from saddleback.engine.stream_columns import Columns, SparseVector
from saddleback.engine.update_kernel import Lanes, UpdateSettings, advance
from saddleback.errors import InvalidParameter
from saddleback.rules import Coefficients, Form

WINDOW = {"float64": 1e5, "float32": 1e2}
"""C stays within this factor of 1, which bounds cancellation in the postponed sums."""

SMALLEST = {"float64": 1e-100, "float32": 1e-15}
"""The scale s of ω is folded in when it falls below this, or rises above its inverse."""

CACHE_LINE = 64
"""Bytes."""


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
        parts = np.array_split(np.arange(len(theta)), min(blocks, len(theta)))
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
        return np.concatenate([block.diverged_at for block in self.blocks])

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with the postponed sums folded in."""
        theta, omega = zip(*(block.weights() for block in self.blocks), strict=True)
        # One memory layout for any number of blocks, so that sums over it round the same.
        return np.ascontiguousarray(np.concatenate(theta)), np.concatenate(omega)


class Block:
    """Learners that are adjacent in memory and advance together."""

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
        diverged_at = np.full(width, -1, dtype=np.int64)
        initial = (0.0, 0.0, 1.0, 1.0, 0.0, bound, 1.0, 0.0, 0.0, 0.0, 0.0)
        self._lanes = Lanes(
            pad(theta.T), pad(omega.T), pad(alpha.scale), pad(beta.scale), diverged_at,
            *(np.full(width, value, dtype=dtype) for value in initial),
        )  # fmt: skip
        self.diverged_at = diverged_at[:learners]

    def advance(self, stream: Columns, done: int) -> None:
        """Learn from the next chunk of a stream, after ``done`` updates."""
        advance(stream, self._settings, done, self._trace, self._scale, self._lanes, self._width)

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with the postponed sums folded in."""
        theta, omega = self._lanes.theta.copy(), self._lanes.omega.copy()
        touched = self._trace.touched[: self._trace.n_touched[0]]
        theta[touched] += self._trace.values[touched, None] * self._lanes.F_theta
        omega[touched] += self._trace.values[touched, None] * self._lanes.F
        omega *= self._lanes.s
        return theta.T[: self._learners], omega.T[: self._learners]


def update_settings(
    form: Form, alpha: Schedule, beta: Schedule, dtype: np.dtype[Any]
) -> UpdateSettings:
    """Return the constants of learners, for weights of a given type."""
    if form.has_further_traces:
        raise InvalidParameter(
            f'{form!r} has further traces, which a GPU does not support: use the device "cpu".'
        )
    return UpdateSettings(
        Coefficients._make(map(float, form.coefficients)), alpha.power, alpha.offset,
        beta.power, beta.offset, WINDOW[dtype.name], SMALLEST[dtype.name],
    )  # fmt: skip


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> FloatArray:
    """Return zeros that begin with a cache line, so that a row occupies as few as possible."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def _padded(learners: int) -> int:
    """Round up to full SIMD vectors, avoiding rows that share the same cache lines."""
    width = -(-learners // 8) * 8 if learners > 1 else 1
    return width + 8 if width % 512 == 0 else width
