"""The interface of feature maps: indices and values of the active features."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from saddleback._typing import FloatArray, IndexArray
from saddleback._user_functions import SAMPLE, Recheck, call, check_rows, nothing_to_recheck


class Active(NamedTuple):
    """Active features of n observations, m of each.

    Attributes
    ----------
    indices
        Their indices, [n, m]. Within a row, an index has a non-zero value at most once.
    value
        Their values [n, m], or None if all are 1.

    Examples
    --------
    >>> Active(np.array([[0, 3]]), None).dense(4)
    array([[1., 0., 0., 1.]])
    """

    indices: IndexArray
    value: FloatArray | None

    def dense(self, size: int) -> FloatArray:
        """Return the dense vectors, [n, size]."""
        rows = np.zeros((len(self.indices), size))
        values = np.ones(self.indices.shape) if self.value is None else self.value
        np.add.at(rows, (np.arange(len(rows))[:, None], self.indices), values)
        return rows


def all_active(values: FloatArray) -> Active:
    """Return dense rows [n, m] as features that are all active."""
    index = np.broadcast_to(np.arange(values.shape[1], dtype=np.uint32), values.shape)
    return Active(np.ascontiguousarray(index), values)


class Features(Protocol):
    """A map from observations to sparse vectors of length ``size``.

    Examples
    --------
    >>> from saddleback.features import Tiles
    >>> tiles: Features = Tiles((0.0,), (1.0,), bins=2, tilings=1)
    >>> tiles.size, tiles.encode(np.array([[0.9]])).indices
    (3, array([[1]], dtype=uint32))
    """

    @property
    def size(self) -> int:
        """Length of the vectors."""

    @property
    def dimensions(self) -> int | None:
        """Length of an observation; None if any length is accepted."""

    def encode(self, observations: FloatArray) -> Active:
        """Return the active features of observations [n, d], without validation."""


def encode(features: Features, observations: FloatArray) -> Active:
    """Return the active features of observations; features of a user cannot write to them."""
    if type(features).__module__.startswith("saddleback."):
        return features.encode(observations)
    indices, value = call("features", features.encode, observations)
    return Active(np.array(indices), None if value is None else np.array(value))  # may be reused


def check_feature_rows(features: Features, observations: FloatArray) -> Recheck:
    """Raise unless features of a user are a function of each observation alone."""
    own = not type(features).__module__.startswith("saddleback.")
    function = features.encode if own else getattr(features, "function", None)
    if function is None:
        return nothing_to_recheck
    limit = min(SAMPLE, max(2, ENTRIES // features.size))
    return check_rows(
        "features", lambda rows: encode(features, rows).dense(features.size), observations,
        function, limit,
    )  # fmt: skip


ENTRIES = 1 << 22
"""Largest number of entries of the dense features that are compared."""
