"""Episode ids: a 64-bit hash of each, and ids that occur in two separate blocks of rows."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from saddleback._typing import IntArray, OffsetArray
from saddleback.errors import Fix
from saddleback.log.diagnostics import Finding


class EpisodeIds:
    """Ids of the episodes of a log in order, and the row at which each begins."""

    def __init__(self) -> None:
        self._hashes: list[OffsetArray] = []
        self._first_rows: list[IntArray] = []
        self._ids: list[Any] = []

    def add(self, ids: Any, first_rows: IntArray) -> None:
        """Add the episodes that begin at the given rows."""
        self._hashes.append(hash_ids(ids))
        self._ids.append(ids)
        self._first_rows.append(first_rows)

    def __getitem__(self, number: int) -> Any:
        """Return the id of an episode, by its number in the log."""
        return pa.chunked_array(self._ids)[number].as_py()

    def find_split_episodes(self, n_rows: int) -> list[Finding]:
        """Return a finding if an episode occurs in two separate blocks of the log's rows."""
        hashes = np.concatenate(self._hashes) if self._hashes else np.zeros(0, dtype=np.uint64)
        first = (
            np.concatenate(self._first_rows) if self._first_rows else np.zeros(0, dtype=np.int64)
        )
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
        ids = pa.concat_arrays(self._ids) if self._ids else None
        if ids is not None and ids.null_count:  # missing ids are reported as E121
            valid = ids.is_valid().to_numpy(zero_copy_only=False)[order]
            same = same[valid[same] & valid[same + 1]]
        if ids is None or not len(same):
            return []
        k = same[np.argmin(order[same + 1])]
        last = np.append(first[1:], n_rows) - 1
        one, other = order[k], order[k + 1]
        others = len(np.unique(hashes[order][same])) - 1
        more = f" (and {others:,} more such episode{'s' * (others > 1)})" if others else ""
        return [
            Finding(
                "E131",
                f"episode {ids[int(one)].as_py()} appears in two separate blocks (rows "
                f"{first[one]}-{last[one]}, {first[other]}-{last[other]}){more}.",
                Fix("Sort the rows", "order_by"),
            )
        ]


def hash_ids(ids: Any) -> OffsetArray:
    """Return a 64-bit hash of each episode id, the same in every file and on every machine."""
    if pa.types.is_integer(ids.type):
        numbers = np.asarray(ids.fill_null(0).to_numpy(zero_copy_only=False))
        return scramble(numbers.astype(np.int64).view(np.uint64))
    digests = (
        hashlib.blake2b(str(value).encode(), digest_size=8).digest() for value in ids.to_pylist()
    )
    return np.frombuffer(b"".join(digests), dtype=np.uint64).copy()


def scramble(x: OffsetArray) -> OffsetArray:
    """Mix the bits of integers (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = (x + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
