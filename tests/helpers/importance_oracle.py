"""Importance sampling in plain Python, and logs that hold every trajectory of a small problem."""

import itertools
import math

import numpy as np

from saddleback import FiniteMDP
from saddleback.evaluation import doubly_robust, importance_sampling
from saddleback.log import Log

GAMMA = 0.9


def target(observations):
    """A policy that depends on what is observed, and never takes some actions."""
    z = np.column_stack([observations[:, 0], -observations[:, 1], np.zeros(len(observations))])
    pi = np.exp(z) * [1.0, 1.0, 0.5]
    pi[observations[:, 1] > 1.0, 1] = 0.0
    return pi / pi.sum(axis=1, keepdims=True)


def some_q(observations):
    """Action values like any other."""
    x, y = observations.T
    return np.column_stack([np.sin(x), x * y, 1.0 + np.cos(y)])


def episodes(data, policy=target, q=None, gamma=GAMMA, beyond=False, task=False):
    """Return for each episode its weights w_t and y_t = R − Q + γV' (Python lists), V(S_0), ΣγᵗR.

    ``beyond``: V of what a truncated row led to counts, and a last row that led to nothing known
    does not.
    """
    obs = np.column_stack([data["obs_0"], data["obs_1"]])
    pi = policy(obs)
    rho = pi[np.arange(len(pi)), data["action"]] / data["behavior_prob"]
    table = np.zeros_like(pi) if q is None else q(obs)
    found = []
    for each in dict.fromkeys(data["episode_id"].tolist()):
        rows = np.flatnonzero(data["episode_id"] == each).tolist()
        v = [float(pi[i] @ table[i]) for i in rows] + [0.0]
        last = rows[-1]
        ended = data["terminated"][last] or (task and data["truncated"][last])
        y = []
        for t, i in enumerate(rows):
            y.append(float(data["reward"][i] - table[i, data["action"][i]] + gamma * v[t + 1]))
        if beyond and not ended:
            after = np.array([[data[f"next_obs_{j}"][last] for j in (0, 1)]])
            if np.isfinite(after).all():
                y[-1] += gamma * float((policy(after) * q(after)).sum())
            else:
                y[-1] = 0.0
        found.append(
            {
                "w": [float(w) for w in np.cumprod(rho[rows])],
                "y": y,
                "v": v[0],
                "gain": sum(gamma**t * float(data["reward"][i]) for t, i in enumerate(rows)),
            }
        )
    return found


def means(found, gamma=GAMMA):
    """IS and PDIS (or DR): a number for each episode."""
    IS = [each["w"][-1] * each["gain"] for each in found]
    PDIS = [
        each["v"] + sum(gamma**t * w * each["y"][t] for t, w in enumerate(each["w"]))
        for each in found
    ]
    return IS, PDIS


def ratios(found, gamma=GAMMA, often=None):
    """WIS and PDWIS (or WDR), episode i counted ``often[i]`` times."""
    often = [1] * len(found) if often is None else often
    last = [c * each["w"][-1] for c, each in zip(often, found, strict=True)]
    WIS = sum(w * each["gain"] for w, each in zip(last, found, strict=True)) / sum(last)
    PDWIS = sum(c * each["v"] for c, each in zip(often, found, strict=True)) / sum(often)
    for t in range(max(len(each["w"]) for each in found)):
        above = below = 0
        for c, each in zip(often, found, strict=True):
            below += c * each["w"][min(t, len(each["w"]) - 1)]
            if t < len(each["w"]):
                above += c * each["w"][t] * each["y"][t]
        PDWIS += gamma**t * above / below
    return WIS, PDWIS


def draws(found, gamma=GAMMA, by=1e-4):
    """How much each episode draws WIS and PDWIS, n times over, by counting it a little more."""
    n = len(found)
    slopes = []
    for i in range(n):
        up, down = ([1 + (j == i) * s for j in range(n)] for s in (by, -by))
        high, low = ratios(found, gamma, up), ratios(found, gamma, down)
        slopes.append([n * (h - d) / (2 * by) for h, d in zip(high, low, strict=True)])
    return np.array(slopes).T


def sizes(found):
    """Effective sample size by step."""
    most = max(len(each["w"]) for each in found)
    by_step = []
    for t in range(most):
        w = [each["w"][min(t, len(each["w"]) - 1)] for each in found]
        by_step.append(math.fsum(w) ** 2 / math.fsum(x * x for x in w))
    return by_step


# A problem small enough to write down every trajectory: two layers of states, then the end, which
# may also come early. Probabilities are quarters, so that a log can hold each trajectory as often
# as it happens.


def small(seed=0, steps=3, gamma=GAMMA):
    """Return a problem whose episodes last 1 to ``steps`` steps, with π and μ [S, 2]."""
    rng = np.random.default_rng(seed)
    S = 2 * steps + 1
    P = np.zeros((S, 2, S))
    for s in range(S - 1):
        for a in range(2):
            after = [min(2 * (s // 2 + 1) + k, S - 1) for k in (0, 1)]
            for there, p in zip([*after, S - 1], rng.permutation([0.25, 0.25, 0.5]), strict=True):
                P[s, a, there] += p
    P[S - 1, :, S - 1] = 1.0
    R = rng.normal(size=(S, 2, S))
    start = np.zeros(S)
    start[0], start[1] = 0.25, 0.75
    mdp = FiniteMDP(P, R, gamma, start=start, terminal=[S - 1])
    mu = np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])[rng.integers(3, size=S)]
    share = rng.uniform(0.05, 0.95, S)
    return mdp, np.column_stack([share, 1 - share]), mu


def trajectories(mdp, mu):
    """Every trajectory, as (probability under μ, [(s, a, r), …])."""
    end = mdp.n_states - 1

    def grow(chance, s, so_far):
        if s == end:
            yield chance, so_far
            return
        for a, there in itertools.product(range(mdp.n_actions), range(mdp.n_states)):
            p = float(mu[s, a] * mdp.P[s, a, there])
            if p > 0:
                yield from grow(
                    chance * p, there, [*so_far, (s, a, float(mdp.rewards[s, a, there]))]
                )

    for s in np.flatnonzero(mdp.start):
        yield from grow(float(mdp.start[s]), int(s), [])


def as_log(found, mu, ends="terminated"):
    """Return episodes [(s, a, r), …] as a log."""
    rows = [row for each in found for row in each]
    s, a, r = (np.array(column) for column in zip(*rows, strict=True))
    lengths = [len(each) for each in found]
    last = np.zeros(len(rows), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    return Log(
        {
            "episode_id": np.repeat(np.arange(len(found)), lengths),
            "obs_0": s.astype(float),
            "action": a,
            "reward": r.astype(float),
            "terminated": last & (ends == "terminated"),
            "truncated": last & (ends == "truncated"),
            "mu_0": mu[s, 0],
            "mu_1": mu[s, 1],
        }
    )


# What the library makes of them.


def weighed(log, policy=target, gamma=GAMMA, **options):
    """Return the trajectories of one target."""
    return next(iter(importance_sampling(log, {"π": policy}, gamma=gamma, **options).values()))


def helped(log, q=some_q, policy=target, gamma=GAMMA, **options):
    """Return the trajectories of one target, with the help of Q."""
    found = doubly_robust(log, {"π": policy}, gamma=gamma, q=q, **options)
    return next(iter(found.values()))


def table(q):
    return lambda observations: q[observations[:, 0].astype(int)]
