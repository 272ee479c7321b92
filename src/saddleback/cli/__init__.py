"""The command line's front door: answers --version at once, and hands the rest to click."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from saddleback import __version__


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        print(f"saddleback {__version__}")
        return
    # Commands use threads of their own; those of linear algebra would only get in their way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    status = 130
    try:
        from saddleback.cli.group import group

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="saddleback")  # a terminal without Greek gets its names
        group(prog_name="saddleback")
    except KeyboardInterrupt:  # before there was a command to end
        print("interrupted.", file=sys.stderr)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    leave(status)


def leave(status: int) -> None:
    """End the process at once.

    Threads of an interrupted command cannot be stopped and are not waited for, and those of Arrow
    may abort a process that tidies up behind itself (apache/arrow#34314).
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader has gone
            stream.flush()
    os._exit(status)
