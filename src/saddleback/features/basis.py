"""Basis functions: Fourier, polynomial and radial; and one-hot encoding of states."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter
from saddleback.features.base import Active, all_active

MAX_FUNCTIONS = 100_000
"""Largest number of basis functions, all of which are computed for every observation."""


@dataclass(frozen=True)
class _Box(ABC):
    """Functions on a box, scaled to [0, 1]ᵈ; observations are clipped to the box."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        low, high = _validate.box(type(self).__name__, self.low, self.high)
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))

    def _check_size(self) -> None:
        """Refuse more functions than could be computed."""
        if self.size > MAX_FUNCTIONS:
            raise InvalidParameter(
                f"{type(self).__name__}: {self.size:,} functions of {self.dimensions} columns are "
                f"more than {MAX_FUNCTIONS:,}; use a lower number, or hashed Tiles."
            )

    @property
    def dimensions(self) -> int:
        """Length of an observation."""
        return len(self.low)

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of features."""

    @abstractmethod
    def evaluate_unit_box(self, x: FloatArray) -> FloatArray:
        """Return features [n, size] of points [n, d] in the unit box."""

    def __call__(self, observations: ArrayLike) -> FloatArray:
        """Return features [n, size] of observations [n, d]; NaN and infinities are refused."""
        points = _validate.floats("observations", observations)
        _validate.shape("observations", points, ("n", len(self.low)))
        _validate.finite("observations", points)
        return self._values(points)

    def encode(self, observations: FloatArray) -> Active:
        """Return the same features without validation, for the engine."""
        return all_active(self._values(observations))

    def _values(self, observations: FloatArray) -> FloatArray:
        low, high = np.array(self.low), np.array(self.high)
        with np.errstate(over="ignore"):  # infinity is clipped
            scaled = (observations - low) / (high - low)
        return self.evaluate_unit_box(np.clip(scaled, 0.0, 1.0))

    def _grid(self, count: int) -> FloatArray:
        """All vectors of {0, …, count − 1}ᵈ, as rows."""
        return np.array(list(itertools.product(range(count), repeat=len(self.low))), dtype=float)


@dataclass(frozen=True)
class Fourier(_Box):
    """φ_c = cos(π c·x) for all c in {0, …, order}ᵈ (Konidaris et al. 2011).

    Examples
    --------
    >>> Fourier(low=(0.0,), high=(2.0,), order=2)([[1.0]]).round(6)
    array([[ 1.,  0., -1.]])
    """

    order: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.count("Fourier", "order", self.order)
        self._check_size()

    @property
    def size(self) -> int:
        """(order + 1)ᵈ."""
        return int((self.order + 1) ** len(self.low))

    def evaluate_unit_box(self, x: FloatArray) -> FloatArray:
        """Return cos(π c·x)."""
        return np.asarray(np.cos(np.pi * x @ self._grid(self.order + 1).T))


@dataclass(frozen=True)
class Polynomial(_Box):
    """φ_c = Π_d x_d^{c_d} for all c in {0, …, degree}ᵈ.

    Examples
    --------
    >>> Polynomial(low=(0.0,), high=(2.0,), degree=2)([[1.0]])
    array([[1.  , 0.5 , 0.25]])
    """

    degree: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.count("Polynomial", "degree", self.degree)
        self._check_size()

    @property
    def size(self) -> int:
        """(degree + 1)ᵈ."""
        return int((self.degree + 1) ** len(self.low))

    def evaluate_unit_box(self, x: FloatArray) -> FloatArray:
        """Return the monomials."""
        return np.asarray(np.prod(x[:, None, :] ** self._grid(self.degree + 1), axis=2))


@dataclass(frozen=True)
class RBF(_Box):
    """φ_k = exp(−‖x − x_k‖² / 2w²) for a grid of centres x_k of spacing w, and a constant 1.

    Examples
    --------
    >>> RBF(low=(0.0,), high=(2.0,), centres=3)([[1.0]]).round(3)
    array([[0.607, 1.   , 0.607, 1.   ]])
    """

    centres: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.count("RBF", "centres", self.centres)
        self._check_size()

    @property
    def size(self) -> int:
        """centresᵈ + 1."""
        return int(self.centres ** len(self.low)) + 1

    def evaluate_unit_box(self, x: FloatArray) -> FloatArray:
        """Return the radial functions, and 1."""
        width = 1.0 / max(1, self.centres - 1)
        distance = (x[:, None, :] - width * self._grid(self.centres)) / width
        radial = np.exp(-0.5 * (distance**2).sum(axis=2))
        return np.column_stack([radial, np.ones(len(x))])


@dataclass(frozen=True)
class OneHot:
    """One feature per state, observed as 0, …, size − 1: tabular learning.

    Examples
    --------
    >>> OneHot(3)([[2.0], [0.0]])
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    size: int
    dimensions: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _validate.count("OneHot", "size", self.size)

    def __call__(self, observations: ArrayLike) -> FloatArray:
        """Return features [n, size] of observations [n, 1]."""
        points = _validate.floats("observations", observations)
        _validate.shape("observations", points, ("n", 1))
        return self.encode(points).dense(self.size)

    def encode(self, observations: FloatArray) -> Active:
        """Return the state of each observation; anything but a state is refused."""
        state = observations[:, 0]
        for i in np.flatnonzero(~((state >= 0) & (state < self.size) & (state % 1 == 0)))[:1]:
            raise InvalidParameter(
                f"OneHot: observation {state[i]:g} is not a state 0 … {self.size - 1}; give the "
                "number of states: OneHot(size)."
            )
        return Active(observations.astype(np.uint32), None)
