"""One exact step of the second moments over a noise chain, without forming a matrix.

    S_j ← Σ q T S_i Tᵀ        over the events i → j, with S_j = E[z zᵀ·1{j}]

The last entry of z is a constant 1, so S_j contains the second moments, the means E[z·1{j}] and the
probability P{j} of the node, and T z + g is one product. With T = B + Σ_k U_k V_kᵀ and B diagonal,

    T S Tᵀ = BSB + Σ_k (U_k Z_kᵀ + Z_k U_kᵀ)        Z_k = B S V_k + ½ Σ_l (V_kᵀ S V_l) U_l

so the cost of an event is a small multiple of the size of S.
"""

from __future__ import annotations

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import FloatArray, IntArray


@compiled
def advance_moments(
    source: IntArray,
    target: IntArray,
    q: FloatArray,
    U: FloatArray,
    V: FloatArray,
    B: FloatArray,
    S: FloatArray,
    out: FloatArray,
) -> None:
    """Advance symmetric S [N, n, n] by one step, into ``out``."""
    out[:] = 0.0
    events, rank, n = U.shape
    Z, square = np.empty((rank, n)), np.empty((rank, rank))
    for event in range(events):
        i, j, probability = source[event], target[event], q[event]
        u, v = U[event], V[event]
        Z[:] = 0.0
        for k in range(rank):
            for b in range(n):
                if v[k, b] != 0.0:
                    for a in range(n):
                        Z[k, a] += S[i, b, a] * v[k, b]
        for k in range(rank):
            for other in range(rank):
                square[k, other] = 0.0
                for a in range(n):
                    square[k, other] += v[other, a] * Z[k, a]
        for k in range(rank):
            for a in range(n):
                Z[k, a] *= B[a]
            for other in range(rank):
                for a in range(n):
                    Z[k, a] += 0.5 * square[k, other] * u[other, a]
        for a in range(n):
            for b in range(n):
                total = B[a] * S[i, a, b] * B[b]
                for k in range(rank):
                    total += u[k, a] * Z[k, b] + Z[k, a] * u[k, b]
                out[j, a, b] += probability * total


@compiled
def advance_moments_by(
    count: int,
    source: IntArray,
    target: IntArray,
    q: FloatArray,
    U: FloatArray,
    V: FloatArray,
    B: FloatArray,
    S: FloatArray,
) -> None:
    """Advance S by ``count`` steps, in place."""
    out = np.empty_like(S)
    for _ in range(count):
        advance_moments(source, target, q, U, V, B, S, out)
        S[:] = out
