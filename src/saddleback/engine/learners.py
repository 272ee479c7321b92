"""Learners of one rule, side by side in memory and spread over threads."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine.schedule import Schedule
from saddleback.engine.step import advance
from saddleback.engine.stream import Stream
from saddleback.rules import Form

WINDOW = {"float64": 1e5, "float32": 1e2}
"""C stays within this factor of 1: about as many digits of the postponed sums may cancel."""

SMALLEST = {"float64": 1e-100, "float32": 1e-15}
"""The scale s of ω is folded in when it falls below this, or rises above its inverse."""


class Learners:
    """K learners of one rule that differ only in their step sizes, in one or several threads.

    A learner with |δ| + |φᵀω| + |αu|, or a step αδ or βδ, beyond ``bound`` or not finite is
    marked as diverged at that update and frozen as it was before it; the others do not notice.

    Attributes
    ----------
    done
        How many updates have been made.
    """

    def __init__(
        self,
        form: Form,
        alpha: Schedule,
        beta: Schedule,
        theta: FloatArray,
        omega: FloatArray,
        bound: float,
        threads: int = 1,
    ) -> None:
        self.done = 0
        parts = np.array_split(np.arange(len(theta)), min(threads, len(theta)))
        self._blocks = [
            Block(
                form, Schedule(alpha.scale[k], alpha.power), Schedule(beta.scale[k], beta.power),
                theta[k], omega[k], bound,
            )
            for k in parts
        ]  # fmt: skip
        self._pool = ThreadPoolExecutor(len(parts)) if len(parts) > 1 else None

    def advance(self, streams: Iterable[Stream]) -> None:
        """Learn from the next pieces of a stream; with threads, while the one after is made."""
        busy: list[Future[None]] = []
        for stream in streams:
            for each in busy:
                each.result()
            if self._pool is None:
                self._blocks[0].advance(stream, self.done)
            else:
                submit = self._pool.submit
                busy = [submit(block.advance, stream, self.done) for block in self._blocks]
            self.done += len(stream.reward)
        for each in busy:
            each.result()

    @property
    def diverged_at(self) -> IntArray:
        """For each learner the update at which it diverged, or −1."""
        return np.concatenate([block.diverged_at for block in self._blocks])

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with everything postponed folded in."""
        theta, omega = zip(*(block.weights() for block in self._blocks), strict=True)
        return np.concatenate(theta), np.concatenate(omega)


class Block:
    """Learners that lie side by side in memory and are advanced together."""

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
        kind = theta.dtype

        def lanes(values: FloatArray) -> FloatArray:
            wide = np.zeros((*values.shape[:-1], width), dtype=kind)
            wide[..., :learners] = values
            return wide

        # The length of a tuple is known to the compiler: for one learner it drops the inner loops.
        self._several = () if width == 1 else (width,)
        self._theta, self._omega = lanes(theta.T), lanes(omega.T)
        self._alpha, self._beta = lanes(alpha.scale), lanes(beta.scale)
        self._powers = (alpha.power, beta.power)
        self._coefficients = np.array(form.coefficients)
        self._range = (WINDOW[kind.name], SMALLEST[kind.name])
        self._g = np.zeros(p)
        self._touched = np.zeros(p, dtype=np.uint32)
        self._is_touched = np.zeros(p, dtype=np.bool_)
        self._shared = np.array([1.0, 0.0])  # C and ‖e‖²
        self._count = np.zeros(1, dtype=np.int64)
        start = (0.0, 0.0, 1.0, 1.0, 0.0, bound, 1.0, 0.0, 0.0, 0.0, 0.0)
        self._lanes = tuple(np.full(width, value, dtype=kind) for value in start)
        self._diverged_at = np.full(width, -1, dtype=np.int64)
        self.diverged_at = self._diverged_at[:learners]

    def advance(self, stream: Stream, done: int) -> None:
        """Learn from the next piece of a stream, after ``done`` updates."""
        advance(
            *stream, self._coefficients, self._alpha, self._beta, *self._powers, done, *self._range,
            self._g, self._touched, self._is_touched, self._shared, self._count,
            self._theta, self._omega, self._lanes, self._diverged_at, self._several,
        )  # fmt: skip

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with everything postponed folded in."""
        theta, omega = self._theta.copy(), self._omega.copy()
        touched = self._touched[: self._count[0]]
        theta[touched] += self._g[touched, None] * self._lanes[1]
        omega[touched] += self._g[touched, None] * self._lanes[0]
        omega *= self._lanes[2]
        return theta.T[: self._learners], omega.T[: self._learners]


def _padded(learners: int) -> int:
    """Round up to whole vectors, avoiding rows that all fall on the same cache lines."""
    width = -(-learners // 8) * 8 if learners > 1 else 1
    return width + 8 if width % 512 == 0 else width
