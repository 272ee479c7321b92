"""Importance sampling of continuous actions: ratios of densities, and kernels.

With both densities known, ρ_t = π(a_t|s_t)/μ(a_t|s_t). A deterministic policy has no density; it is
smoothed by a Gaussian kernel of bandwidth h,

    ρ_t = K_h(a_t − π(s_t)) / μ(a_t|s_t),      K_h = N(0, h² diag σ²)

with σ the scale of each entry of the logged actions (Kallus & Zhou 2018). A small h has little bias
and much variance, a large one the reverse; SLOPE++ chooses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import FloatArray
from saddleback.features.action_distribution import GaussianActions
from saddleback.features.state_action import StateActionFeatures
from saddleback.log import Log, Segment
from saddleback.log.continuous_targets import ContinuousTarget
from saddleback.ope.doubly_robust import CrossFitted
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.importance_sampling import RowValues, WeightReducer
from saddleback.ope.log_pass import Rechecks, SegmentBatch, read_log
from saddleback.ope.slope import slope

BANDWIDTHS = tuple(float(h) for h in np.geomspace(0.05, 1.6, 6))
"""Bandwidths of the kernel, relative to the scale of the logged actions."""

CHOSEN_BY = "PDWIS"
"""The estimator whose intervals choose the bandwidth."""


@dataclass(frozen=True, eq=False)
class DensityTarget(ContinuousTarget):
    """A policy as densities of the logged actions, smoothed by a kernel if it has bandwidths."""

    bandwidths: tuple[float, ...] = ()

    @classmethod
    def of(
        cls, target: ContinuousTarget, name: str, bandwidths: tuple[float, ...] = ()
    ) -> DensityTarget:
        """Return the densities of a target, with bandwidths of the entries of an action."""
        return cls(
            name, target.fingerprint, form=target.form, size=target.size, names=target.names,
            bandwidths=bandwidths,
        )  # fmt: skip

    def probabilities(self, segment: Segment, n_actions: int) -> FloatArray:
        """Return the density of the logged action in all states, [m, 1]; NaN if none."""
        actions = segment.tables["action"]
        return np.exp(self.log_density(segment.observations, actions))[:, None]

    def log_density(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the logarithm of the density of an action in each state, [n]."""
        if not self.bandwidths:
            return super().log_density(states, actions)
        exact = self.actions(states)
        assert isinstance(exact, GaussianActions)
        smoothed = exact.covariance + np.diag(np.square(self.bandwidths))
        return GaussianActions(exact.mean, smoothed).log_density(actions)


class JointQ:
    """A linear Q of observation and action, cross-fitted by episodes, as a control variate.

    It is not clipped: V must be the exact expectation of Q, or DR would be biased.
    """

    bootstrap_truncated = False

    def __init__(
        self, target: ContinuousTarget, features: StateActionFeatures, fit: CrossFitted
    ) -> None:
        self.remark = fit.remark
        self._target, self._features, self._fit = target, features, fit

    def values(self, batch: SegmentBatch, pi: FloatArray) -> RowValues:
        """Return Q(S_t, A_t) and V(S_t) = E_π Q(S_t, ·), for the next segment."""
        rows = batch.segment.rows
        fold = batch.blocks(self._fit.folds)[batch.segment.row_episode]
        theta = self._fit.theta[fold]
        states = rows.observations
        q = (self._features(states, rows.tables["action"]) * theta).sum(axis=1)
        expected = self._features.expected(states, self._target.actions(states))
        return RowValues(q, (expected * theta).sum(axis=1), np.zeros(len(rows)))


@dataclass(frozen=True, eq=False)
class Weighted:
    """The weighted episodes of one target."""

    # Without a Q, and with one, if the target has a density.
    plain: Trajectories
    robust: Trajectories | None = None
    # The bandwidth that was chosen, relative to the scale of the actions; None without a kernel.
    bandwidth: float | None = None


def is_smooth(target: ContinuousTarget, states: FloatArray, scale: FloatArray) -> bool:
    """Whether a target has a density in all of some states: no covariance is singular."""
    if not target.has_density:
        return False
    actions = target.actions(states)
    if not isinstance(actions, GaussianActions):
        return True
    relative = actions.covariance / np.outer(scale, scale)
    return bool(np.linalg.eigvalsh(relative).min(initial=np.inf) > 1e-8)


def weigh_continuous(
    log: Log,
    targets: Sequence[ContinuousTarget],
    gamma: float,
    states: FloatArray,
    scale: FloatArray,
    q: dict[str, JointQ],
    rechecks: Rechecks,
    progress: Progress | None = None,
) -> dict[str, Weighted]:
    """Weigh the episodes of a log with propensities for each target, in one pass.

    ``states`` are some of the log, ``scale`` is that of each entry of an action, and ``q`` has
    control variates by target, of those that have a density. ``rechecks`` is that of `read_log`.
    """
    jobs: dict[str, list[WeightReducer]] = {}
    kernels = set()
    for target in targets:
        if is_smooth(target, states, scale):
            jobs[target.name] = [WeightReducer(log, DensityTarget.of(target, target.name), gamma)]
            if target.name in q:
                own = DensityTarget.of(target, target.name)
                jobs[target.name].append(WeightReducer(log, own, gamma, q[target.name]))
        elif target.has_density:
            kernels.add(target.name)
            jobs[target.name] = [
                WeightReducer(
                    log,
                    DensityTarget.of(target, f"{target.name}, {k}", tuple((h * scale).tolist())),
                    gamma,
                )
                for k, h in enumerate(BANDWIDTHS)
            ]
    reducers = [reducer for group in jobs.values() for reducer in group]
    if not reducers:
        return {}
    read_log(log, reducers, targets, progress=progress, rechecks=rechecks, mergeable=False)
    results = {}
    for target in targets:
        episodes = [reducer.result(True) for reducer in jobs.get(target.name, ())]
        if target.name in kernels:
            chosen = choose_bandwidth(episodes)
            kept = replace(episodes[chosen], target=target.name)
            results[target.name] = Weighted(kept, None, BANDWIDTHS[chosen])
        elif episodes:
            results[target.name] = Weighted(episodes[0], episodes[1] if episodes[1:] else None)
    return results


def choose_bandwidth(candidates: Sequence[Trajectories]) -> int:
    """Return the index of the bandwidth that SLOPE++ chooses; candidates in increasing order.

    Half-widths of few effective episodes are too small, so those of a small bandwidth are taken as
    at least those of every larger one. Undefined estimates, where all weights are 0, are left out.
    """
    estimates = [candidate.estimate(CHOSEN_BY) for candidate in candidates]
    values = np.array([estimate.value for estimate in estimates])
    widths = np.array([0.5 * (estimate.high - estimate.low) for estimate in estimates])
    defined = np.flatnonzero(np.isfinite(values) & np.isfinite(widths))
    if not len(defined):
        return len(estimates) - 1
    widths = np.maximum.accumulate(widths[defined][::-1])[::-1]
    return int(defined[slope(values[defined], widths)])
