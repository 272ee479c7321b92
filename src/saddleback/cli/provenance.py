"""How a result was made: the command as it was typed, and the versions of what ran it."""

from __future__ import annotations

from typing import Any

from saddleback.cli.executor_options import typed


def made(seed: int) -> dict[str, Any]:
    """Return command, versions and seed, as plain data."""
    from saddleback._provenance import versions

    return {"command": typed(), "versions": versions(), "seed": seed}
