"""Episodes walked through step by step: their weights, and sums over them at each step.

With w_t = ρ_0 ⋯ ρ_t, w_{−1} = 1, and any Q, V(s) = Σ_a π(a|s)Q(s,a), which is 0 past the end,

    total_i = V(S_0) + Σ_t γ^t w_t y_t,    y_t = R_t − Q(S_t,A_t) + γV(S_{t+1})
    D_t = Σ_i w_t^i,    Y_t = Σ_i w_t^i y_t^i / D_t

(Q = 0 makes these per-decision importance sampling). An episode that has ended keeps its last
weight, and has y = 0. Weights are kept as logarithms, and sums over episodes relative to the
largest weight so far at that step, so that nothing overflows. Everything is added one episode after
the other: it does not matter in which pieces a log comes.
"""

from __future__ import annotations

import math

import numpy as np

from saddleback._jit import compiled, inlined
from saddleback._typing import BoolArray, FloatArray, IntArray

LOG, TIME, DISCOUNT, GAIN, TOTAL, MASS, PEAK, FIRST = range(8)
"""What is known of an episode: log w, steps, γ^t, Σγ^tR, total, Σγ^t w, max log w, V(S_0)."""

SCORE = 3
"""Where a score is kept beside LOG, TIME and DISCOUNT."""

LARGE = 700.0
"""Logarithms above this are not exponentiated by themselves."""


