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
        out = np.empty((_count(starts), 8))
        with np.errstate(invalid="ignore"):  # a total of infinities of both signs is NaN
            sum_rows(
                starts, log_rho, gain, q, v, rewards, self._gamma, self._now, out, self._top,
                self._sums,
            )  # fmt: skip
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
            self.lengths, self.episodes[:, LOG], self._top, self._sums, self._gamma,
            self.log_total, self.ess, self.mean, self.tail, self.low,
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
        out = np.empty((_count(starts), 4))
        score_rows(
            starts, log_rho, gain, q, v, self._gamma, float(len(self.episodes)), self.log_total,
            self.mean, self._now, out,
        )  # fmt: skip
        self._parts.append(out[:-1] if goes_on else out)

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


def _count(starts: BoolArray) -> int:
    """How many episodes some rows belong to."""
    return int(starts.sum()) + (0 if starts[0] else 1)


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


@inlined
def _copy(now: FloatArray, out: FloatArray, e: int) -> None:
    """Put what is known of an episode in its row; a loop, which is compiled in no time."""
    for j in range(len(now)):
        out[e, j] = now[j]


@compiled
def sum_rows(
    starts: BoolArray,
    log_rho: FloatArray,
    gain: FloatArray,
    q: FloatArray,
    v: FloatArray,
    rewards: FloatArray,
    gamma: float,
    now: FloatArray,
    out: FloatArray,
    top: FloatArray,
    sums: FloatArray,
) -> None:
    """Walk through rows; ``sums`` [H, 3] holds Σw, Σw², Σwy relative to exp(top) [H]."""
    e = -1 if starts[0] else 0
    for i in range(len(starts)):
        if starts[i]:
            if e >= 0:
                _copy(now, out, e)
            e += 1
            for j in range(len(now)):
                now[j] = 0.0
            now[DISCOUNT], now[PEAK], now[FIRST] = 1.0, -np.inf, v[i]
        t, before, discount = int(now[TIME]), now[LOG], now[DISCOUNT]
        if before > -np.inf:
            now[TOTAL] += times(before, discount * v[i])
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
            now[TOTAL] += times(weight, discount * (gain[i] - q[i]))
            now[MASS] += times(weight, discount)
        now[GAIN] += discount * rewards[i]
        now[LOG] = weight
        now[PEAK] = max(now[PEAK], weight)
        now[TIME] = t + 1.0
        now[DISCOUNT] = discount * gamma
    _copy(now, out, e)


@compiled
def sum_steps(
    lengths: IntArray,
    log_weights: FloatArray,
    top: FloatArray,
    sums: FloatArray,
    gamma: float,
    log_total: FloatArray,
    ess: FloatArray,
    mean: FloatArray,
    tail: FloatArray,
    low: FloatArray,
) -> None:
    """Add the last weights of episodes that have ended, and find Y_t and what is left of it.

    exp(−low_T) tail_T = Σ_{t≥T} γ^t Y_t/D_t is what an episode of T steps still has to answer for,
    with low_T the least log D_t, which is at least the logarithm of its weight.
    """
    H = len(mean)
    high = np.full(H + 1, -np.inf)
    ended = np.zeros((H + 1, 2))
    for i in range(len(lengths)):
        _put(high, ended, lengths[i], log_weights[i], 1.0, 1.0)
    for t in range(H):
        if t > 0:
            _put(high, ended, t, high[t - 1], ended[t - 1, 0], ended[t - 1, 1])
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


@inlined
def _put(
    high: FloatArray, ended: FloatArray, t: int, log_weight: float, first: float, second: float
) -> None:
    """Add weights to the sums of a step."""
    if log_weight == -np.inf:
        return
    if log_weight > high[t]:
        shrink = math.exp(high[t] - log_weight)
        ended[t, 0] *= shrink
        ended[t, 1] *= shrink * shrink
        high[t] = log_weight
    share = math.exp(log_weight - high[t])
    ended[t, 0] += share * first
    ended[t, 1] += share * share * second


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
    now: FloatArray,
    out: FloatArray,
) -> None:
    """Walk through rows for V(S_0) + Σ_t γ^t n (w_t/D_t)(y_t − Y_t), up to the end of episodes."""
    e = -1 if starts[0] else 0
    for i in range(len(starts)):
        if starts[i]:
            if e >= 0:
                _copy(now, out, e)
            e += 1
            now[LOG], now[TIME], now[DISCOUNT], now[SCORE] = 0.0, 0.0, 1.0, v[i]
        t, before, discount = int(now[TIME]), now[LOG], now[DISCOUNT]
        if t > 0 and before > -np.inf:
            now[SCORE] += discount * n * math.exp(before - log_total[t - 1]) * v[i]
        weight = before + log_rho[i]
        if weight > -np.inf:
            off = gain[i] - q[i] - mean[t]
            now[SCORE] += discount * n * math.exp(weight - log_total[t]) * off
        now[LOG], now[TIME], now[DISCOUNT] = weight, t + 1.0, discount * gamma
    _copy(now, out, e)
