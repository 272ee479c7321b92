"""The command line's front door: answers --version at once, and hands the rest to click."""

from __future__ import annotations

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
    try:
        from saddleback.commands import group

        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="saddleback")  # a terminal without Greek gets its names
        group(prog_name="saddleback")
    except KeyboardInterrupt:  # before there was a command to end
        print("interrupted.", file=sys.stderr)
        leave(INTERRUPTED)
    except SystemExit as status:
        if status.code == INTERRUPTED:
            leave(INTERRUPTED)
        raise


INTERRUPTED = 130


def leave(status: int) -> None:
    """End the process at once: threads cannot be stopped, and nobody waits for what they do."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)
