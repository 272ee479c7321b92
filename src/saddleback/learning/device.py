"""Where learners run: on threads of the CPU, or on a GPU, of which only this module knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from saddleback._threads import thread_pool
from saddleback.engine import CHUNK, Columns, Learners, Workers
from saddleback.errors import InvalidParameter

logger = logging.getLogger(__name__)

DeviceName: TypeAlias = Literal["cpu", "cuda", "auto"]
DEVICES = ("cpu", "cuda", "auto")

THREAD_RATE = 1.2e8
"""Learner-steps per second of one thread of the CPU, approximately."""

START, STEP, GPU_RATE = 1.5, 1e-6, 8e9
"""Seconds until a GPU starts, seconds of a step of few learners, and learner-steps per second."""

CHUNK_BYTES, STEP_BYTES = 1 << 27, 250
"""Bytes of a chunk on a GPU, and of a step in it for each group of learners, approximately."""


class Advancing(Protocol):
    """Groups of learners that advance together."""

    def advance(self, chunks: Iterable[Sequence[Any]]) -> None:
        """Learn from the next chunks, one stream per group."""


@dataclass(frozen=True)
class Engine:
    """Learners and workers on one device.

    Attributes
    ----------
    learners
        `Learners`, or a class with the same interface.
    workers
        Returns `Workers` for groups of learners and a number of threads.
    chunk
        Returns the steps per chunk for a number of groups.
    runs_together
        Whether the learners of all runs advance together, rather than each run by itself.
    """

    learners: Callable[..., Any]
    workers: Callable[[Sequence[Any], int], Advancing]
    chunk: Callable[[int], int]
    runs_together: bool


def engine_on(device: str) -> Engine:
    """Return the engine on "cpu" or "cuda"; refuse a GPU that is not there."""
    if device == "cpu":
        return Engine(Learners, Workers, lambda groups: CHUNK, False)
    from saddleback import cuda  # imports CuPy

    gpu = cuda.current_device()
    return Engine(
        cuda.Learners, lambda groups, threads: cuda.Workers(groups, threads, gpu),
        lambda groups: max(CHUNK // 4, min(4 * CHUNK, CHUNK_BYTES // (STEP_BYTES * groups))), True,
    )  # fmt: skip


def faster_device(learners: int, steps: float, threads: int) -> Literal["cpu", "cuda"]:
    """Return "cuda" if a GPU is expected to be faster, else "cpu", and log why.

    ``learners`` advance side by side, for a number of steps.
    """
    on_cpu = learners * steps / (threads * THREAD_RATE)
    on_gpu = START + steps * max(STEP, learners / GPU_RATE)
    device: Literal["cpu", "cuda"] = "cpu"
    reason = f"too little work for a GPU: {learners:,} learners, {steps:,.0f} steps"
    if on_gpu < on_cpu:
        try:
            device, reason = "cuda", f"about {on_gpu:.2g} s, {on_cpu:.2g} s on {threads} threads"
            engine_on(device)
        except InvalidParameter as error:
            device, reason = "cpu", str(error).rstrip(".")
    logger.info("device: %s (%s)", device, reason)
    return device


def side_by_side(
    runs: Sequence[Iterator[Sequence[Columns]]], rules: int, threads: int
) -> Iterator[Sequence[Columns | None]]:
    """Yield the streams of several runs together, produced in threads; None after a run's end."""
    if len(runs) == 1:
        yield from runs[0]
        return
    ended: list[None] = [None] * rules
    with thread_pool(threads) as pool:
        while any(parts := list(pool.map(lambda run: next(run, None), runs))):
            yield [stream for part in parts for stream in (ended if part is None else part)]
