"""The paper's claims, one by one, each with what we found and a verdict that follows from it."""

from __future__ import annotations

from collections.abc import Callable

from saddleback.paper import Options, results_of
from saddleback.paper.claims.claim import NO, PART, YES, Claim
from saddleback.paper.claims.comparisons import comparison_claims, schedule_claims
from saddleback.paper.claims.exact import exact_claims
from saddleback.paper.claims.rates import rate_claims, table_claims

__all__ = ["NO", "PART", "YES", "Claim", "every_claim"]

SECTIONS: tuple[Callable[[Options], list[Claim]], ...] = (
    exact_claims, rate_claims, table_claims, schedule_claims, comparison_claims,
)  # fmt: skip

STORES = ("table1", "step-size", "two-state", "baird", "mountain-car")
"""Experiments whose results are needed."""


def every_claim(options: Options) -> list[Claim]:
    """Collect the claims, from the stores of the other experiments or computed on the spot."""
    for name in STORES:
        results_of(name, options)
    return [claim for section in SECTIONS for claim in section(options)]
