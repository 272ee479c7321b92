"""Endless experience, cut to order: so many steps, or so many whole episodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from saddleback.engine.experience import CHUNK


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
