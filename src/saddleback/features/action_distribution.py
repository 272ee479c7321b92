"""Distributions of continuous actions in given states: Gaussian, or a sample of actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray

NODES = 9
"""Nodes of Gauss–Hermite quadrature for each entry of an action: exact up to degree 17."""

MAX_QUADRATURE = 2
"""Largest number of entries of an action with quadrature; beyond it, random draws."""

DRAWS = 16
"""Random draws of an action in each state."""


@dataclass(frozen=True, eq=False)
class SampledActions:
    """Actions drawn in each of n states, or nodes there, with weights of sum 1.

    Every state has draws of its own, so that their Monte Carlo error is part of the variation
    between episodes, from which intervals are computed.

    Attributes
    ----------
    points
        The actions, [n, D, k].
    weights
        Their weights, [D].
    """

    points: FloatArray
    weights: FloatArray

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: IntArray) -> SampledActions:
        return SampledActions(self.points[rows], self.weights)

    def nodes(self) -> Iterator[tuple[float, FloatArray]]:
        """Yield each weight with its actions [n, k]."""
        for j, weight in enumerate(self.weights):
            yield float(weight), self.points[:, j]

    def scaled(self, centre: FloatArray, scale: FloatArray, kept: BoolArray) -> SampledActions:
        """Return the distribution of (a − centre)/scale, of the entries that are kept."""
        return SampledActions((self.points[:, :, kept] - centre) / scale, self.weights)


@dataclass(frozen=True, eq=False)
class GaussianActions:
    """Gaussian actions N(m, Σ) in each of n states; with Σ = 0 they are deterministic.

    Attributes
    ----------
    mean, covariance
        m [n, k] and Σ [n, k, k].

    Examples
    --------
    >>> actions = GaussianActions(np.zeros((1, 1)), np.ones((1, 1, 1)))
    >>> round(sum(w * float(a[0, 0]) ** 4 for w, a in actions.nodes()), 9)
    3.0
    """

    mean: FloatArray
    covariance: FloatArray

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, rows: IntArray) -> GaussianActions:
        return GaussianActions(self.mean[rows], self.covariance[rows])

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether Σ = 0 in all states."""
        return not self.covariance.any()

    @cached_property
    def root(self) -> FloatArray:
        """A root R of Σ = RRᵀ, [n, k, k], also of a singular Σ."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])

    def nodes(self) -> Iterator[tuple[float, FloatArray]]:
        """Yield weights of sum 1 with actions [n, k], by Gauss–Hermite quadrature.

        With z_j and w_j the nodes and weights of the standard normal distribution,
        E f(a) ≈ Σ_j w_j f(m + R z_j).
        """
        if self.is_deterministic:
            yield 1.0, self.mean
            return
        k = self.mean.shape[1]
        z, w = np.polynomial.hermite_e.hermegauss(NODES)
        for at in np.ndindex(*[NODES] * k):
            weight = float(np.prod(w[list(at)] / w.sum()))
            yield weight, self.mean + self.root @ z[list(at)]

    def draws(self, rng: np.random.Generator, count: int = DRAWS) -> SampledActions:
        """Return random draws in each state."""
        n, k = self.mean.shape
        noise = rng.standard_normal((n, count, k)) @ self.root.transpose(0, 2, 1)
        return SampledActions(self.mean[:, None] + noise, np.full(count, 1.0 / count))

    def scaled(self, centre: FloatArray, scale: FloatArray, kept: BoolArray) -> GaussianActions:
        """Return the distribution of (a − centre)/scale, of the entries that are kept."""
        covariance = self.covariance[:, kept][:, :, kept] / np.outer(scale, scale)
        return GaussianActions((self.mean[:, kept] - centre) / scale, covariance)

    def log_density(self, actions: FloatArray) -> FloatArray:
        """Return log N(a; m, Σ) of an action in each state, [n]; Σ must be definite."""
        factor = np.linalg.cholesky(self.covariance)
        z = np.linalg.solve(factor, (actions - self.mean)[:, :, None])[:, :, 0]
        scale = np.log(np.einsum("nii->ni", factor)).sum(axis=1)
        k = actions.shape[1]
        return np.asarray(-0.5 * (z**2).sum(axis=1) - scale - 0.5 * k * np.log(2.0 * np.pi))

    def moment(self, factors: tuple[int, ...]) -> FloatArray:
        """Return E Π_{i ∈ factors} a_i in each state, [n].

        By Isserlis' theorem, E a_i Π_j a_j = m_i E Π_j a_j + Σ_j Σ_ij E Π_{l ≠ j} a_l.

        Examples
        --------
        >>> actions = GaussianActions(np.array([[1.0]]), np.array([[[4.0]]]))
        >>> actions.moment((0, 0, 0))  # m³ + 3mσ²
        array([13.])
        """
        if not factors:
            return np.ones(len(self.mean))
        first, rest = factors[0], factors[1:]
        total = self.mean[:, first] * self.moment(rest)
        for j, other in enumerate(rest):
            total = total + self.covariance[:, first, other] * self.moment(rest[:j] + rest[j + 1 :])
        return np.asarray(total)


ActionDistribution = GaussianActions | SampledActions
"""The actions of a policy in given states."""
