"""Commands run in a pseudo-terminal, whose screen is read afterwards."""

import contextlib
import os
import re
import select
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyte
import pytest

from helpers.fork_server import ForkedCommand

fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")  # not on Windows

OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the pseudo-terminal the controlling one, for Ctrl-C, and executes the command."""

SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

BAR = re.compile(r"━+╺?━* *\d+%")
"""A progress bar with its percentage."""

INTERRUPT = b"\x03"
"""The character of Ctrl-C."""


@dataclass(frozen=True)
class Session:
    """Output of a command in its terminal, and its exit status."""

    status: int
    written: str
    lines: list[str]
    cursor_hidden: bool
    seconds_after_interrupt: float

    @property
    def text(self):
        """The screen at the end."""
        return "\n".join(self.lines)

    @property
    def flat(self):
        """The screen as one line."""
        return " ".join(self.text.split())

    @property
    def coloured(self):
        """Whether anything was written in colour."""
        return bool(COLOUR.search(self.written))


def in_terminal(*words, folder, width=80, fresh=False, interrupt=None, limit=120, **environment):
    """Run a command in a pseudo-terminal; type Ctrl-C once ``interrupt`` has been written.

    In a new interpreter if ``fresh``, else in a fork of one that is ready. Environment variables
    that are None are unset.
    """
    near, far = os.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    names = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    variables = {k: v for k, v in os.environ.items() if k not in names}
    variables |= {"TERM": "xterm-256color"} | environment
    options = {
        "stdin": far, "stdout": far, "stderr": far, "cwd": folder,
        "env": {k: v for k, v in variables.items() if v is not None},
    }  # fmt: skip
    if fresh:
        program = [sys.executable, "-m", "saddleback", *map(str, words)]
        process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *program], start_new_session=True, **options
        )
    else:
        process = ForkedCommand(words, **options)
    os.close(far)
    written, typed, end = b"", interrupt is None, time.monotonic() + limit
    begun = time.monotonic()
    try:
        while time.monotonic() < end:
            if not select.select([near], [], [], 0.2)[0]:
                continue
            part = b""
            with contextlib.suppress(OSError):  # the other end is closed
                part = os.read(near, 65536)
            if not part:
                break
            written += part
            if not typed and interrupt.encode() in written:
                os.write(near, INTERRUPT)
                typed, begun = True, time.monotonic()
        else:
            process.kill()
            raise AssertionError(f"{words} did not end within {limit} s: {written[-2000:]!r}")
        status = process.wait(timeout=10)
    finally:
        os.close(near)
        if process.poll() is None:
            process.kill()
            process.wait()
    assert typed, f"{interrupt!r} was never written: {written.decode(errors='replace')}"
    screen = pyte.Screen(width, 5000)
    pyte.ByteStream(screen).feed(written)
    rows = (screen.buffer[y] for y in range(screen.cursor.y + 1))
    lines = ["".join(row[x].data for x in range(width)).rstrip() for row in rows]
    after = time.monotonic() - begun
    return Session(status, written.decode(), lines, screen.cursor.hidden, after)


def assert_clean(session, *statuses):
    """Check the exit status, and that the terminal is left clean."""
    assert session.status in statuses, session.text
    assert "Traceback" not in session.written
    assert not session.cursor_hidden
    assert not BAR.search(session.text), "a bar is left on the screen"
    rest = SEQUENCE.sub("", session.written)
    assert not CONTROL.search(rest), repr(CONTROL.search(rest))
    colours = COLOUR.findall(session.written)
    assert not colours or colours[-1] in ("\x1b[0m", "\x1b[m"), "a colour is left on"
    assert session.lines[-1] == "", "the prompt would not start a new line"


def example_folder(folder: Path) -> Path:
    """Write a small log, a policy and a study as examples."""
    import saddleback as sb

    car = sb.collect(sb.problems.mountain_car(), episodes=60, rng=0)
    car.write(folder / "car.parquet", gamma=0.99)
    (folder / "policy.py").write_text(
        "import numpy as np\n\n\n"
        "def probs(obs: dict):\n"
        "    ahead = (obs['obs_1'] >= 0).astype(int)\n"
        "    return np.eye(3)[2 * ahead] * 0.7 + 0.1\n",
        encoding="utf-8",
    )
    (folder / "study.toml").write_text(
        'title = "small"\nruns = 1\nsteps = 1000\nmetrics = ["mspbe"]\n'
        '[[problem]]\nname = "two_state"\n[[rule]]\nname = "GES"\nlam = 0.0\n'
        "[grid]\nalpha = [0.01, 0.1]\nratio = [1.0]\n",
        encoding="utf-8",
    )
    return folder
