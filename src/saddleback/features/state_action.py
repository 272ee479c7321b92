"""Features of observation and continuous action together, and their expectations under a policy.

With x = (x_s, x_a) the standardised observation and action, and a ~ N(m, Σ) in standardised units,
expectations of monomials and of random Fourier features are exact:

    E √2 cos(w_sᵀx_s + w_aᵀa + c) = √2 exp(−½ w_aᵀΣw_a) cos(w_sᵀx_s + w_aᵀm + c)

and moments of a Gaussian for monomials. Those of any other function, or policy, are sums over
nodes of a quadrature, or over random draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from saddleback import _validate
from saddleback._plugins import USER_ERRORS
from saddleback._typing import BoolArray, FloatArray
from saddleback._user_functions import Recheck, call, check_rows, nothing_to_recheck
from saddleback.errors import InvalidParameter, InvalidShape, SaddlebackError
from saddleback.features.action_distribution import (
    MAX_QUADRATURE,
    ActionDistribution,
    GaussianActions,
)
from saddleback.features.standardised import (
    RandomFourier,
    Scaling,
    cosine,
    monomial_factors,
    random_waves,
    robust_scale,
    with_waves,
)


@dataclass(frozen=True)
class JointScaling:
    """Standardises observations, as `Scaling` does, and actions: x_a = (a − centre)/scale.

    Actions are not clipped, so that a Gaussian stays one; an entry of scale 0 is dropped.

    Examples
    --------
    >>> scaling = JointScaling.of(np.array([[1.0], [2.0], [3.0]]), np.array([[0.0], [1.0], [2.0]]))
    >>> [round(float(x), 2) for x in scaling.actions(np.array([[1.0], [1.547]]))[:, 0]]
    [0.0, 1.0]
    """

    states: Scaling
    centre: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, states: FloatArray, actions: FloatArray) -> Self:
        """Return the scaling of a sample of observations [n, d] and actions [n, k]."""
        centre, scale = robust_scale(actions)
        return cls(Scaling.of(states), tuple(centre.tolist()), tuple(scale.tolist()))

    @property
    def _affine(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        kept = np.array(self.scale) > 0
        return np.array(self.centre)[kept], np.array(self.scale)[kept], kept

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of entries of the observation and of the action that are kept."""
        return self.states.size, sum(scale > 0 for scale in self.scale)

    def actions(self, actions: FloatArray) -> FloatArray:
        """Return standardised actions, [n, size]."""
        centre, scale, kept = self._affine
        return np.asarray((actions[:, kept] - centre) / scale)

    def distribution(self, actions: ActionDistribution) -> ActionDistribution:
        """Return the distribution of standardised actions."""
        return actions.scaled(*self._affine)


