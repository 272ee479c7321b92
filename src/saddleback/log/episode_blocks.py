"""Blocks and folds of episodes, chosen by what the episodes contain."""

from __future__ import annotations

import numpy as np

from saddleback._typing import IntArray, OffsetArray
from saddleback.log.episode_ids import scramble


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
