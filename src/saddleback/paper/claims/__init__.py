"""A claim of the paper, what we found, and the verdict that follows."""

from __future__ import annotations

from dataclasses import dataclass

YES, PART, NO = "reproduced", "reproduced in part", "not reproduced"


@dataclass(frozen=True)
class Claim:
    """One claim, what we found, and the verdict."""

    claim: str
    found: str
    verdict: str
    figure: str = ""


def verdict(*holds: bool) -> str:
    """All, some or none."""
    return YES if all(holds) else PART if any(holds) else NO


def listed(values: dict[str, float]) -> str:
    """Write values by their names."""
    return ", ".join(f"{name} {value:.2g}" for name, value in values.items())
