"""Features of robustly standardised observations: random Fourier features and monomials."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.errors import InvalidParameter
from saddleback.features.base import Active, all_active

NORMAL_RANGE = 3.29
"""Distance between the 5% and 95% quantiles of a normal distribution, in standard deviations."""

CLIP = 5.0
"""Standardised observations are clipped to ± this."""

LOG_RATIO = 20.0
"""Positive columns whose central 90% span more than this factor are taken as logarithms."""


SAME, COMPARED = 1e-6, 200
"""Difference of standardised columns below which one repeats the other, possibly in other units;
and observations on which all pairs of columns are compared, before a few are on all of them."""


@dataclass(frozen=True)
class Scaling:
    """Standardises each column: x = (observation − centre) / scale; one of scale 0 is dropped.

    These are columns that are constant, or repeat an earlier one.

    Attributes
    ----------
    centre, scale
        Median, and the range of the central 90% in units of a normal distribution's.
    logarithm
        Which columns are taken as logarithms first.

    Examples
    --------
    >>> scaling = Scaling.of(np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]]))
    >>> scaling.centre, [round(scale, 3) for scale in scaling.scale]
    ((2.0, 7.0), [0.547, 0.0])
    >>> scaling(np.array([[2.547, 0.0]])).round(2)
    array([[1.]])
    """

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    logarithm: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not self.logarithm:
            object.__setattr__(self, "logarithm", (False,) * len(self.centre))
        if not len(self.centre) == len(self.scale) == len(self.logarithm):
            raise InvalidParameter("Scaling: centre, scale and logarithm differ in length.")
        for name in ("centre", "scale"):
            _validate.finite(name, np.asarray(getattr(self, name), dtype=float))

    @classmethod
    def of(cls, observations: FloatArray) -> Self:
        """Return the scaling of a sample of observations [n, d]."""
        low, high = np.quantile(observations, [0.05, 0.95], axis=0)
        logarithm = (observations.min(axis=0) > 0) & (high > LOG_RATIO * low)
        centre, scale = robust_scale(_logarithms(observations, logarithm))
        scale[list(repeated_columns(observations))] = 0.0
        return cls(tuple(centre.tolist()), tuple(scale.tolist()), tuple(logarithm.tolist()))

    def covering(self, observations: FloatArray) -> Self:
        """Return the scaling with scales large enough that no observation, [n, d], is clipped.

        Monomials in all of these units span the same functions.

        Examples
        --------
        >>> Scaling((2.0,), (0.5,)).covering(np.array([[1.0], [12.0]])).scale
        (2.0,)
        """
        points = _logarithms(observations, np.array(self.logarithm))
        far = np.abs(points - np.array(self.centre)).max(axis=0) / CLIP
        scale = np.where(np.array(self.scale) > 0, np.maximum(self.scale, far), 0.0)
        return replace(self, scale=tuple(scale.tolist()))

    @property
    def size(self) -> int:
        """Number of columns that are kept."""
        return sum(scale > 0 for scale in self.scale)

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Return the standardised columns, [n, size]."""
        kept = np.array(self.scale) > 0
        points = _logarithms(observations, np.array(self.logarithm))[:, kept]
        scaled = (points - np.array(self.centre)[kept]) / np.array(self.scale)[kept]
        return np.ascontiguousarray(np.clip(scaled, -CLIP, CLIP))


