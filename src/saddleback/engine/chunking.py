"""Endless experience, cut to order: so many steps, or so many whole episodes; and where to stop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, IntArray
from saddleback.engine.experience import CHUNK
from saddleback.errors import InvalidParameter


class Pieces:
    """Cuts what a sampler takes; nothing is lost between orders."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._rest: Any = None
        self._open = False

    def steps(self, count: int) -> Iterator[Any]:
        """Return pieces of ``count`` steps in all."""
        while count:
            size = min(CHUNK, count)
            yield self._sampler.take(size)
            count -= size

    def episodes(self, count: int) -> Iterator[Any]:
        """Return pieces that end with the ``count``-th episode from here."""
        while True:
            piece = self._sampler.take(CHUNK) if self._rest is None else self._rest
            begins = np.flatnonzero(piece.starts)
            ends = begins if self._open else begins[1:]
            if len(ends) >= count:
                cut = int(ends[count - 1])
                if cut:
                    yield piece.part(slice(0, cut))
                self._rest, self._open = piece.part(slice(cut, None)), False
                return
            yield piece
            count -= len(ends)
            self._rest, self._open = None, True


def record_points(steps: int, record: int | ArrayLike | None) -> IntArray:
    """Update counts to record at: every ``record``, or those listed, or about a hundred."""
    if record is None:
        return np.unique(np.linspace(0, steps, 101).astype(np.int64))
    if np.ndim(record) == 0:
        every = _validate.count("record", "interval", record)
        return np.append(np.arange(0, steps, every), steps)
    points = np.asarray(record)
    if points.ndim != 1 or not points.size or points.dtype.kind not in "iu":
        raise InvalidParameter(f"record must list whole update counts, got {record!r}.")
    for point in points[(points < 0) | (points > steps)][:1]:
        raise InvalidParameter(f"record lists {point}, but counts run from 0 to {steps}.")
    return np.unique(np.append(points, steps)).astype(np.int64)
