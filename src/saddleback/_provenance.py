"""Versions of what runs: results may depend on them. Loads nothing heavy."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

PACKAGES = ("saddleback", "numpy", "scipy", "numba", "pyarrow")
"""Whose versions are named."""

_version = cache(version)  # of what is loaded, whatever is installed meanwhile


def versions() -> dict[str, str]:
    """Versions on which results may depend."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}
