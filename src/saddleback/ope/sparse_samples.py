"""The samples of a fixed data set: traces, differences and features as sparse rows.

    Â = mean of e_t d_tᵀ,  d_t = γ'b_t − φ_t        b̂ = mean of R_t e_t        M̂ = mean of φ_t φ_tᵀ

Memory is needed for the entries of the traces, never for p² numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy

from saddleback import _validate
from saddleback._jit import compiled
from saddleback._typing import FloatArray, IndexArray, IntArray, OffsetArray
from saddleback.engine import Columns, Stream
from saddleback.errors import InvalidParameter, InvalidShape

MAX_ENTRIES = 200_000_000
"""Largest number of trace entries: 2.4 GB, and the same again while solving."""
NEGLIGIBLE = 1e-14
"""Trace entries below this fraction of the largest are dropped."""


class Table(NamedTuple):
    """Sparse rows in the layout of the kernels: ``value[first[t]:first[t+1]]`` at ``column[…]``."""

    first: OffsetArray
    column: IndexArray
    value: FloatArray

    @classmethod
    def of(cls, rows: Any) -> Self:
        """Return the rows of a SciPy array."""
        return cls(rows.indptr.astype(np.uint64), rows.indices.astype(np.uint32), rows.data)


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """The terms of Â, b̂ and M̂, one row per step.

    Examples
    --------
    >>> stream = Stream.of(
    ...     phi=[[1.0, 0.0], [0.0, 1.0]],
    ...     bootstrap=[[0.0, 1.0], [0.0, 0.0]],
    ...     rewards=[0.0, 1.0],
    ...     discounts=[0.9, 0.0],
    ...     decay=[0.0, 0.45],
    ... )
    >>> samples = Samples.of(stream)
    >>> samples
    Samples(steps=2, p=2, trace entries=3)
    >>> (samples.e.T @ samples.d / 2).toarray()
    array([[-0.5  ,  0.225],
           [ 0.   , -0.5  ]])
    """

    # Traces e_t, differences d_t = γ'b_t − φ_t, and features φ_t: sparse, [T, p].
    e: scipy.sparse.csr_array
    d: scipy.sparse.csr_array
    phi: scipy.sparse.csr_array
    rewards: FloatArray  # R_t, [T]

    def __post_init__(self) -> None:
        for name in ("e", "d", "rewards"):
            shape = getattr(self, name).shape
            expected = self.phi.shape[: len(shape)]
            if shape != expected:
                raise InvalidShape(
                    f"Samples: {name} must have shape {list(expected)} like phi, got {list(shape)}."
                )

    @classmethod
    def of(cls, stream: Stream | Columns, p: int | None = None) -> Self:
        """Compute the traces e_t = c_t e_{t-1} + w_t φ_t of a stream, with e = 0 before it.

        Raw columns, of ``p`` features, must start at an episode boundary.
        """
        if isinstance(stream, Stream):
            c, p = stream.columns, stream.p
        else:
            _validate.instance("Samples.of", "stream", stream, Columns)
            c, p = stream, _validate.count("Samples.of", "p", p)
        phi = _sparse_rows(c.phi_from, c.phi_index, c.phi_value, p)
        b = _sparse_rows(c.next_from, c.next_index, c.next_b, p)
        b.data *= np.repeat(c.discount, np.diff(b.indptr))
        first = np.zeros(len(c.reward) + 1, dtype=np.int64)
        c_w = c.decay, c.weight
        column, value = np.empty(0, dtype=np.uint32), np.empty(0)
        total = _traces(*Table.of(phi), *c_w, p, MAX_ENTRIES, first, column, value)
        _check_memory(total)
        column, value = np.empty(total, dtype=np.uint32), np.empty(total)
        _traces(*Table.of(phi), *c_w, p, MAX_ENTRIES, first, column, value)
        signed = column.view(np.int32) if p < 1 << 31 else column.astype(np.int64)
        e = scipy.sparse.csr_array((value, signed, first), shape=phi.shape)
        return cls(e, scipy.sparse.csr_array(b - phi), phi, c.reward)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the samples of several logs; traces do not cross from one log to the next."""
        if not parts or len({part.phi.shape[1] for part in parts}) > 1:
            widths = [part.phi.shape[1] for part in parts]
            raise InvalidShape(f"Samples: parts must have the same features, got p = {widths}.")
        _check_memory(sum(part.e.nnz for part in parts))
        e, d, phi = (
            scipy.sparse.csr_array(
                scipy.sparse.vstack([getattr(part, name) for part in parts], format="csr")
            )
            for name in ("e", "d", "phi")
        )
        return cls(e, d, phi, np.concatenate([part.rewards for part in parts]))

    def __repr__(self) -> str:
        steps, p = self.phi.shape
        return f"Samples(steps={steps}, p={p}, trace entries={self.e.nnz})"


def _check_memory(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise InvalidParameter(
            f"Samples: the traces have more than {MAX_ENTRIES} entries. Use a smaller λ, fewer "
            "steps at a time, or the closed form (System.estimate), which does not store traces."
        )


def _sparse_rows(first: OffsetArray, index: IndexArray, value: FloatArray, p: int) -> Any:
    """Return columns of a stream as sparse rows without duplicate indices."""
    begin, end = int(first[0]), int(first[-1])
    values = np.ones(end - begin) if len(value) == 1 else value[begin:end].copy()
    offsets = (first - first[0]).astype(np.int64)
    rows: Any = scipy.sparse.csr_array(
        (values, index[begin:end].astype(np.int64), offsets), (len(first) - 1, p)
    )
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


@compiled
def _traces(
    phi_from: OffsetArray,
    phi_index: IndexArray,
    phi_value: FloatArray,
    decay: FloatArray,
    weight: FloatArray,
    p: int,
    max_entries: int,
    first: IntArray,
    column: IndexArray,
    value: FloatArray,
) -> int:
    """Fill the traces, or only ``first`` if no space is given; return the number of entries."""
    e, touched, is_touched = np.zeros(p), np.zeros(p, dtype=np.int64), np.zeros(p, dtype=np.bool_)
    n, total = 0, 0
    for t in range(len(decay)):
        for q in range(n):
            e[touched[q]] *= decay[t]
        for j in range(phi_from[t], phi_from[t + 1]):
            i = phi_index[j]
            e[i] += weight[t] * phi_value[j]
            if not is_touched[i]:
                is_touched[i] = True
                touched[n] = i
                n += 1
        largest = 0.0
        for q in range(n):
            largest = max(largest, abs(e[touched[q]]))
        kept = 0
        for q in range(n):
            i = touched[q]
            if abs(e[i]) <= NEGLIGIBLE * largest < np.inf:
                e[i] = 0.0
                is_touched[i] = False
            else:
                touched[kept] = i
                if len(value):
                    column[total + kept], value[total + kept] = i, e[i]
                kept += 1
        n = kept
        total += n
        first[t + 1] = total
        if total > max_entries:
            break
    return total
