"""The command line's front door: answers --version at once, and hands the rest to click."""

from __future__ import annotations

import io
import logging
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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek shows "?" instead
    from saddleback.commands import Echo, group

    if not {"--quiet", "--json"} & set(sys.argv):
        logger = logging.getLogger("saddleback")
        logger.addHandler(Echo())
        logger.setLevel(logging.INFO)
    group(prog_name="saddleback")
