"""Progress of long computations: the fraction done, and the current phase.

A function that works for long reports to a `Progress` passed in; the command line draws it.
Consecutive parts of a computation share one in proportion to their planned cost, so that the
fraction always refers to the complete computation.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
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
