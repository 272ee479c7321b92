"""Progress of long computations: the fraction done, and the current phase or state.

A function that works for long reports to a `Progress` passed in; the command line draws it.
Consecutive parts of a computation share one in proportion to their planned cost, so that the
fraction always refers to the complete computation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Protocol


class Progress(Protocol):
    """Called with the fraction of the work that is done, from 0 to 1, and its phase."""

    def __call__(self, fraction: float, phase: str = "", /) -> object:
        """Record the fraction done."""


def part_of(
    progress: Progress | None, start: float, stop: float, phase: str = ""
) -> Progress | None:
    """Return a progress for part of the work: its 0 to 1 maps to ``start`` to ``stop``.

    Examples
    --------
    >>> half = part_of(lambda fraction, phase: print(fraction, phase), 0.5, 1.0, "reading")
    >>> half(0.5)
    0.75 reading
    """
    if progress is None:
        return None

    def report(fraction: float, inner: str = "", /) -> None:
        progress(start + (stop - start) * fraction, inner or phase)

    return report


def shared_progress(progress: Progress | None, count: int) -> list[Progress | None]:
    """Return a progress for each of several equal parts that run concurrently, in threads.

    Examples
    --------
    >>> first, second = shared_progress(lambda fraction, phase: print(fraction), 2)
    >>> second(0.5)
    0.25
    >>> first(1.0)
    0.75
    """
    if progress is None:
        return [None] * count
    lock, fractions = threading.Lock(), [0.0] * count

    def reporter(part: int) -> Progress:
        def report(fraction: float, phase: str = "", /) -> None:
            with lock:
                fractions[part] = fraction
                progress(sum(fractions) / count, phase)

        return report

    return [reporter(part) for part in range(count)]


def concurrent_progress(progress: Progress | None, costs: Sequence[float]) -> list[Progress | None]:
    """Return a progress for each of several parts that may overlap, by their planned costs.

    Examples
    --------
    >>> first, second = concurrent_progress(lambda fraction, phase: print(fraction), [1.0, 3.0])
    >>> second(0.5)
    0.375
    >>> first(1.0)
    0.625
    """
    if progress is None:
        return [None] * len(costs)
    lock, done, total = threading.Lock(), [0.0] * len(costs), sum(costs) or 1.0

    def reporter(part: int) -> Progress:
        def report(fraction: float, phase: str = "", /) -> None:
            with lock:
                done[part] = costs[part] * fraction
                progress(min(sum(done) / total, 1.0), phase)

        return report

    return [reporter(part) for part in range(len(costs))]


def split_progress(
    progress: Progress | None, costs: Sequence[tuple[str, float]]
) -> list[Progress | None]:
    """Return a progress for each (phase, planned cost), in order.

    Examples
    --------
    >>> first, second = split_progress(
    ...     lambda fraction, phase: print(fraction, phase), [("reading", 1.0), ("evaluating", 3.0)]
    ... )
    >>> second(0.5)
    0.625 evaluating
    """
    if not costs:
        return []
    total = sum(cost for _, cost in costs) or 1.0
    ends = [min(end / total, 1.0) for end in accumulate(cost for _, cost in costs)]
    return [
        part_of(progress, start, stop, phase)
        for (phase, _), start, stop in zip(costs, [0.0, *ends[:-1]], ends, strict=True)
    ]


class TaskProgress:
    """Progress of tasks that run concurrently, weighted by their sizes.

    Parameters
    ----------
    progress
        Called with the fraction of the missing work that is done, so that a resumed command
        starts at 0; and with a line of text.
    name, unit
        Name of the computation, and the unit of the sizes; the speed is shown if there is one.
    sizes, count
        Size of each missing task by name, and the number of all tasks.
    note
        Returns a remark to append, if any.

    Examples
    --------
    >>> tasks = TaskProgress(lambda f, text: print(f, text), "sweep", {"a": 100, "b": 300}, count=2)
    >>> tasks.advance("b", 0.5)
    0.375 sweep, 0 of 2 tasks
    >>> tasks.finish("b")
    0.75 sweep, 1 of 2 tasks
    """

    def __init__(
        self,
        progress: Progress | None,
        name: str,
        sizes: Mapping[str, float],
        count: int,
        unit: str = "",
        note: Callable[[], str] = str,
    ) -> None:
        self._progress, self._name, self._unit, self._note = progress, name, unit, note
        self._sizes, self._count, self._finished = sizes, count, count - len(sizes)
        self._done = dict.fromkeys(sizes, 0.0)
        self._any_finished, self._diverged = False, 0
        self._lock, self._start = threading.Lock(), time.monotonic()

    def advance(self, task: str, fraction: float) -> None:
        """Record the fraction of a task that is done; may be called from any thread."""
        with self._lock:
            self._done[task] = fraction * self._sizes[task]
        self.refresh()

    def finish(self, task: str, diverged: int = 0) -> None:
        """Record a task that is done and written, and the number of learners that diverged."""
        with self._lock:
            self._finished, self._any_finished = self._finished + 1, True
            self._diverged += diverged
        self.advance(task, 1.0)

    def refresh(self) -> None:
        """Report the present state again."""
        if self._progress is None:
            return
        with self._lock:
            total, done = sum(self._sizes.values()), sum(self._done.values())
            elapsed = time.monotonic() - self._start
            text = f"{self._name}, {self._finished:,} of {self._count:,} tasks"
            if self._unit and self._any_finished and elapsed > 0:
                text += f", {si_number(done / elapsed)} {self._unit}/s"
            if self._diverged:
                text += f", {self._diverged:,} diverged"
            self._progress(done / total if total else 1.0, text + self._note())


def si_number(number: float) -> str:
    """Return a number with three digits and an SI prefix.

    Examples
    --------
    >>> si_number(1234567.0), si_number(25.0)
    ('1.23 M', '25')
    """
    for size, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{prefix}"
    return f"{number:.3g}"
