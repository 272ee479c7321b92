"""Estimates of A, b and M of a rule, in one forward pass over a stream.

    Â = mean of e_t (γ'b_t − φ_t)ᵀ        b̂ = mean of R e_t        M̂ = mean of φ_t φ_tᵀ

The trace is stored for the features it touches, so the cost of a step is their number times the
number of active features, not p². Standard errors come from batch means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray
from saddleback.engine.stream_columns import Columns, SparseVector

NEGLIGIBLE = 1e-18
"""Entries of the trace below this share of the largest are dropped."""


class Moments(NamedTuple):
    """Â [p, p], b̂ [p], M̂ [p, p], or the standard errors of their entries."""

    A: FloatArray
    b: FloatArray
    M: FloatArray


class ForwardMoments:
    """Means of one rule over batches of ``size`` steps; ``keep`` stores those of each batch."""

    def __init__(self, p: int, size: int, keep: bool = False) -> None:
        self._size = size
        self.batch_means: list[Moments] | None = [] if keep else None
        self._trace = SparseVector.zeros(p)
        self._filled = 0
        self.batches = 0
        shapes = ((p, p), (p,), (p, p))
        self._batch, self._mean, self._spread = (
            Moments(*(np.zeros(shape) for shape in shapes)) for _ in range(3)
        )

    def add(self, stream: Columns) -> None:
        """Add the next chunk of a stream."""
        done = 0
        while done < len(stream.reward):
            end = min(len(stream.reward), done + self._size - self._filled)
            _accumulate(stream, done, end, self._trace, self._batch)
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


@compiled
def _accumulate(stream: Columns, begin: int, end: int, trace: SparseVector, total: Moments) -> None:
    phi_from, phi_index, phi_value = stream.phi_from, stream.phi_index, stream.phi_value
    next_from, next_index, next_b = stream.next_from, stream.next_index, stream.next_b
    reward, discount, decay, weight = stream.reward, stream.discount, stream.decay, stream.weight
    e, touched, is_touched = trace.values, trace.touched, trace.is_touched
    A, b, M = total
    stride = np.uint64(0 if len(phi_value) == 1 else 1)
    n = trace.n_touched[0]
    for t in range(begin, end):
        largest = 0.0
        for q in range(n):
            i = touched[q]
            e[i] *= decay[t]
            largest = max(largest, abs(e[i]))
        kept = 0
        for q in range(n):
            i = touched[q]
            if abs(e[i]) <= NEGLIGIBLE * largest:
                e[i] = 0.0
                is_touched[i] = False
            else:
                touched[kept] = i
                kept += 1
        n = kept
        for j in range(phi_from[t], phi_from[t + 1]):
            i, value = phi_index[j], phi_value[j * stride]
            if not is_touched[i]:
                is_touched[i] = True
                touched[n] = i
                n += 1
            e[i] += weight[t] * value
            for m in range(phi_from[t], phi_from[t + 1]):
                M[i, phi_index[m]] += value * phi_value[m * stride]
        for q in range(n):
            i = touched[q]
            b[i] += e[i] * reward[t]
            for j in range(phi_from[t], phi_from[t + 1]):
                A[i, phi_index[j]] -= e[i] * phi_value[j * stride]
            factor = e[i] * discount[t]
            for j in range(next_from[t], next_from[t + 1]):
                A[i, next_index[j]] += factor * next_b[j]
    trace.n_touched[0] = n
