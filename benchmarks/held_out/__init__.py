"""Families that were not in view when the verdict was built: its rates are reported on them.

They are not for tuning. ``python -m benchmarks.verdicts --held-out`` judges their logs.
"""

from __future__ import annotations

from ..families.family import Family
from . import care, commerce, energy, machines, mixed

HELD_OUT: dict[str, Family] = {
    family.name: family
    for module in (machines, energy, care, commerce, mixed)
    for family in module.FAMILIES
}

__all__ = ["HELD_OUT"]
