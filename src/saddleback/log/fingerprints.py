"""Fingerprint of each episode: equal rows give the same 64 bits, in any file."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc

from saddleback._jit import compiled, inlined
from saddleback._typing import BoolArray, IntArray, OffsetArray
from saddleback.log.segmentation import Segment


class Fingerprints:
    """Fingerprints of the episodes of a log, computed segment by segment."""

    def __init__(self) -> None:
        self._ids: list[OffsetArray] = []
        self._hashes: list[OffsetArray] = []
        self._unfinished: list[BoolArray] = []
        self._open: OffsetArray | None = None

    def add(self, segment: Segment) -> None:
        """Add the next segment; an episode that continues in the one after is completed later."""
        rows = segment.rows
        hashes = np.zeros(int(rows.starts.sum()) + 1, dtype=np.uint64)
        if self._open is not None:
            hashes[0] = self._open[-1]
        with np.errstate(over="ignore"):  # the hash is meant to overflow; compiled code is silent
            count = _hash_rows(
                np.ascontiguousarray(rows.observations).view(np.uint64), rows.actions,
                np.ascontiguousarray(rows.rewards).view(np.uint64), rows.starts, hashes,
            )  # fmt: skip
        if self._open is not None:
            self._open[-1] = hashes[0]
        self._hashes.append(hashes[1 : count + 1])
        self._ids.append(segment.ids)
        # With numbered steps an episode cannot continue in another file: it would not start at 0.
        self._unfinished.append(segment.unfinished & (rows.step is None))
        if not segment.continues_in_next:
            self._open = None
        elif count:
            self._open = self._hashes[-1]

    def arrays(self) -> tuple[OffsetArray, OffsetArray, BoolArray]:
        """Ids, fingerprints, and whether each episode stops without a flag and may continue."""
        no_hashes = [np.zeros(0, dtype=np.uint64)]
        ids = np.concatenate(self._ids or no_hashes)
        hashes = np.concatenate(self._hashes or no_hashes)
        no_flags = [np.zeros(0, dtype=np.bool_)]
        return ids, hashes, np.concatenate(self._unfinished or no_flags)


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
    p_value = float(betainc(n_equal, len(ids) - n_equal + 1, share))
    return n_equal if p_value < SIGNIFICANCE else 0


SIGNIFICANCE = 1e-6
"""Probability below which agreement is not attributed to chance."""


@compiled
def _hash_rows(
    observations: OffsetArray,
    actions: IntArray,
    rewards: OffsetArray,
    starts: BoolArray,
    hashes: OffsetArray,
) -> int:
    """Chain the bits of each row; ``hashes[0]`` belongs to an episode that began earlier."""
    k = 0
    for t in range(len(rewards)):
        if starts[t]:
            k += 1
        h = hashes[k]
        for d in range(observations.shape[1]):
            h = _mix(h, observations[t, d])
        h = _mix(h, np.uint64(actions[t]))
        hashes[k] = _mix(h, rewards[t])
    return k


@inlined
def _mix(h: np.uint64, x: np.uint64) -> np.uint64:
    """One round of a multiplicative hash (the constants of MurmurHash3's finaliser)."""
    h = (h ^ x) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(33))
