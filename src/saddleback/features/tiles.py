"""Tile coding: several grids laid over a box, each a little displaced.

Tiling i is displaced in dimension d by i(1 + 2d)/n tile widths, modulo 1, the asymmetric
displacement of Miller and Glanz used in most tile-coding software. With b tiles along a dimension
each displaced grid needs b + 1 of them to cover the box.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled
from saddleback._typing import ArrayLike, FloatArray, IndexArray
from saddleback.errors import InvalidParameter


@dataclass(frozen=True)
class Tiles:
    """Binary features of observations in a box: one active tile in each tiling.

    Parameters
    ----------
    low, high
        Corners of the box; observations outside are moved onto its edge.
    bins
        Tiles along each dimension, before displacement adds one.
    tilings
        Number of grids, and so of active features.

    Examples
    --------
    >>> tiles = Tiles(low=(0.0, 0.0), high=(1.0, 1.0), bins=8, tilings=4)
    >>> tiles.size
    324
    >>> tiles([[0.5, 0.5]])
    array([[ 40, 121, 202, 283]], dtype=uint32)
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: int
    tilings: int

    def __post_init__(self) -> None:
        _validate.count("Tiles", "bins", self.bins)
        _validate.count("Tiles", "tilings", self.tilings)
        low, high = _validate.floats("low", self.low), _validate.floats("high", self.high)
        _validate.shape("low", low, ("d",))
        _validate.shape("high", high, (len(low),))
        for d in np.flatnonzero(~(low < high))[:1]:
            raise InvalidParameter(
                f"Tiles: low[{d}] = {low[d]:g} must be less than high[{d}] = {high[d]:g}."
            )
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))

    @property
    def size(self) -> int:
        """Number of features of an observation, over all tilings."""
        return int(self.tilings * (self.bins + 1) ** len(self.low))

    @cached_property
    def _grid(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        low, high = np.array(self.low), np.array(self.high)
        tiling, dimension = np.arange(self.tilings), np.arange(len(low))
        shift = (tiling[:, None] * (1 + 2 * dimension) % self.tilings) / self.tilings
        return low, self.bins / (high - low), shift

    def __call__(self, observations: ArrayLike) -> IndexArray:
        """Active features [n, tilings] of observations [n, d]; NaN and infinities are refused."""
        given = _validate.floats("observations", observations)
        _validate.shape("observations", given, ("n", len(self.low)))
        _validate.finite("observations", given)
        return self.code(given)

    def code(self, observations: FloatArray) -> IndexArray:
        """As calling, without checks."""
        found = np.empty((len(observations), self.tilings), dtype=np.uint32)
        _code(observations, *self._grid, self.bins, found)
        return found


@compiled
def _code(
    observations: FloatArray,
    low: FloatArray,
    per_unit: FloatArray,
    shift: FloatArray,
    bins: int,
    found: IndexArray,
) -> None:
    tilings, dimensions = shift.shape
    for n in range(len(observations)):
        for i in range(tilings):
            index = i
            for d in range(dimensions):
                place = (observations[n, d] - low[d]) * per_unit[d]
                place = min(max(place, 0.0), float(bins)) + shift[i, d]
                index = index * (bins + 1) + min(int(place), bins)
            found[n, i] = index
