"""The one update, for all step sizes at once.

    e ← c e + w φ        δ = R + γ'θᵀb − θᵀφ        u = eᵀω
    θ ← θ + α (td·δe + saddle·(φ − γ'b)u − correction·γ'x u)
    ω ← ω + β (dual·δe − gram·(φᵀω)φ − shrink·ω)

Both lines use the old θ and ω. The trace does not depend on the step sizes, so it is shared. A
learner whose next θ or ω would leave [−bound, bound] is marked as diverged at that update and
frozen where it stood.
"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.engine.jit import compiled
from saddleback.engine.schedule import Schedule
from saddleback.engine.stream import Stream
from saddleback.rules import Form, Terms


class Learners:
    """K learners of one rule that differ only in their step sizes.

    Attributes
    ----------
    theta, omega
        Weights [K, p], updated in place.
    diverged_at
        For each learner the update at which it diverged, or −1.
    done
        How many updates have been made.
    """

    def __init__(
        self,
        terms: Terms,
        form: Form,
        alpha: Schedule,
        beta: Schedule,
        theta: FloatArray,
        omega: FloatArray,
        bound: float,
    ) -> None:
        self.theta, self.omega = theta, omega
        self.diverged_at = np.full(len(theta), -1, dtype=np.int64)
        self._tables = (terms.phi, terms.bootstrap, terms.correction)
        self._coefficients = np.array(form.coefficients)
        self._alpha, self._beta = alpha, beta
        self._bound = bound
        self._e = np.zeros(theta.shape[1])
        self._scratch = np.empty((2, theta.shape[1]))
        self.done = 0

    def advance(self, stream: Stream) -> None:
        """Learn from the next piece of a stream."""
        _advance(
            *stream, *self._tables, self._coefficients, self._alpha.scale, self._alpha.power,
            self._beta.scale, self._beta.power, self._bound, self.done, self._e,
            self.theta, self.omega, self.diverged_at, self._scratch,
        )  # fmt: skip
        self.done += len(stream.here)


@compiled
def _advance(
    here: IntArray,
    following: IntArray,
    reward: FloatArray,
    discount: FloatArray,
    decay: FloatArray,
    weight: FloatArray,
    phi_of: FloatArray,
    b_of: FloatArray,
    x_of: FloatArray,
    coefficients: FloatArray,
    alpha: FloatArray,
    alpha_power: float,
    beta: FloatArray,
    beta_power: float,
    bound: float,
    done: int,
    e: FloatArray,
    theta: FloatArray,
    omega: FloatArray,
    diverged_at: IntArray,
    scratch: FloatArray,
) -> None:
    td, saddle, correction, dual, gram, shrink = coefficients
    learners, p = theta.shape
    for t in range(len(here)):
        update = done + t + 1
        alpha_scale, beta_scale = update**-alpha_power, update**-beta_power
        gamma = discount[t]
        phi, b, x = phi_of[here[t]], b_of[following[t]], x_of[following[t]]
        for i in range(p):
            e[i] = decay[t] * e[i] + weight[t] * phi[i]
        for k in range(learners):
            if diverged_at[k] >= 0:
                continue
            value = next_value = dual_value = u = 0.0
            for i in range(p):
                value += theta[k, i] * phi[i]
                next_value += theta[k, i] * b[i]
                dual_value += omega[k, i] * phi[i]
                u += omega[k, i] * e[i]
            delta = reward[t] + gamma * next_value - value
            a, b_step = alpha[k] * alpha_scale, beta[k] * beta_scale
            within = True
            for i in range(p):
                new_theta = theta[k, i] + a * (
                    td * delta * e[i]
                    + saddle * (phi[i] - gamma * b[i]) * u
                    - correction * gamma * x[i] * u
                )
                new_omega = omega[k, i] + b_step * (
                    dual * delta * e[i] - gram * dual_value * phi[i] - shrink * omega[k, i]
                )
                within &= abs(new_theta) <= bound and abs(new_omega) <= bound
                scratch[0, i] = new_theta
                scratch[1, i] = new_omega
            if within:
                theta[k] = scratch[0]
                omega[k] = scratch[1]
            else:
                diverged_at[k] = update