def robust_scale(points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the median of each column, and its central 90% in units of a normal distribution's.

    The latter is 0 for a constant column, and the standard deviation if nearly all is constant.
    """
    low, high = np.quantile(points, [0.05, 0.95], axis=0)
    scale = (high - low) / NORMAL_RANGE
    deviation = points.std(axis=0)
    constant = deviation <= 1e-12 * np.abs(points).max(axis=0)
    scale = np.where(constant, 0.0, np.where(scale > 1e-3 * deviation, scale, deviation))
    return np.median(points, axis=0), scale


def repeated_columns(points: FloatArray) -> dict[int, int]:
    """Return the columns that repeat an earlier one, up to centre and scale, and which.

    They must agree in every row, so that a column that differs only now and then is kept.

    Examples
    --------
    >>> celsius = np.array([36.5, 39.0, 37.2, 38.1])
    >>> repeated_columns(np.column_stack([celsius, [1.0, 5.0, 2.0, 2.0], 32 + 1.8 * celsius]))
    {2: 0}
    """
    centre, scale = robust_scale(points)
    varying = np.flatnonzero(scale)
    x = (points[:: -(-len(points) // COMPARED), varying] - centre[varying]) / scale[varying]

    def differences(columns: FloatArray, column: FloatArray) -> FloatArray:
        """Return the largest difference of the column to each of several, or to their negative."""
        either = [np.abs(columns - column).max(axis=0), np.abs(columns + column).max(axis=0)]
        return np.asarray(np.minimum(*either) / max(1.0, float(np.abs(column).max())))

    repeated: dict[int, int] = {}
    for k, j in enumerate(varying.tolist()):
        for i in varying[:k][differences(x[:, :k], x[:, [k]]) <= SAME].tolist():
            pair = (points[:, [i, j]] - centre[[i, j]]) / scale[[i, j]]
            if i not in repeated and differences(pair[:, :1], pair[:, 1:])[0] <= SAME:
                repeated[j] = i
                break
    return repeated


def _logarithms(observations: FloatArray, which: ArrayLike) -> FloatArray:
    if not np.any(which):
        return observations
    positive = np.log(np.maximum(observations, np.finfo(float).tiny))
    return np.where(which, positive, observations)


@dataclass(frozen=True)
class _Standardised(ABC):
    """Functions of standardised observations."""

    scaling: Scaling

    @property
    def dimensions(self) -> int:
        """Length of an observation."""
        return len(self.scaling.centre)

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of features."""

    @abstractmethod
    def evaluate(self, x: FloatArray) -> FloatArray:
        """Return features [n, size] of standardised observations."""

    def __call__(self, observations: ArrayLike) -> FloatArray:
        """Return features [n, size] of observations [n, d]; NaN and infinities are refused."""
        points = _validate.floats("observations", observations)
        _validate.shape("observations", points, ("n", self.dimensions))
        _validate.finite("observations", points)
        return self.evaluate(self.scaling(points))

    def encode(self, observations: FloatArray) -> Active:
        """Return the same features without validation, for the engine."""
        return all_active(self.evaluate(self.scaling(observations)))


@dataclass(frozen=True)
class RandomFourier(_Standardised):
    """1, the columns x, and √2 cos(wᵀx + c) with random w ~ N(0, 1/bandwidth²), c ~ U(0, 2π).

    Inner products approximate a Gaussian kernel (Rahimi & Recht 2007).

    Examples
    --------
    >>> features = RandomFourier(Scaling((0.0,), (1.0,)), waves=3, bandwidth=1.0, seed=0)
    >>> features.size, features([[0.5]]).round(2)
    (5, array([[1.  , 0.5 , 1.39, 0.46, 1.38]]))
    """

    waves: int
    bandwidth: float
    seed: int = 0

    def __post_init__(self) -> None:
        _validate.count("RandomFourier", "waves", self.waves)
        _validate.positive("RandomFourier", "bandwidth", self.bandwidth)

    @property
    def size(self) -> int:
        """1, the number of columns, and the number of waves."""
        return 1 + self.scaling.size + self.waves

    @cached_property
    def _draws(self) -> tuple[FloatArray, FloatArray]:
        rng = np.random.default_rng(self.seed)
        return random_waves(rng, self.scaling.size, self.waves, self.bandwidth)

    def evaluate(self, x: FloatArray) -> FloatArray:
        """Return 1, x and the waves."""
        frequencies, phases = self._draws
        return with_waves(x, cosine(x @ frequencies + phases))


@dataclass(frozen=True)
class Monomials(_Standardised):
    """All monomials Π_d x_d^{c_d} of the columns x with Σ_d c_d ≤ degree.

    Examples
    --------
    >>> Monomials(Scaling((0.0, 0.0), (1.0, 1.0)), degree=2)([[2.0, 3.0]])
    array([[1., 2., 3., 4., 6., 9.]])
    """

    degree: int

    def __post_init__(self) -> None:
        if self.degree != 0:
            _validate.count("Monomials", "degree", self.degree)

    @cached_property
    def _factors(self) -> list[tuple[int, ...]]:
        return monomial_factors(self.scaling.size, self.degree)

    @property
    def size(self) -> int:
        """Number of monomials."""
        return len(self._factors)

    def evaluate(self, x: FloatArray) -> FloatArray:
        """Return the monomials."""
        columns = [np.prod(x[:, list(factors)], axis=1) for factors in self._factors]
        return np.column_stack(columns)


def random_waves(
    rng: np.random.Generator, columns: int, waves: int, bandwidth: float
) -> tuple[FloatArray, FloatArray]:
    """Return random frequencies w ~ N(0, 1/bandwidth²) [columns, waves] and phases c ~ U(0, 2π)."""
    frequencies = rng.standard_normal((columns, waves)) / bandwidth
    return frequencies, rng.uniform(0.0, 2.0 * np.pi, waves)


def cosine(z: FloatArray) -> FloatArray:
    """Return √2 cos z in single precision, which is many times faster and enough for a feature."""
    return np.asarray(np.float32(np.sqrt(2.0)) * np.cos(z.astype(np.float32)))


def with_waves(x: FloatArray, waves: FloatArray) -> FloatArray:
    """Return 1, x and the waves side by side, in double precision."""
    d = x.shape[1]
    features = np.empty((len(x), 1 + d + waves.shape[1]))
    features[:, 0], features[:, 1 : 1 + d], features[:, 1 + d :] = 1.0, x, waves
    return features


def monomial_factors(columns: int, degree: int) -> list[tuple[int, ...]]:
    """Return the columns of each monomial up to a total degree, such as (0, 0, 1) of x_0²x_1."""
    return [
        factors
        for total in range(degree + 1)
        for factors in itertools.combinations_with_replacement(range(columns), total)
    ]


def median_distance(points: FloatArray) -> float:
    """Return the median distance of two points, of at most 600 of them.

    Examples
    --------
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    chosen = points[:: -(-len(points) // 600)]
    squares = (chosen**2).sum(axis=1)
    distance = squares[:, None] + squares - 2.0 * chosen @ chosen.T
    upper = distance[np.triu_indices(len(chosen), 1)]
    return float(np.sqrt(max(float(np.median(upper)), 1e-6))) if len(upper) else 1.0
