"""What all estimators have in common: ``fit``, ``partial_fit``, ``predict`` and ``value``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress, part_of
from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine import copies_of
from saddleback.errors import InvalidParameter, Undefined
from saddleback.evaluation.estimator_params import Parameterised
from saddleback.evaluation.lstd_solve import Range
from saddleback.evaluation.statistics import Statistics
from saddleback.features import Features
from saddleback.log import Finding, Log, as_target
from saddleback.rules import Expected, GRetrace, NoTrace, Rule, Saddle, is_rule
from saddleback.system import System

HUGE = 1e12
"""Beyond this an iteration has diverged."""

ONE_STEP = Rule(NoTrace(), Saddle(), Expected())
"""What FQE iterates: action values, looking one step ahead."""

DEFAULT = GRetrace(0.5)
"""Rule solved for by default; docs/evaluate/estimators.md has the measurements behind it."""


def default_rule() -> Rule:
    """Return the rule that is used if none is named: a bounded trace, Retrace(0.5).

    Examples
    --------
    >>> print(default_rule())
    GRetrace(0.5)
    """
    return DEFAULT


@dataclass(eq=False, kw_only=True)
class Estimator(Parameterised, ABC):
    """The value of a target policy, learned from a log: Q(s,a) = φ(s,a)ᵀθ, V̂ = start_ᵀθ.

    Estimators keep scikit-learn's conventions: ``sklearn.base.clone``, `get_params`, `set_params`
    and pickling work as they do there.

    Parameters
    ----------
    target
        π, however it is given; see `saddleback.log.as_target`.
    features, shared
        Features of an observation; ``shared`` adds a copy of each that all actions share.
    gamma
        Discount.
    rule
        Its trace and bootstrap say which equation is solved; `default_rule` if not given.
    allow_uncovered
        Warn rather than refuse where π takes actions that the log never takes.
    threads
        Threads to use; the result does not depend on them.

    Attributes
    ----------
    theta_
        The weights that were learned, [p].
    start_
        E_π φ over the start states of the log, [p].
    statistics_
        The sums over all logs so far.
    outcome_
        ``"ok"``, or in a sentence what went wrong.
    findings_
        Warnings about the log and the features.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=100, rng=0)
    >>> one = LSTD(target="pump:0.8", features=car.features, gamma=0.99)
    >>> one.fit(log).outcome_, one.theta_.shape
    ('ok', (972,))
    """

    target: Any
    features: Features
    gamma: float
    rule: Rule | None = None
    shared: bool = False
    allow_uncovered: bool = False
    threads: int = 1
    theta_: FloatArray | None = field(default=None, init=False, repr=False)
    start_: FloatArray | None = field(default=None, init=False, repr=False)
    statistics_: Statistics | None = field(default=None, init=False, repr=False)
    outcome_: str = field(default="not fitted", init=False, repr=False)

    @property
    def chosen(self) -> Rule:
        """The rule in use."""
        rule = DEFAULT if self.rule is None else self.rule
        is_rule(rule)
        return rule

    @abstractmethod
    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        """Set ``theta_`` and ``outcome_`` after ``statistics_`` has taken a log in."""

    def fit(self, log: Any, progress: Progress | None = None) -> Self:
        """Learn from a log, forgetting what was learned before."""
        self.statistics_ = self.theta_ = self.start_ = None
        return self._take(log, True, progress)

    def partial_fit(self, chunk: Any, progress: Progress | None = None) -> Self:
        """Learn from more of the log, whole episodes at a time, keeping what was learned."""
        return self._take(chunk, self.theta_ is None, progress)

    def _take(self, given: Any, fresh: bool, progress: Progress | None) -> Self:
        log = given if isinstance(given, Log) else Log(given)
        self._target = as_target(self.target, log)
        self._log = log.n_actions, log.dimensions
        self._sum(log, part_of(progress, 0.0, 0.5))
        self._learn(log, fresh, part_of(progress, 0.5, 1.0))
        return self

    def _sum(self, log: Log, progress: Progress | None) -> None:
        """Add the sums of a log to those so far."""
        sums = Statistics.of(
            log, self.chosen, self.target, features=self.features, gamma=self.gamma,
            shared=self.shared, blocks=1, allow_uncovered=self.allow_uncovered,
            threads=self.threads, progress=progress,
        )  # fmt: skip
        self.statistics_ = sums if self.statistics_ is None else self.statistics_.merge(sums)
        self.start_ = self.statistics_.start()

    @property
    def findings_(self) -> tuple[Finding, ...]:
        """Warnings about the log and the features."""
        return () if self.statistics_ is None else tuple(self.statistics_.warnings(self.chosen))

    @property
    def _weights(self) -> FloatArray:
        if self.theta_ is None:
            raise Undefined(f"{type(self).__name__} has not learned anything yet: call fit(log).")
        return self.theta_

    def predict(self, observations: ArrayLike, actions: ArrayLike | None = None) -> FloatArray:
        """Q^π of observations [n, d]: of all actions [n, K], or of those given [n].

        For rules that learn state values, V^π [n].
        """
        theta = self._weights
        given = _validate.floats("observations", observations)
        _validate.shape("observations", given, ("n", self._log[1]))
        _validate.finite("observations", given)
        copies = copies_of(self._log[0], self.chosen.values, self.shared)
        which, size = self.features.encode(given)
        weights = theta.reshape(-1, copies.shape[1])[which]
        if size is not None:
            weights = weights * size[:, :, None]
        values = weights.sum(axis=1) @ copies.T
        if self.chosen.values == "state":
            return np.asarray(values[:, 0])
        if actions is None:
            return np.asarray(values)
        chosen = np.asarray(actions)
        if chosen.shape != (len(given),) or chosen.dtype.kind not in "iu":
            raise InvalidParameter(
                f"actions must be one whole number for each of {len(given)} observations."
            )
        for action in chosen[(chosen < 0) | (chosen >= self._log[0])][:1]:
            raise InvalidParameter(f"action {action} is not one of 0 … {self._log[0] - 1}.")
        return np.asarray(values[np.arange(len(given)), chosen])

    def value(self, observations: ArrayLike | None = None) -> float:
        """V^π: the mean over the log's start states, or over given observations [n, d]."""
        if observations is None:
            return float(self._weights @ np.asarray(self.start_))
        given = _validate.floats("observations", observations)
        if not len(given):
            raise InvalidParameter("value: there are no observations to average over.")
        values = self.predict(given)
        if values.ndim == 1:
            return float(values.mean())
        return float((self._target.at(given, self._log[0]) * values).sum(axis=1).mean())


