"""Families of simulated decision problems whose truth is known, to calibrate verdicts.

``FAMILIES[name].case(level, seed, episodes)`` is a log with the true value of its target. Families
of packages that are not installed are left out; ``LEFT_OUT`` names them.
"""

from __future__ import annotations

from . import (
    classic_control,
    epidemic,
    finite,
    grids,
    icu_sepsis,
    lander,
    medical,
    operations,
    pendulums,
    random_mdps,
    recommendation,
)
from .family import Case, Family

CONTINUOUS = (classic_control, pendulums, lander, medical, epidemic, operations, recommendation)
FINITE = (finite, grids, random_mdps, icu_sepsis)
FAMILIES: dict[str, Family] = {
    family.name: family for module in CONTINUOUS + FINITE for family in module.FAMILIES
}
LEFT_OUT: tuple[str, ...] = icu_sepsis.LEFT_OUT

__all__ = ["FAMILIES", "LEFT_OUT", "Case", "Family"]
