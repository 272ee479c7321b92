"""The consensus of candidate features on a sample of a log, as an estimate or a second opinion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np

from saddleback._progress import Progress, split_progress
from saddleback._typing import FloatArray
from saddleback.features import Features
from saddleback.log import Target
from saddleback.ope.candidates import Basis
from saddleback.ope.consensus import Consensus, find_consensus
from saddleback.ope.episode_sample import FOLDS, EpisodeSample

ESTIMATE_ROWS, OPINION_ROWS = 24_000, 4_000
"""Rows of the sample for an estimate, and for a second opinion on other features."""


@dataclass(frozen=True, eq=False)
class SampleConsensus:
    """The consensus of candidates on a sample of episodes; ``is_main`` if it is the estimate."""

    consensus: Consensus
    sample: EpisodeSample
    is_main: bool

    def adjusted(self, influence: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its influence on all episodes, [n].

        Where the sample is not the whole log, the closed form, whose influence is known for all
        episodes, serves as a control variate.
        """
        consensus, which, n = self.consensus, self.sample.numbers, len(influence)
        own = consensus.scores - consensus.scores.mean()
        if len(which) == n:
            return consensus.value, own
        at = influence[which] - influence[which].mean()
        slope = float(np.clip(own @ at / max(float(at @ at), 1e-300), 0.0, 1.0))
        adjusted = slope * (influence - influence.mean())
        shift = float(adjusted[which].mean())
        adjusted[which] += n / len(which) * (own - slope * at)
        return consensus.value - shift, adjusted

    def on_all(self, influence: FloatArray) -> Consensus:
        """Return the consensus with all its estimates adjusted to all episodes."""
        shift = self.adjusted(influence)[0] - self.consensus.value
        opinions, separate = (
            {view: value + shift for view, value in views.items()}
            for views in (self.consensus.opinions, self.consensus.separate)
        )
        value = self.consensus.value + shift
        return replace(self.consensus, value=value, opinions=opinions, separate=separate)


def sample_consensus(
    sample: EpisodeSample,
    targets: Sequence[Target],
    gamma: float,
    horizon: int | None = None,
    *,
    features: Features | None = None,
    bases: Callable[[Target], Sequence[Basis]] | None = None,
    is_main: bool,
    pool: Executor | None = None,
    progress: Progress | None = None,
) -> dict[str, SampleConsensus]:
    """Find the consensus on each target, as the estimate or as a second opinion.

    ``features`` are those of the estimate, if they were chosen by hand; ``bases`` gives those to
    fit for a target, if not the candidates of the sample. With too few episodes for folds of two
    there is none, and no estimate is usable.
    """
    if len(sample.starts) < 2 * FOLDS:
        return {}
    parts = split_progress(progress, [("", 1.0)] * len(targets))
    return {
        target.name: SampleConsensus(
            find_consensus(
                sample, target.name, gamma, horizon, given=features,
                bases=None if bases is None else bases(target), thorough=is_main, pool=pool,
                progress=part,
            ),
            sample,
            is_main,
        )
        for target, part in zip(targets, parts, strict=True)
    }  # fmt: skip
