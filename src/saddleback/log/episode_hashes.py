"""Hashes of episodes: of their ids, and of their rows, by which they have blocks and fingerprints.

Equal rows give the same 64 bits, in any file and on every machine.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy

from saddleback._jit import compiled, inlined
from saddleback._typing import BoolArray, IntArray, OffsetArray
from saddleback.engine import EpisodeFold
from saddleback.errors import Fix
from saddleback.log.diagnostics import Finding

if TYPE_CHECKING:
    from saddleback.log.arrow_decode import DecodedRows
    from saddleback.log.segmentation import Segment

SIGNIFICANCE = 1e-6
"""Probability below which agreement is not attributed to chance."""


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


class BlockNumbers:
    """Gives each episode a 64-bit number whose remainder is its block.

    It is a hash of the first rows of the episode and of how many episodes before it had the same,
    so neither ids nor the order of episodes matter. But statistics of several logs are added block
    by block, and repeated episodes must not all meet in the same ones: with ``mergeable``, the
    blocks of episodes of whole numbers also depend on the first episode of the log.

    Examples
    --------
    >>> numbers = BlockNumbers(mergeable=False)
    >>> one, other = np.array([7, 9, 7], np.uint64), np.array([9, 9, 9], np.uint64)
    >>> np.unique(np.append(numbers.of(one), numbers.of(other))).size
    6
    """

    def __init__(self, mergeable: bool) -> None:
        self._mergeable, self._salt = mergeable, np.uint64(0)
        self._sorted: list[OffsetArray] = []

    def of(self, contents: OffsetArray) -> OffsetArray:
        """Return the numbers of the next episodes, from the hashes of their rows."""
        if self._mergeable and not self._sorted and len(contents):
            self._salt = scramble(contents[:1])[0]
        order = np.argsort(contents, kind="stable")
        ordered = contents[order]
        first = np.searchsorted(ordered, ordered)
        count: IntArray = np.empty(len(contents), dtype=np.int64)
        count[order] = np.arange(len(contents)) - first
        for run in self._sorted:
            count += np.searchsorted(run, contents, "right") - np.searchsorted(run, contents)
        self._sorted += [ordered] if len(ordered) else []
        while len(self._sorted) > 1 and len(self._sorted[-2]) < 2 * len(self._sorted[-1]):
            self._sorted[-2:] = [np.sort(np.concatenate(self._sorted[-2:]), kind="stable")]
        salt = np.where((contents & np.uint64(1)) | (count > 0), self._salt, np.uint64(0))
        return scramble(contents ^ scramble(count.astype(np.uint64)) ^ salt)


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
