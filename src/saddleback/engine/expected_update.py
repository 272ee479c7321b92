"""The update in expectation: samples replaced by A, b, T and W (`System.coupling`).

θ ← θ + α (td·(Aθ+b) − Tω)
ω ← ω + β (dual·(Aθ+b) − Wω)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray
from saddleback.engine.metrics import MeasuredWeights
from saddleback.engine.schedule import Schedule, StepSizes
from saddleback.rules import Form


class ExpectedUpdate(NamedTuple):
    """Matrices and coefficients of the two lines above."""

    A: FloatArray
    b: FloatArray
    T: FloatArray
    W: FloatArray
    td: float
    dual: float


class ExpectedLearners(MeasuredWeights):
    """K deterministic iterations that differ only in their step sizes; see `Learners`."""

    def __init__(
        self,
        matrices: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
        form: Form,
        alpha: Schedule,
        beta: Schedule,
        theta: FloatArray,
        omega: FloatArray,
        bound: float,
    ) -> None:
        c = form.coefficients
        self.theta, self.omega = theta, omega
        self.diverged_at = np.full(len(theta), -1, dtype=np.int64)
        A, b, T, W = (np.ascontiguousarray(matrix) for matrix in matrices)
        self._update = ExpectedUpdate(A, b, T, W, float(c.td), float(c.dual))
        self._alpha, self._beta, self._bound = alpha.step_sizes, beta.step_sizes, bound
        self.done = 0

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω, [K, p]."""
        return self.theta, self.omega

    def advance(self, count: int) -> None:
        """Run ``count`` more iterations."""
        _advance_expected(
            self._update, self._alpha, self._beta, self._bound, self.done, count, self.theta,
            self.omega, self.diverged_at,
        )  # fmt: skip
        self.done += count


@compiled
def _advance_expected(
    expected: ExpectedUpdate,
    alpha: StepSizes,
    beta: StepSizes,
    bound: float,
    done: int,
    count: int,
    theta: FloatArray,
    omega: FloatArray,
    diverged_at: IntArray,
) -> None:
    A, b, T, W, td, dual = expected
    learners, p = theta.shape
    scratch = np.empty((2, p))
    for k in range(learners):
        if diverged_at[k] >= 0:
            continue
        for update in range(done + 1, done + count + 1):
            a = alpha.scale[k] * (update + alpha.offset) ** -alpha.power
            b_step = beta.scale[k] * (update + beta.offset) ** -beta.power
            bounded = True
            for i in range(p):
                residual, pull, drag = b[i], 0.0, 0.0
                for j in range(p):
                    residual += A[i, j] * theta[k, j]
                    pull += T[i, j] * omega[k, j]
                    drag += W[i, j] * omega[k, j]
                scratch[0, i] = theta[k, i] + a * (td * residual - pull)
                scratch[1, i] = omega[k, i] + b_step * (dual * residual - drag)
                bounded &= abs(scratch[0, i]) <= bound and abs(scratch[1, i]) <= bound
            if not bounded:
                diverged_at[k] = update
                break
            theta[k] = scratch[0]
            omega[k] = scratch[1]
