"""Cut experience into chunks of steps or of complete episodes, and choose where to record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, IntArray
from saddleback.engine.experience import CHUNK
from saddleback.errors import InvalidParameter


class Chunker:
    """Draws experience from a sampler in chunks; steps left over start the next chunk."""

    def __init__(self, sampler: Any, size: int | None = None) -> None:
        self._sampler, self._size = sampler, size or CHUNK
        self._remainder: Any = None
        self._in_episode = False

    def steps(self, count: int) -> Iterator[Any]:
        """Yield chunks of ``count`` steps in total."""
        while count:
            size = min(self._size, count)
            yield self._sampler.take(size)
            count -= size

    def episodes(self, count: int) -> Iterator[Any]:
        """Yield chunks up to the end of the next ``count`` episodes."""
        while True:
            chunk = self._sampler.take(self._size) if self._remainder is None else self._remainder
            begins = np.flatnonzero(chunk.starts)
            ends = begins if self._in_episode else begins[1:]
            if len(ends) >= count:
                cut = int(ends[count - 1])
                if cut:
                    yield chunk.part(slice(0, cut))
                self._remainder, self._in_episode = chunk.part(slice(cut, None)), False
                return
            yield chunk
            count -= len(ends)
            self._remainder, self._in_episode = None, True


def record_points(steps: int, record: int | ArrayLike | None) -> IntArray:
    """Update counts to record at: every ``record``, those listed, or about a hundred."""
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
