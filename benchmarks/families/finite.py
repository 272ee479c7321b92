"""Problems with finitely many states, observed as numbers; their values are exact."""

from __future__ import annotations

import numpy as np

from saddleback.policies import always, mixture

from ..situations.worlds import Table
from .family import Family, Task


def coin(first):
    """Two actions, the first with this probability in every state."""
    return mixture(always(1, 2), always(0, 2), first)


def graph_table(T, slip=0.25, noise=0.0, dense=True):
    """T columns with an upper node 2k − 1 and a lower node 2k; the last one ends the episode."""
    S = 2 * T - 1
    P, R = np.zeros((S, 2, S + 1)), np.zeros((S, 2, S + 1))
    for s in range(S):
        k = (s + 1) // 2
        if k == T - 1:
            P[s, :, S] = 1.0
            R[s, :, S] = 1.0 if s % 2 else -1.0
            continue
        upper, lower = 2 * k + 1, 2 * k + 2
        P[s, :, [upper, lower]] = [[1 - slip, slip], [slip, 1 - slip]]
        if dense:
            R[s, :, upper], R[s, :, lower] = 1.0, -1.0
    return Table(P, R, np.eye(S)[0], noise)


def graph(size_and_mu, rng):
    """Graph of COBS, dense and stochastic: V^π is 1.16448 (T = 4) and 4.14303 (T = 16)."""
    T, mu = size_and_mu
    return Task(graph_table(T), coin(mu), coin(0.8), 0.98)


def graph_sparse(size_and_mu, rng):
    """The same with one noisy reward at the end that matters."""
    T, mu = size_and_mu
    return Task(graph_table(T, noise=1.0, dense=False), coin(mu), coin(0.8), 0.98)


def graph_pomdp(sizes_and_mu, rng):
    """Graph seen through H − 1 groups of consecutive states."""
    T, H, mu = sizes_and_mu
    parts = np.array_split(np.arange(1, 2 * T - 1), H - 1)
    group = np.concatenate([[0.0], *(np.full(len(part), float(k)) for k, part in enumerate(parts))])
    return Task(
        graph_table(T), coin(mu), coin(0.8), 0.98, see=lambda states: group[states.astype(int)]
    )


def graph_mc(rights, rng):
    """A chain 0 … 21 with −1 for every step until 21 is reached, for at most 250 steps."""
    mu, pi = rights
    P = np.zeros((21, 2, 22))
    for s in range(21):
        P[s, 0, max(s - 1, 0)] = P[s, 1, s + 1] = 1.0
    world = Table(P, np.full((21, 2, 1), -1.0), np.eye(21)[10])
    return Task(world, coin(1 - mu), coin(1 - pi), 0.99, horizon=250)


def model_win(firsts, rng):
    """ModelWin: 20 steps; the action matters in every other state. V^π is 2(1 − 2π(a1))."""
    mu, pi = firsts
    P = np.zeros((3, 2, 4))
    P[0, 0, 1:3], P[0, 1, 1:3] = (0.4, 0.6), (0.6, 0.4)
    P[1:, :, 0] = 1.0
    R = np.zeros(P.shape)
    R[0, :, 1], R[0, :, 2] = 1.0, -1.0
    return Task(Table(P, R, np.eye(3)[0]), coin(mu), coin(pi), 1.0, horizon=20)


def model_fail(firsts, rng):
    """ModelFail: the first action decides the reward of the second; all states look the same."""
    mu, pi = firsts
    P, R = np.zeros((3, 2, 4)), np.zeros((3, 2, 4))
    P[0, 0, 1] = P[0, 1, 2] = P[1:, :, 3] = 1.0
    R[1, :, 3], R[2, :, 3] = 1.0, -1.0
    return Task(Table(P, R, np.eye(3)[0]), coin(mu), coin(pi), 1.0, see=np.zeros_like)


FAMILIES = tuple(
    Family(name, build, variants, sizes, continuous=False)
    for name, build, variants, sizes in [
        ("graph", graph, {"near": (4, 0.6), "mid": (16, 0.6), "far": (16, 0.2)}, (64, 256, 1024)),
        ("graph-sparse", graph_sparse, {"near": (4, 0.6), "mid": (4, 0.2), "far": (16, 0.6)},
         (64, 256, 1024)),
        ("graph-pomdp", graph_pomdp,
         {"near": (16, 6, 0.6), "mid": (2, 2, 0.2), "far": (16, 6, 0.2)}, (256, 512, 1024)),
        ("graph-mc", graph_mc,
         {"near": (0.45, 0.6), "mid": (0.6, 0.45), "far": (0.8, 0.2)},
         (128, 512)),
        ("model-win", model_win,
         {"near": (0.6, 0.4), "mid": (0.67, 0.33), "far": (0.73, 0.27)}, (50, 200, 1000)),
        ("model-fail", model_fail,
         {"near": (0.6, 0.4), "mid": (0.75, 0.25), "far": (0.88, 0.12)}, (50, 200, 1000)),
    ]
)  # fmt: skip
