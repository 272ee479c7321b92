"""How a result was made: the command as it was typed, and the versions of what ran it."""

from __future__ import annotations

import platform
import shlex
import sys
from importlib.metadata import version
from typing import Any

PACKAGES = ("saddleback", "numpy", "scipy", "numba", "pyarrow")


def made(seed: int) -> dict[str, Any]:
    """Return command, versions and seed, as plain data."""
    return {
        "command": shlex.join(["saddleback", *sys.argv[1:]]),
        "versions": {"python": platform.python_version()} | {n: version(n) for n in PACKAGES},
        "seed": seed,
    }
