"""Cumulative importance weights of episodes, and weighted sums over episodes at each step.

With w_t = ρ_0 ⋯ ρ_t, w_{−1} = 1, and any Q, V(s) = Σ_a π(a|s)Q(s,a), which is 0 past the end,

    total_i = V(S_0) + Σ_t γ^t w_t y_t,    y_t = R_t − Q(S_t,A_t) + γV(S_{t+1})
    D_t = Σ_i w_t^i,    Y_t = Σ_i w_t^i y_t^i / D_t

(Q = 0 gives per-decision importance sampling). An episode that has ended keeps its last weight, and
has y = 0. Weights are stored as logarithms, and sums over episodes are relative to the largest
weight so far at that step, so that nothing overflows. Episodes are added one after the other, so
the result does not depend on how the log is divided into segments.

The scores of episodes need D_t and Y_t, which are known at the end. So w_t, y_t without its V and
V(S_t) of each row are kept until then, in a temporary file if there are many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import numpy as np

from saddleback._jit import compiled, inlined
from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine import EpisodeFold
from saddleback.log import Segment

LOG, TIME, DISCOUNT, RETURN, TOTAL, MASS, PEAK, FIRST = range(8)
"""Columns of an episode's state: log w, steps, γ^t, Σγ^tR, total, Σγ^t w, max log w, V(S_0)."""

SCORE = 3
"""Column of the score, after LOG, TIME and DISCOUNT."""

LARGE = 700.0
"""Logarithms above this are not exponentiated directly: exp would overflow."""

MAX_ROWS = 1 << 21
"""Largest number of rows that are kept in memory for the scores."""


class WeightedRows(NamedTuple):
    """Rows of a segment with their weights: log w_t, R_t − Q(S_t, A_t) and V(S_t), [3, n]."""

    starts: BoolArray
    numbers: FloatArray
    continues_in_next: bool

    @property
    def first_states(self) -> IntArray:
        """The rows that begin an episode."""
        return np.flatnonzero(self.starts)

    @property
    def begins_new_episode(self) -> bool:
        """Whether the first row begins an episode."""
        return len(self.starts) == 0 or bool(self.starts[0])


class StepSums(NamedTuple):
    """Sums over episodes at each step, [H]: log D_t, ESS, Y_t, and its tail sums (`sum_steps`)."""

    log_total: FloatArray
    ess: FloatArray
    mean: FloatArray
    tail: FloatArray
    low: FloatArray


