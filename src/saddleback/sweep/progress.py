"""Telling how far work has come: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from saddleback.sweep.run import Done, Task
from saddleback.sweep.store import Store, facts_of

EVERY = 5.0
"""Seconds between two lines where there is no terminal."""


class Count:
    """What is done, how fast, and what is left.

    Examples
    --------
    >>> count = Count("sweep", 3, 300, "steps")
    >>> count.add(100, fresh=False, diverged=2)
    >>> count.add(100, fresh=True, diverged=0)
    >>> print(count.said(now=count.begun + 2.0))
    sweep: 2 of 3 tasks, 50 steps/s, 2 s left, 2 diverged so far
    """

    def __init__(self, what: str, tasks: int, size: int, unit: str) -> None:
        self.what, self.tasks, self.size, self.unit = what, tasks, size, unit
        self.done = self.sized = self.fresh = self.diverged = 0
        self.begun = time.monotonic()

    def add(self, size: int, *, fresh: bool, diverged: int) -> None:
        """Count a finished task."""
        self.done += 1
        self.sized += size
        self.fresh += size if fresh else 0
        self.diverged += diverged

    def said(self, now: float) -> str:
        """Say it in a line."""
        return f"{self.what}: {self.done:,} of {self.tasks:,} tasks{self.pace(now)}"

    def pace(self, now: float) -> str:
        """Say how fast it goes, and what that means."""
        said = ""
        passed = now - self.begun
        if self.fresh and passed > 0:
            rate = self.fresh / passed
            if self.unit:
                said += f", {short(rate)} {self.unit}/s"
            said += f", {span((self.size - self.sized) / rate)} left"
        if self.diverged:
            said += f", {self.diverged:,} diverged so far"
        return said


@contextmanager
def telling(
    what: str,
    tasks: Sequence[Task],
    store: Store,
    unit: str = "",
    quiet: bool = False,
    state: Callable[[], str] = str,
) -> Iterator[Done]:
    """Return what `run_tasks` tells of finished tasks, and say it on standard error.

    ``state`` is asked for what else is to be said each time.
    """
    count = Count(what, len(tasks), sum(task.size for task in tasks), unit)
    named: set[str] = set()

    def name_damaged() -> None:
        for name in store.set_aside:
            if name not in named:
                print(f"  {name} was damaged; set aside and done again.", file=sys.stderr)
        named.update(store.set_aside)

    def note(task: Task | None, fresh: bool) -> None:
        name_damaged()
        if task is None:
            return
        diverged = 0
        if unit == "learner-steps":
            diverged = int(facts_of(store.path(task.name))["diverged"])
        count.add(task.size, fresh=fresh, diverged=diverged)

    try:
        if quiet:
            yield note
        elif sys.stderr.isatty():
            yield from _bar(count, note, state)
        else:
            yield from _lines(count, note, state)
    finally:
        name_damaged()


def _lines(count: Count, note: Done, state: Callable[[], str]) -> Iterator[Done]:
    said = count.begun

    def done(task: Task | None, fresh: bool) -> None:
        nonlocal said
        note(task, fresh)
        now = time.monotonic()
        if now - said >= EVERY:
            said = now
            print(count.said(now) + state(), file=sys.stderr, flush=True)

    yield done


def _bar(count: Count, note: Done, state: Callable[[], str]) -> Iterator[Done]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("  {task.description}"), BarColumn(24), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("{task.fields[pace]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(count.what, total=count.tasks, pace="")

        def done(task: Task | None, fresh: bool) -> None:
            note(task, fresh)
            pace = (count.pace(time.monotonic()) + state()).removeprefix(", ")
            progress.update(bar, completed=count.done, pace=pace)

        yield done


def short(number: float) -> str:
    """Return a number in three digits.

    Examples
    --------
    >>> short(1234567.0), short(25.0)
    ('1.23 M', '25')
    """
    for size, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{name}"
    return f"{number:.3g}"


def span(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> span(42.3), span(125), span(3 * 3600 + 60), span(2.5 * 86400)
    ('42 s', '2 min 5 s', '3 h 1 min', '2 d 12 h')
    """
    whole = round(seconds)
    for size, name, smaller, inner in (
        (86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {name}" + (f" {rest} {inner}" if rest else "")
    return f"{whole} s"
