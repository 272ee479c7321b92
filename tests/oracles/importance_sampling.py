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


def episodes(data, policy=target, q=None, gamma=GAMMA, beyond=False, task=False):
    """Return for each episode its weights w_t and y_t = R − Q + γV' (Python lists), V(S_0), ΣγᵗR.

    With ``beyond``, truncated episodes are bootstrapped with V of the next observation; a last row
    without one contributes nothing.
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
    """Return IS and PDIS (or DR) of each episode."""
    IS = [each["w"][-1] * each["gain"] for each in found]
    PDIS = [
        each["v"] + sum(gamma**t * w * each["y"][t] for t, w in enumerate(each["w"]))
        for each in found
    ]
    return IS, PDIS


def ratios(found, gamma=GAMMA, often=None):
    """Return WIS and PDWIS (or WDR), with episode i counted ``often[i]`` times."""
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
    """Return the influence of each episode on WIS and PDWIS, by finite differences."""
    n = len(found)
    slopes = []
    for i in range(n):
        up, down = ([1 + (j == i) * s for j in range(n)] for s in (by, -by))
        high, low = ratios(found, gamma, up), ratios(found, gamma, down)
        slopes.append([n * (h - d) / (2 * by) for h, d in zip(high, low, strict=True)])
    return np.array(slopes).T


def sizes(found):
    """Return the effective sample size by step."""
    most = max(len(each["w"]) for each in found)
    by_step = []
    for t in range(most):
        w = [each["w"][min(t, len(each["w"]) - 1)] for each in found]
        by_step.append(math.fsum(w) ** 2 / math.fsum(x * x for x in w))
    return by_step


def trajectories(mdp, mu):
    """Yield every trajectory of a small MDP, as (probability under μ, [(s, a, r), …])."""
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
