"""Situations whose truth is known, to measure the accuracy of verdicts.

``situation(kind, seed)`` builds one; the same kind and seed give the same rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

import numpy as np

from . import flawed, good, unfit
from .builder import Situation

BUILDERS = {
    "good, tabular": good.tabular,
    "good, continuous": good.continuous,
    "good, bandit": good.bandit,
    "good, propensities only": good.propensities_only,
    "good, truncated": good.truncated,
    "good, long": good.long,
    "good, costs": good.costs,
    "estimated behaviour": flawed.estimated_behaviour,
    "rank-deficient features": unfit.rank_deficient,
    "few episodes": flawed.few_episodes,
    "poor coverage": flawed.poor_coverage,
    "too long a horizon": flawed.long_horizon,
    "over the ceiling": unfit.over_the_ceiling,
    "wrong propensities": flawed.wrong_propensities,
    "shifted propensities": flawed.shifted_propensities,
    "truncation as termination": flawed.truncation_as_termination,
    "deterministic log": flawed.deterministic,
    "poor features": unfit.poor_features,
    "hidden state": unfit.hidden_state,
    "MountainCar": flawed.mountain_car,
}


def situation(kind: str, seed: int) -> Situation:
    """Build a situation of a kind; every seed differs in problem, policies and data."""
    return BUILDERS[kind](kind, np.random.default_rng([zlib.crc32(kind.encode()), seed]))


KINDS: dict[str, Callable[[int], Situation]] = {kind: partial(situation, kind) for kind in BUILDERS}

__all__ = ["KINDS", "Situation", "situation"]
