"""Logs with every trajectory of a small problem, and the estimates of the package on logs."""

import numpy as np

from oracles.importance_sampling import GAMMA, some_q, target
from saddleback import FiniteMDP
from saddleback.log import Log
from saddleback.ope import doubly_robust, importance_sampling

# A problem small enough to enumerate every trajectory: layers of two states, then the end, which
# may also come early. Probabilities are quarters, so that a log can contain each trajectory in
# proportion to its probability.


def small(seed=0, steps=3, gamma=GAMMA):
    """Return a problem whose episodes last 1 to ``steps`` steps, with π and μ [S, 2]."""
    rng = np.random.default_rng(seed)
    S = 2 * steps + 1
    P = np.zeros((S, 2, S))
    for s in range(S - 1):
        for a in range(2):
            after = [min(2 * (s // 2 + 1) + k, S - 1) for k in (0, 1)]
            for successor, p in zip(
                [*after, S - 1], rng.permutation([0.25, 0.25, 0.5]), strict=True
            ):
                P[s, a, successor] += p
    P[S - 1, :, S - 1] = 1.0
    R = rng.normal(size=(S, 2, S))
    start = np.zeros(S)
    start[0], start[1] = 0.25, 0.75
    mdp = FiniteMDP(P, R, gamma, start=start, terminal=[S - 1])
    mu = np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])[rng.integers(3, size=S)]
    share = rng.uniform(0.05, 0.95, S)
    return mdp, np.column_stack([share, 1 - share]), mu


def as_log(episodes, mu, ends="terminated"):
    """Return episodes [(s, a, r), …] as a log."""
    rows = [row for episode in episodes for row in episode]
    s, a, r = (np.array(column) for column in zip(*rows, strict=True))
    lengths = [len(episode) for episode in episodes]
    last = np.zeros(len(rows), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    return Log(
        {
            "episode_id": np.repeat(np.arange(len(episodes)), lengths),
            "obs_0": s.astype(float),
            "action": a,
            "reward": r.astype(float),
            "terminated": last & (ends == "terminated"),
            "truncated": last & (ends == "truncated"),
            "mu_0": mu[s, 0],
            "mu_1": mu[s, 1],
        }
    )


# Estimates of the package.


def importance_estimates(log, policy=target, gamma=GAMMA, **options):
    """Return the importance-sampling estimates of one target."""
    return next(iter(importance_sampling(log, {"π": policy}, gamma=gamma, **options).values()))


def dr_estimates(log, q=some_q, policy=target, gamma=GAMMA, **options):
    """Return the doubly robust estimates of one target."""
    results = doubly_robust(log, {"π": policy}, gamma=gamma, q=q, **options)
    return next(iter(results.values()))


def table(q):
    return lambda observations: q[observations[:, 0].astype(int)]