class StateActionFeatures(ABC):
    """Features φ(s, a) of observations [n, d] and continuous actions [n, k]."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of features."""

    @abstractmethod
    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the features, [n, size]."""

    def check_rows(self, states: FloatArray, actions: FloatArray) -> Recheck:
        """Raise unless a row has the same features in any batch, for those of a user."""
        return nothing_to_recheck

    def prepared(self, actions: ActionDistribution) -> ActionDistribution:
        """Return the actions as these features need them: Gaussian ones of many entries drawn."""
        if not isinstance(actions, GaussianActions) or actions.is_deterministic:
            return actions
        many = actions.mean.shape[1] > MAX_QUADRATURE
        return actions.draws(np.random.default_rng(0)) if many else actions

    def expected(self, states: FloatArray, actions: ActionDistribution) -> FloatArray:
        """Return E φ(s, a) over the actions of a policy in each state, [n, size]."""
        total = np.zeros((len(states), self.size))
        for weight, points in self.prepared(actions).nodes():
            total += weight * self(states, points)
        return total


class _Exact(StateActionFeatures):
    """Features whose expectations over Gaussian actions are known."""

    scaling: JointScaling

    def prepared(self, actions: ActionDistribution) -> ActionDistribution:
        """Return the actions as they are."""
        return actions

    def expected(self, states: FloatArray, actions: ActionDistribution) -> FloatArray:
        """Return E φ(s, a) over the actions of a policy in each state; exact for Gaussian ones."""
        if not isinstance(actions, GaussianActions):
            return super().expected(states, actions)
        scaled = self.scaling.distribution(actions)
        assert isinstance(scaled, GaussianActions)
        return self._gaussian(states, scaled)

    @abstractmethod
    def _gaussian(self, states: FloatArray, actions: GaussianActions) -> FloatArray:
        """Return the expectation over standardised Gaussian actions."""


@dataclass(frozen=True)
class JointMonomials(_Exact):
    """All monomials of the entries of x_s and x_a up to a total degree.

    Examples
    --------
    >>> scaling = JointScaling(Scaling((0.0,), (1.0,)), (0.0,), (1.0,))
    >>> square = JointMonomials(scaling, degree=2)
    >>> square(np.array([[2.0]]), np.array([[3.0]]))
    array([[1., 2., 3., 4., 6., 9.]])
    >>> actions = GaussianActions(np.full((1, 1), 3.0), np.ones((1, 1, 1)))
    >>> square.expected(np.array([[2.0]]), actions)
    array([[ 1.,  2.,  3.,  4.,  6., 10.]])
    """

    scaling: JointScaling
    degree: int

    @cached_property
    def _factors(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Entries of the observation and of the action in each monomial."""
        d, k = self.scaling.sizes
        return [
            (tuple(i for i in factors if i < d), tuple(i - d for i in factors if i >= d))
            for factors in monomial_factors(d + k, self.degree)
        ]

    @property
    def size(self) -> int:
        """Number of monomials."""
        return len(self._factors)

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the monomials."""
        a = self.scaling.actions(actions)
        return self._products(states, lambda factors: np.prod(a[:, list(factors)], axis=1))

    def _gaussian(self, states: FloatArray, actions: GaussianActions) -> FloatArray:
        return self._products(states, actions.moment)

    def _products(
        self, states: FloatArray, of_actions: Callable[[tuple[int, ...]], FloatArray]
    ) -> FloatArray:
        x = self.scaling.states(states)
        parts = {a: of_actions(a) for _, a in self._factors}
        columns = [np.prod(x[:, list(s)], axis=1) * parts[a] for s, a in self._factors]
        return np.column_stack(columns)


@dataclass(frozen=True)
class JointFourier(_Exact):
    """1, the entries of x_s and x_a, and √2 cos(w_sᵀx_s + w_aᵀx_a + c) with random w and c.

    As for `RandomFourier`, w ~ N(0, 1/bandwidth²) and c ~ U(0, 2π).

    Examples
    --------
    >>> scaling = JointScaling(Scaling((0.0,), (1.0,)), (0.0,), (1.0,))
    >>> waves = JointFourier(scaling, waves=50, bandwidth=1.0)
    >>> s, actions = np.zeros((1, 1)), GaussianActions(np.ones((1, 1)), np.full((1, 1, 1), 0.5))
    >>> draws = actions.draws(np.random.default_rng(0), count=40_000)
    >>> bool(np.abs(waves.expected(s, actions) - waves.expected(s, draws)).max() < 0.02)
    True
    """

    scaling: JointScaling
    waves: int
    bandwidth: float
    seed: int = 0

    @property
    def size(self) -> int:
        """1, the number of entries, and the number of waves."""
        return 1 + sum(self.scaling.sizes) + self.waves

    @cached_property
    def _draws(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        d, k = self.scaling.sizes
        rng = np.random.default_rng(self.seed)
        frequencies, phases = random_waves(rng, d + k, self.waves, self.bandwidth)
        return frequencies[:d], frequencies[d:], phases

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return 1, x_s, x_a and the waves."""
        return self._evaluate(states, self.scaling.actions(actions), 1.0)

    def _gaussian(self, states: FloatArray, actions: GaussianActions) -> FloatArray:
        if actions.is_deterministic:
            return self._evaluate(states, actions.mean, 1.0)
        w = self._draws[1]
        variance = ((actions.covariance @ w) * w).sum(axis=1)
        return self._evaluate(states, actions.mean, np.exp(-0.5 * variance))

    def _evaluate(
        self, states: FloatArray, mean: FloatArray, shrink: FloatArray | float
    ) -> FloatArray:
        of_states, of_actions, phases = self._draws
        x = self.scaling.states(states)
        waves = shrink * cosine(x @ of_states + mean @ of_actions + phases)
        return with_waves(np.column_stack([x, mean]), waves)


