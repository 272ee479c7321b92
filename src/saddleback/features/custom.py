"""User-supplied features: the observations themselves, or a function of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from saddleback import _validate
from saddleback._plugins import USER_ERRORS
from saddleback._typing import ArrayLike, FloatArray
from saddleback._user_functions import call
from saddleback.errors import InvalidParameter, InvalidShape, SaddlebackError
from saddleback.features.base import Active, all_active


@dataclass(frozen=True)
class Identity:
    """The observations themselves as features.

    Examples
    --------
    >>> Identity(2)([[0.5, 1.0]])
    array([[0.5, 1. ]])
    """

    size: int

    def __post_init__(self) -> None:
        _validate.count("Identity", "size", self.size)

    @property
    def dimensions(self) -> int:
        """Length of an observation."""
        return self.size

    def __call__(self, observations: ArrayLike) -> FloatArray:
        """Return the observations."""
        points = _validate.floats("observations", observations)
        _validate.shape("observations", points, ("n", self.size))
        _validate.finite("observations", points)
        return points

    def encode(self, observations: FloatArray) -> Active:
        """Return the observations, every entry active."""
        return all_active(observations)


@dataclass(frozen=True)
class Custom:
    """Features computed by a function, from observations [n, d] to [n, size].

    The function may return an array or a SciPy sparse matrix; only non-zero entries are stored.

    Examples
    --------
    >>> Custom(lambda obs: obs[:, :1] > [0.0, 1.0], size=2)(np.array([[0.5, 9.0]]))
    array([[1., 0.]])
    """

    function: Callable[[FloatArray], Any]
    size: int
    dimensions: ClassVar[None] = None

    def __post_init__(self) -> None:
        _validate.count("Custom", "size", self.size)
        if not callable(self.function):
            raise InvalidParameter(f"Custom: function must be callable, got {self.function!r}.")

    def __call__(self, observations: ArrayLike) -> FloatArray:
        """Return features [n, size] of observations [n, d]."""
        points = _validate.floats("observations", observations)
        _validate.finite("observations", points)
        return self.encode(points).dense(self.size)

    def encode(self, observations: FloatArray) -> Active:
        """Call the function, validate its result, and keep the non-zero entries."""
        try:
            values = call("features", self.function, observations)
        except SaddlebackError:
            raise
        except USER_ERRORS as error:
            raise InvalidParameter(f"features failed: {type(error).__name__}: {error}") from error
        if not hasattr(values, "tocsr"):
            values = _validate.floats("features", values)
        if values.shape != (len(observations), self.size):
            raise InvalidShape(
                f"Custom features must have shape [{len(observations)}, {self.size}], got "
                f"{list(values.shape)}."
            )
        if hasattr(values, "tocsr"):
            sparse = values.tocsr()
            sparse.sum_duplicates()
            offsets, column = sparse.indptr, sparse.indices
            value = np.asarray(sparse.data, dtype=np.float64)
        else:
            row, column = np.nonzero(values)
            offsets = np.searchsorted(row, np.arange(len(values) + 1))
            value = values[row, column]
        _validate.finite("features", value)
        counts = np.diff(offsets)
        largest = max(1, int(counts.max(initial=0)))
        inside = np.arange(largest) < counts[:, None]
        index = np.zeros((len(counts), largest), dtype=np.uint32)
        padded = np.zeros((len(counts), largest))
        index[inside], padded[inside] = column, value
        return Active(index, padded)
