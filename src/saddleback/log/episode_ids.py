"""Episodes by their ids: 64 bits for each, and ids that come back later."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._typing import IntArray, OffsetArray
from saddleback.log.diagnostics import Finding


class EpisodeIds:
    """Ids of episodes in the order they are met, and where each begins."""

    def __init__(self) -> None:
        self._hashes: list[OffsetArray] = []
        self._firsts: list[IntArray] = []
        self._names: list[Any] = []

    def add(self, ids: Any, firsts: IntArray) -> None:
        """Take in the episodes that begin at some rows."""
        self._hashes.append(hash_ids(ids))
        self._names.append(ids)
        self._firsts.append(firsts)

    def find_split_episodes(self, rows: int) -> list[Finding]:
        """Episodes that come in two separate blocks, of a log of so many rows."""
        ids = np.concatenate(self._hashes) if self._hashes else np.zeros(0, dtype=np.uint64)
        firsts = np.concatenate(self._firsts) if self._firsts else np.zeros(0, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
        names = pa.concat_arrays(self._names) if self._names else None
        if names is not None and names.null_count:  # they are no episode, and said to be none
            same = same[names.is_valid().to_numpy(zero_copy_only=False)[order[same]]]
        if names is None or not len(same):
            return []
        k = same[np.argmin(order[same + 1])]
        ends = np.append(firsts[1:], rows) - 1
        one, other = order[k], order[k + 1]
        more = f" (and {len(same) - 1:,} more such episodes)" if len(same) > 1 else ""
        name = names[int(one)].as_py()
        return [
            Finding(
                "E131",
                f"episode {name} appears in two separate blocks (rows {firsts[one]}-{ends[one]}, "
                f"{firsts[other]}-{ends[other]}){more}. Sort by (episode_id, step), or give the "
                "episodes different ids.",
            )
        ]


def hash_ids(ids: Any) -> OffsetArray:
    """Return 64 bits for each episode id, the same in every file and on every machine."""
    if pa.types.is_integer(ids.type):
        number = np.asarray(ids.fill_null(-1).to_numpy(zero_copy_only=False))
        return scramble(number.astype(np.int64).view(np.uint64))
    digests = (
        hashlib.blake2b(str(each).encode(), digest_size=8).digest() for each in ids.to_pylist()
    )
    return np.frombuffer(b"".join(digests), dtype=np.uint64).copy()


def scramble(x: OffsetArray) -> OffsetArray:
    """Mix the bits of numbers (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = (x + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
