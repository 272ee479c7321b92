"""The command line's front door: answers --version at once, and hands the rest to click."""

from __future__ import annotations

import sys

from saddleback import __version__


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        print(f"saddleback {__version__}")
        return
    from saddleback.commands import group

    group(prog_name="saddleback")


if __name__ == "__main__":
    main()
