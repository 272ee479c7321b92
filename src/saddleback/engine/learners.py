"""The one update, for all step sizes at once, at the cost of the active features.

    e ← c e + w φ        δ = R + γ'θᵀb − θᵀφ        u = eᵀω
    θ ← θ + α (td·δe + saddle·(φ − γ'b)u − correction·γ'x u)
    ω ← ω + β (dual·δe − gram·(φᵀω)φ − shrink·ω)

Both lines use the old θ and ω. Nothing here touches all p features in a step. The trace is kept as
e = C·g, with a scalar C that takes the decay, and what the trace would add everywhere is postponed:

    θ = θ̃ + F_θ·g        ω = s (ω̃ + F·g)

with scalars F_θ, F, s for each learner. Adding βδe to ω is then F ← F + βδC/s. When φ enters g, its
entries of θ̃ and ω̃ give up what F·g would credit them with. u is carried along with ‖e‖² and eᵀφ.
The trace, C and g do not depend on the step sizes, so they are shared, and every inner loop runs
over learners that lie side by side in memory.

C leaves the window [1/window, window] now and then, or c is 0: then all postponed sums are folded
into the entries that g touches (`_flush`), which bounds cancellation, and entries of the trace that
have become negligible are dropped, which keeps the touched set small on streams that never reset.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray, OffsetArray
from saddleback.engine.schedule import Schedule
from saddleback.engine.stream import Stream
from saddleback.rules import Form

WINDOW = {"float64": 1e5, "float32": 1e2}
"""C stays within this factor of 1: about as many digits of the postponed sums may cancel."""

NEGLIGIBLE = 1e-18
"""Entries of the trace below this share of the largest are dropped at a flush."""

SMALLEST = 1e-100
"""The scale s of ω is folded in when it falls to this."""


class Learners:
    """K learners of one rule that differ only in their step sizes, in one or several threads.

    A learner with |δ| + |φᵀω| + |αu| beyond ``bound``, or not finite, is marked as diverged at that
    update and frozen as it was before it; the others do not notice.

    Attributes
    ----------
    done
        How many updates have been made.
    """

    def __init__(
        self,
        form: Form,
        alpha: Schedule,
        beta: Schedule,
        theta: FloatArray,
        omega: FloatArray,
        bound: float,
        threads: int = 1,
    ) -> None:
        self.done = 0
        parts = np.array_split(np.arange(len(theta)), min(threads, len(theta)))
        self._blocks = [
            Block(
                form, Schedule(alpha.scale[k], alpha.power), Schedule(beta.scale[k], beta.power),
                theta[k], omega[k], bound,
            )
            for k in parts
        ]  # fmt: skip
        self._pool = ThreadPoolExecutor(len(parts)) if len(parts) > 1 else None

    def advance(self, streams: Iterable[Stream]) -> None:
        """Learn from the next pieces of a stream; with threads, while the one after is made."""
        busy: list[Future[None]] = []
        for stream in streams:
            for each in busy:
                each.result()
            if self._pool is None:
                self._blocks[0].advance(stream, self.done)
            else:
                submit = self._pool.submit
                busy = [submit(block.advance, stream, self.done) for block in self._blocks]
            self.done += len(stream.reward)
        for each in busy:
            each.result()

    @property
    def diverged_at(self) -> IntArray:
        """For each learner the update at which it diverged, or −1."""
        return np.concatenate([block.diverged_at for block in self._blocks])

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with everything postponed folded in."""
        theta, omega = zip(*(block.weights() for block in self._blocks), strict=True)
        return np.concatenate(theta), np.concatenate(omega)


