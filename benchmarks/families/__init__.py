"""Families of simulated decision problems whose truth is known, to calibrate verdicts.

``FAMILIES[name].case(level, seed, episodes)`` is a log with the true value of its target.
"""

from __future__ import annotations

from . import classic_control, finite, medical
from .family import Case, Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for module in (classic_control, medical, finite)
    for family in module.FAMILIES
}

__all__ = ["FAMILIES", "Case", "Family"]
