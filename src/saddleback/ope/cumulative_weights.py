"""Cumulative importance weights of episodes, and weighted sums over episodes at each step.

With w_t = ρ_0 ⋯ ρ_t, w_{−1} = 1, and any Q, V(s) = Σ_a π(a|s)Q(s,a), which is 0 past the end,

    total_i = V(S_0) + Σ_t γ^t w_t y_t,    y_t = R_t − Q(S_t,A_t) + γV(S_{t+1})
    D_t = Σ_i w_t^i,    Y_t = Σ_i w_t^i y_t^i / D_t

(Q = 0 gives per-decision importance sampling). An episode that has ended keeps its last weight, and
has y = 0. Weights are stored as logarithms, and sums over episodes are relative to the largest
weight so far at that step, so that nothing overflows. Episodes are added one after the other, so
the result does not depend on how the log is divided into segments.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled, inlined
from saddleback._typing import BoolArray, FloatArray, IntArray

LOG, TIME, DISCOUNT, RETURN, TOTAL, MASS, PEAK, FIRST = range(8)
"""Columns of an episode's state: log w, steps, γ^t, Σγ^tR, total, Σγ^t w, max log w, V(S_0)."""

SCORE = 3
"""Column of the score in the second pass, after LOG, TIME and DISCOUNT."""

LARGE = 700.0
"""Logarithms above this are not exponentiated directly: exp would overflow."""


class WeightedRows(NamedTuple):
    """Consecutive rows of a log: ``gain`` is R, plus γV(S_{t+1}) where an episode is bootstrapped.

    ``q`` and ``v`` are Q(S_t, A_t) and V(S_t).
    """

    starts: BoolArray
    log_rho: FloatArray
    gain: FloatArray
    q: FloatArray
    v: FloatArray
    rewards: FloatArray


class StepSums(NamedTuple):
    """Sums over episodes at each step, [H]: log D_t, ESS, Y_t, and its tail sums (`sum_steps`)."""

    log_total: FloatArray
    ess: FloatArray
    mean: FloatArray
    tail: FloatArray
    low: FloatArray


