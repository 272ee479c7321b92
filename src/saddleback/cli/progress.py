"""Progress display of a command: a bar on a terminal, otherwise a line every ten seconds."""

from __future__ import annotations

import logging
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from saddleback._display import visible
from saddleback.cli.terminal import echo

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

LINE_INTERVAL = 10.0
"""Seconds between two lines without a terminal."""

MARGIN = 4
"""Columns left free, so that the ^C that a terminal echoes does not wrap the line."""

TIME_WIDTH = 9
"""Columns of the remaining time."""

NARROW = 60
"""Terminal width below which the bar is short."""


class Clock:
    """Remaining time, from the fraction of the planned work that is done.

    Between two reports the remaining time counts down; only a report revises it.

    Examples
    --------
    >>> clock = Clock(now=100.0)
    >>> clock.report(0.25, now=110.0)
    >>> clock.remaining(now=120.0)
    20.0
    """

    def __init__(self, now: float) -> None:
        self.start = now
        self._end: float | None = None

    def report(self, fraction: float, now: float) -> None:
        """Record the fraction that is done by now."""
        if 0.0 < fraction <= 1.0:
            self._end = self.start + (now - self.start) / fraction

    def remaining(self, now: float) -> float | None:
        """Return the remaining seconds, None before the first report."""
        return None if self._end is None else max(0.0, self._end - now)


class Display:
    """Progress of a command; this base class shows nothing."""

    def __init__(self) -> None:
        self.fraction, self.phase = 0.0, ""
        self.clock = Clock(time.monotonic())

    def __call__(self, fraction: float, phase: str = "", /) -> None:
        """Record the fraction of the work that is done, and show it."""
        self.fraction, self.phase = min(1.0, fraction), phase
        self.clock.report(self.fraction, time.monotonic())
        self.show()

    def show(self) -> None:
        """Show the current fraction."""

    def write(self, message: str) -> None:
        """Write a line to standard error."""
        echo(message, err=True)

    def suspended(self) -> AbstractContextManager[Any]:
        """Hide the display while something else is written to the terminal."""
        return nullcontext()

    def open(self) -> None:
        """Begin to show the display."""

    def close(self) -> None:
        """Remove the display from the terminal, if it is there."""


class PlainLines(Display):
    """A plain line every ten seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._last = self.clock.start

    def show(self) -> None:
        """Write a line, if enough time has passed."""
        now = time.monotonic()
        if now - self._last >= LINE_INTERVAL:
            self._last = now
            seconds = self.clock.remaining(now)
            left = "" if seconds is None else f", {format_duration(seconds)} left"
            line = f"{self.phase}: {self.fraction:.0%} done{left}"
            echo(textwrap.fill(line, 80, subsequent_indent="  "), err=True)


class Bar(Display):
    """A bar on the terminal, removed when the work is done."""

    def __init__(self) -> None:
        super().__init__()
        self._progress = _rich_progress(self.clock)

    def open(self) -> None:
        """Draw the bar."""
        self._progress.start()
        self._task = self._progress.add_task("starting", total=1.0)

    def close(self) -> None:
        """Erase the bar, and what Ctrl-C left of it while it was being drawn."""
        from rich.control import Control
        from rich.segment import ControlType

        self._progress.stop()
        erase = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))
        self._progress.console.control(erase)

    def show(self) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=self.fraction, description=self.phase)

    def write(self, message: str) -> None:
        """Write a line above the bar."""
        self._progress.console.print(message, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Hide the bar while something else is written."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()


_active: Display = Display()


def write_line(text: str) -> None:
    """Write a line to standard error, above the bar if there is one."""
    _active.write(text)


class _MessageHandler(logging.Handler):
    """Writes log messages as plain lines to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, above the bar if there is one."""
        write_line(visible(record.getMessage()))


@contextmanager
def messages_shown() -> Iterator[None]:
    """Show log messages of the library while a command runs."""
    logger, handler = logging.getLogger("saddleback"), _MessageHandler()
    logger.addHandler(handler)
    try:
        with _level(logging.INFO):
            yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _level(level: int) -> Iterator[None]:
    """Set the level of the logger temporarily."""
    logger = logging.getLogger("saddleback")
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def display(quiet: bool = False) -> Iterator[Display]:
    """Show the progress of a command on standard error; with ``quiet`` only warnings."""
    global _active
    if quiet:
        with _level(logging.WARNING):
            yield Display()
        return
    _active = shown = Bar() if can_draw_bar() else PlainLines()
    try:
        shown.open()
        yield shown
    finally:
        close_display()


def close_display() -> None:
    """Remove the display, also where Ctrl-C came before its context was entered."""
    global _active
    _active.close()
    _active = Display()


def can_draw_bar() -> bool:
    """Whether standard error is a terminal on which a bar can be drawn."""
    from rich.console import Console

    return sys.stderr.isatty() and not Console(stderr=True).is_dumb_terminal


def _rich_progress(clock: Clock) -> RichProgress:
    """Return a progress display of rich with the columns of the bar."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn
    from rich.table import Column
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """The remaining time, from the clock of the display."""

        def render(self, task: Any) -> Text:
            seconds = clock.remaining(time.monotonic())
            return Text("" if seconds is None else f"{format_duration(seconds)} left")

    console = Console(stderr=True)
    console.width -= MARGIN
    columns = (
        BarColumn(
            8 if console.width < NARROW else 24,
            table_column=Column(min_width=8 if console.width < NARROW else 24),
        ),
        TaskProgressColumn(table_column=Column(no_wrap=True, min_width=4)),
        TimeLeft(table_column=Column(no_wrap=True, min_width=TIME_WIDTH)),
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis"),
        ),
    )
    return Progress(*columns, console=console, transient=True, refresh_per_second=4)


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units.

    Examples
    --------
    >>> [format_duration(seconds) for seconds in (42.3, 125, 3 * 3600 + 60, 2.5 * 86400)]
    ['42 s', '2 min 5 s', '3 h 1 min', '2 d 12 h']
    """
    rounded = round(seconds)
    for size, name, smaller, inner in (
        (86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if rounded >= size:
            rest = rounded % size // smaller
            return f"{rounded // size} {name}" + (f" {rest} {inner}" if rest else "")
    return f"{rounded} s"
