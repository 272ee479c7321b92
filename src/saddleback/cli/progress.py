"""One progress display for a command: a bar on a terminal, else a plain line every ten seconds."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

EVERY = 10.0
"""Seconds between two lines where there is no terminal."""

ECHOED = 4
"""Columns that are left free: a terminal echoes ^C there, and must not break the line for it."""

LEFT = 9
"""Columns of the time left."""

NARROW = 60
"""Columns below which the bar is short."""


class Clock:
    """How long is left, by the fraction of the planned work that is done.

    Between two reports the time left counts down; only a report can revise it.

    Examples
    --------
    >>> clock = Clock(now=100.0)
    >>> clock.report(0.25, now=110.0)
    >>> clock.left(now=120.0)
    20.0
    """

    def __init__(self, now: float) -> None:
        self.begun = now
        self._end: float | None = None

    def report(self, fraction: float, now: float) -> None:
        """Take note of the fraction that is done by now."""
        if 0.0 < fraction <= 1.0:
            self._end = self.begun + (now - self.begun) / fraction

    def left(self, now: float) -> float | None:
        """Seconds left, None as long as nothing is known."""
        return None if self._end is None else max(0.0, self._end - now)


class Display:
    """Where a command reports its progress; nothing is shown if it is quiet."""

    def __init__(self) -> None:
        self.fraction, self.phase = 0.0, ""
        self.clock = Clock(time.monotonic())

    def __call__(self, fraction: float, phase: str = "", /) -> None:
        """Take note of the fraction of the work that is done, and show it."""
        self.fraction, self.phase = min(1.0, fraction), phase
        self.clock.report(self.fraction, time.monotonic())
        self.show()

    def show(self) -> None:
        """Show it."""

    def write(self, message: str) -> None:
        """Write a line to standard error."""
        click.echo(message, err=True)

    def aside(self) -> AbstractContextManager[Any]:
        """Step aside while something else is written to the terminal."""
        return nullcontext()


class Lines(Display):
    """A plain line every ten seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = self.clock.begun

    def show(self) -> None:
        """Write a line, if it is time."""
        now = time.monotonic()
        if now - self._shown >= EVERY:
            self._shown = now
            left = self.clock.left(now)
            ahead = "" if left is None else f", {span(left)} left"
            click.echo(f"{self.phase}: {self.fraction:.0%} done{ahead}", err=True)


class Bar(Display):
    """A bar on the terminal, which is gone when the work is done."""

    def __init__(self, progress: RichProgress, clock: Clock) -> None:
        super().__init__()
        self._progress, self.clock = progress, clock
        self._task = progress.add_task("starting", total=1.0)

    def show(self) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=self.fraction, description=self.phase)

    def write(self, message: str) -> None:
        """Write a line above the bar."""
        self._progress.console.print(message, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the bar away while something else is written."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


_shown: Display = Display()


class _Messages(logging.Handler):
    """Shows what the library logs as plain lines on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show one line, above the bar if there is one."""
        _shown.write(record.getMessage())


@contextmanager
def messages_shown() -> Iterator[None]:
    """Show what the library logs, while a command runs."""
    logger, handler = logging.getLogger("saddleback"), _Messages()
    logger.addHandler(handler)
    try:
        with _level(logging.INFO):
            yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _level(level: int) -> Iterator[None]:
    """Log messages of this level and above."""
    logger = logging.getLogger("saddleback")
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def display(quiet: bool = False) -> Iterator[Display]:
    """Show the progress of a command on standard error; if it is quiet, warnings alone."""
    global _shown
    if quiet:
        with _level(logging.WARNING):
            yield Display()
        return
    with _bar() if drawable() else nullcontext(Lines()) as shown:
        _shown = shown
        try:
            yield shown
        finally:
            _shown = Display()


def drawable() -> bool:
    """Whether standard error is a terminal on which a bar can be drawn."""
    from rich.console import Console

    return sys.stderr.isatty() and not Console(stderr=True).is_dumb_terminal


@contextmanager
def _bar() -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """The time left, by the clock of the display."""

        def render(self, task: Any) -> Text:
            left = clock.left(time.monotonic())
            return Text("" if left is None else f"{span(left)} left")

    console, clock = Console(stderr=True), Clock(time.monotonic())
    console.width -= ECHOED
    columns = (
        BarColumn(
            8 if console.width < NARROW else 24,
            table_column=Column(min_width=8 if console.width < NARROW else 24),
        ),
        TaskProgressColumn(table_column=Column(no_wrap=True, min_width=4)),
        TimeLeft(table_column=Column(no_wrap=True, min_width=LEFT)),
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as progress:
        yield Bar(progress, clock)


def span(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> span(42.3), span(125), span(3 * 3600 + 60), span(2.5 * 86400)
    ('42 s', '2 min 5 s', '3 h 1 min', '2 d 12 h')
    """
    rounded = round(seconds)
    for size, name, smaller, inner in (
        (86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if rounded >= size:
            rest = rounded % size // smaller
            return f"{rounded // size} {name}" + (f" {rest} {inner}" if rest else "")
    return f"{rounded} s"
