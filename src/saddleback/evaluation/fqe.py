"""`FQE`: fitted Q evaluation with linear features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.evaluation.base import Estimator
from saddleback.evaluation.lstd_solve import Range, distance
from saddleback.log import Log
from saddleback.rules import Expected, NoTrace, Rule, Saddle
from saddleback.system import System

HUGE = 1e12
"""Beyond this an iteration has diverged."""

ONE_STEP = Rule(NoTrace(), Saddle(), Expected())
"""What FQE iterates: action values, looking one step ahead."""


@dataclass(eq=False, kw_only=True)
class FQE(Estimator):
    """Fitted Q evaluation with linear features: regress on one's own prediction, again and again.

        θ_{k+1} = (M̂ + η·diag M̂)⁻¹ (b̂ + Ĉθ_k),   Ĉ = mean of γ'φ_t b_tᵀ = Â + M̂ at λ = 0

    It tends to the fixed point of LSTD(0) if the spectral radius of the iteration is below 1, and
    diverges if it is above, though that fixed point exists; ``outcome_`` says which.

    Attributes
    ----------
    radius_
        That spectral radius.
    iterations_
        How many iterations were made.
    distance_
        Relative distance of the predictions to those of the fixed point.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=200, rng=0)
    >>> found = FQE(target="pump:0.8", features=car.features, gamma=0.99).fit(log)
    >>> found.outcome_, found.distance_ < 1e-6
    ('ok', True)
    """

    ridge: float = 0.0
    iterations: int = 10_000
    tolerance: float = 1e-9
    radius_: float = field(default=float("nan"), init=False, repr=False)
    iterations_: int = field(default=0, init=False, repr=False)
    distance_: float = field(default=float("nan"), init=False, repr=False)

    @property
    def chosen(self) -> Rule:
        """One step is all that is looked ahead."""
        if self.rule is not None:
            raise InvalidParameter(f"FQE looks one step ahead and takes no rule, got {self.rule}.")
        return ONE_STEP

    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        assert self.statistics_ is not None
        found = iterate_q(self.statistics_.system(), self.ridge, self.iterations, self.tolerance)
        self.theta_, self.outcome_ = found.theta, found.outcome
        self.radius_, self.iterations_ = found.radius, found.iterations
        self.distance_ = found.distance


class Iterated(NamedTuple):
    """What came of iterating: see the attributes of `FQE`."""

    theta: FloatArray
    outcome: str
    radius: float
    iterations: int
    distance: float


def iterate_q(
    system: System, ridge: float = 0.0, iterations: int = 10_000, tolerance: float = 1e-9
) -> Iterated:
    """Iterate θ ← (M̂ + η·diag M̂)⁻¹ (b̂ + Ĉθ) from 0 on a system without a trace; see `FQE`."""
    most = _validate.count("FQE", "iterations", iterations)
    _validate.positive("FQE", "tolerance", tolerance)
    span = Range(system.M)
    G, g = span.iteration(system.A, system.b, ridge)
    radius = float(np.abs(np.linalg.eigvals(G)).max(initial=0.0))
    exact = span.solve(system.A, system.b, ridge)
    y, size, k, moved = np.zeros(len(g)), 0.0, 0, np.inf
    while k < most:
        k += 1
        before, y = y, G @ y + g
        size = float(np.abs(y).max(initial=0.0))
        moved = float(np.abs(y - before).max(initial=0.0))
        if not size < HUGE or moved <= tolerance * size:
            break
    theta = span.back(y)
    gap = distance(theta, exact.theta, system.M)
    outcome = "ok"
    if not size < HUGE or radius >= 1.0:
        fixed = "exists" if exact.outcome == "ok" else "is not unique"
        outcome = (
            f"diverges: the spectral radius of the iteration is {radius:.4g} >= 1, though the "
            f"fixed point {fixed}: use LSTD."
        )
    elif moved > tolerance * size:
        outcome = (
            f"not converged after {k:,} iterations (radius {radius:.6g}); {gap:.2g} from the fixed "
            "point. Use LSTD, or more iterations."
        )
    return Iterated(theta, outcome, radius, k, gap)
