"""A fingerprint of each episode: the same rows give the same 64 bits, wherever they are found."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc

from saddleback._jit import compiled, inlined
from saddleback._typing import BoolArray, IntArray, OffsetArray
from saddleback.log.segmentation import Segment


class Fingerprints:
    """Fingerprints of episodes as they come in pieces."""

    def __init__(self) -> None:
        self._ids: list[OffsetArray] = []
        self._prints: list[OffsetArray] = []
        self._unfinished: list[BoolArray] = []
        self._open: OffsetArray | None = None

    def add(self, piece: Segment) -> None:
        """Take in the next piece; an episode that goes on is finished later."""
        rows = piece.rows
        found = np.zeros(int(rows.starts.sum()) + 1, dtype=np.uint64)
        if self._open is not None:
            found[0] = self._open[-1]
        with np.errstate(over="ignore"):  # of no meaning to the bits, and silent when compiled
            count = _print(
                np.ascontiguousarray(rows.observations).view(np.uint64), rows.actions,
                np.ascontiguousarray(rows.rewards).view(np.uint64), rows.starts, found,
            )  # fmt: skip
        if self._open is not None:
            self._open[-1] = found[0]
        self._prints.append(found[1 : count + 1])
        self._ids.append(piece.ids)
        # One whose steps are numbered cannot go on elsewhere: its rest would not begin at step 0.
        self._unfinished.append(piece.unfinished & (rows.step is None))
        if not piece.continues_in_next:
            self._open = None
        elif count:
            self._open = self._prints[-1]

    def arrays(self) -> tuple[OffsetArray, OffsetArray, BoolArray]:
        """Ids, fingerprints, and whether each episode simply stops and may go on elsewhere."""
        nothing = [np.zeros(0, dtype=np.uint64)]
        ids = np.concatenate(self._ids or nothing)
        prints = np.concatenate(self._prints or nothing)
        none = [np.zeros(0, dtype=np.bool_)]
        return ids, prints, np.concatenate(self._unfinished or none)


def overlap(one: tuple[OffsetArray, OffsetArray], other: tuple[OffsetArray, OffsetArray]) -> int:
    """How many episodes two logs, each (ids, prints), have in common; 0 if by chance.

    Short episodes of a finite problem are often alike, and files often number theirs from 0. So
    rows and id must agree, and more often than those of different episodes within a log do, unless
    all of a log is in the other.
    """
    ids, first, second = np.intersect1d(one[0], other[0], return_indices=True)
    alike = int((one[1][first] == other[1][second]).sum())
    if not alike or alike == len(ids) == min(len(one[0]), len(other[0])):
        return alike
    pairs = equal = 0.0
    for _, prints in (one, other):
        count = np.unique(prints, return_counts=True)[1].astype(np.float64)
        pairs += len(prints) * (len(prints) - 1.0)
        equal += float((count * (count - 1.0)).sum())
    share = equal / pairs if pairs else 0.0
    # P(at least so many of n are alike), the binomial tail.
    chance = float(betainc(alike, len(ids) - alike + 1, share))
    return alike if chance < UNLIKELY else 0


UNLIKELY = 1e-6
"""Probability below which agreement is not put down to chance."""


@compiled
def _print(
    observations: OffsetArray,
    actions: IntArray,
    rewards: OffsetArray,
    starts: BoolArray,
    found: OffsetArray,
) -> int:
    """Chain the bits of each row; ``found[0]`` is that of an episode already begun."""
    k = 0
    for t in range(len(rewards)):
        if starts[t]:
            k += 1
        h = found[k]
        for d in range(observations.shape[1]):
            h = _mix(h, observations[t, d])
        h = _mix(h, np.uint64(actions[t]))
        found[k] = _mix(h, rewards[t])
    return k


@inlined
def _mix(h: np.uint64, x: np.uint64) -> np.uint64:
    """One round of a multiplicative hash (the constants of MurmurHash3's finaliser)."""
    h = (h ^ x) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(33))
