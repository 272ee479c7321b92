"""Tile coding: several grids laid over a box, each a little displaced.

Tiling i is displaced in dimension d by i(1 + 2d)/n tile widths, modulo 1, the asymmetric
displacement of Miller and Glanz used in most tile-coding software. With b tiles along a dimension
each displaced grid needs b + 1 of them to cover the box. The tiles may be hashed into a table of
given size, for boxes of many dimensions; tiles that meet in one place add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled, inlined
from saddleback._typing import ArrayLike, FloatArray, IndexArray
from saddleback.errors import InvalidParameter
from saddleback.features.base import Active

MOST = 1 << 31
"""More features than this would not fit an index."""


@dataclass(frozen=True)
class Tiles:
    """Binary features of observations in a box: one active tile in each tiling.

    In tiling i of n, an observation o lies in the tile with coordinates k, of b + 1 along each of
    the D dimensions (b is ``bins``), which is feature number j:

        k_d = min(b, ⌊b (o_d − low_d)/(high_d − low_d) + (i(1 + 2d) mod n)/n⌋)
        j = i (b + 1)^D + Σ_d k_d (b + 1)^(D − 1 − d)

    and φ_j(o) = 1, all others are 0. With ``table`` the number j is hashed, and tiles that meet in
    one place add up.

    Parameters
    ----------
    low, high
        Corners of the box; observations outside are moved onto its edge.
    bins
        Tiles along each dimension, before displacement adds one.
    tilings
        Number of grids, and so of active features.
    table
        Hash the tiles into this many features; one feature for each tile if not given.

    Examples
    --------
    >>> tiles = Tiles(low=(0.0, 0.0), high=(1.0, 1.0), bins=8, tilings=4)
    >>> tiles.size
    324
    >>> tiles([[0.5, 0.5]])
    array([[ 40, 121, 202, 283]], dtype=uint32)
    >>> Tiles((0.0,) * 6, (1.0,) * 6, bins=8, tilings=16, table=4096).size
    4096
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    bins: int
    tilings: int
    table: int | None = None

    def __post_init__(self) -> None:
        _validate.count("Tiles", "bins", self.bins)
        _validate.count("Tiles", "tilings", self.tilings)
        if self.table is not None:
            _validate.count("Tiles", "table", self.table)
        low, high = _validate.box("Tiles", self.low, self.high)
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))
        if self.size > MOST:
            raise InvalidParameter(
                f"Tiles: {self.size} tiles are more than {MOST}; hash them with table=…"
            )

    @property
    def dimensions(self) -> int:
        """Length of an observation."""
        return len(self.low)

    @property
    def size(self) -> int:
        """Number of features of an observation, over all tilings."""
        return self.table or int(self.tilings * (self.bins + 1) ** len(self.low))

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
        return self.encode(given).which

    def encode(self, observations: FloatArray) -> Active:
        """Active tiles without checks; hashed ones with the number that met in one place."""
        found = np.empty((len(observations), self.tilings), dtype=np.uint32)
        with np.errstate(over="ignore"):  # the hash is meant to wrap around
            _code(observations, *self._grid, self.bins, self.table or 0, found)
        if self.table is None:
            return Active(found, None)
        value = np.ones(found.shape)
        _merge(found, value)
        return Active(found, value)


@compiled
def _code(
    observations: FloatArray,
    low: FloatArray,
    per_unit: FloatArray,
    shift: FloatArray,
    bins: int,
    table: int,
    found: IndexArray,
) -> None:
    tilings, dimensions = shift.shape
    for n in range(len(observations)):
        for i in range(tilings):
            index = np.uint64(i)
            for d in range(dimensions):
                place = (observations[n, d] - low[d]) * per_unit[d]
                place = min(max(place, 0.0), float(bins)) + shift[i, d]
                index = index * np.uint64(bins + 1) + np.uint64(min(int(place), bins))
                if table > 0:
                    index = _scramble(index)
            found[n, i] = index % np.uint64(table) if table > 0 else index


@inlined
def _scramble(x: np.uint64) -> np.uint64:
    """Mix the bits of a number (the finaliser of MurmurHash3)."""
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


@compiled
def _merge(index: IndexArray, value: FloatArray) -> None:
    """Let the first of several equal indices in a row carry the value of all."""
    for n in range(len(index)):
        for i in range(1, index.shape[1]):
            for first in range(i):
                if index[n, first] == index[n, i]:
                    value[n, first] += value[n, i]
                    value[n, i] = 0.0
                    break
