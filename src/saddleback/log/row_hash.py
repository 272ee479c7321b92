"""A hash of the rows of each episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._jit import compiled, inlined
from saddleback._typing import IntArray, OffsetArray
from saddleback.log.arrow_decode import DecodedRows


def hash_rows(
    rows: DecodedRows, episode: IntArray, hashes: OffsetArray, which: Any = slice(None)
) -> None:
    """Add some of the rows to the hashes of episodes [n], given the episode of every row."""
    numbers = rows.observations[which]
    if "action" in rows.tables:
        numbers = np.column_stack([numbers, rows.tables["action"][which]])
    with np.errstate(over="ignore"):  # the hash is meant to overflow; compiled code is silent
        _chain(
            np.ascontiguousarray(numbers).view(np.uint64), rows.actions[which],
            np.ascontiguousarray(rows.rewards[which]).view(np.uint64), episode[which], hashes,
        )  # fmt: skip


@compiled
def _chain(
    observations: OffsetArray,
    actions: IntArray,
    rewards: OffsetArray,
    episode: IntArray,
    hashes: OffsetArray,
) -> None:
    """Chain the bits of each row to the hash of its episode."""
    for t in range(len(rewards)):
        h = hashes[episode[t]]
        for d in range(observations.shape[1]):
            h = _mix(h, observations[t, d])
        h = _mix(h, np.uint64(actions[t]))
        hashes[episode[t]] = _mix(h, rewards[t])


@inlined
def _mix(h: np.uint64, x: np.uint64) -> np.uint64:
    """One round of a multiplicative hash (the constants of MurmurHash3's finaliser)."""
    h = (h ^ x) * np.uint64(0xFF51AFD7ED558CCD)
    return h ^ (h >> np.uint64(33))
