"""Features that a user supplies: observations as they are, or a function of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter, InvalidShape
from saddleback.features.base import Active, all_active


@dataclass(frozen=True)
class Given:
    """Observations that are features already, as they are.

    Examples
    --------
    >>> Given(2)([[0.5, 1.0]])
    array([[0.5, 1. ]])
    """

    size: int

    def __post_init__(self) -> None:
        _validate.count("Given", "size", self.size)

    @property
    def dimensions(self) -> int:
        """Length of an observation."""
        return self.size

    def __call__(self, observations: ArrayLike) -> FloatArray:
        """Return the observations."""
        given = _validate.floats("observations", observations)
        _validate.shape("observations", given, ("n", self.size))
        _validate.finite("observations", given)
        return given

    def encode(self, observations: FloatArray) -> Active:
        """Return the observations, every entry active."""
        return all_active(observations)


@dataclass(frozen=True)
class Custom:
    """Features of your own: a function from observations [n, d] to [n, size].

    The function may return an array or a SciPy sparse matrix; only non-zero entries cost.

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
        given = _validate.floats("observations", observations)
        _validate.finite("observations", given)
        return self.encode(given).dense(self.size)

    def encode(self, observations: FloatArray) -> Active:
        """Call the function, check what it returns, and keep what is not zero."""
        made = self.function(observations)
        if not hasattr(made, "tocsr"):
            made = _validate.floats("features", made)
        if made.shape != (len(observations), self.size):
            raise InvalidShape(
                f"Custom features must have shape [{len(observations)}, {self.size}], got "
                f"{list(made.shape)}."
            )
        if hasattr(made, "tocsr"):
            sparse = made.tocsr()
            sparse.sum_duplicates()
            first, column = sparse.indptr, sparse.indices
            value = np.asarray(sparse.data, dtype=np.float64)
        else:
            row, column = np.nonzero(made)
            first = np.searchsorted(row, np.arange(len(made) + 1))
            value = made[row, column]
        _validate.finite("features", value)
        counts = np.diff(first)
        most = max(1, int(counts.max(initial=0)))
        inside = np.arange(most) < counts[:, None]
        index = np.zeros((len(counts), most), dtype=np.uint32)
        padded = np.zeros((len(counts), most))
        index[inside], padded[inside] = column, value
        return Active(index, padded)
