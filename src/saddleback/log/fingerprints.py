"""Fingerprint of each episode: equal rows give the same 64 bits, in any file."""

from __future__ import annotations

import numpy as np
import scipy

from saddleback._typing import BoolArray, OffsetArray
from saddleback.engine import EpisodeFold
from saddleback.log.row_hash import hash_rows
from saddleback.log.segmentation import Segment


class Fingerprints:
    """Fingerprints of the episodes of a log, computed segment by segment."""

    def __init__(self) -> None:
        self._ids: list[OffsetArray] = [np.zeros(0, dtype=np.uint64)]
        self._hashes = EpisodeFold(1, np.uint64)
        self._unfinished: list[BoolArray] = [np.zeros(0, dtype=np.bool_)]

    def add(self, segment: Segment) -> None:
        """Add the next segment."""
        rows = segment.rows
        hashes = self._hashes.begin(segment)
        hash_rows(rows, segment.row_episode, hashes[:, 0])
        self._hashes.end(segment, hashes)
        self._ids.append(segment.ids)
        # With numbered steps an episode cannot continue in another file: it would not start at 0.
        self._unfinished.append(segment.unfinished & (rows.step is None))

    def arrays(self) -> tuple[OffsetArray, OffsetArray, BoolArray]:
        """Ids, fingerprints, and whether each episode stops without a flag and may continue."""
        hashes = np.ascontiguousarray(self._hashes.rows[:, 0])
        return np.concatenate(self._ids), hashes, np.concatenate(self._unfinished)


def overlap(one: tuple[OffsetArray, OffsetArray], other: tuple[OffsetArray, OffsetArray]) -> int:
    """Return the number of episodes that two logs, each (ids, fingerprints), have in common.

    Short episodes of a finite problem are often equal, and files often number their episodes from
    0. So both rows and id must agree, and do so more often than the rows of different episodes
    within a log do, unless one log contains the other. Agreement that may be due to chance
    counts as 0.
    """
    ids, first, second = np.intersect1d(one[0], other[0], return_indices=True)
    n_equal = int((one[1][first] == other[1][second]).sum())
    if not n_equal or n_equal == len(ids) == min(len(one[0]), len(other[0])):
        return n_equal
    pairs = equal_pairs = 0.0
    for _, hashes in (one, other):
        count = np.unique(hashes, return_counts=True)[1].astype(np.float64)
        pairs += len(hashes) * (len(hashes) - 1.0)
        equal_pairs += float((count * (count - 1.0)).sum())
    share = equal_pairs / pairs if pairs else 0.0
    # P(n_equal or more of n agree), the binomial tail.
    p_value = float(scipy.special.betainc(n_equal, len(ids) - n_equal + 1, share))
    return n_equal if p_value < SIGNIFICANCE else 0


SIGNIFICANCE = 1e-6
"""Probability below which agreement is not attributed to chance."""
