"""`FQE`: fitted Q evaluation with linear features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log import Log
from saddleback.ope.estimate import Estimate
from saddleback.ope.estimator import Estimator
from saddleback.ope.lstd_solve import FeatureSpan, prediction_distance
from saddleback.ope.statistics import Statistics
from saddleback.rules import Expected, NoTrace, Rule, Saddle
from saddleback.system import System

DIVERGED = 1e12
"""Size of the iterate above which the iteration has diverged."""

ONE_STEP = Rule(NoTrace(), Saddle(), Expected())
"""The rule that FQE iterates: action values with one-step targets."""


@dataclass(eq=False, kw_only=True)
class FQE(Estimator):
    """Fitted Q evaluation with linear features: repeated regression on bootstrapped targets.

        θ_{k+1} = (M̂ + η·diag M̂)⁻¹ (b̂ + Ĉθ_k),   Ĉ = mean of γ'φ_t b_tᵀ = Â + M̂ at λ = 0

    It converges to the fixed point of LSTD(0) if the spectral radius of the iteration is below 1,
    and diverges above 1 even though that fixed point exists; see ``outcome_``.

    Attributes
    ----------
    radius_
        Spectral radius of the iteration.
    iterations_
        Number of iterations.
    distance_
        Relative distance of the predictions from those of the fixed point.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=200, rng=0)
    >>> estimator = FQE(target="pump:0.8", features=car.features, gamma=0.99).fit(log)
    >>> estimator.outcome_, estimator.distance_ < 1e-6
    ('ok', True)
    """

    ridge: float = 0.0
    iterations: int = 10_000
    tolerance: float = 1e-9
    radius_: float = field(default=float("nan"), init=False, repr=False)
    iterations_: int = field(default=0, init=False, repr=False)
    distance_: float = field(default=float("nan"), init=False, repr=False)

    @property
    def effective_rule(self) -> Rule:
        """The one-step rule; FQE takes no other."""
        if self.rule is not None:
            raise InvalidParameter(f"FQE uses one-step targets and takes no rule, got {self.rule}.")
        return ONE_STEP

    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        assert self.statistics_ is not None
        result = iterate_q(self.statistics_.system(), self.ridge, self.iterations, self.tolerance)
        self.theta_, self.outcome_ = result.theta, result.outcome
        self.radius_, self.iterations_ = result.radius, result.iterations
        self.distance_ = result.distance


class QIteration(NamedTuple):
    """The result of the iteration; see the attributes of `FQE`."""

    theta: FloatArray
    outcome: str
    radius: float
    iterations: int
    distance: float


def iterate_q(
    system: System, ridge: float = 0.0, iterations: int = 10_000, tolerance: float = 1e-9
) -> QIteration:
    """Iterate θ ← (M̂ + η·diag M̂)⁻¹ (b̂ + Ĉθ) from 0 on a system without a trace; see `FQE`."""
    limit = _validate.count("FQE", "iterations", iterations)
    _validate.positive("FQE", "tolerance", tolerance)
    span = FeatureSpan(system.M)
    G, g = span.iteration(system.A, system.b, ridge)
    radius = float(np.abs(np.linalg.eigvals(G)).max(initial=0.0))
    exact = span.solve(system.A, system.b, ridge)
    y, size, k, change = np.zeros(len(g)), 0.0, 0, np.inf
    while k < limit:
        k += 1
        before, y = y, G @ y + g
        size = float(np.abs(y).max(initial=0.0))
        change = float(np.abs(y - before).max(initial=0.0))
        if not size < DIVERGED or change <= tolerance * size:
            break
    theta = span.expand(y)
    gap = prediction_distance(theta, exact.theta, system.M)
    outcome = "ok"
    if not size < DIVERGED or radius >= 1.0:
        fixed = "exists" if exact.outcome == "ok" else "is not unique"
        outcome = (
            f"diverges: the spectral radius of the iteration is {radius:.4g} >= 1, although the "
            f"fixed point {fixed}; use LSTD."
        )
    elif change > tolerance * size:
        outcome = (
            f"not converged after {k:,} iterations (radius {radius:.6g}); {gap:.2g} from the fixed "
            "point. Use LSTD, or more iterations."
        )
    return QIteration(theta, outcome, radius, k, gap)


def fqe_estimate(sums: Statistics, rule: Rule, target: str, ridge: float) -> Estimate:
    """Return the estimate of a target from statistics of a one-step rule."""
    fitted = iterate_q(sums.system(rule, target), ridge)
    return Estimate(target, "FQE", float(fitted.theta @ sums.start(target)), fitted.outcome)