class RowStore:
    """Weighted rows, kept in memory or beyond a limit in a temporary file."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows, self._count = max_rows, 0
        self._parts: list[WeightedRows] = []
        self._file: IO[bytes] | None = None

    def add(self, rows: WeightedRows) -> None:
        """Keep the next rows."""
        self._count += len(rows.starts)
        if self._file is None and self._count > self._max_rows:
            self._file = TemporaryFile(prefix="saddleback-")  # noqa: SIM115, closed by `close`
            self._parts = [self._write(part) for part in self._parts]
        self._parts.append(rows if self._file is None else self._write(rows))

    def close(self) -> None:
        """Discard the rows."""
        self._parts = []
        if self._file is not None:
            self._file.close()

    def _write(self, rows: WeightedRows) -> WeightedRows:
        """Write the numbers to the file, and return the rows without them."""
        assert self._file is not None
        self._file.write(rows.numbers.tobytes())
        return rows._replace(numbers=np.zeros((3, 0)))

    def __iter__(self) -> Iterator[WeightedRows]:
        if self._file is not None:
            self._file.seek(0)
        for rows in self._parts:
            if self._file is None:
                yield rows
                continue
            numbers = np.frombuffer(self._file.read(24 * len(rows.starts)))
            yield rows._replace(numbers=numbers.reshape(3, -1).copy())


class CumulativeWeights:
    """Accumulates consecutive segments of a log for one target policy: sums, then scores."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._fold, self._rows = EpisodeFold(8), RowStore(MAX_ROWS)
        self._log_max, self._sums = np.zeros(0), np.zeros((0, 3))

    def add(
        self,
        segment: Segment,
        log_rho: FloatArray,
        gain: FloatArray,
        q: FloatArray,
        v: FloatArray,
    ) -> None:
        """Add the next rows; ``gain`` is R, plus γV(S_{t+1}) where an episode is bootstrapped."""
        rows = segment.rows
        if not len(rows):
            return
        steps = int(rows.position.max()) + 1
        if steps > len(self._log_max):
            more = max(steps, 2 * len(self._log_max)) - len(self._log_max)
            self._log_max = np.append(self._log_max, np.full(more, -np.inf))
            self._sums = np.vstack([self._sums, np.zeros((more, 3))])
        numbers = np.stack([np.empty_like(v), gain - q, v])
        episodes = self._fold.begin(segment)
        with np.errstate(invalid="ignore"):  # a total of infinities of both signs is NaN
            sum_rows(
                segment.row_episode, rows.starts, log_rho, rows.rewards, self._gamma, numbers,
                episodes, self._log_max, self._sums,
            )  # fmt: skip
        self._fold.end(segment, episodes)
        self._rows.add(WeightedRows(rows.starts, numbers, segment.continues_in_next))

    def close(self) -> None:
        """Finish the sums over episodes, and compute their scores.

        Sets ``episodes`` [n, 8]; ``steps``, the `StepSums`; and ``scores``, the influence of each
        episode on the value, scaled by n, [n], of mean 0:

            V(S_0) − mean V(S_0) + Σ_t γ^t n (w_t/D_t)(y_t − Y_t)
        """
        self.episodes = self._fold.rows
        self.lengths = self.episodes[:, TIME].astype(np.int64)
        H = int(self.lengths.max(initial=0))
        self.steps = StepSums._make(np.zeros((5, H)))
        log_weights = self.episodes[:, LOG].copy()
        sum_steps(
            self.lengths, log_weights, self._log_max, self._sums, self._gamma,
            np.full(H + 1, -np.inf), np.zeros((H + 1, 2)), self.steps,
        )  # fmt: skip
        fold = EpisodeFold(4)
        for rows in self._rows:
            scored = fold.begin(rows)
            episode: IntArray = np.cumsum(rows.starts, dtype=np.int64)
            n = float(len(self.episodes))
            score_rows(episode, rows.starts, rows.numbers, self._gamma, n, self.steps, scored)
            fold.end(rows, scored)
        self.scores = fold.rows[:, SCORE] - self.episodes[:, FIRST].mean()
        log_weight = fold.rows[:, LOG]
        early = np.flatnonzero((self.lengths < H) & np.isfinite(log_weight))
        at = self.lengths[early]
        share = np.exp(log_weight[early] - self.steps.low[at])
        self.scores[early] -= len(self.scores) * share * self.steps.tail[at]
        self._rows.close()

    @property
    def value(self) -> float:
        """Mean of V(S_0) plus Σ_t γ^t Y_t; NaN if all weights are 0 at some step."""
        if not len(self.episodes) or np.isneginf(self.steps.log_total).any():
            return float("nan")
        powers = self._gamma ** np.arange(len(self.steps.mean), dtype=np.float64)
        return float(self.episodes[:, FIRST].mean() + powers @ self.steps.mean)


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
    episode: IntArray,
    starts: BoolArray,
    log_rho: FloatArray,
    rewards: FloatArray,
    gamma: float,
    numbers: FloatArray,
    out: FloatArray,
    log_max: FloatArray,
    sums: FloatArray,
) -> None:
    """Accumulate rows; ``sums`` [H, 3] holds Σw, Σw², Σwy relative to exp(log_max) [H].

    ``numbers`` are those of `WeightedRows`, whose log w is filled in. ``out`` is the state of each
    episode.
    """
    residual, v = numbers[1], numbers[2]
    for i in range(len(starts)):
        e = episode[i]
        if starts[i]:
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
            sums[t, 2] += share * residual[i]
            out[e, TOTAL] += times(weight, discount * residual[i])
            out[e, MASS] += times(weight, discount)
        out[e, RETURN] += discount * rewards[i]
        out[e, LOG] = numbers[0, i] = weight
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
    episode: IntArray,
    starts: BoolArray,
    numbers: FloatArray,
    gamma: float,
    n: float,
    steps: StepSums,
    out: FloatArray,
) -> None:
    """Accumulate V(S_0) + Σ_t γ^t n (w_t/D_t)(y_t − Y_t) up to the end of each episode."""
    residual, v = numbers[1], numbers[2]
    log_total, mean = steps.log_total, steps.mean
    for i in range(len(starts)):
        e = episode[i]
        if starts[i]:
            out[e, DISCOUNT], out[e, SCORE] = 1.0, v[i]
        t, before, discount = int(out[e, TIME]), out[e, LOG], out[e, DISCOUNT]
        if t > 0 and before > -np.inf:
            out[e, SCORE] += discount * n * math.exp(before - log_total[t - 1]) * v[i]
        weight = numbers[0, i]
        if weight > -np.inf:
            share = math.exp(weight - log_total[t])
            out[e, SCORE] += discount * n * share * (residual[i] - mean[t])
        out[e, LOG], out[e, TIME], out[e, DISCOUNT] = weight, t + 1.0, discount * gamma
