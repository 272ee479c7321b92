"""Progress of long work: the fraction that is done, and the phase it is in.

Whoever works reports to a `Progress` that was passed in; the command line draws it. Consecutive
parts of some work share one by what they are planned to cost, so that the fraction is of all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol


class Progress(Protocol):
    """Is called with the fraction of the work that is done, from 0 to 1, and its phase."""

    def __call__(self, fraction: float, phase: str = "", /) -> object:
        """Take note of it."""


def part_of(
    progress: Progress | None, start: float, stop: float, phase: str = ""
) -> Progress | None:
    """Return what a part of some work reports to: its 0 to 1 is ``start`` to ``stop`` of the work.

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
    """Return what equal parts report to that run at the same time, in threads.

    Examples
    --------
    >>> one, other = shared_progress(lambda fraction, phase: print(fraction), 2)
    >>> other(0.5)
    0.25
    >>> one(1.0)
    0.75
    """
    if progress is None:
        return [None] * count
    guard, done = threading.Lock(), [0.0] * count

    def reporter(part: int) -> Progress:
        def report(fraction: float, phase: str = "", /) -> None:
            with guard:
                done[part] = fraction
                progress(sum(done) / count, phase)

        return report

    return [reporter(part) for part in range(count)]


def planned(progress: Progress | None, costs: Sequence[tuple[str, float]]) -> list[Progress | None]:
    """Return for each (phase, planned cost), in order, what it reports to.

    Examples
    --------
    >>> first, second = planned(
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
