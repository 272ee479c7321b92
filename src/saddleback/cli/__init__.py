"""Entry point of the command line: --version without imports, everything else through click."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from saddleback import __version__


def main() -> None:
    """Run the command line."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by >&-; a file would take its place
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if sys.argv[1:] == ["--version"]:
        print(f"saddleback {__version__}")
        return
    # Commands use their own threads; those of linear algebra would compete with them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    status = 130
    try:
        from saddleback.cli.group import group

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="saddleback")  # spells out Greek if it cannot be encoded
        group(prog_name="saddleback")
    except KeyboardInterrupt:  # before any command started
        print("interrupted.", file=sys.stderr)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    exit_at_once(status)


def exit_at_once(status: int) -> None:
    """End the process without waiting for threads.

    Threads of an interrupted command cannot be stopped, and those of Arrow may abort a process
    during interpreter shutdown (apache/arrow#34314).
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader of the pipe has gone
            stream.flush()
    os._exit(status)
