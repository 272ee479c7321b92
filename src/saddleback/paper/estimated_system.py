"""Estimated linear systems, and how far their sampling noise moves the fixed point.

At the fixed point θ* of an estimate, Âθ* + b̂ = 0 is a mean of terms whose spread is known. With
``noise`` R, rows whose outer products add up to the covariance of that mean, θ* errs to first order
by the rows of D = −R(Â⁺)ᵀ. A measure (Φθ − q)ᵀ(Φθ − q)/n of θ* then has the standard error ‖Dg‖,
with g its gradient, and is too large by ‖DΦᵀ‖²/n in the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from saddleback._typing import FloatArray, IntArray
from saddleback.engine import Quadratic, Simulation
from saddleback.rules import Rule
from saddleback.system import System, linear_stability

BATCHES = 10
"""Batches of experience from which the noise of a system is computed."""


TOGETHER = 3
"""Systems that are estimated from one simulation, at 60 MB each."""


class Measured(NamedTuple):
    """A measure of a fixed point, its standard error, and what noise adds to it in the mean."""

    value: float
    error: float
    added: float


@dataclass(frozen=True, eq=False)
class ReferenceValues:
    """q^π at some pairs, with standard errors, and the features there."""

    phi: csr_array
    q: FloatArray
    error: FloatArray

    @property
    def noise(self) -> float:
        """Mean square of the standard errors of q^π."""
        return float(np.mean(self.error**2))

    @property
    def scale(self) -> float:
        """Mean square of q^π."""
        return float(np.mean(self.q**2)) - self.noise

    def mse(self, theta: FloatArray) -> FloatArray:
        """Return ‖Φθ − q^π‖²/‖q^π‖² over the pairs, corrected for the sampling error of q^π."""
        used, R = self._triangle
        rows = theta.reshape(-1, theta.shape[-1])[:, used]
        gap = rows @ R[:, :-1].T + R[:, -1]
        square = np.einsum("ki,ki->k", gap, gap).reshape(theta.shape[:-1])
        return np.asarray((square - self.noise) / self.scale)

    @cached_property
    def _triangle(self) -> tuple[IntArray, FloatArray]:
        """The features active in some pair, and R with |R(θ, 1)|² the mean square gap (QR)."""
        dense = self.phi.toarray()
        used = np.flatnonzero(dense.any(axis=0)).astype(np.int64)
        table = np.column_stack([dense[:, used], -self.q]) / np.sqrt(len(self.q))
        return used, np.asarray(np.linalg.qr(table, mode="r"))

    def quadratic_form(self, objective: str) -> Quadratic | None:
        """Return `mse` as a quadratic form, by name."""
        weights = np.full(len(self.q), 1.0 / len(self.q))
        factor, constant = 1.0 / self.scale, -self.noise / self.scale
        return Quadratic(self.phi.toarray(), -self.q, weights, factor, constant)


@dataclass(frozen=True, eq=False)
class EstimatedSystem:
    """A system, its fixed point, and the noise of Âθ* + b̂.

    Attributes
    ----------
    system
        Estimates of A, b and M.
    theta
        Its fixed point, solved on the active features; the others get weight 0.
    noise
        Rows whose outer products add up to the covariance of Âθ* + b̂, [k, p].
    """

    system: System
    theta: FloatArray
    noise: FloatArray

    @cached_property
    def displacements(self) -> FloatArray:
        """First-order errors of θ*, rows whose outer products add up to its covariance, [k, p]."""
        used = active(self.system)
        inner = _within(self.system, used)
        parts = linear_stability.Decomposition(inner.A, linear_stability.sizes(inner.M))
        rows = np.zeros_like(self.noise)
        rows[:, used] = -np.array([parts.solve(row) for row in self.noise[:, used]])
        return rows

    def mse(self, values: ReferenceValues) -> Measured:
        """Return the MSE of the fixed point, with its standard error."""
        count = len(values.q) * values.scale
        moved = (values.phi @ self.displacements.T).T
        gap = values.phi @ self.theta - values.q
        error = 2 * float(np.linalg.norm(moved @ gap)) / count
        return Measured(float(values.mse(self.theta)), error, float((moved**2).sum()) / count)


def active(system: System) -> IntArray:
    """Return the features that are ever active."""
    return np.flatnonzero(system.A.any(axis=0) | (np.diag(system.M) > 0)).astype(np.int64)


def _within(system: System, used: IntArray) -> System:
    part = np.ix_(used, used)
    return System(system.A[part], system.b[used], system.M[part], system.C[part], system.rule)


def fixed_point(system: System) -> FloatArray:
    """Return θ* of a system, solved on the active features; the others get weight 0."""
    used = active(system)
    theta = np.zeros(system.p)
    theta[used] = _within(system, used).fixed_point
    return theta


def from_experience(
    car: Simulation, rules: Sequence[Rule], steps: int, seed: np.random.SeedSequence
) -> list[System]:
    """Estimate the systems of rules from the same experience of μ, without standard errors."""
    return [
        System(estimate.A, estimate.b, estimate.M, estimate.C, estimate.rule)
        for begin in range(0, len(rules), TOGETHER)
        for estimate in System.estimate(
            car, rules[begin : begin + TOGETHER], steps=steps, rng=seed, batches=2
        )
    ]


def with_noise(
    car: Simulation, rule: Rule, steps: int, seed: np.random.SeedSequence
) -> EstimatedSystem:
    """Estimate a system from experience of μ, with the noise from batches of it."""
    estimate = System.estimate(car, rule, steps=steps, rng=seed, batches=BATCHES, keep_batches=True)
    assert estimate.batches is not None
    theta = fixed_point(estimate)
    rows = np.array([batch.A @ theta + batch.b for batch in estimate.batches])
    system = System(estimate.A, estimate.b, estimate.M, estimate.C, rule)
    return EstimatedSystem(system, theta, rows / np.sqrt(BATCHES * (BATCHES - 1)))
