"""Learners that share a stream: side by side in memory, and spread over threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine.schedule import Schedule
from saddleback.engine.stream_columns import Columns
from saddleback.engine.update_kernel import advance
from saddleback.rules import Form

WINDOW = {"float64": 1e5, "float32": 1e2}
"""C stays within this factor of 1: about as many digits of the postponed sums may cancel."""

SMALLEST = {"float64": 1e-100, "float32": 1e-15}
"""The scale s of ω is folded in when it falls below this, or rises above its inverse."""


AHEAD = 3
"""How many pieces of a stream may wait for threads that are busy."""


class Learners:
    """K learners of one rule that differ only in their step sizes, in one or several blocks.

    A learner with |δ| + |φᵀω| + |αu|, or a step αδ or βδ, beyond ``bound`` or not finite is
    marked as diverged at that update and frozen as it was before it; the others do not notice.

    Attributes
    ----------
    done
        How many updates have been made.
    blocks
        The learners, in blocks that may be advanced independently.
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
        self.blocks = [
            Block(
                form, replace(alpha, scale=alpha.scale[k]), replace(beta, scale=beta.scale[k]),
                theta[k], omega[k], bound,
            )
            for k in parts
        ]  # fmt: skip

    @property
    def diverged_at(self) -> IntArray:
        """For each learner the update at which it diverged, or −1."""
        return np.concatenate([block.diverged_at for block in self.blocks])

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with everything postponed folded in."""
        theta, omega = zip(*(block.weights() for block in self.blocks), strict=True)
        # In one layout, whatever the blocks: sums over it must round alike.
        return np.ascontiguousarray(np.concatenate(theta)), np.concatenate(omega)


class Workers:
    """Threads that advance groups of learners, each thread its own blocks of every group.

    They need not wait for each other within a call: whoever is ahead takes up the next piece.
    """

    def __init__(self, groups: Sequence[Learners], threads: int) -> None:
        self._groups = groups
        each = [(g, block) for g, group in enumerate(groups) for block in group.blocks]
        self._shares = [each[n::threads] for n in range(min(threads, len(each)))]
        alone = len(self._shares) == 1
        self._threads = [] if alone else [ThreadPoolExecutor(1) for _ in self._shares]

    def advance(self, pieces: Iterable[Sequence[Columns]]) -> None:
        """Learn from the next pieces of a stream for each group, while more of them are made."""
        waiting: deque[list[Future[None]]] = deque()
        for streams in pieces:
            done = [group.done for group in self._groups]
            if not self._threads:
                _advance(self._shares[0], streams, done)
            else:
                waiting.append([
                    thread.submit(_advance, share, streams, done)
                    for thread, share in zip(self._threads, self._shares, strict=True)
                ])  # fmt: skip
                if len(waiting) > AHEAD:
                    _finish(waiting.popleft())
            for group, stream in zip(self._groups, streams, strict=True):
                group.done += len(stream.reward)
        for each in waiting:
            _finish(each)


def _advance(
    share: Sequence[tuple[int, Block]], streams: Sequence[Columns], done: Sequence[int]
) -> None:
    for g, block in share:
        block.advance(streams[g], done[g])


def _finish(jobs: Sequence[Future[None]]) -> None:
    for job in jobs:
        job.result()


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
        self._powers = (alpha.power, alpha.offset, beta.power, beta.offset)
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

    def advance(self, stream: Columns, done: int) -> None:
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
