"""The command line's front door: answers --version at once, and hands the rest to click."""

from __future__ import annotations

import io
import sys

from saddleback import __version__


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        print(f"saddleback {__version__}")
        return
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek shows "?" instead
    from saddleback.commands import group

    group(prog_name="saddleback")
