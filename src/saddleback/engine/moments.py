"""A, b and M of a rule from a stream: sums over its steps, last step first.

    A = Σ_t e_t d_tᵀ = Σ_t w_t φ_t z_tᵀ     d_t = γ'b_t − φ_t     z_t = d_t + c_{t+1} z_{t+1}
    b = Σ_t R_t e_t  = Σ_t w_t φ_t y_t                           y_t = R_t + c_{t+1} y_{t+1}

With the trace e_t, a step would update the rows of all features that it touches. Backwards, it
updates only those of its few active features, each contiguous in memory (`BackwardMoments`).
`BatchMoments` adds streams of any length, in batches of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray, OffsetArray
from saddleback.engine.lazy_trace import NEGLIGIBLE
from saddleback.engine.stream_columns import Columns, SparseVector

CLEANUP_INTERVAL = 16
"""Steps between removals of negligible entries from z."""

DENSE = 4
"""All of z is added if more than one in this many of its entries is touched."""


class Moments(NamedTuple):
    """Â [p, p], b̂ [p], M̂ [p, p], or the standard errors of their entries."""

    A: FloatArray
    b: FloatArray
    M: FloatArray


class BatchMoments:
    """Means of one rule over batches of ``size`` steps; ``keep`` stores those of each batch.

    Standard errors come from the batch means.
    """

    def __init__(self, p: int, size: int, keep: bool = False) -> None:
        self._size = size
        self.batch_means: list[Moments] | None = [] if keep else None
        self._filled = 0
        self.batches = 0
        shapes = ((p, p), (p,), (p, p))
        self._batch, self._mean, self._spread = (
            Moments(*(np.zeros(shape) for shape in shapes)) for _ in range(3)
        )
        self._sums = BackwardMoments(self._batch.A[None], self._batch.b[None], self._batch.M)

    def add(self, stream: Columns) -> None:
        """Add the next chunk of a stream."""
        done = 0
        while done < len(stream.reward):
            end = min(len(stream.reward), done + self._size - self._filled)
            part = stream.part(done, end)
            starts = part.decay == 0.0
            episodes = np.zeros(int(starts[1:].sum()) + 1, dtype=np.int64)  # all in this batch
            self._sums.add(part, starts, episodes, continues=True)
            self._filled += end - done
            done = end
            if self._filled == self._size:
                self._close()

    def _close(self) -> None:
        """Fold a full batch into mean and spread (Welford), and reset it."""
        self.batches += 1
        for batch in self._batch:
            batch /= self._size
        if self.batch_means is not None:
            self.batch_means.append(Moments(*(batch.copy() for batch in self._batch)))
        for batch, mean, spread in zip(self._batch, self._mean, self._spread, strict=True):
            deviation = batch - mean
            mean += deviation / self.batches
            spread += deviation * (batch - mean)
            batch[:] = 0.0
        self._filled = 0

    def moments(self) -> Moments:
        """Return the means over all full batches."""
        return self._mean

    def errors(self) -> Moments:
        """Return the standard errors of the means, from the spread of the batches."""
        scale = self.batches * (self.batches - 1)
        return Moments(*(np.sqrt(spread / scale) for spread in self._spread))


class Episodes(NamedTuple):
    """First step and end of some episodes of a chunk, in the order they are added."""

    begin: IntArray
    end: IntArray


class BackwardMoments:
    """Adds to A [p, p] and b [p] of each block, and to M [p, p] unless that is empty.

    Blocks of episodes, chosen by the id of the episode, let statistics of several files be merged
    and their variance be estimated.
    """

    def __init__(self, A: Sequence[FloatArray] | FloatArray, b: FloatArray, M: FloatArray) -> None:
        self._A, self._b, self._M = A, b, M
        p = b.shape[1]
        self._e, self._z, self._packed = np.zeros(p), SparseVector.zeros(p), np.empty(p)

    def add(self, stream: Columns, starts: BoolArray, block: IntArray, continues: bool) -> None:
        """Add a chunk of episodes, each with the number of its block.

        The first episode may have begun in an earlier chunk, and the last continues in the next
        one if ``continues``. One block is added after the other, so that its sums stay in cache.
        """
        if not len(stream.reward):
            return
        first = np.flatnonzero(starts)
        first = first if starts[0] else np.append(0, first)
        bounds = np.append(first, len(starts))
        for k in np.unique(block):
            own = np.flatnonzero(block == k)
            episodes = Episodes(bounds[own], bounds[own + 1])
            _backwards(stream, episodes, self._e, self._z, self._packed, self._A[k], self._b[k])
        if self._M.size:
            _gram(stream.phi_from, stream.phi_index, stream.phi_value, self._M)
        if continues:
            _follow(stream, self._e)
        else:
            self._e[:] = 0.0


@compiled
def _backwards(
    stream: Columns,
    episodes: Episodes,
    e: FloatArray,
    backward: SparseVector,
    packed: FloatArray,
    A: FloatArray,
    b: FloatArray,
) -> None:
    """Add a chunk, last step first. z is kept as scale·z; ``e`` is the trace before its start.

    The operations of `lazy_trace` are written out: with them, the first evaluation on a machine
    would compile for a quarter of a second longer.
    """
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    reward, discount, decay, weight = stream.reward, stream.discount, stream.decay, stream.weight
    z, touched, is_touched = backward.values, backward.touched, backward.is_touched
    stride = np.uint64(0 if len(phi_value) == 1 else 1)
    p, n, age = len(z), 0, 0
    scale, y = 1.0, 0.0
    for episode in range(len(episodes.begin)):
        begin = episodes.begin[episode]
        for t in range(episodes.end[episode] - 1, begin - 1, -1):
            inverse = 1.0 / scale
            for j in range(phi_from[t], phi_from[t + 1]):
                i = phi_index[j]
                if not is_touched[i]:
                    is_touched[i] = True
                    touched[n] = i
                    n += 1
                z[i] -= inverse * phi_value[j * stride]
            if discount[t] != 0.0:
                factor = inverse * discount[t]
                for j in range(next_from[t], next_from[t + 1]):
                    i = next_index[j]
                    if not is_touched[i]:
                        is_touched[i] = True
                        touched[n] = i
                        n += 1
                    z[i] += factor * next_b[j]
            y += reward[t]
            dense = n * DENSE > p
            if not dense:
                for q in range(n):
                    packed[q] = z[touched[q]]
            for j in range(phi_from[t], phi_from[t + 1]):
                i, value = phi_index[j], phi_value[j * stride]
                row, w = A[i], weight[t] * value * scale
                if dense:
                    for q in range(p):
                        row[q] += w * z[q]
                else:
                    for q in range(n):
                        row[touched[q]] += w * packed[q]
                b[i] += weight[t] * value * y
            scale *= decay[t]
            y *= decay[t]
            age += 1
            if t == 0 and decay[0] != 0.0:  # the episode began in an earlier chunk
                for i in range(p):
                    if e[i] != 0.0:
                        for q in range(n):
                            A[i, touched[q]] += e[i] * scale * z[touched[q]]
                        b[i] += e[i] * y
            if t == begin or scale == 0.0:
                for q in range(n):
                    z[touched[q]] = 0.0
                    is_touched[touched[q]] = False
                n, age, scale, y = 0, 0, 1.0, 0.0
            elif age >= CLEANUP_INTERVAL or scale < 1e-100 or scale > 1e100:
                # As `rescale` does.
                largest, kept = 0.0, 0
                for q in range(n):
                    z[touched[q]] *= scale
                    largest = max(largest, abs(z[touched[q]]))
                for q in range(n):
                    i = touched[q]
                    if abs(z[i]) <= NEGLIGIBLE * largest:
                        z[i] = 0.0
                        is_touched[i] = False
                    else:
                        touched[kept] = i
                        kept += 1
                n, age, scale = kept, 0, 1.0


@compiled
def _gram(
    phi_from: OffsetArray, phi_index: IndexArray, phi_value: FloatArray, M: FloatArray
) -> None:
    """Add Σφφᵀ in the order of the log, so that it does not depend on the chunks."""
    stride = np.uint64(0 if len(phi_value) == 1 else 1)
    for t in range(len(phi_from) - 1):
        for j in range(phi_from[t], phi_from[t + 1]):
            row, value = M[phi_index[j]], phi_value[j * stride]
            for m in range(phi_from[t], phi_from[t + 1]):
                row[phi_index[m]] += value * phi_value[m * stride]


@compiled
def _follow(stream: Columns, e: FloatArray) -> None:
    """Update the trace of the last episode to the end of the chunk."""
    stride = np.uint64(0 if len(stream.phi_value) == 1 else 1)
    first = 0
    for t in range(len(stream.decay)):
        if stream.decay[t] == 0.0:
            first = t
    for t in range(first, len(stream.decay)):
        for i in range(len(e)):
            e[i] *= stream.decay[t]
        for j in range(stream.phi_from[t], stream.phi_from[t + 1]):
            e[stream.phi_index[j]] += stream.weight[t] * stream.phi_value[j * stride]
