"""The off-line λ-return update, in which each target is computed with θ fixed at θ_t.

    θ_{t+1} = θ_t + α w_t (Σ_{k≥t} c_{t,k} δ_k(θ_t)) φ_t,    c_{t,k} = Π_{i=t+1..k} c_i

with the decays c_i and weights w_t of the trace, as on-line (`tabular_stream`).

The sum is linear in θ, Σ c R + θᵀ Σ c (γ'b − φ), and these two sums do not depend on the step size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray
from saddleback.engine.experience import Experience
from saddleback.engine.metrics import MeasuredWeights
from saddleback.engine.schedule import Schedule, StepSizes
from saddleback.engine.tabular_stream import CARRIED, fill_decay_and_weight
from saddleback.rules import Terms


class OfflineSteps(NamedTuple):
    """Experience with the rows of its pairs in the terms of a rule."""

    pairs: IntArray
    next_pairs: IntArray
    reward: FloatArray
    discount: FloatArray
    decay: FloatArray
    weight: FloatArray


class OfflineLearners(MeasuredWeights):
    """K off-line learners that differ only in their step sizes; attributes as in `Learners`."""

    def __init__(
        self, terms: Terms, n_actions: int, alpha: Schedule, theta: FloatArray, bound: float
    ) -> None:
        self.theta = theta
        self.diverged_at = np.full(len(theta), -1, dtype=np.int64)
        self._n_actions, self._terms = n_actions, terms
        self._alpha, self._bound = alpha.step_sizes, bound
        self._carry = np.zeros(CARRIED)
        self.done = 0

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω, [K, p]; there is no dual variable."""
        return self.theta, np.zeros_like(self.theta)

    def advance(self, experience: Experience, updates: int, horizon: int) -> None:
        """Update on the first ``updates`` steps, each looking ahead ``horizon`` steps."""
        pairs = experience.states * self._n_actions + experience.actions
        next_pairs = experience.next_states * self._n_actions + experience.next_actions
        decay, weight = np.empty((2, len(pairs)))
        for carry, n in ((self._carry.copy(), len(pairs)), (self._carry, updates)):
            fill_decay_and_weight(
                self._terms, pairs[:n], experience.discounts[:n], experience.starts[:n], carry,
                decay[:n], weight[:n],
            )  # fmt: skip
        steps = OfflineSteps(
            pairs, next_pairs, experience.rewards, experience.discounts, decay, weight
        )
        _advance_offline(
            steps, updates, horizon, self._terms, self._alpha, self._bound, self.done, self.theta,
            self.diverged_at,
        )  # fmt: skip
        self.done += updates


@compiled
def _advance_offline(
    steps: OfflineSteps,
    updates: int,
    horizon: int,
    terms: Terms,
    alpha: StepSizes,
    bound: float,
    done: int,
    theta: FloatArray,
    diverged_at: IntArray,
) -> None:
    learners, p = theta.shape
    pairs, slope = steps.pairs, np.empty(p)
    for t in range(updates):
        constant, c = 0.0, 1.0
        slope[:] = 0.0
        for k in range(t, min(t + horizon, len(pairs))):
            if k > t:
                c *= steps.decay[k]
            if c == 0.0:
                break
            constant += c * steps.reward[k]
            phi, b = terms.phi[pairs[k]], terms.bootstrap[steps.next_pairs[k]]
            for i in range(p):
                slope[i] += c * (steps.discount[k] * b[i] - phi[i])
        step = (done + t + 1 + alpha.offset) ** -alpha.power * steps.weight[t]
        for m in range(learners):
            if diverged_at[m] >= 0:
                continue
            error = constant
            for i in range(p):
                error += theta[m, i] * slope[i]
            change = alpha.scale[m] * step * error
            bounded = True
            for i in range(p):
                bounded &= abs(theta[m, i] + change * terms.phi[pairs[t], i]) <= bound
            if bounded:
                for i in range(p):
                    theta[m, i] += change * terms.phi[pairs[t], i]
            else:
                diverged_at[m] = done + t + 1
