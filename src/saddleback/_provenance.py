"""How a result was made: the command, package versions and the seed. Loads nothing heavy."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

PACKAGES = ("saddleback", "numpy", "scipy", "numba", "pyarrow")
"""Packages whose versions are recorded."""

_version = cache(version)  # of the loaded package, even if another is installed meanwhile


def versions() -> dict[str, str]:
    """Return the versions on which results may depend."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def provenance(command: str, files: Sequence[str], seed: int) -> dict[str, Any]:
    """Return command, files, versions and seed as JSON data.

    Examples
    --------
    >>> list(provenance("saddleback evaluate visits.parquet", ["visits.parquet"], seed=0))
    ['command', 'files', 'versions', 'seed']
    """
    return {"command": command, "files": list(files), "versions": versions(), "seed": seed}
