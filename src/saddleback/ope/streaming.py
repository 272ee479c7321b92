"""`Streamed`: GES(λ), or any rule, run over a log and compared with its closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress, part_of
from saddleback._typing import FloatArray
from saddleback.engine import (
    BatchMoments,
    Columns,
    Learners,
    LoggedStreamer,
    Schedule,
    Workers,
    copies_of,
)
from saddleback.log import Log
from saddleback.ope.estimator import Estimator
from saddleback.ope.lstd_solve import FeatureSpan, prediction_distance
from saddleback.rules import GES, Rule
from saddleback.system import System

DIVERGENCE_FACTOR = 1e6
"""A learner whose weights exceed this multiple of the solution has diverged."""

MAX_ADVISED_FEATURES = 16
"""Largest number of features for which `step_sizes` is used; above it, a grid is tried."""

BATCHES = 200
"""Number of batches of consecutive steps used to estimate the noise of a log."""

GRID = 11
"""Number of step sizes α, and of ratios β/α, in the grid; all pairs learn in one pass."""


@dataclass(eq=False, kw_only=True)
class Streamed(Estimator):
    """A learner run over the log step by step, in one or more passes.

        e ← c e + w φ        δ = R + γ'θᵀb − θᵀφ        θ, ω ← … (see `saddleback.rules`)

    Use it for unbounded logs, for features too numerous to factorise, and to study the learner
    itself. The closed form `LSTD` needs no step size and is the limit of the learner.

    Parameters
    ----------
    rule
        The learner; ``GES(0)`` if not given.
    alpha, beta
        Step sizes. By default, with up to 16 features, those that `step_sizes` recommends for the
        noise of the log; otherwise 121 pairs learn in parallel, and the pair whose predictions end
        closest to the closed form is kept.
    passes
        Number of passes over the log.

    Attributes
    ----------
    distances_
        Relative distance of the predictions from those of the closed form, after each pass.
    alpha_, beta_
        The step sizes in use.
    tried_, diverged_
        Number of pairs tried, and number that diverged.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=200, rng=0)
    >>> learner = Streamed(target="pump:0.8", features=car.features, gamma=0.99, passes=3).fit(log)
    >>> learner.outcome_, [round(d, 2) for d in learner.distances_]
    ('ok', [0.9, 0.84, 0.82])
    """

    alpha: float | None = None
    beta: float | None = None
    passes: int = 1
    distances_: list[float] = field(default_factory=list, init=False, repr=False)
    alpha_: float = field(default=float("nan"), init=False, repr=False)
    beta_: float = field(default=float("nan"), init=False, repr=False)
    tried_: int = field(default=0, init=False, repr=False)
    diverged_: int = field(default=0, init=False, repr=False)

    @property
    def effective_rule(self) -> Rule:
        """The rule in use."""
        return GES(0.0) if self.rule is None else super().effective_rule

    def _learn(self, log: Log, fresh: bool, progress: Progress | None) -> None:
        assert self.statistics_ is not None
        passes = _validate.count("Streamed", "passes", self.passes)
        system = self.statistics_.system()
        exact = FeatureSpan(system.M).solve(system.A, system.b).theta
        bound = DIVERGENCE_FACTOR * max(1.0, float(np.abs(exact).max(initial=0.0)))
        if fresh:
            self.distances_ = []
            self.theta_ = self._omega = np.zeros(system.p)
            alpha, beta = self._sizes(log, system, passes)
        else:
            alpha, beta = np.array([self.alpha_]), np.array([self.beta_])
        assert self.theta_ is not None
        theta, omega = (np.tile(weights, (len(alpha), 1)) for weights in (self.theta_, self._omega))
        diverged = np.full(len(alpha), -1)
        gaps = []
        for k in range(passes):
            part = part_of(progress, k / passes, (k + 1) / passes)
            steps = Schedule(alpha, 0.0), Schedule(beta, 0.0)
            form = self.effective_rule.form
            learners = Learners(form, *steps, theta, omega, bound, self.threads)
            Workers([learners], self.threads).advance(self._streams(log, part))
            theta, omega = learners.weights()
            new = (learners.diverged_at >= 0) & (diverged < 0)
            diverged[new] = learners.diverged_at[new] + k * learners.done
            distances = [prediction_distance(weights, exact, system.M) for weights in theta]
            gaps.append(np.where(diverged < 0, distances, np.inf))
        best = int(gaps[-1].argmin())
        if fresh:
            self.tried_, self.diverged_ = len(alpha), int((diverged >= 0).sum())
        self.alpha_, self.beta_ = float(alpha[best]), float(beta[best])
        self.theta_, self._omega = theta[best], omega[best]
        self.distances_ += [float(gap[best]) for gap in gaps]
        self.outcome_ = "ok"
        if diverged[best] >= 0:
            sizes = f"all {len(alpha)} pairs" if len(alpha) > 1 else f"α = {self.alpha_:.3g}"
            self.outcome_ = (
                f"diverged at step {diverged[best]:,} with {sizes}: use smaller step sizes, a "
                "smaller λ, or the closed form."
            )

    def _sizes(self, log: Log, system: System, passes: int) -> tuple[FloatArray, FloatArray]:
        """Return the step sizes to use, or the grid to try."""
        if self.alpha is not None or self.beta is not None:
            alpha = _validate.positive("Streamed", "alpha", self.alpha)
            beta = alpha if self.beta is None else self.beta
            return np.array([alpha]), np.array([_validate.positive("Streamed", "beta", beta)])
        if system.p > MAX_ADVISED_FEATURES:
            return self._grid(system)
        assert self.statistics_ is not None
        steps = int(self.statistics_.steps.sum()) * passes
        from saddleback.theory import step_sizes  # imported only when step sizes are needed

        advice = step_sizes(self._with_batches(log, system), steps=steps)
        return np.array([advice.alpha]), np.array([advice.beta or advice.alpha])

    def _grid(self, system: System) -> tuple[FloatArray, FloatArray]:
        """Return a grid of α below the inverse trace of M̂, and β/α around 1."""
        size = float(np.trace(system.M))
        alpha = np.exp2(-np.arange(GRID, dtype=np.float64)) / max(size, 1e-300)
        if not self.effective_rule.form.has_dual:
            return alpha, alpha
        ratio = np.exp2(np.linspace(-5, 5, GRID))
        return np.repeat(alpha, GRID), np.ravel(alpha[:, None] * ratio)

    def _with_batches(self, log: Log, system: System) -> System:
        """Return the system with the batch means from which noise is estimated."""
        assert self.statistics_ is not None
        steps = int(self.statistics_.steps.sum())
        size = max(1, steps // BATCHES)
        sums = BatchMoments(system.p, size, keep=True)
        for streams in self._streams(log):
            sums.add(streams[0])
        return replace(system, batches=sums.batch_means, batch_steps=size)

    def _streams(self, log: Log, progress: Progress | None = None) -> Iterator[list[Columns]]:
        """Yield the log as stream columns of the rule, segment by segment."""
        copies = copies_of(log.n_actions, self.effective_rule.values, self.shared)
        streamer = LoggedStreamer(self.features, [self.effective_rule], copies, self.gamma)
        for segment in log.segments(self._target.tables, progress):
            if len(segment):
                pi = self._target.probabilities(segment, log.n_actions)
                yield streamer(segment, pi, segment.propensity, segment.tables.get("mu"))
