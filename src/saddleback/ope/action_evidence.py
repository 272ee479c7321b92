"""Evidence on a target of continuous actions: coverage, support, calibration of densities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray
from saddleback.features import Active, Monomials, Scaling
from saddleback.features.action_distribution import GaussianActions, SampledActions
from saddleback.features.base import all_active
from saddleback.features.standardised import robust_scale
from saddleback.features.state_action import StateActionFeatures
from saddleback.log.continuous_targets import ContinuousTarget
from saddleback.ope.coverage import Coverage, measure_coverage
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.number_format import short
from saddleback.ope.partition import Column
from saddleback.ope.policy_counts import SIGNIFICANT, PolicySummary
from saddleback.ope.statistics import Statistics

MAX_STATES = 4096
"""Number of states in which decisions of a target are drawn."""

MARGIN = 0.1
"""Part of the range of the logged actions by which it is widened on both sides."""

SHRINK, TOLERATED = 0.5, 0.1
"""Variance of the test density relative to the fitted one, and the deviation of its integral that
is attributed to actions with bounds."""

NO_NOISE = 1e-12
"""Variance of noise, relative to that of the actions, that is rounding."""


def decisions(target: ContinuousTarget, states: FloatArray) -> FloatArray:
    """Return one action of a target in each state, drawn at random, [n, k]."""
    actions = target.actions(states)
    if isinstance(actions, GaussianActions):
        actions = actions.draws(np.random.default_rng(0), 1)
    return np.asarray(actions.points[:, 0])


def outside_logged(actions: FloatArray, logged: FloatArray) -> float:
    """Return the share of actions outside the range of the logged ones, widened by a tenth.

    Examples
    --------
    >>> logged = np.linspace(0.0, 1.0, 11)[:, None]
    >>> outside_logged(np.array([[0.5], [1.05], [1.2], [-3.0]]), logged)
    0.5
    """
    low, high = logged.min(axis=0), logged.max(axis=0)
    margin = MARGIN * (high - low)
    outside = (actions < low - margin) | (actions > high + margin)
    return float(outside.any(axis=1).mean())


def density_calibration(sample: EpisodeSample) -> tuple[float, float]:
    """Return how far logged densities μ contradict the actions: z, and the share of rows.

    For any density g that is positive only where μ is, the mean of g(a_t|s_t)/μ(a_t|s_t) is 1. Here
    g = N(m̂(s), ½Σ̂), with m̂ and Σ̂ from a least-squares fit of the actions; z is clustered by
    episode.

    Examples
    --------
    >>> from dataclasses import replace
    >>> rng = np.random.default_rng(0)
    >>> states, noise = rng.normal(size=(2, 4000, 1))
    >>> sample = EpisodeSample(
    ...     states, states, np.zeros(4000, int), np.zeros(4000), np.ones(4000, bool),
    ...     np.arange(4000) // 10, np.arange(4000) % 10, states[::10], {}, {}, np.arange(400),
    ...     np.arange(400, dtype=np.uint64), 400, action_values=states + noise,
    ...     propensities=np.exp(-0.5 * noise[:, 0] ** 2) / np.sqrt(2 * np.pi),
    ... )
    >>> wrong = replace(sample, propensities=2 * sample.propensities)
    >>> density_calibration(sample)[1], round(density_calibration(wrong)[1], 1)
    (0.0, 0.5)
    """
    assert sample.action_values is not None
    actions = sample.action_values[:, robust_scale(sample.action_values)[1] > 0]
    phi = Monomials(Scaling.of(sample.states), 2 if sample.states.shape[1] <= 20 else 1)(
        sample.states
    )
    mean = phi @ np.linalg.lstsq(phi, actions, rcond=None)[0]
    n, k = actions.shape
    covariance = SHRINK * (actions - mean).T @ (actions - mean) / n
    spread = actions.std(axis=0)
    if not k or np.linalg.matrix_rank(covariance / np.outer(spread, spread), NO_NOISE) < k:
        return 0.0, 0.0  # actions without noise have no density
    g = GaussianActions(mean, np.broadcast_to(covariance, (n, k, k))).log_density(actions)
    x = np.exp(g) / sample.propensities - 1.0
    by_episode = np.bincount(sample.episode, x)
    z = float(abs(x.sum()) / max(np.sqrt((by_episode**2).sum()), 1e-300))
    share = min(1.0, abs(float(x.mean())))
    return z, share if z > SIGNIFICANT and share > TOLERATED else 0.0


@dataclass(frozen=True)
class _Joined:
    """Features of observation and action as features of both columns together."""

    features: StateActionFeatures
    dimensions: int

    @property
    def size(self) -> int:
        """Number of features."""
        return self.features.size

    def encode(self, points: FloatArray) -> Active:
        """Return all features of points [n, d + k]."""
        d = self.dimensions
        return all_active(self.features(points[:, :d], points[:, d:]))


def action_coverage(
    features: StateActionFeatures,
    sums: Statistics,
    sample: EpisodeSample,
    states: FloatArray,
    actions: FloatArray,
    names: tuple[str, ...],
) -> Coverage:
    """Measure how well the log covers decisions of a target, states [m, d] with actions [m, k]."""
    assert sample.action_values is not None
    logged = np.column_stack([sample.states, sample.action_values])
    columns = [Column.of(name, logged[:, k]) for k, name in enumerate(names)]
    taken = [
        np.bincount(column.find(logged[:, k]), minlength=len(column.edges) + 1)[:, None]
        for k, column in enumerate(columns)
    ]
    points = np.column_stack([states, actions])
    joined = _Joined(features, states.shape[1])
    everywhere = np.ones((len(points), 1))
    return measure_coverage(
        joined, sums, (points, everywhere), columns, [t.astype(float) for t in taken], ("",)
    )  # fmt: skip


def describe_actions(
    target: ContinuousTarget, states: FloatArray, actions: FloatArray, names: tuple[str, ...]
) -> PolicySummary:
    """Describe the decisions of a target in some states of the log."""
    distribution = target.actions(states[:256])
    kind = "deterministic"
    if isinstance(distribution, SampledActions):
        kind = f"expectations from {len(distribution.weights)} draws in each state"
    elif not distribution.is_deterministic:
        kind = "Gaussian"
    parts = [
        f"{name} {short(column.mean())} ± {short(column.std())} (SD)"
        for name, column in zip(names, actions.T, strict=True)
    ]
    return PolicySummary({}, 0.0, 0.0, f"{', '.join(parts)}; {kind}")
