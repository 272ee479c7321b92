"""Long-run behaviour of finite Markov chains.

A *continuing* chain with transition matrix P has a stationary distribution, d = Pᵀd, which is
unique if there is one closed communicating class. An *episodic* chain, whose P omits the
transitions that end the episode, has expected visits per episode n = start + Pᵀn.
"""

from __future__ import annotations

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.errors import Undefined

LONGEST = 1e12
"""Sums over more than about this many steps are lost in rounding and refused."""


def total(K: FloatArray, y: FloatArray, quantity: str) -> FloatArray:
    """Return Σ_n Kⁿ y = (I − K)⁻¹ y for K ≥ 0; a sum that does not converge is refused.

    It converges iff (I − K)⁻¹ 1 exists and is ≥ 1 (I − K is then an M-matrix), and the largest
    entry of that is ‖(I − K)⁻¹‖, so one more column decides. ``quantity`` names the sum in
    the message.

    Examples
    --------
    >>> total(np.array([[0.5]]), np.array([1.0]), "the value")
    array([2.])
    """
    columns = np.column_stack([y, np.ones(len(K))])
    try:
        sums = np.linalg.solve(np.eye(len(K)) - K, columns)
    except np.linalg.LinAlgError:
        sums = np.full_like(columns, np.inf)
    longest = sums[:, -1]
    if not ((longest > 0.5) & (longest < LONGEST)).all():
        raise Undefined(f"{quantity} is infinite: the sum over time behind it does not converge.")
    return np.asarray(sums[:, :-1].reshape(y.shape))


def stationary(P: FloatArray) -> FloatArray:
    """Return the stationary distribution of an irreducible chain, by GTH elimination.

    Grassmann, Taksar and Heyman (1985): Gaussian elimination without subtractions, so every
    entry is accurate to rounding even if the chain is nearly reducible.

    Examples
    --------
    >>> stationary(np.array([[0.0, 1.0], [0.25, 0.75]]))
    array([0.2, 0.8])
    """
    Q = P.copy()
    n = len(Q)
    for k in range(n - 1, 0, -1):
        Q[:k, k] /= Q[k, :k].sum()
        Q[:k, :k] += np.outer(Q[:k, k], Q[k, :k])
    d = np.zeros(n)
    d[0] = 1.0
    for k in range(1, n):
        d[k] = d[:k] @ Q[:k, k]
    return np.asarray(d / d.sum())


def closed_classes(P: FloatArray, exits: BoolArray | None = None) -> list[IntArray]:
    """Return the sets of states that the chain never leaves.

    ``exits`` marks states from which an episode may end.
    """
    # Imported on first use: logs do not need it, and it takes a tenth of the start-up time.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(csr_array(P), connection="strong")
    leaves = np.zeros(count, dtype=bool)
    source, sink = np.nonzero(P)
    leaves[label[source[label[source] != label[sink]]]] = True
    if exits is not None:
        leaves[label[exits]] = True
    classes = [np.flatnonzero(label == c) for c in range(count) if not leaves[c]]
    return sorted(classes, key=lambda members: int(members[0]))


def long_run(P: FloatArray, start: FloatArray) -> tuple[FloatArray, list[IntArray]]:
    """Return the share of time a continuing chain spends in each state, and its closed classes.

    With several closed classes the share depends on ``start``: each class is weighted by the
    probability that the chain ends in it.

    Examples
    --------
    >>> share, classes = long_run(np.eye(2), np.array([0.3, 0.7]))
    >>> share, len(classes)
    (array([0.3, 0.7]), 2)
    """
    classes = closed_classes(P)
    share = np.zeros(len(P))
    if len(classes) == 1:
        absorbed = np.ones(1)
    else:
        transient = np.setdiff1d(np.arange(len(P)), np.concatenate(classes))
        visits = visits_before_leaving(P, start, transient)
        absorbed = np.array(
            [start[c].sum() + visits @ P[np.ix_(transient, c)].sum(axis=1) for c in classes]
        )
    for members, probability in zip(classes, absorbed, strict=True):
        share[members] = probability * stationary(P[np.ix_(members, members)])
    return share, classes


def visits_before_leaving(P: FloatArray, start: FloatArray, inside: IntArray) -> FloatArray:
    """Return the expected visits to each state of ``inside`` before the chain leaves that set."""
    return total(P[np.ix_(inside, inside)].T, start[inside], "the length of an episode")


def reachable(P: FloatArray, start: BoolArray) -> BoolArray:
    """Return the states that can be reached from any state of ``start``."""
    links = P > 0
    seen = start.copy()
    while True:
        grown = seen | links[seen].any(axis=0)
        if (grown == seen).all():
            return seen
        seen = grown