@dataclass(eq=False, kw_only=True)
class LSTD(Estimator):
    """The fixed point Âθ + b̂ = 0 of a rule, in closed form: LSTD(λ) with any trace.

    No step size to choose, one pass over the log. ``ridge`` η solves with Â − η·diag M̂ instead.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=1000, rng=0)
    >>> found = LSTD(target="pump:0.8", features=car.features, gamma=0.99).fit(log)
    >>> found.outcome_, round(found.value(), 1), found.predict([[-0.5, 0.0]]).round(0)
    ('ok', -77.5, array([[-78., -77., -71.]]))
    """

    ridge: float = 0.0

    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        assert self.statistics_ is not None
        system = self.statistics_.system()
        found = Range(system.M).solve(system.A, system.b, self.ridge)
        self.theta_, self.outcome_ = found.theta, found.outcome


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


def distance(theta: FloatArray, other: FloatArray, M: FloatArray) -> float:
    """‖Φ(θ − θ')‖ / ‖Φθ'‖ over the rows of a log, from M."""
    gap = theta - other
    with np.errstate(over="ignore", invalid="ignore"):
        whole, part = float(other @ M @ other), float(gap @ M @ gap)
    return float(np.sqrt(part / whole)) if whole > 0 else float(np.sqrt(max(part, 0.0)))
