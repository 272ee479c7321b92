"""Where learners run: on threads of the CPU, or on a GPU, of which only this module knows."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from saddleback._registry import check_name
from saddleback.engine import CHUNK, Learners, Workers
from saddleback.errors import InvalidParameter
from saddleback.rules import Form

logger = logging.getLogger(__name__)

DeviceName: TypeAlias = Literal["cpu", "cuda", "auto"]
DEVICES = ("cpu", "cuda", "auto")

THREAD_RATE = 1.2e8
"""Learner-steps per second of one thread of the CPU, approximately."""

START, STEP, GPU_RATE = 2.0, 2e-6, 1e10
"""Seconds until a GPU starts, seconds of a step of few learners, and learner-steps per second."""

CHUNK_STEPS, STEP_BYTES = 1 << 20, 800
"""Steps of a chunk on a GPU, times groups of learners; and bytes that are allocated for each.

The bytes are those of eight active features and of further traces, in float64.
"""


@dataclass(frozen=True)
class Engine:
    """Learners and workers on one device.

    Attributes
    ----------
    name
        Name of the device.
    learners, workers
        `Learners` and `Workers`, or classes with the same interface.
    needs
        Returns the memory of the device, in bytes, for groups of so many learners with p weights of
        a type, and forms of some of them.
    memory
        Returns the free and the total memory of the device, in bytes.
    chunk
        Returns the steps per chunk for a number of groups; None for the usual ones.
    runs_together
        Whether all runs advance together, rather than each by itself.
    """

    name: str
    learners: Callable[..., Any]
    workers: Callable[[Sequence[Any], int], Any]
    needs: Callable[..., int] = lambda *sizes: 0
    memory: Callable[[], tuple[float, float]] = lambda: (math.inf, math.inf)
    chunk: Callable[[int], int | None] = lambda groups: None
    runs_together: bool = False

    def check(
        self, groups: Sequence[int], p: int, dtype: np.dtype[Any], forms: Sequence[Form]
    ) -> None:
        """Refuse groups of learners that do not fit into the memory of the device."""
        needed, (free, total) = self.needs(groups, p, dtype, forms), self.memory()
        learners = sum(groups)
        if needed > free:
            raise InvalidParameter(
                f"{learners:,} learners of {p:,} features need {needed / 1e9:.3g} GB on "
                f"{self.name}, and {free / 1e9:.3g} of {total / 1e9:.3g} GB are free: about "
                f"{int(learners * free // needed):,} fit. Use fewer runs, rules or step sizes, or "
                "float32."
            )

    def runs_that_fit(
        self, groups: Sequence[int], p: int, dtype: np.dtype[Any], forms: Sequence[Form], runs: int
    ) -> int:
        """Return how many runs of the groups fit into the memory at once; at least 1."""
        one, two = (self.needs(list(groups) * n, p, dtype, forms) for n in (1, 2))
        free = self.memory()[0]
        return runs if two == one else max(1, min(runs, 1 + int((free - one) // (two - one))))


def engine_on(device: str) -> Engine:
    """Return the engine on "cpu" or "cuda"; refuse a GPU that is not there."""
    if device == "cpu":
        return Engine("the CPU", Learners, Workers)
    from saddleback import cuda  # imports CuPy

    gpu = cuda.current_device()

    def chunk(groups: int) -> int:
        return max(CHUNK // 4, min(4 * CHUNK, CHUNK_STEPS // groups))

    def needs(groups: Sequence[int], p: int, dtype: np.dtype[Any], forms: Sequence[Form]) -> int:
        chunks = cuda.SLOTS * chunk(len(groups)) * len(groups) * STEP_BYTES
        return cuda.bytes_needed(groups, p, dtype, forms) + chunks

    workers = partial(cuda.TileWorkers, device=gpu)
    return Engine(gpu.name, cuda.LearnerTiles, workers, needs, gpu.memory, chunk, True)


def choose_device(device: str, work: Sequence[tuple[int, float]], threads: int) -> str:
    """Return "cpu" or "cuda"; for "auto" the one that is expected to be faster, and log why.

    ``work`` are numbers of learners that advance side by side on a GPU, each with their steps.
    """
    if check_name("device", device, DEVICES) != "auto":
        return device
    on_cpu = sum(learners * steps for learners, steps in work) / (threads * THREAD_RATE)
    on_gpu = START + sum(steps * max(STEP, learners / GPU_RATE) for learners, steps in work)
    times = f"about {on_cpu:.2g} s on {threads} threads of the CPU, {on_gpu:.2g} s on a GPU"
    chosen, reason = "cpu", times
    if on_gpu < on_cpu:
        try:
            chosen, reason = "cuda", f"{engine_on('cuda').name}; {times}"
        except InvalidParameter as error:
            reason = str(error).rstrip(".")
    logger.info("device: %s (%s)", chosen, reason)
    return chosen
