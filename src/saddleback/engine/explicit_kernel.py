"""Updates with further traces, which `update_kernel` does not have; every trace is stored as it is.

A hybrid form has a second trace e' that learners share, and v = e'ᵀω:

    Δθ = α (… − hybrid·(φ − γ'b)v)        Δω = β (… − hybrid·(φ − γ'b)v)

beside the terms of `update_kernel`. A true on-line form has traces d and d' of each learner, which
depend on its step sizes (dutch traces), and remembers the value that it predicted for S_t:

    d ← c d + αw(1 − c dᵀφ)φ        d' ← c' d' + β(1 − c' d'ᵀφ)φ
    θ ← θ + δd + (d − αwφ)(θᵀφ − θ_{t-1}ᵀb_{t-1}) − correction·αγ'x u
    ω ← ω + dual·w'δd' − gram·β(φᵀω)φ

c' and w' are the decay and the weight of the second trace. A step costs as much as the features
that the trace touches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray
from saddleback.engine.lazy_trace import NEGLIGIBLE, add_entry
from saddleback.engine.schedule import Schedule, StepSizes
from saddleback.engine.stream_columns import Columns, SparseVector
from saddleback.rules import Coefficients, Form


class ExplicitLanes(NamedTuple):
    """State of each learner: weights and dutch traces [p, K], and one array [K] for the rest.

    ``second`` [p] is the trace e' that learners share. The last five are scratch space.
    """

    theta: FloatArray
    omega: FloatArray
    dutch: FloatArray
    dutch_dual: FloatArray
    diverged_at: IntArray
    second: FloatArray
    predicted: FloatArray
    delta: FloatArray
    value: FloatArray
    u: FloatArray
    v: FloatArray
    gap: FloatArray


class ExplicitBlock:
    """Learners that advance together; the interface is that of `learner_batch.Block`."""

    def __init__(
        self,
        form: Form,
        alpha: Schedule,
        beta: Schedule,
        theta: FloatArray,
        omega: FloatArray,
        bound: float,
    ) -> None:
        learners, p = theta.shape
        self._coefficients = Coefficients._make(map(float, form.coefficients))
        self._true_online, self._bound = form.true_online, bound
        self._alpha, self._beta = alpha.step_sizes, beta.step_sizes
        self._trace = SparseVector.zeros(p)
        self.diverged_at = np.full(learners, -1, dtype=np.int64)
        p_dutch = p if form.true_online else 0
        dutch, dutch_dual = np.zeros((2, p_dutch, learners), theta.dtype)
        predicted, *scratch = np.zeros((6, learners), theta.dtype)
        self._lanes = ExplicitLanes(
            np.ascontiguousarray(theta.T), np.ascontiguousarray(omega.T), dutch, dutch_dual,
            self.diverged_at, np.zeros(p), predicted, *scratch,
        )  # fmt: skip

    def advance(self, stream: Columns, done: int) -> None:
        """Learn from the next chunk of a stream, after ``done`` updates."""
        advance_explicit(
            stream, self._coefficients, self._true_online, self._alpha, self._beta, self._bound,
            done, self._trace, self._lanes,
        )  # fmt: skip

    def theta(self) -> FloatArray:
        """Return θ as [K, p]."""
        return self._lanes.theta.T.copy()

    def omega(self) -> FloatArray:
        """Return ω as [K, p]."""
        return self._lanes.omega.T.copy()


@compiled
def advance_explicit(
    stream: Columns,
    coefficients: Coefficients,
    true_online: bool,
    alpha: StepSizes,
    beta: StepSizes,
    bound: float,
    done: int,
    trace: SparseVector,
    lanes: ExplicitLanes,
) -> None:
    """Make one update per step of a stream, for all learners at once."""
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    td, saddle, correction, dual, gram, shrink, gram_theta, hybrid = coefficients
    theta, omega, second, delta, value = (
        lanes.theta, lanes.omega, lanes.second, lanes.delta, lanes.value
    )  # fmt: skip
    dutch, dutch_dual, u, v, gap = lanes.dutch, lanes.dutch_dual, lanes.u, lanes.v, lanes.gap
    e, touched, is_touched = trace.values, trace.touched, trace.is_touched
    stride = np.uint64(0 if len(phi_value) == 1 else 1)
    two, learners, n = len(stream.second_decay) > 0, theta.shape[1], trace.n_touched[0]
    for t in range(len(stream.reward)):
        update = done + t + 1
        a_scale = (update + alpha.offset) ** -alpha.power
        b_scale = (update + beta.offset) ** -beta.power
        gamma, c, w = stream.discount[t], stream.decay[t], stream.weight[t]
        c2, w2 = (stream.second_decay[t], stream.second_weight[t]) if two else (0.0, 0.0)

        # Decay the traces, without entries that are negligible, and let φ enter those in common.
        largest = 0.0
        for q in range(n):
            i = touched[q]
            e[i] *= c
            second[i] *= c2
            largest = max(largest, abs(e[i]), abs(second[i]))
            if true_online:
                for k in range(learners):
                    dutch[i, k] *= c
                    dutch_dual[i, k] *= c2
        kept = 0
        for q in range(n):
            i = touched[q]
            if max(abs(e[i]), abs(second[i])) <= NEGLIGIBLE * largest:
                e[i], second[i], is_touched[i] = 0.0, 0.0, False
                if true_online:
                    for k in range(learners):
                        dutch[i, k], dutch_dual[i, k] = 0.0, 0.0
            else:
                touched[kept] = i
                kept += 1
        n = kept
        for j in range(phi_from[t], phi_from[t + 1]):
            i, entry = phi_index[j], phi_value[j * stride]
            n = add_entry(trace, n, i, w * entry)
            if not true_online:
                second[i] += w2 * entry

        # Numbers of each learner: δ, φᵀω, u, v, and θᵀφ less the value predicted for S_t.
        for k in range(learners):
            delta[k], value[k], u[k], v[k], gap[k] = stream.reward[t], 0.0, 0.0, 0.0, 0.0
        for j in range(phi_from[t], phi_from[t + 1]):
            i, entry = phi_index[j], phi_value[j * stride]
            for k in range(learners):
                gap[k] += entry * theta[i, k]
                value[k] += entry * omega[i, k]
        for k in range(learners):
            delta[k] -= gap[k]
            gap[k] = gap[k] - lanes.predicted[k] if true_online else 0.0
            lanes.predicted[k] = 0.0
        for j in range(next_from[t], next_from[t + 1]):
            for k in range(learners):
                lanes.predicted[k] += next_b[j] * theta[next_index[j], k]
        size = 0.0
        for q in range(n):
            i = touched[q]
            size += e[i] * e[i] + second[i] * second[i]
            for k in range(learners):
                u[k] += e[i] * omega[i, k]
                v[k] += second[i] * omega[i, k]

        for k in range(learners):
            if lanes.diverged_at[k] >= 0:
                continue
            a, b = alpha.scale[k] * a_scale, beta.scale[k] * b_scale
            delta[k] += gamma * lanes.predicted[k]
            total = abs(delta[k]) * (1.0 + td * a + dual * b) + abs(value[k])
            total += abs(a * u[k]) + abs(v[k]) + abs(gap[k])
            if true_online:
                overlap, overlap_dual = 0.0, 0.0
                for j in range(phi_from[t], phi_from[t + 1]):
                    i, entry = phi_index[j], phi_value[j * stride]
                    overlap += entry * dutch[i, k]
                    overlap_dual += entry * dutch_dual[i, k]
                for j in range(phi_from[t], phi_from[t + 1]):
                    i, entry = phi_index[j], phi_value[j * stride]
                    dutch[i, k] += a * w * (1.0 - overlap) * entry
                    dutch_dual[i, k] += b * (1.0 - overlap_dual) * entry
                total += abs(overlap) + abs(overlap_dual)
            if not (total <= bound and size < np.inf):
                lanes.diverged_at[k] = update
                continue
            by_phi = a * (saddle * u[k] - hybrid * v[k] + gram_theta * value[k])
            by_next = a * gamma * (saddle * u[k] - hybrid * v[k])
            dual_by_phi, dual_by_next = (
                b * (gram * value[k] + hybrid * v[k]),
                b * gamma * hybrid * v[k],
            )
            by_x = a * gamma * correction * u[k]
            if true_online:
                by_phi -= a * w * gap[k]
            if shrink != 0.0:
                for i in range(len(omega)):
                    omega[i, k] *= 1.0 - b * shrink
            for q in range(n):
                i = touched[q]
                if true_online:
                    theta[i, k] += (td * delta[k] + gap[k]) * dutch[i, k]
                    omega[i, k] += dual * w2 * delta[k] * dutch_dual[i, k]
                else:
                    theta[i, k] += a * td * delta[k] * e[i]
                    omega[i, k] += b * dual * delta[k] * e[i]
            for j in range(phi_from[t], phi_from[t + 1]):
                i, entry = phi_index[j], phi_value[j * stride]
                theta[i, k] += by_phi * entry
                omega[i, k] -= dual_by_phi * entry
            for j in range(next_from[t], next_from[t + 1]):
                i = next_index[j]
                theta[i, k] -= by_next * next_b[j]
                omega[i, k] += dual_by_next * next_b[j]
                if correction != 0.0:
                    theta[i, k] -= by_x * stream.next_x[j]
        if not size < np.inf:  # the trace overflows: all learners have diverged, and it restarts
            for q in range(n):
                i = touched[q]
                e[i], second[i], is_touched[i] = 0.0, 0.0, False
            n = 0
    trace.n_touched[0] = n
