"""A fingerprint of each episode: the same rows give the same 64 bits, wherever they are found."""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, IntArray, OffsetArray
from saddleback.log.episodes import Piece


class Prints:
    """Fingerprints of episodes as they come in pieces."""

    def __init__(self) -> None:
        self._ids: list[OffsetArray] = []
        self._prints: list[OffsetArray] = []
        self._unfinished: list[BoolArray] = []
        self._open = False

    def add(self, piece: Piece) -> None:
        """Take in the next piece; an episode that goes on is finished later."""
        rows = piece.rows
        found = np.zeros(int(rows.starts.sum()) + 1, dtype=np.uint64)
        if self._open:
            found[0] = self._prints[-1][-1]
        count = _print(
            np.ascontiguousarray(rows.observations).view(np.uint64), rows.actions,
            np.ascontiguousarray(rows.rewards).view(np.uint64), rows.starts, found,
        )  # fmt: skip
        if self._open:
            self._prints[-1][-1] = found[0]
        self._prints.append(found[1 : count + 1])
        self._ids.append(piece.ids)
        ended = piece.unfinished
        self._unfinished.append(ended)
        if count:
            self._open = piece.goes_on
        else:
            self._open = self._open and piece.goes_on

    def arrays(self) -> tuple[OffsetArray, OffsetArray, BoolArray]:
        """Ids, fingerprints, and whether each episode simply stops."""
        nothing = [np.zeros(0, dtype=np.uint64)]
        ids = np.concatenate(self._ids or nothing)
        prints = np.concatenate(self._prints or nothing)
        none = [np.zeros(0, dtype=np.bool_)]
        return ids, prints, np.concatenate(self._unfinished or none)


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


@compiled
def _mix(h: np.uint64, x: np.uint64) -> np.uint64:
    """One round of a multiplicative hash (the constants of MurmurHash3's finaliser)."""
    h = (h ^ x) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(33))