class Block:
    """Learners that lie side by side in memory and are advanced together."""

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
        self._learners = learners
        width = _padded(learners)
        kind = theta.dtype

        def lanes(values: FloatArray) -> FloatArray:
            wide = np.zeros((*values.shape[:-1], width), dtype=kind)
            wide[..., :learners] = values
            return wide

        # The length of a tuple is known to the compiler: for one learner it drops the inner loops.
        self._several = () if width == 1 else (width,)
        self._theta, self._omega = lanes(theta.T), lanes(omega.T)
        self._alpha, self._beta = lanes(alpha.scale), lanes(beta.scale)
        self._powers = (alpha.power, beta.power)
        self._coefficients = np.array(form.coefficients)
        self._window = WINDOW[kind.name]
        self._g = np.zeros(p)
        self._touched = np.zeros(p, dtype=np.uint32)
        self._is_touched = np.zeros(p, dtype=np.bool_)
        self._shared = np.array([1.0, 0.0])  # C and ‖e‖²
        self._count = np.zeros(1, dtype=np.int64)
        start = (0.0, 0.0, 1.0, 1.0, 0.0, bound, 0.0, 0.0, 0.0, 0.0)
        self._lanes = tuple(np.full(width, value, dtype=kind) for value in start)
        self._diverged_at = np.full(width, -1, dtype=np.int64)
        self.diverged_at = self._diverged_at[:learners]

    def advance(self, stream: Stream, done: int) -> None:
        """Learn from the next piece of a stream, after ``done`` updates."""
        _advance(
            *stream, self._coefficients, self._alpha, self._beta, *self._powers, done, self._window,
            self._g, self._touched, self._is_touched, self._shared, self._count,
            self._theta, self._omega, self._lanes, self._diverged_at, self._several,
        )  # fmt: skip

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return θ and ω as [K, p], with everything postponed folded in."""
        theta, omega = self._theta.copy(), self._omega.copy()
        touched = self._touched[: self._count[0]]
        theta[touched] += self._g[touched, None] * self._lanes[1]
        omega[touched] += self._g[touched, None] * self._lanes[0]
        omega *= self._lanes[2]
        return theta.T[: self._learners], omega.T[: self._learners]


def _padded(learners: int) -> int:
    """Round up to whole vectors, avoiding rows that all fall on the same cache lines."""
    width = -(-learners // 8) * 8 if learners > 1 else 1
    return width + 8 if width % 512 == 0 else width


@compiled
def _advance(
    phi_from: OffsetArray,
    phi_index: IndexArray,
    phi_value: FloatArray,
    next_from: OffsetArray,
    next_index: IndexArray,
    next_b: FloatArray,
    next_x: FloatArray,
    reward: FloatArray,
    discount: FloatArray,
    decay: FloatArray,
    weight: FloatArray,
    coefficients: FloatArray,
    alpha: FloatArray,
    beta: FloatArray,
    alpha_power: float,
    beta_power: float,
    done: int,
    window: float,
    g: FloatArray,
    touched: IndexArray,
    is_touched: BoolArray,
    shared: FloatArray,
    count: IntArray,
    theta: FloatArray,
    omega: FloatArray,
    lanes: tuple[FloatArray, ...],
    diverged_at: IntArray,
    several: tuple[int, ...],
) -> None:
    td, saddle, correction, dual, gram, shrink = coefficients
    F, F_theta, s, inverse_s, u, limit, delta, dual_value, step_u, into_phi = lanes
    width = theta.shape[1] if len(several) else 1
    valued = np.uint64(0 if len(phi_value) == 1 else 1)  # binary: one 1 stands for all
    always = np.uint64(1)
    C, ee, n = shared[0], shared[1], count[0]
    for t in range(len(reward)):
        update = done + t + 1
        a_scale = 1.0 if alpha_power == 0.0 else update**-alpha_power
        b_scale = 1.0 if beta_power == 0.0 else update**-beta_power
        gamma, c, w = discount[t], decay[t], weight[t]

        # Decay the trace; fold in what was postponed if C would leave its window.
        if c == 0.0 or C * c < 1.0 / window or C * c > window:
            n = _flush(
                C * c, g, touched, is_touched, n, theta, omega, F, F_theta, s, u, td, several
            )
            C, c, ee = 1.0, 1.0, 0.0
            for q in range(n):
                ee += g[touched[q]] * g[touched[q]]
        else:
            C *= c
            ee *= c * c

        # Reads, from old values: gᵀφ, gᵀb, δ, φᵀω.
        phi, following = (phi_from[t], phi_from[t + 1]), (next_from[t], next_from[t + 1])
        g_phi, g_b, phi_phi = 0.0, 0.0, 0.0
        for j in range(phi_from[t], phi_from[t + 1]):
            g_phi += g[phi_index[j]] * phi_value[j * valued]
            phi_phi += phi_value[j * valued] ** 2
        if td != 0.0:
            for j in range(next_from[t], next_from[t + 1]):
                g_b += g[next_index[j]] * next_b[j]
        g_delta = gamma * g_b - g_phi
        for k in range(width):
            delta[k] = reward[t] + F_theta[k] * g_delta
            dual_value[k] = F[k] * g_phi
        _add_rows(delta, theta, phi_index, phi_value, valued, *phi, -1.0, several)
        _add_rows(dual_value, omega, phi_index, phi_value, valued, *phi, 1.0, several)
        _add_rows(delta, theta, next_index, next_b, always, *following, gamma, several)

        # Everything that is one number for each learner.
        e_phi = C * g_phi + w * phi_phi
        ee += 2.0 * w * C * g_phi + w * w * phi_phi
        enter = w / C
        sound = True
        for k in range(width):
            value = s[k] * dual_value[k]
            now = c * u[k] + w * value
            step = alpha[k] * a_scale * now
            dual_value[k], u[k], step_u[k] = value, now, step
            sound &= abs(delta[k]) + abs(value) + abs(step) <= limit[k]
        if not sound:
            _freeze(update, g, touched, n, theta, omega, lanes, alpha, beta, diverged_at)
        if shrink != 0.0:
            _shrink(shrink * b_scale, beta, omega, F, s, u, inverse_s)
        for k in range(width):
            by_theta = alpha[k] * a_scale * td * delta[k]
            by_omega = beta[k] * b_scale * dual * delta[k]
            pull = beta[k] * b_scale * gram * dual_value[k]
            into_phi[k] = saddle * step_u[k] - F_theta[k] * enter
            dual_value[k] = F[k] * enter + pull * inverse_s[k]
            F_theta[k] += by_theta * C
            F[k] += by_omega * C * inverse_s[k]
            u[k] += by_omega * ee - pull * e_phi

        # Writes: φ enters the trace, and the rows of φ and of b, x move.
        for j in range(phi_from[t], phi_from[t + 1]):
            i, value = phi_index[j], phi_value[j * valued]
            if not is_touched[i]:
                is_touched[i] = True
                touched[n] = i
                n += 1
            g[i] += enter * value
            for k in range(width):
                theta[i, k] += value * into_phi[k]
                omega[i, k] -= value * dual_value[k]
        for j in range(next_from[t], next_from[t + 1]):
            i, value = next_index[j], gamma * saddle * next_b[j]
            if correction != 0.0:
                value += gamma * correction * next_x[j]
            for k in range(width):
                theta[i, k] -= value * step_u[k]
    shared[0], shared[1], count[0] = C, ee, n


@compiled
def _add_rows(
    total: FloatArray,
    table: FloatArray,
    index: IndexArray,
    values: FloatArray,
    valued: np.uint64,
    begin: np.uint64,
    end: np.uint64,
    factor: float,
    several: tuple[int, ...],
) -> None:
    """Add ``factor`` times a weighted sum of rows of ``table`` to ``total``, four at a time."""
    width = table.shape[1] if len(several) else 1
    j = begin
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    while j + four <= end:
        a, b, c, d = index[j], index[j + one], index[j + two], index[j + three]
        va, vb = factor * values[j * valued], factor * values[(j + one) * valued]
        vc, vd = factor * values[(j + two) * valued], factor * values[(j + three) * valued]
        for k in range(width):
            total[k] += (va * table[a, k] + vb * table[b, k]) + (
                vc * table[c, k] + vd * table[d, k]
            )
        j += four
    for rest in range(j, end):
        a, va = index[rest], factor * values[rest * valued]
        for k in range(width):
            total[k] += va * table[a, k]


@compiled
def _flush(
    C: float,
    g: FloatArray,
    touched: IndexArray,
    is_touched: BoolArray,
    n: int,
    theta: FloatArray,
    omega: FloatArray,
    F: FloatArray,
    F_theta: FloatArray,
    s: FloatArray,
    u: FloatArray,
    td: float,
    several: tuple[int, ...],
) -> int:
    """Fold F·g and F_θ·g in, let g be the trace C·g itself, drop what is negligible."""
    width = theta.shape[1] if len(several) else 1
    largest = 0.0
    for q in range(n):
        i = touched[q]
        if td != 0.0:
            for k in range(width):
                theta[i, k] += F_theta[k] * g[i]
        for k in range(width):
            omega[i, k] += F[k] * g[i]
        g[i] *= C
        largest = max(largest, abs(g[i]))
    F[:] = 0.0
    F_theta[:] = 0.0
    u[:] = 0.0
    kept = 0
    for q in range(n):
        i = touched[q]
        if abs(g[i]) <= NEGLIGIBLE * largest:
            g[i] = 0.0
            is_touched[i] = False
        else:
            touched[kept] = i
            kept += 1
            for k in range(width):
                u[k] += g[i] * omega[i, k]
    for k in range(width):
        u[k] *= s[k]
    return kept


@compiled
def _shrink(
    amount: float,
    beta: FloatArray,
    omega: FloatArray,
    F: FloatArray,
    s: FloatArray,
    u: FloatArray,
    inverse_s: FloatArray,
) -> None:
    """Multiply ω by 1 − β·amount through its scale s; fold the scale in where it has run out."""
    for k in range(len(s)):
        sigma = 1.0 - beta[k] * amount
        u[k] *= sigma
        s[k] *= sigma
        if abs(s[k]) < SMALLEST:
            omega[:, k] *= s[k]
            F[k] *= s[k]
            s[k] = 1.0
        inverse_s[k] = 1.0 / s[k]


@compiled
def _freeze(
    update: int,
    g: FloatArray,
    touched: IndexArray,
    n: int,
    theta: FloatArray,
    omega: FloatArray,
    lanes: tuple[FloatArray, ...],
    alpha: FloatArray,
    beta: FloatArray,
    diverged_at: IntArray,
) -> None:
    """Stop learners that passed their limit: fold in what is postponed, then never move again."""
    F, F_theta, s, inverse_s, u, limit, delta, dual_value, step_u, _ = lanes
    for k in range(len(s)):
        if abs(delta[k]) + abs(dual_value[k]) + abs(step_u[k]) <= limit[k]:
            continue
        diverged_at[k] = update
        for q in range(n):
            i = touched[q]
            theta[i, k] += F_theta[k] * g[i]
            omega[i, k] += F[k] * g[i]
        omega[:, k] *= s[k]
        F[k] = F_theta[k] = u[k] = delta[k] = dual_value[k] = step_u[k] = 0.0
        alpha[k] = beta[k] = 0.0
        s[k] = inverse_s[k] = 1.0
        limit[k] = np.inf