class CumulativeWeights:
    """Accumulates consecutive rows of a log for one target policy: first sums, then scores."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._carry = np.zeros(8)
        self._parts: list[FloatArray] = []
        self._log_max, self._sums = np.zeros(0), np.zeros((0, 3))

    def add(self, rows: WeightedRows, continues_in_next: bool) -> None:
        """Add the next rows."""
        steps = _longest(rows.starts, int(self._carry[TIME]))
        if steps > len(self._log_max):
            more = max(steps, 2 * len(self._log_max)) - len(self._log_max)
            self._log_max = np.append(self._log_max, np.full(more, -np.inf))
            self._sums = np.vstack([self._sums, np.zeros((more, 3))])
        out = self._begin(rows.starts, 8)
        with np.errstate(invalid="ignore"):  # a total of infinities of both signs is NaN
            sum_rows(rows, self._gamma, out, self._log_max, self._sums)
        self._store(out, continues_in_next)

    def _begin(self, starts: BoolArray, columns: int) -> FloatArray:
        """State rows for the episodes of some steps; the first carries over an open episode."""
        out = np.zeros((int(starts.sum()) + (0 if starts[0] else 1), columns))
        if not starts[0]:
            out[0] = self._carry
        return out

    def _store(self, out: FloatArray, continues_in_next: bool) -> None:
        """Store the episodes that have ended, and carry over the last."""
        self._carry = out[-1].copy()
        self._parts.append(out[:-1] if continues_in_next else out)

    def close(self) -> None:
        """Finish the sums over episodes, and prepare for the scores.

        Sets ``episodes`` [n, 8], and ``steps``, the `StepSums`.
        """
        self.episodes = np.concatenate(self._parts) if self._parts else np.zeros((0, 8))
        self.lengths = self.episodes[:, TIME].astype(np.int64)
        H = int(self.lengths.max(initial=0))
        self.steps = StepSums._make(np.zeros((5, H)))
        log_weights = self.episodes[:, LOG].copy()
        sum_steps(
            self.lengths, log_weights, self._log_max, self._sums, self._gamma,
            np.full(H + 1, -np.inf), np.zeros((H + 1, 2)), self.steps,
        )  # fmt: skip
        self._carry, self._parts = np.zeros(4), []

    @property
    def value(self) -> float:
        """Mean of V(S_0) plus Σ_t γ^t Y_t; NaN if all weights are 0 at some step."""
        if not len(self.episodes) or np.isneginf(self.steps.log_total).any():
            return float("nan")
        powers = self._gamma ** np.arange(len(self.steps.mean), dtype=np.float64)
        return float(self.episodes[:, FIRST].mean() + powers @ self.steps.mean)

    def add_scores(self, rows: WeightedRows, continues_in_next: bool) -> None:
        """Add the next rows in the second pass, when the sums are complete."""
        out = self._begin(rows.starts, 4)
        score_rows(rows, self._gamma, float(len(self.episodes)), self.steps, out)
        self._store(out, continues_in_next)

    @property
    def scores(self) -> FloatArray:
        """Influence of each episode on the value, scaled by n, [n]; the mean is 0.

        V(S_0) − mean V(S_0) + Σ_t γ^t n (w_t/D_t)(y_t − Y_t)
        """
        scored = np.concatenate(self._parts) if self._parts else np.zeros((0, 4))
        score = scored[:, SCORE] - self.episodes[:, FIRST].mean()
        early = np.flatnonzero((self.lengths < len(self.steps.tail)) & np.isfinite(scored[:, LOG]))
        at = self.lengths[early]
        share = np.exp(scored[early, LOG] - self.steps.low[at])
        score[early] -= len(score) * share * self.steps.tail[at]
        return np.asarray(score)


def _longest(starts: BoolArray, done: int) -> int:
    """Length of the longest episode so far; ``done`` steps came before these rows."""
    begins = np.flatnonzero(starts)
    if not len(begins):
        return done + len(starts)
    carried = done + int(begins[0]) if begins[0] else 0
    return max(carried, int(np.diff(np.append(begins, len(starts))).max()))


@inlined
def times(log_weight: float, x: float) -> float:
    """Return w·x from log w; infinite only if the product is."""
    if x == 0.0:
        return 0.0
    if log_weight < LARGE:
        return math.exp(log_weight) * x
    size = log_weight + math.log(abs(x))
    return math.copysign(math.exp(size) if size < LARGE else math.inf, x)


@compiled
def sum_rows(
    rows: WeightedRows, gamma: float, out: FloatArray, log_max: FloatArray, sums: FloatArray
) -> None:
    """Accumulate rows; ``sums`` [H, 3] holds Σw, Σw², Σwy relative to exp(log_max) [H].

    ``out`` has a row per episode: the carried-over state of an open episode, or 0.
    """
    starts, log_rho, gain, q, v, rewards = rows
    e = -1 if starts[0] else 0
    for i in range(len(starts)):
        if starts[i]:
            e += 1
            out[e, DISCOUNT], out[e, PEAK], out[e, FIRST] = 1.0, -np.inf, v[i]
        t, before, discount = int(out[e, TIME]), out[e, LOG], out[e, DISCOUNT]
        if before > -np.inf:
            out[e, TOTAL] += times(before, discount * v[i])
            if t > 0:
                sums[t - 1, 2] += math.exp(before - log_max[t - 1]) * gamma * v[i]
        weight = before + log_rho[i]
        if weight > -np.inf:
            if weight > log_max[t]:
                shrink = math.exp(log_max[t] - weight)
                sums[t, 0] *= shrink
                sums[t, 1] *= shrink * shrink
                sums[t, 2] *= shrink
                log_max[t] = weight
            share = math.exp(weight - log_max[t])
            sums[t, 0] += share
            sums[t, 1] += share * share
            sums[t, 2] += share * (gain[i] - q[i])
            out[e, TOTAL] += times(weight, discount * (gain[i] - q[i]))
            out[e, MASS] += times(weight, discount)
        out[e, RETURN] += discount * rewards[i]
        out[e, LOG] = weight
        out[e, PEAK] = max(out[e, PEAK], weight)
        out[e, TIME] = t + 1.0
        out[e, DISCOUNT] = discount * gamma


@compiled
def sum_steps(
    lengths: IntArray,
    log_weights: FloatArray,
    log_max: FloatArray,
    sums: FloatArray,
    gamma: float,
    ended_log_max: FloatArray,
    ended: FloatArray,
    steps: StepSums,
) -> None:
    """Add the last weights of episodes that have ended, and compute Y_t and its tail sums.

    exp(−low_T) tail_T = Σ_{t≥T} γ^t Y_t/D_t enters the score of an episode of T steps, with low_T
    the smallest log D_t, which is at least the logarithm of its weight. ``ended``, zeros
    [H + 1, 2], receives Σw and Σw² of ended episodes, relative to exp(ended_log_max), −∞ [H + 1].
    """
    log_total, ess, mean, tail, low = steps
    H, n = len(mean), len(lengths)
    for i in range(n + H - 1):
        if i < n:  # an episode, at the step where it ended; then each step carried to the next
            t, log_weight, first, second = lengths[i], log_weights[i], 1.0, 1.0
        else:
            t = i - n + 1
            log_weight, first, second = ended_log_max[t - 1], ended[t - 1, 0], ended[t - 1, 1]
        if log_weight == -np.inf:
            continue
        if log_weight > ended_log_max[t]:
            shrink = math.exp(ended_log_max[t] - log_weight)
            ended[t, 0] *= shrink
            ended[t, 1] *= shrink * shrink
            ended_log_max[t] = log_weight
        share = math.exp(log_weight - ended_log_max[t])
        ended[t, 0] += share * first
        ended[t, 1] += share * share * second
    for t in range(H):
        first, second = sums[t, 0], sums[t, 1]
        largest = max(log_max[t], ended_log_max[t])
        if largest == -np.inf:
            log_total[t] = -np.inf
            continue
        a, b = math.exp(log_max[t] - largest), math.exp(ended_log_max[t] - largest)
        total = a * first + b * ended[t, 0]
        log_total[t] = largest + math.log(total)
        ess[t] = total * total / (a * a * second + b * b * ended[t, 1])
        mean[t] = a * sums[t, 2] / total
    tail_sum, min_log_total = 0.0, np.inf
    for t in range(H - 1, -1, -1):
        if log_total[t] > -np.inf:
            smallest = min(min_log_total, log_total[t])
            if min_log_total < np.inf:
                tail_sum *= math.exp(smallest - min_log_total)
            tail_sum += gamma**t * mean[t] * math.exp(smallest - log_total[t])
            min_log_total = smallest
        tail[t], low[t] = tail_sum, min_log_total


@compiled
def score_rows(
    rows: WeightedRows, gamma: float, n: float, steps: StepSums, out: FloatArray
) -> None:
    """Accumulate V(S_0) + Σ_t γ^t n (w_t/D_t)(y_t − Y_t) up to the end of each episode."""
    starts, log_rho, gain, q, v = rows.starts, rows.log_rho, rows.gain, rows.q, rows.v
    log_total, mean = steps.log_total, steps.mean
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
            residual = gain[i] - q[i] - mean[t]
            out[e, SCORE] += discount * n * math.exp(weight - log_total[t]) * residual
        out[e, LOG], out[e, TIME], out[e, DISCOUNT] = weight, t + 1.0, discount * gamma
