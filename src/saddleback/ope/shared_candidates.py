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
from functools import partial
from typing import ClassVar

import numpy as np

from saddleback._typing import FloatArray
from saddleback.features import Scaling
from saddleback.features.standardised import median_distance
from saddleback.ope.candidates import OBSERVATION, Basis, views
from saddleback.ope.episode_sample import EpisodeSample

KAPPA, CLOSE = 0.83, 0.3
"""Standard deviations of the phases: kernels of 0.5 and 0.91 between different actions."""

FEW = 60
"""Features for each action below which there are more candidates that share them."""

MIN_WAVES = 8
"""Smallest number of waves."""


@dataclass(frozen=True, eq=False)
class SharedBasis(Basis):
    """Features of a point and an action; ``encode`` gives 1, x, √2 cos z and −√2 sin z.

    Attributes
    ----------
    phases
        v of each action and wave, [K, m].
    taken, next_pi, start_pi
        Probabilities of the actions: those taken, and those of the target in the next states and
        in the first ones, [n, K] and [E, K].
    """

    phases: FloatArray
    taken: FloatArray
    next_pi: FloatArray
    start_pi: FloatArray
    is_shared: ClassVar[bool] = True

    def evaluate(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return φ of each transition, and E_π φ after it and at the start."""
        view = self.view
        return (
            self._expected(view.before, self.taken),
            self._expected(view.after, self.next_pi),
            self._expected(view.start, self.start_pi),
        )

    def _expected(self, points: FloatArray, pi: FloatArray) -> FloatArray:
        linear, cosine, sine = self._split(self.encode(points))
        waves = cosine * (pi @ np.cos(self.phases)) + sine * (pi @ np.sin(self.phases))
        return np.column_stack([linear, pi, waves])

    def _split(self, encoded: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        m = self.phases.shape[1]
        end = encoded.shape[-1] - 2 * m
        return encoded[:, :end], encoded[:, end : end + m], encoded[:, end + m :]

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
    sample: EpisodeSample, target: str, limit: int, max_waves: int, seed: int = 0
) -> Iterator[SharedBasis]:
    """Return bases of at most ``limit`` features; more of them if there are many actions."""
    K = sample.n_actions
    many = limit // K < FEW
    taken = np.eye(K)[sample.actions]
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
        settings = [(waves, width * factor, kappa) for factor, kappa in factors]
        settings = settings if waves >= MIN_WAVES else []
        settings += [(0, 1.0, 1.0)] if many and waves >= 0 else []
        for k, (size, bandwidth, kappa) in enumerate(settings):
            rng = np.random.default_rng([seed, k])
            frequencies = rng.standard_normal((scaling.size, size)) / bandwidth
            encode = partial(_encode, scaling, frequencies, rng.uniform(0.0, 2.0 * np.pi, size))
            name = "linear, shared"
            if size:
                name = f"random Fourier {size} shared, bandwidth {bandwidth:.2g}, κ {kappa:g}"
            yield SharedBasis(
                name, view, encode, kappa * rng.standard_normal((K, size)), taken,
                sample.next_pi[target], sample.start_pi[target],
            )  # fmt: skip


def _encode(
    scaling: Scaling, frequencies: FloatArray, phases: FloatArray, points: FloatArray
) -> FloatArray:
    x = scaling(points)
    z = x @ frequencies + phases
    root = np.sqrt(2.0)
    return np.column_stack([np.ones(len(x)), x, root * np.cos(z), -root * np.sin(z)])
