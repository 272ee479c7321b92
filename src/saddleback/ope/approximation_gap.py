"""The gap: estimates of the bias of the TD fixed point, |V^π − fixed point|.

unvisited   weights of features that are never active are 0; how far does V̂ move if they get the
            value of the same feature for the other actions?
residual    with Q = φᵀθ̂, V^π − V̂ is the value of a problem whose rewards are the TD errors
            δ_t(θ̂). It is solved in cells of the observation, which may show what the features miss.
trace       features that can represent V^π have the same fixed point for every λ: how far is the
            one of λ = 0?
ridge       the interval without the ridge: how far does it extend beyond the interval?
self-check  the same estimator gives V̂_μ for the logged policy, whose returns are known.
agreement   weighted doubly robust estimates target V^π itself, where the weights are reliable.
consensus   other features, which were not chosen: how far apart are their estimates, and those that
            also see the step or the history of an episode?
hidden      if duals that see the history contradict the observation, they give the estimate: how
            far did it move?
allowance   statistics of a log provide neither residual nor agreement: twice the sum of the other
            estimates is used in their place.

None of these detects every bias (the residual detects nothing finer than its cells, nor anything
missing from the observation), so the largest is used; self-check and agreement are reduced by their
standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray
from saddleback.engine import BackwardMoments, LoggedStreamer, copies_of
from saddleback.features import Active
from saddleback.log import Target
from saddleback.ope.fqe import ONE_STEP
from saddleback.ope.log_pass import EncodeOnce, SegmentBatch
from saddleback.ope.lstd_solve import FeatureSpan
from saddleback.ope.sandwich import Interval
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_pass import add_start, first_of_episodes
from saddleback.rules import Rule

RIDGE = 1e-4
"""Ridge of the residual problem, so that cells with few visits have little effect."""


@dataclass(frozen=True)
class Gap:
    """Estimates of |V^π − fixed point|, as above; None where one is not available."""

    unvisited: float | None = None
    residual: float | None = None
    trace: float | None = None
    ridge: float | None = None
    self_check: float | None = None
    agreement: float | None = None
    consensus: float | None = None
    hidden: float | None = None
    allowance: float | None = None

    @property
    def value(self) -> float:
        """The largest estimate; NaN if one of them is NaN."""
        estimates = [part for part in self.parts.values() if part is not None]
        return float(np.max(estimates, initial=0.0))

    @property
    def parts(self) -> dict[str, float | None]:
        """All estimates by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def unvisited_gap(
    sums: Statistics, rule: Rule, target: str, theta: FloatArray, ridge: float
) -> float:
    """Return the change of V̂ if inactive features get the value of the other actions."""
    setting = sums.setting
    inactive = np.diag(sums.M) == 0
    if setting.values != "action" or not inactive.any():
        return 0.0
    K = len(setting.actions)
    activity = np.diag(sums.M).reshape(-1, K + setting.shared)[:, :K]
    weights = theta.reshape(-1, K + setting.shared)
    with np.errstate(invalid="ignore"):
        mean = (activity * weights[:, :K]).sum(axis=1) / activity.sum(axis=1)
    filled = np.zeros_like(weights)
    filled[:, :K] = np.where(activity == 0, np.nan_to_num(mean)[:, None], 0.0)
    z = filled.ravel()
    A, b = sums.means(rule, target)
    changed = sums.factorised(rule, target, ridge).solve(b + A @ z).theta + z
    return float(abs((changed - theta) @ sums.start(target)))


def gap_allowance(unvisited: float, trace: float | None, self_check: float | None) -> float:
    """Return the allowance for estimates that need the log, from those that do not."""
    return 2.0 * (unvisited + (trace or 0.0) + abs(self_check or 0.0))


def trace_gap(
    sums: Statistics, rule: Rule, target: str, value: float, ridge: float
) -> float | None:
    """Return the change of V̂ with λ = 0; None if the statistics lack that rule."""
    other = rule.with_lambda(0.0)
    if other is None or other == rule or other not in sums.setting.rules:
        return None
    return abs(float(sums.solve(other, target, ridge).theta @ sums.start(target)) - value)


def ridge_gap(interval: Interval, plain: Interval) -> float:
    """Return how far an interval must be widened to contain the one without the ridge."""
    return float(np.max([0.0, interval.low - plain.low, plain.high - interval.high]))


class ResidualProblem:
    """Statistics of the problem whose rewards are TD errors, in cells."""

    def __init__(self, cells: EncodeOnce, policy: Target, n_actions: int, gamma: float) -> None:
        self._cells, self._policy = cells, policy
        self._copies = copies_of(n_actions, "action", False)
        p = cells.size * n_actions
        self._A, self._b, self._M = np.zeros((1, p, p)), np.zeros((1, p)), np.zeros((p, p))
        self._starts, self._episodes, self._steps = np.zeros((1, p)), 0, 0
        self._streamer = LoggedStreamer(cells, [ONE_STEP], self._copies, gamma)
        self._sums = BackwardMoments(self._A, self._b, self._M)

    def add(self, batch: SegmentBatch, deltas: FloatArray) -> None:
        """Add the next segment, with the TD errors of its transitions."""
        segment, pi = batch.segment, batch.pi(self._policy)
        stream = self._streamer(segment, pi, None, None)[0]._replace(reward=deltas)
        block = first_of_episodes(segment, np.zeros(len(segment), dtype=np.int64))
        self._sums.add(stream, segment.starts, block, segment.continues_in_next)
        first = segment.first_states
        self._steps += len(segment)
        self._episodes += len(first)
        active = Active(self._cells.encode(segment.observations).indices[first], None)
        add_start(active, pi[first] @ self._copies, np.zeros(len(first), np.int64), self._starts)

    def value(self) -> float:
        """Return the value of the residual problem in the start states."""
        span = FeatureSpan(self._M / self._steps)
        eta = span.solve(self._A[0] / self._steps, self._b[0] / self._steps, RIDGE).theta
        return float(eta @ self._starts[0]) / self._episodes
