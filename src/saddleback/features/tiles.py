"""Tile coding: several grids over a box, each slightly displaced.

Tiling i is displaced in dimension d by i(1 + 2d)/n tile widths, modulo 1, the asymmetric
displacement of Miller and Glanz used in most tile-coding software. With b tiles along a dimension
each displaced grid needs b + 1 of them to cover the box. For boxes of many dimensions the tiles may
be hashed into a table of fixed size; the values of tiles that collide add up.
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

MAX_TILES = 1 << 31
"""Largest number of features that fits an index."""


@dataclass(frozen=True)
class Tiles:
    """Binary features of observations in a box: one active tile in each tiling.

    In tiling i of n, an observation o lies in the tile with coordinates k, of b + 1 along each of
    the D dimensions (b is ``bins``), which is feature number j:

        k_d = min(b, ⌊b (o_d − low_d)/(high_d − low_d) + (i(1 + 2d) mod n)/n⌋)
        j = i (b + 1)^D + Σ_d k_d (b + 1)^(D − 1 − d)

    and φ_j(o) = 1, all others are 0. With ``table`` the index j is hashed, and the values of tiles
    that collide add up.

    Parameters
    ----------
    low, high
        Corners of the box; observations are clipped to it.
    bins
        Tiles along each dimension, before displacement adds one.
    tilings
        Number of grids, which is the number of active features.
    table
        Hash the tiles into this many features; one feature per tile if not given.

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
        if self.size > MAX_TILES:
            raise InvalidParameter(
                f"Tiles: {self.size} tiles are more than {MAX_TILES}; hash them with table=…"
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
        """Return active features [n, tilings] of observations [n, d]; NaN and ±∞ are refused."""
        points = _validate.floats("observations", observations)
        _validate.shape("observations", points, ("n", len(self.low)))
        _validate.finite("observations", points)
        return self.encode(points).indices

    def encode(self, observations: FloatArray) -> Active:
        """Return active tiles without validation; hashed tiles have their multiplicity as value."""
        active = np.empty((len(observations), self.tilings), dtype=np.uint32)
        with np.errstate(over="ignore"):  # the hash wraps around by design
            _code(observations, *self._grid, self.bins, self.table or 0, active)
        if self.table is None:
            return Active(active, None)
        value = np.ones(active.shape)
        _merge(active, value)
        return Active(active, value)


@compiled
def _code(
    observations: FloatArray,
    low: FloatArray,
    tiles_per_unit: FloatArray,
    shift: FloatArray,
    bins: int,
    table: int,
    active: IndexArray,
) -> None:
    tilings, dimensions = shift.shape
    for n in range(len(observations)):
        for i in range(tilings):
            index = np.uint64(i)
            for d in range(dimensions):
                position = (observations[n, d] - low[d]) * tiles_per_unit[d]
                position = min(max(position, 0.0), float(bins)) + shift[i, d]
                index = index * np.uint64(bins + 1) + np.uint64(min(int(position), bins))
                if table > 0:
                    index = _scramble(index)
            active[n, i] = index % np.uint64(table) if table > 0 else index


@inlined
def _scramble(x: np.uint64) -> np.uint64:
    """Mix the bits of a number (the finaliser of MurmurHash3)."""
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return x ^ (x >> np.uint64(33))


@compiled
def _merge(index: IndexArray, value: FloatArray) -> None:
    """Give the first of several equal indices in a row the sum of their values."""
    for n in range(len(index)):
        for i in range(1, index.shape[1]):
            for first in range(i):
                if index[n, first] == index[n, i]:
                    value[n, first] += value[n, i]
                    value[n, i] = 0.0
                    break