@dataclass(frozen=True)
class FourierByAction(_Exact):
    """Random Fourier features of the observation, times the monomials of the action.

    With ψ as for `RandomFourier`, and the monomials 1, x_a, … up to a total degree, φ contains all
    products ψ_i(x_s) Π_j x_a: a function of the observation for each monomial of the action.

    Examples
    --------
    >>> scaling = JointScaling(Scaling((0.0,), (1.0,)), (0.0,), (1.0,))
    >>> features = FourierByAction(scaling, waves=3, bandwidth=1.0)
    >>> both = features(np.array([[0.5]]), np.array([[2.0]]))
    >>> features.size, bool(np.allclose(both[:, 5:], 2.0 * both[:, :5]))
    (10, True)
    """

    scaling: JointScaling
    waves: int
    bandwidth: float
    seed: int = 0
    degree: int = 1

    @cached_property
    def _waves(self) -> RandomFourier:
        return RandomFourier(self.scaling.states, self.waves, self.bandwidth, self.seed)

    @cached_property
    def _factors(self) -> list[tuple[int, ...]]:
        return monomial_factors(self.scaling.sizes[1], self.degree)

    @property
    def size(self) -> int:
        """Number of random Fourier features times that of monomials."""
        return self._waves.size * len(self._factors)

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the products."""
        x = self.scaling.actions(actions)
        return self._products(states, [np.prod(x[:, list(f)], axis=1) for f in self._factors])

    def _gaussian(self, states: FloatArray, actions: GaussianActions) -> FloatArray:
        return self._products(states, [actions.moment(factors) for factors in self._factors])

    def _products(self, states: FloatArray, moments: list[FloatArray]) -> FloatArray:
        psi = self._waves.evaluate(self.scaling.states(states))
        return np.concatenate([psi * moment[:, None] for moment in moments], axis=1)


@dataclass(frozen=True)
class JointCustom(StateActionFeatures):
    """Features from a function of observations [n, d] and actions [n, k].

    Examples
    --------
    >>> product = JointCustom(lambda obs, actions: obs * actions, length=1)
    >>> product(np.array([[2.0]]), np.array([[3.0]]))
    array([[6.]])
    """

    function: Callable[[FloatArray, FloatArray], FloatArray] = field(repr=False)
    length: int

    @property
    def size(self) -> int:
        """Number of features."""
        return self.length

    def __call__(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the features; the function cannot write into its arguments."""
        try:
            returned = call("features", self.function, states, actions)
            values = np.array(returned, dtype=np.float64)  # it may return one array again
        except SaddlebackError:
            raise
        except USER_ERRORS as error:
            raise InvalidParameter(f"features failed: {type(error).__name__}: {error}") from error
        if values.shape != (len(states), self.length):
            raise InvalidShape(
                f"features: for {len(states)} observations and actions the function must return "
                f"[{len(states)}, {self.length}], got {list(values.shape)}."
            )
        _validate.finite("features", values)
        return values

    def check_rows(self, states: FloatArray, actions: FloatArray) -> Recheck:
        """Raise unless the function gives each observation and action the same features again."""
        d = states.shape[1]
        return check_rows(
            "features", lambda points: self(points[:, :d], points[:, d:]),
            np.column_stack([states, actions]), self.function,
        )  # fmt: skip