class Walk:
    """Takes consecutive rows of a log, of one target policy, twice: for sums, then for scores."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._now = np.zeros(8)
        self._parts: list[FloatArray] = []
        self._top, self._sums = np.zeros(0), np.zeros((0, 3))

    def add(
        self,
        starts: BoolArray,
        log_rho: FloatArray,
        gain: FloatArray,
        q: FloatArray,
        v: FloatArray,
        rewards: FloatArray,
        goes_on: bool,
    ) -> None:
        """Take in the next rows; ``gain`` is R, plus γV of what follows where that is meant."""
        steps = _longest(starts, int(self._now[TIME]))
        if steps > len(self._top):
            more = max(steps, 2 * len(self._top)) - len(self._top)
            self._top = np.append(self._top, np.full(more, -np.inf))
            self._sums = np.vstack([self._sums, np.zeros((more, 3))])
        out = self._begin(starts, 8)
        with np.errstate(invalid="ignore"):  # a total of infinities of both signs is NaN
            sum_rows(starts, log_rho, gain, q, v, rewards, self._gamma, out, self._top, self._sums)
        self._keep(out, goes_on)

    def _begin(self, starts: BoolArray, columns: int) -> FloatArray:
        """Rows for the episodes of some steps, the first as it is so far if it goes on."""
        out = np.zeros((int(starts.sum()) + (0 if starts[0] else 1), columns))
        if not starts[0]:
            out[0] = self._now
        return out

    def _keep(self, out: FloatArray, goes_on: bool) -> None:
        """Keep the episodes that have ended, and remember the last."""
        self._now = out[-1].copy()
        self._parts.append(out[:-1] if goes_on else out)

    def close(self) -> None:
        """Sum up what was taken in, with the episodes that have ended, and be ready for scores.

        Sets ``episodes`` [n, 8]; and for each step ``log_total``, log D_t; ``ess``; ``mean``, Y_t.
        """
        self.episodes = np.concatenate(self._parts) if self._parts else np.zeros((0, 8))
        self.lengths = self.episodes[:, TIME].astype(np.int64)
        H = int(self.lengths.max(initial=0))
        self.log_total, self.ess, self.mean, self.tail, self.low = np.zeros((5, H))
        sum_steps(
            self.lengths, self.episodes[:, LOG].copy(), self._top, self._sums, self._gamma,
            np.full(H + 1, -np.inf), np.zeros((H + 1, 2)), self.log_total, self.ess, self.mean,
            self.tail, self.low,
        )  # fmt: skip
        self._now, self._parts = np.zeros(4), []

    @property
    def value(self) -> float:
        """Mean of V(S_0) plus Σ_t γ^t Y_t; NaN if at some step all weights are 0."""
        if not len(self.episodes) or np.isneginf(self.log_total).any():
            return float("nan")
        powers = self._gamma ** np.arange(len(self.mean), dtype=np.float64)
        return float(self.episodes[:, FIRST].mean() + powers @ self.mean)

    def add_scores(
        self,
        starts: BoolArray,
        log_rho: FloatArray,
        gain: FloatArray,
        q: FloatArray,
        v: FloatArray,
        goes_on: bool,
    ) -> None:
        """Take in the next rows once more, the sums being known."""
        out = self._begin(starts, 4)
        score_rows(
            starts, log_rho, gain, q, v, self._gamma, float(len(self.episodes)), self.log_total,
            self.mean, out,
        )  # fmt: skip
        self._keep(out, goes_on)

    @property
    def scores(self) -> FloatArray:
        """How much each episode draws the value, n times over, [n]; their mean is 0.

        V(S_0) − mean V(S_0) + Σ_t γ^t n (w_t/D_t)(y_t − Y_t)
        """
        found = np.concatenate(self._parts) if self._parts else np.zeros((0, 4))
        score = found[:, SCORE] - self.episodes[:, FIRST].mean()
        early = np.flatnonzero((self.lengths < len(self.tail)) & np.isfinite(found[:, LOG]))
        at = self.lengths[early]
        share = np.exp(found[early, LOG] - self.low[at])
        score[early] -= len(score) * share * self.tail[at]
        return np.asarray(score)


def _longest(starts: BoolArray, done: int) -> int:
    """Most steps of an episode so far, ``done`` being those before these rows."""
    begins = np.flatnonzero(starts)
    if not len(begins):
        return done + len(starts)
    carried = done + int(begins[0]) if begins[0] else 0
    return max(carried, int(np.diff(np.append(begins, len(starts))).max()))


@inlined
def times(log_weight: float, x: float) -> float:
    """w·x from log w, infinite only if the product is."""
    if x == 0.0:
        return 0.0
    if log_weight < LARGE:
        return math.exp(log_weight) * x
    size = log_weight + math.log(abs(x))
    return math.copysign(math.exp(size) if size < LARGE else math.inf, x)


@compiled
def sum_rows(
    starts: BoolArray,
    log_rho: FloatArray,
    gain: FloatArray,
    q: FloatArray,
    v: FloatArray,
    rewards: FloatArray,
    gamma: float,
    out: FloatArray,
    top: FloatArray,
    sums: FloatArray,
) -> None:
    """Walk through rows; ``sums`` [H, 3] holds Σw, Σw², Σwy relative to exp(top) [H].

    ``out`` has a row for each episode: that of one already begun, or 0.
    """
    e = -1 if starts[0] else 0
    for i in range(len(starts)):
        if starts[i]:
            e += 1
            out[e, DISCOUNT], out[e, PEAK], out[e, FIRST] = 1.0, -np.inf, v[i]
        t, before, discount = int(out[e, TIME]), out[e, LOG], out[e, DISCOUNT]
        if before > -np.inf:
            out[e, TOTAL] += times(before, discount * v[i])
            if t > 0:
                sums[t - 1, 2] += math.exp(before - top[t - 1]) * gamma * v[i]
        weight = before + log_rho[i]
        if weight > -np.inf:
            if weight > top[t]:
                shrink = math.exp(top[t] - weight)
                sums[t, 0] *= shrink
                sums[t, 1] *= shrink * shrink
                sums[t, 2] *= shrink
                top[t] = weight
            share = math.exp(weight - top[t])
            sums[t, 0] += share
            sums[t, 1] += share * share
            sums[t, 2] += share * (gain[i] - q[i])
            out[e, TOTAL] += times(weight, discount * (gain[i] - q[i]))
            out[e, MASS] += times(weight, discount)
        out[e, GAIN] += discount * rewards[i]
        out[e, LOG] = weight
        out[e, PEAK] = max(out[e, PEAK], weight)
        out[e, TIME] = t + 1.0
        out[e, DISCOUNT] = discount * gamma


@compiled
def sum_steps(
    lengths: IntArray,
    log_weights: FloatArray,
    top: FloatArray,
    sums: FloatArray,
    gamma: float,
    high: FloatArray,
    ended: FloatArray,
    log_total: FloatArray,
    ess: FloatArray,
    mean: FloatArray,
    tail: FloatArray,
    low: FloatArray,
) -> None:
    """Add the last weights of episodes that have ended, and find Y_t and what is left of it.

    exp(−low_T) tail_T = Σ_{t≥T} γ^t Y_t/D_t is what an episode of T steps still has to answer for,
    with low_T the least log D_t, which is at least the logarithm of its weight. ``ended``, zeros
    [H + 1, 2], takes Σw and Σw² of episodes that have ended, relative to exp(high), −∞ [H + 1].
    """
    H, n = len(mean), len(lengths)
    for i in range(n + H - 1):
        if i < n:  # an episode, where it ended; then those of each step, in the next
            t, log_weight, first, second = lengths[i], log_weights[i], 1.0, 1.0
        else:
            t = i - n + 1
            log_weight, first, second = high[t - 1], ended[t - 1, 0], ended[t - 1, 1]
        if log_weight == -np.inf:
            continue
        if log_weight > high[t]:
            shrink = math.exp(high[t] - log_weight)
            ended[t, 0] *= shrink
            ended[t, 1] *= shrink * shrink
            high[t] = log_weight
        share = math.exp(log_weight - high[t])
        ended[t, 0] += share * first
        ended[t, 1] += share * share * second
    for t in range(H):
        own, first, second = top[t], sums[t, 0], sums[t, 1]
        both = max(own, high[t])
        if both == -np.inf:
            log_total[t] = -np.inf
            continue
        a, b = math.exp(own - both), math.exp(high[t] - both)
        total = a * first + b * ended[t, 0]
        log_total[t] = both + math.log(total)
        ess[t] = total * total / (a * a * second + b * b * ended[t, 1])
        mean[t] = a * sums[t, 2] / total
    past, below = 0.0, np.inf
    for t in range(H - 1, -1, -1):
        if log_total[t] > -np.inf:
            least = min(below, log_total[t])
            past = past * math.exp(least - below) if below < np.inf else 0.0
            past += gamma**t * mean[t] * math.exp(least - log_total[t])
            below = least
        tail[t], low[t] = past, below


@compiled
def score_rows(
    starts: BoolArray,
    log_rho: FloatArray,
    gain: FloatArray,
    q: FloatArray,
    v: FloatArray,
    gamma: float,
    n: float,
    log_total: FloatArray,
    mean: FloatArray,
    out: FloatArray,
) -> None:
    """Walk through rows for V(S_0) + Σ_t γ^t n (w_t/D_t)(y_t − Y_t), up to the end of episodes."""
    e = -1 if starts[0] else 0
    for i in range(len(starts)):
        if starts[i]:
            e += 1
            out[e, DISCOUNT], out[e, SCORE] = 1.0, v[i]
        t, before, discount = int(out[e, TIME]), out[e, LOG], out[e, DISCOUNT]
        if t > 0 and before > -np.inf:
            out[e, SCORE] += discount * n * math.exp(before - log_total[t - 1]) * v[i]
        weight = before + log_rho[i]
        if weight > -np.inf:
            off = gain[i] - q[i] - mean[t]
            out[e, SCORE] += discount * n * math.exp(weight - log_total[t]) * off
        out[e, LOG], out[e, TIME], out[e, DISCOUNT] = weight, t + 1.0, discount * gamma
