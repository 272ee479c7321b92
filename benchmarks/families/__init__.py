"""Families of simulated decision problems whose truth is known, to calibrate verdicts.

``FAMILIES[name].case(level, seed, episodes)`` is a log with the true value of its target.
"""

from __future__ import annotations

from . import (
    classic_control,
    epidemic,
    finite,
    grids,
    lander,
    medical,
    operations,
    pendulums,
    random_mdps,
    recommendation,
)
from .family import Case, Family

CONTINUOUS = (classic_control, pendulums, lander, medical, epidemic, operations, recommendation)
FINITE = (finite, grids, random_mdps)
FAMILIES: dict[str, Family] = {
    family.name: family for module in CONTINUOUS + FINITE for family in module.FAMILIES
}

__all__ = ["FAMILIES", "Case", "Family"]
