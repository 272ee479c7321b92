"""The direct model of the consensus: action values of the weighted candidates, for any row.

With weights p_i of the candidates and θ_i^k fitted without fold k,

    q(s, a) = Σ_i p_i φ_i(s, a)ᵀθ_i^k

where k is the fold of an episode of the sample; an episode outside it may take any. So q was fitted
to other episodes than the one it is applied to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray, OffsetArray
from saddleback.ope.candidates import Encoder
from saddleback.ope.episode_sample import FOLDS
from saddleback.ope.log_pass import SegmentBatch

MIN_WEIGHT = 0.01
"""Weight of a basis below which it is left out."""


@dataclass(frozen=True, eq=False)
class ConsensusQ:
    """A weighted sum of linear Q, one for each fold."""

    # Features of each basis, and its weights θ, [folds, K, m].
    parts: Sequence[tuple[Encoder, FloatArray]]
    # 64-bit numbers of the sampled episodes, sorted: the fold is the remainder of the rank.
    priorities: OffsetArray
    remark = ""

    def __call__(self, batch: SegmentBatch, states: Any, episode: IntArray) -> FloatArray:
        """Return Q [n, K] of some states of a segment, given the number of their episode, [n]."""
        fold = (np.searchsorted(self.priorities, batch.block_numbers) % FOLDS)[episode]
        observations = batch.segment.observations[states]
        values = np.zeros((len(observations), self.parts[0][1].shape[1]))
        for encode, theta in self.parts:
            phi = encode(observations)
            for k in range(FOLDS):
                own = fold == k
                # Not by BLAS, whose last bits depend on the number of rows.
                values[own] += np.einsum("nm,km->nk", phi[own], theta[k])
        return values
