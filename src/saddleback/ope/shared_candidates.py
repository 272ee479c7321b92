"""Candidate features of a decision that all actions share, so that many actions need few features.

With x the standardised point of a view, e_a the action's indicator, and random w, v and c,

    φ(s, a) = (1, x, e_a, √2 cos(wᵀx + v_a + c))

Inner products of the waves approximate a Gaussian kernel of x times one of the actions, which is 1
for equal and exp(−κ²) for different ones, with v ~ N(0, κ²). Expectations over actions are exact:
E_π cos(z + v_a) = cos z · E_π cos v_a − sin z · E_π sin v_a.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.features import Scaling
from saddleback.features.standardised import (
    cosine,
    median_distance,
    random_waves,
    with_waves,
)
from saddleback.ope.candidates import MIN_WAVES, OBSERVATION, Basis, views
from saddleback.ope.episode_sample import EpisodeSample

KAPPA, CLOSE = 0.83, 0.3
"""Standard deviations of the phases: kernels of 0.5 and 0.91 between different actions."""

FEW = 60
"""Features for each action below which there are more candidates that share them."""

TRACE_WAVES = 100
"""Largest number of waves with traces."""


@dataclass(frozen=True, eq=False)
class Waves:
    """Random waves √2 cos z of standardised points x, with z = wᵀx + c."""

    scaling: Scaling
    # w [d, m] and c [m].
    frequencies: FloatArray
    offsets: FloatArray

    def angles(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return x and z."""
        x = self.scaling(points)
        return x, x @ self.frequencies + self.offsets

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return 1, x, √2 cos z and −√2 sin z, whose weights `SharedBasis.by_action` gives."""
        x, z = self.angles(points)
        return with_waves(x, np.concatenate([cosine(z), cosine(z + 0.5 * np.pi)], axis=1))


@dataclass(frozen=True, eq=False)
class SharedBasis(Basis):
    """Features of a point and an action, which are functions of the `Waves` of the point."""

    encode: Waves
    phases: FloatArray  # v of each action and wave, [K, m]
    actions: IntArray  # the actions taken, [n]
    # Probabilities of the target's actions in the next states [n, K], and in the first ones [E, K].
    next_pi: FloatArray
    start_pi: FloatArray
    is_shared: ClassVar[bool] = True

    def before(self, rows: IntArray) -> FloatArray:
        """Return φ of some transitions."""
        x, z = self.encode.angles(self.view.before[rows])
        action = self.actions[rows]
        taken = np.eye(len(self.phases))[action]
        return with_waves(np.column_stack([x, taken]), cosine(z + self.phases[action]))

    def after(self, rows: IntArray) -> FloatArray:
        """Return E_π φ after some transitions."""
        return self._expected(self.view.after[rows], self.next_pi[rows])

    def start(self) -> FloatArray:
        """Return E_π φ at the starts."""
        return self._expected(self.view.start, self.start_pi)

    def _expected(self, points: FloatArray, pi: FloatArray) -> FloatArray:
        x, z = self.encode.angles(points)
        kind, phases = np.float32, self.phases
        share = pi.astype(kind)
        waves = cosine(z) * (share @ np.cos(phases).astype(kind))
        waves += cosine(z + 0.5 * np.pi) * (share @ np.sin(phases).astype(kind))
        return with_waves(np.column_stack([x, pi]), waves)

    def by_action(self, theta: FloatArray, n_actions: int) -> FloatArray:
        """Return weights of what ``encode`` gives, for each action, [folds, K, size]."""
        m = self.phases.shape[1]
        linear, own = theta[:, : -n_actions - m], theta[:, -n_actions - m : -m or None]
        waves = theta[:, None, -m:] if m else theta[:, None, :0]
        blocks = np.repeat(linear[:, None, :], n_actions, axis=1)
        blocks[:, :, 0] += own
        parts = [blocks, waves * np.cos(self.phases), waves * np.sin(self.phases)]
        return np.concatenate(parts, axis=2)


def shared_candidates(
    sample: EpisodeSample, target: str, limit: int, max_waves: int, seed: int = 0, *,
    lam: float = 0.0,
) -> Iterator[SharedBasis]:  # fmt: skip
    """Return bases of at most ``limit`` features; more of them if there are many actions.

    With λ > 0 some are also fitted with traces.
    """
    K = sample.n_actions
    many = limit // K < FEW
    for view in views(sample):
        scaling = Scaling.of(view.before)
        if not scaling.size:
            continue
        observed = view.name == OBSERVATION
        factors = [(1.0, KAPPA), (2.0, KAPPA)] if observed or many else [(1.0, KAPPA)]
        if observed and many:
            factors += [(0.5, KAPPA), (4.0, KAPPA), (1.0, CLOSE)]
        width = median_distance(scaling(view.before))
        waves = min(max_waves, limit - 1 - scaling.size - K)
        settings = [(waves, width * factor, kappa, 0.0) for factor, kappa in factors]
        settings = settings if waves >= MIN_WAVES else []
        settings += [(0, 1.0, 1.0, 0.0)] if many and waves >= 0 else []
        if observed and lam and waves >= MIN_WAVES:
            settings += [(min(waves, TRACE_WAVES), width, KAPPA, lam), (0, 1.0, 1.0, lam)]
        for k, (size, bandwidth, kappa, decay) in enumerate(settings):
            rng = np.random.default_rng([seed, k])
            encode = Waves(scaling, *random_waves(rng, scaling.size, size, bandwidth))
            name = "linear, shared"
            if size:
                name = f"random Fourier {size} shared, bandwidth {bandwidth:.2g}, κ {kappa:g}"
            if decay:
                name += f", λ {decay:g}"
            yield SharedBasis(
                name, view, encode, kappa * rng.standard_normal((K, size)), sample.actions,
                sample.next_pi[target], sample.start_pi[target], is_smooth=size > 0, lam=decay,
            )  # fmt: skip
