"""Episodes that continue in another file, although those may be others with the same ids.

Files that number their episodes anew are joined when rows are sorted by a time. The pauses tell:
between different episodes they are longer than those within one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from saddleback._typing import FloatArray, IntArray
from saddleback.log.diagnostics import Finding

USUAL = 0.99
"""Quantile of the pauses within a file that are usual."""

SHARE = 0.5
"""Share of the pauses between files above which longer ones are reported."""


class ContinuedEpisodes:
    """Counts the episodes that continue in another file, from rows in order.

    Examples
    --------
    >>> episodes = ContinuedEpisodes(["january.csv", "february.csv"])
    >>> episodes.add(pa.array([7] * 4), pa.array([1, 2, 101, 102]), np.array([0, 0, 1, 1]))
    >>> [finding.code for finding in episodes.findings()]
    ['W136']
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._pauses: list[FloatArray] = []  # between files
        self._longest = -np.inf  # of the usual pauses within a file
        self._overlap = False
        self._count, self._first = 0, ""

    def add(self, ids: Any, order: Any, files: IntArray) -> None:
        """Add all rows of some episodes: their ids, times, and the numbers of their files."""
        if len(self._files) < 2 or len(files) < 2:
            return
        same = pc.equal(ids[1:], ids[:-1]).fill_null(False).to_numpy(zero_copy_only=False)
        pauses = np.diff(_as_floats(order))
        moves = same & (files[1:] != files[:-1])
        within = pauses[same & ~moves]
        if len(within):
            self._longest = max(self._longest, float(np.quantile(within, USUAL)))
        if not moves.any():
            return
        # An episode that returns to a file has files whose rows overlap.
        episode = np.cumsum(np.append(0, ~same))
        begins = np.append(True, ~same | moves)
        parts = episode[begins] * len(self._files) + files[begins]
        self._overlap |= len(np.unique(parts)) < len(parts)
        self._pauses.append(pauses[moves])
        at = int(np.argmax(moves))
        if not self._count:
            one, other = (self._files[int(files[i])] for i in (at, at + 1))
            self._first = f"{ids[at].as_py()} in {one} and {other}"
        self._count += len(np.unique(episode[1:][moves]))

    def findings(self) -> list[Finding]:
        """Return a warning if pauses between files are longer than usual ones within."""
        if not self._count or self._overlap or np.isinf(self._longest):
            return []
        longer = np.concatenate(self._pauses) > self._longest
        if longer.mean() < SHARE:
            return []
        one = self._count == 1
        message = (
            f"{self._count:,} episode{'' if one else 's'} ({'' if one else 'first: '}"
            f"{self._first}) continue{'s' if one else ''} in another file after an unusual pause, "
            f"and {'is' if one else 'are'} read as one. If the files number their episodes anew, "
            "make the ids distinct."
        )
        return [Finding("W136", message)]


def _as_floats(column: Any) -> FloatArray:
    """Return numbers, dates or times as numbers."""
    kind = column.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy(), dtype=np.float64)
