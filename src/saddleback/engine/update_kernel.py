"""The update kernel: every rule, all step sizes at once, at the cost of the active features.

    e ← c e + w φ        δ = R + γ'θᵀb − θᵀφ        u = eᵀω
    θ ← θ + α (td·δe + saddle·(φ − γ'b)u − correction·γ'x u + gram_theta·(φᵀω)φ)
    ω ← ω + β (dual·δe − gram·(φᵀω)φ − shrink·ω)

Both lines use the old θ and ω. No step touches all p features. The trace is stored as e = C·g, with
a scalar C that takes the decay, and updates along the trace are postponed:

    θ = θ̃ + F_θ·g        ω = s (ω̃ + F·g)

with scalars F_θ, F, s for each learner. Adding βδe to ω is then F ← F + βδC/s. When φ enters g, the
change that F·g would make to its entries of θ̃ and ω̃ is subtracted from them. u, ‖e‖² and eᵀφ are
updated incrementally. The trace, C and g do not depend on the step sizes, so learners share them,
and every inner loop runs over learners that are adjacent in memory.

When C leaves [1/window, window], or c is 0, all postponed sums are folded into the entries that g
touches (`_flush`), which bounds cancellation. Negligible entries of the trace are dropped then,
which keeps the touched set small on streams that never reset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled, inlined, prefetch, subroutine
from saddleback._typing import FloatArray, IndexArray, IntArray
from saddleback.engine.lazy_trace import add_entry, clear, dot, leaves_window, rescale
from saddleback.engine.stream_columns import Columns, SparseVector
from saddleback.rules import Coefficients

IN_CACHE = 1 << 17
"""Entries of θ that stay in the cache of a core; of a larger table rows are fetched early."""

EARLY, LINE, LINES = 3, 8, 2
"""Steps by which they are, entries in a cache line, and lines of a row; the others follow."""


class UpdateSettings(NamedTuple):
    """Constants of a learner: coefficients of its form, schedules and numerical limits."""

    coefficients: Coefficients
    alpha_power: float
    alpha_offset: float
    beta_power: float
    beta_offset: float
    window: float
    smallest: float


class Lanes(NamedTuple):
    """State of each learner: weights [p, width], and one array [width] per other quantity.

    The last four are scratch space.
    """

    theta: FloatArray
    omega: FloatArray
    alpha: FloatArray
    beta: FloatArray
    diverged_at: IntArray
    F: FloatArray
    F_theta: FloatArray
    s: FloatArray
    inverse_s: FloatArray
    u: FloatArray
    limit: FloatArray
    alive: FloatArray
    delta: FloatArray
    dual_value: FloatArray
    step_u: FloatArray
    into_phi: FloatArray


@compiled
def advance(
    stream: Columns,
    settings: UpdateSettings,
    done: int,
    trace: SparseVector,
    scale: FloatArray,
    lanes: Lanes,
    width_hint: tuple[int, ...],
) -> None:
    """Make one update per step of a stream, for all learners at once.

    ``trace`` is g and ``scale`` (C, ‖e‖²).
    """
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    reward, discount, decay, weight = stream.reward, stream.discount, stream.decay, stream.weight
    td, saddle, correction, dual, gram, shrink, gram_theta, _ = settings.coefficients
    alpha_power, beta_power = settings.alpha_power, settings.beta_power
    window = settings.window
    g, theta, omega, alpha, beta = trace.values, lanes.theta, lanes.omega, lanes.alpha, lanes.beta
    F, F_theta, s, inverse_s = lanes.F, lanes.F_theta, lanes.s, lanes.inverse_s
    u, limit, alive, delta = lanes.u, lanes.limit, lanes.alive, lanes.delta
    dual_value, step_u, into_phi = lanes.dual_value, lanes.step_u, lanes.into_phi
    width = theta.shape[1] if len(width_hint) else 1
    stride = np.uint64(0 if len(phi_value) == 1 else 1)  # binary features store one 1
    unit_stride = np.uint64(1)
    far, last = theta.size > IN_CACHE, len(reward) - 1
    C, ee, n = scale[0], scale[1], trace.n_touched[0]
    for t in range(len(reward)):
        update = done + t + 1
        a_scale = 1.0 if alpha_power == 0.0 else (update + settings.alpha_offset) ** -alpha_power
        b_scale = 1.0 if beta_power == 0.0 else (update + settings.beta_offset) ** -beta_power
        gamma, c, w = discount[t], decay[t], weight[t]
        if far:
            _fetch(stream, min(t + EARLY, last), trace, lanes, width)

        # Decay the trace; fold in the postponed sums if C would leave its window.
        if leaves_window(C, c, window):
            n, ee = _flush(C * c, trace, n, lanes, td, width_hint)
            C, c = 1.0, 1.0
        else:
            C *= c
            ee *= c * c

        # Reads of old values: gᵀφ, gᵀb, δ, φᵀω.
        phi, successors = (phi_from[t], phi_from[t + 1]), (next_from[t], next_from[t + 1])
        g_phi, g_b, phi_phi = dot(g, phi_index, phi_value, stride, *phi), 0.0, 0.0
        for j in range(phi_from[t], phi_from[t + 1]):
            phi_phi += phi_value[j * stride] ** 2
        if td != 0.0:
            g_b = dot(g, next_index, next_b, unit_stride, *successors)
        g_delta = gamma * g_b - g_phi
        for k in range(width):
            delta[k] = reward[t] + F_theta[k] * g_delta
            dual_value[k] = F[k] * g_phi
        _add_rows(delta, theta, phi_index, phi_value, stride, *phi, -1.0, width_hint)
        _add_rows(dual_value, omega, phi_index, phi_value, stride, *phi, 1.0, width_hint)
        _add_rows(delta, theta, next_index, next_b, unit_stride, *successors, gamma, width_hint)

        # Scalars of each learner.
        e_phi = C * g_phi + w * phi_phi
        ee += 2.0 * w * C * g_phi + w * w * phi_phi
        entry = w / C
        if not ee < np.inf:  # the trace overflows: all learners diverge, and it restarts at 0
            for k in range(width):
                delta[k] = np.inf
            _freeze(update, a_scale, b_scale, settings, trace, np.int64(0), lanes)
            clear(trace, n)
            C, ee, n = 1.0, 0.0, 0
            continue
        bounded = True
        for k in range(width):
            value = s[k] * dual_value[k]
            u_new = alive[k] * (c * u[k] + w * value)
            step = alpha[k] * a_scale * u_new
            dual_value[k], u[k], step_u[k] = value, u_new, step
            reach = 1.0 + td * alpha[k] * a_scale + dual * beta[k] * b_scale
            bounded &= abs(delta[k]) * reach + abs(value) + abs(step) <= limit[k]
        if not bounded:
            _freeze(update, a_scale, b_scale, settings, trace, n, lanes)
        if shrink != 0.0:
            _shrink(shrink * b_scale, settings.smallest, lanes)
        for k in range(width):
            by_theta = alpha[k] * a_scale * td * delta[k]
            by_omega = beta[k] * b_scale * dual * delta[k]
            pull = beta[k] * b_scale * gram * dual_value[k]
            direct = alpha[k] * a_scale * gram_theta * dual_value[k]
            into_phi[k] = saddle * step_u[k] + direct - F_theta[k] * entry
            dual_value[k] = F[k] * entry + pull * inverse_s[k]
            F_theta[k] += by_theta * C
            F[k] += by_omega * C * inverse_s[k]
            u[k] += by_omega * ee - pull * e_phi

        # Writes: φ enters the trace, and the rows of φ, b and x change.
        for j in range(phi_from[t], phi_from[t + 1]):
            i, value = phi_index[j], phi_value[j * stride]
            n = add_entry(trace, n, i, entry * value)
            for k in range(width):
                theta[i, k] += value * into_phi[k]
                omega[i, k] -= value * dual_value[k]
        for j in range(next_from[t], next_from[t + 1]):
            i, value = next_index[j], gamma * saddle * next_b[j]
            if correction != 0.0:
                value += gamma * correction * stream.next_x[j]
            for k in range(width):
                theta[i, k] -= value * step_u[k]
    scale[0], scale[1], trace.n_touched[0] = C, ee, n


@inlined
def _fetch(stream: Columns, t: int, trace: SparseVector, lanes: Lanes, width: int) -> None:
    """Start to load what step t will use; mostly, θ of its φ is among the successors before it."""
    few = min(width, LINES * LINE)
    for j in range(stream.phi_from[t], stream.phi_from[t + 1]):
        i = stream.phi_index[j]
        prefetch(trace.values, i, 0)
        prefetch(trace.is_touched, i, 0)
        for k in range(0, few, LINE):
            prefetch(lanes.omega, i, k)
    for j in range(stream.next_from[t], stream.next_from[t + 1]):
        i = stream.next_index[j]
        for k in range(0, few, LINE):
            prefetch(lanes.theta, i, k)


@inlined
def _add_rows(
    total: FloatArray,
    table: FloatArray,
    index: IndexArray,
    values: FloatArray,
    stride: np.uint64,
    begin: np.uint64,
    end: np.uint64,
    factor: float,
    width_hint: tuple[int, ...],
) -> None:
    """Add ``factor`` times a weighted sum of rows of ``table`` to ``total``, four at a time."""
    width = table.shape[1] if len(width_hint) else 1
    j = begin
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    while j + four <= end:
        a, b, c, d = index[j], index[j + one], index[j + two], index[j + three]
        va, vb = factor * values[j * stride], factor * values[(j + one) * stride]
        vc, vd = factor * values[(j + two) * stride], factor * values[(j + three) * stride]
        for k in range(width):
            total[k] += (va * table[a, k] + vb * table[b, k]) + (
                vc * table[c, k] + vd * table[d, k]
            )
        j += four
    for remaining in range(j, end):
        a, va = index[remaining], factor * values[remaining * stride]
        for k in range(width):
            total[k] += va * table[a, k]


@inlined
def _flush(
    C: float, trace: SparseVector, n: int, lanes: Lanes, td: float, width_hint: tuple[int, ...]
) -> tuple[int, float]:
    """Fold in F·g and F_θ·g, and rescale the trace."""
    g, touched = trace.values, trace.touched
    theta, omega, F, F_theta, u = lanes.theta, lanes.omega, lanes.F, lanes.F_theta, lanes.u
    width = theta.shape[1] if len(width_hint) else 1
    for q in range(n):
        i = touched[q]
        if td != 0.0:
            for k in range(width):
                theta[i, k] += F_theta[k] * g[i]
        for k in range(width):
            omega[i, k] += F[k] * g[i]
    for k in range(width):
        F[k] = F_theta[k] = u[k] = 0.0
    kept, squares = rescale(C, trace, n)
    for q in range(kept):
        i = touched[q]
        for k in range(width):
            u[k] += g[i] * omega[i, k]
    for k in range(width):
        u[k] *= lanes.s[k]
    return kept, squares


@inlined
def _shrink(amount: float, smallest: float, lanes: Lanes) -> None:
    """Multiply ω by 1 − β·amount through its scale s; fold in a scale that is out of range."""
    omega, F, s, u = lanes.omega, lanes.F, lanes.s, lanes.u
    for k in range(len(s)):
        sigma = 1.0 - lanes.beta[k] * amount
        u[k] *= sigma
        s[k] *= sigma
        if abs(s[k]) < smallest or abs(s[k]) > 1.0 / smallest:
            for i in range(len(omega)):
                omega[i, k] *= s[k]
            F[k] *= s[k]
            s[k] = 1.0
        lanes.inverse_s[k] = 1.0 / s[k]


@subroutine
def _freeze(
    update: int,
    a_scale: float,
    b_scale: float,
    settings: UpdateSettings,
    trace: SparseVector,
    n: int | np.int64,
    lanes: Lanes,
) -> None:
    """Stop learners that exceed their limit: fold in the postponed sums, then set α = β = 0."""
    td, dual = settings.coefficients.td, settings.coefficients.dual
    g, touched, theta, omega = trace.values, trace.touched, lanes.theta, lanes.omega
    alpha, beta, F, F_theta, s = lanes.alpha, lanes.beta, lanes.F, lanes.F_theta, lanes.s
    delta, dual_value, step_u = lanes.delta, lanes.dual_value, lanes.step_u
    for k in range(len(s)):
        reach = 1.0 + td * alpha[k] * a_scale + dual * beta[k] * b_scale
        size = abs(delta[k]) * reach + abs(dual_value[k]) + abs(step_u[k])
        if size <= lanes.limit[k] or lanes.diverged_at[k] >= 0:
            continue
        lanes.diverged_at[k] = update
        for q in range(n):
            i = touched[q]
            theta[i, k] += F_theta[k] * g[i]
            omega[i, k] += F[k] * g[i]
        for i in range(len(omega)):
            omega[i, k] *= s[k]
        F[k] = F_theta[k] = lanes.u[k] = delta[k] = dual_value[k] = step_u[k] = 0.0
        alpha[k] = beta[k] = lanes.alive[k] = 0.0
        s[k] = lanes.inverse_s[k] = 1.0
        lanes.limit[k] = np.inf
