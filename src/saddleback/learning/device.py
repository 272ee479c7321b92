"""Where learners run: on threads of the CPU, or on a GPU, of which only this module knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from saddleback.engine import CHUNK, Learners, Workers
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


@dataclass(frozen=True)
class Engine:
    """Learners and workers on one device.

    Attributes
    ----------
    learners, workers
        `Learners` and `Workers`, or classes with the same interface.
    chunk
        Returns the steps per chunk for a number of groups of learners; None for the usual ones.
    runs_together
        Whether all runs advance together, rather than each by itself.
    check
        Refuses groups of so many learners, of p weights of a type, that do not fit in memory.
    """

    learners: Callable[..., Any]
    workers: Callable[[Sequence[Any], int], Any]
    chunk: Callable[[int], int | None]
    runs_together: bool
    check: Callable[[Sequence[int], int, np.dtype[Any]], object]


def engine_on(device: str) -> Engine:
    """Return the engine on "cpu" or "cuda"; refuse a GPU that is not there."""
    if device == "cpu":
        return Engine(Learners, Workers, lambda groups: None, False, lambda *sizes: None)
    from saddleback import cuda  # imports CuPy

    gpu = cuda.current_device()
    return Engine(
        cuda.Learners, partial(cuda.Workers, device=gpu),
        lambda groups: max(CHUNK // 4, min(4 * CHUNK, CHUNK_BYTES // (STEP_BYTES * groups))), True,
        partial(cuda.check_memory, gpu),
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
