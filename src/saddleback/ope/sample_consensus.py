"""The consensus of candidate features on a sample of a log, as an estimate or a second opinion."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray
from saddleback.features import Features
from saddleback.log import Log, Target
from saddleback.ope.consensus import Consensus, find_consensus
from saddleback.ope.episode_sample import EpisodeSample, sample_episodes

ESTIMATE_ROWS, OPINION_ROWS = 24_000, 4_000
"""Rows of the sample for an estimate, and for a second opinion on other features."""


@dataclass(frozen=True, eq=False)
class SampleConsensus:
    """The consensus of candidates on a sample of episodes; ``is_main`` if it is the estimate."""

    found: Consensus
    sample: EpisodeSample
    is_main: bool

    def adjusted(self, influence: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its influence on all episodes, [n].

        Where the sample is not the whole log, the closed form, whose influence is known for all
        episodes, serves as a control variate.
        """
        found, which, n = self.found, self.sample.numbers, len(influence)
        own = found.scores - found.scores.mean()
        if len(which) == n:
            return found.value, own
        at = influence[which] - influence[which].mean()
        slope = float(np.clip(own @ at / max(float(at @ at), 1e-300), 0.0, 1.0))
        adjusted = slope * (influence - influence.mean())
        shift = float(adjusted[which].mean())
        adjusted[which] += n / len(which) * (own - slope * at)
        return found.value - shift, adjusted


def sample_consensus(
    log: Log,
    targets: Sequence[Target],
    gamma: float,
    horizon: int | None,
    features: Features | None,
    pool: Executor | None,
) -> dict[str, SampleConsensus]:
    """Find the consensus on each target: the estimate, or a second opinion on given features.

    A value of H steps is estimated here even with given features: a fixed point has no horizon.
    """
    is_main = features is None or horizon is not None
    max_rows = ESTIMATE_ROWS if is_main else OPINION_ROWS
    sample, steps = sample_episodes(log, targets, max_rows, horizon)
    return {
        target.name: SampleConsensus(
            find_consensus(
                sample, target.name, gamma, steps, given=features if is_main else None,
                thorough=is_main, pool=pool,
            ),
            sample,
            is_main,
        )
        for target in targets
    }  # fmt: skip
