"""The slow oracle of statistics: A, b and M of a log, one row at a time.

Nothing here comes from the package.
"""

import numpy as np


def moments(data, policy, features, gamma, values, kappa_of, lam=None, shared=False, task=False):
    """Return A, b, M, x and Σρ² of a log by loops over its rows, as the equations are written.

    Parameters
    ----------
    data
        Columns of a log with two observations and three actions.
    policy
        π, from observations [n, 2] to probabilities [n, 3].
    features
        An object with ``size`` and ``encode``.
    gamma
        Discount.
    values
        "action" or "state".
    kappa_of
        κ as a function of π, ρ and μ of the action taken.
    lam
        λ of the follow-on emphasis; None without one.
    shared
        Whether features have a copy that all actions share.
    task
        Whether truncation ends an episode.
    """
    obs = np.column_stack([data["obs_0"], data["obs_1"]])
    n, actions = len(obs), 3
    after = np.full_like(obs, np.nan)
    if "next_obs_0" in data:
        after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])

    def phi(s, a):
        index, value = features.encode(s[None])
        x = np.zeros(features.size)
        np.add.at(x, index[0], 1.0 if value is None else value[0])
        if values == "state":
            return x
        own = np.concatenate([np.eye(actions)[a], [1.0]]) if shared else np.eye(actions)[a]
        return np.outer(x, own).ravel()

    def pi(s):
        return policy(s[None])[0]

    def average(s):
        return sum(pi(s)[a] * phi(s, a) for a in range(actions))

    p = len(phi(obs[0], 0))
    A, M, b, x, squares = np.zeros((p, p)), np.zeros((p, p)), np.zeros(p), np.zeros(p), 0.0
    e, before, rho_before, follow = np.zeros(p), 0.0, 0.0, 0.0
    for t in range(n):
        first = t == 0 or data["episode_id"][t] != data["episode_id"][t - 1]
        last = t == n - 1 or data["episode_id"][t] != data["episode_id"][t + 1]
        if first:
            e, before = np.zeros(p), 0.0
            x += average(obs[t])
        ended = data["terminated"][t] or (task and data["truncated"][t])
        next_state = after[t] if last else obs[t + 1]
        if not ended and np.isnan(next_state).any():
            continue  # truncated, without a state to bootstrap from
        a, discount = data["action"][t], 0.0 if ended else gamma
        mu = data["behavior_prob"][t]
        rho = pi(obs[t])[a] / mu
        follow = before * rho_before * follow + 1.0
        w = rho if values == "state" else 1.0
        if lam is not None:
            w = rho * (lam + (1 - lam) * follow)
        features_t = phi(obs[t], a)
        e = before * kappa_of(pi(obs[t])[a], rho, mu) * e + w * features_t
        d = -features_t
        if not ended:
            d = d + discount * average(next_state)
        A += np.outer(e, d)
        b += data["reward"][t] * e
        M += np.outer(features_t, features_t)
        squares += rho**2
        before, rho_before = discount, rho
    return A, b, M, x, squares
