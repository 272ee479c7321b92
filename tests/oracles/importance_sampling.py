"""The slow oracle of importance sampling: plain Python loops over the episodes of a log.

Nothing here comes from the package. A log is a dict of columns; a policy maps observations [n, d]
to probabilities [n, K].
"""

import itertools
import math

import numpy as np

GAMMA = 0.9


def target(observations):
    """Return a policy that depends on the observation and never takes some actions."""
    z = np.column_stack([observations[:, 0], -observations[:, 1], np.zeros(len(observations))])
    pi = np.exp(z) * [1.0, 1.0, 0.5]
    pi[observations[:, 1] > 1.0, 1] = 0.0
    return pi / pi.sum(axis=1, keepdims=True)


def some_q(observations):
    """Return some action values."""
    x, y = observations.T
    return np.column_stack([np.sin(x), x * y, 1.0 + np.cos(y)])


def episodes(data, policy=target, q=None, gamma=GAMMA, bootstrap_truncated=False, task=False):
    """Return for each episode its weights w_t and y_t = R − Q + γV' (Python lists), V(S_0), ΣγᵗR.

    With ``bootstrap_truncated``, truncated episodes are bootstrapped with V of the next
    observation; a last row without one contributes nothing.
    """
    obs = np.column_stack([data["obs_0"], data["obs_1"]])
    pi = policy(obs)
    rho = pi[np.arange(len(pi)), data["action"]] / data["behavior_prob"]
    table = np.zeros_like(pi) if q is None else q(obs)
    records = []
    for episode in dict.fromkeys(data["episode_id"].tolist()):
        rows = np.flatnonzero(data["episode_id"] == episode).tolist()
        v = [float(pi[i] @ table[i]) for i in rows] + [0.0]
        last = rows[-1]
        ended = data["terminated"][last] or (task and data["truncated"][last])
        y = []
        for t, i in enumerate(rows):
            y.append(float(data["reward"][i] - table[i, data["action"][i]] + gamma * v[t + 1]))
        if bootstrap_truncated and not ended:
            after = np.array([[data[f"next_obs_{j}"][last] for j in (0, 1)]])
            if np.isfinite(after).all():
                y[-1] += gamma * float((policy(after) * q(after)).sum())
            else:
                y[-1] = 0.0
        records.append(
            {
                "w": [float(w) for w in np.cumprod(rho[rows])],
                "y": y,
                "v": v[0],
                "gain": sum(gamma**t * float(data["reward"][i]) for t, i in enumerate(rows)),
            }
        )
    return records


def mean_estimates(records, gamma=GAMMA):
    """Return IS and PDIS (or DR) of each episode."""
    IS = [record["w"][-1] * record["gain"] for record in records]
    PDIS = [
        record["v"] + sum(gamma**t * w * record["y"][t] for t, w in enumerate(record["w"]))
        for record in records
    ]
    return IS, PDIS


def ratio_estimates(records, gamma=GAMMA, counts=None):
    """Return WIS and PDWIS (or WDR), with episode i counted ``counts[i]`` times."""
    counts = [1] * len(records) if counts is None else counts
    last = [count * record["w"][-1] for count, record in zip(counts, records, strict=True)]
    WIS = sum(w * record["gain"] for w, record in zip(last, records, strict=True)) / sum(last)
    PDWIS = sum(count * record["v"] for count, record in zip(counts, records, strict=True)) / sum(
        counts
    )
    for t in range(max(len(record["w"]) for record in records)):
        above = below = 0
        for count, record in zip(counts, records, strict=True):
            below += count * record["w"][min(t, len(record["w"]) - 1)]
            if t < len(record["w"]):
                above += count * record["w"][t] * record["y"][t]
        PDWIS += gamma**t * above / below
    return WIS, PDWIS


def influences(records, gamma=GAMMA, by=1e-4):
    """Return the influence of each episode on WIS and PDWIS, by finite differences."""
    n = len(records)
    slopes = []
    for i in range(n):
        up, down = ([1 + (j == i) * s for j in range(n)] for s in (by, -by))
        high, low = ratio_estimates(records, gamma, up), ratio_estimates(records, gamma, down)
        slopes.append([n * (h - d) / (2 * by) for h, d in zip(high, low, strict=True)])
    return np.array(slopes).T


def effective_sizes(records):
    """Return the effective sample size by step."""
    longest = max(len(record["w"]) for record in records)
    by_step = []
    for t in range(longest):
        w = [record["w"][min(t, len(record["w"]) - 1)] for record in records]
        by_step.append(math.fsum(w) ** 2 / math.fsum(x * x for x in w))
    return by_step


def trajectories(mdp, mu):
    """Yield every trajectory of a small MDP, as (probability under μ, [(s, a, r), …])."""
    end = mdp.n_states - 1

    def grow(probability, s, so_far):
        if s == end:
            yield probability, so_far
            return
        for a, successor in itertools.product(range(mdp.n_actions), range(mdp.n_states)):
            p = float(mu[s, a] * mdp.P[s, a, successor])
            if p > 0:
                yield from grow(
                    probability * p,
                    successor,
                    [*so_far, (s, a, float(mdp.rewards[s, a, successor]))],
                )

    for s in np.flatnonzero(mdp.start):
        yield from grow(float(mdp.start[s]), int(s), [])
