"""A linear-quadratic problem, whose value is known in closed form.

s' = As + Ba + w with w ~ N(0, W), reward −(sᵀQs + aᵀRa), and a ~ N(Ks, Σ). With L = A + BK,

    V(s) = −(sᵀPs + c),   P = Q + KᵀRK + γLᵀPL,   c = (γ tr P(W + BΣBᵀ) + tr RΣ)/(1 − γ)

and the value of H steps by as many steps of the same recursion.
"""

import numpy as np

A = np.array([[0.9, 0.2], [0.0, 0.8]])
B = np.array([[0.1, 0.0], [0.5, 0.3]])
Q, R = np.diag([1.0, 0.3]), np.array([[0.1, 0.02], [0.02, 0.2]])
GAMMA = 0.9
LOGGED, NEW = np.array([[-0.1, -0.2], [0.1, 0.0]]), np.array([[-0.3, -0.4], [0.0, -0.2]])
SIGMA = np.array([[0.3, 0.05], [0.05, 0.2]])
"""Covariance of the logged actions."""


def value(states, K, sigma, noise, steps=None):
    """Return the value in each state, of all steps or of a number of them."""
    L, W, P, c = A + B @ K, noise * np.eye(2), np.zeros((2, 2)), 0.0
    for _ in range(2000 if steps is None else steps):
        c = np.trace(R @ sigma) + GAMMA * (np.trace(P @ (W + B @ sigma @ B.T)) + c)
        P = Q + K.T @ R @ K + GAMMA * L.T @ P @ L
    return -(np.einsum("ni,ij,nj->n", states, P, states) + c)


def density(actions, mean, sigma):
    """Return the density of Gaussian actions."""
    gap = actions - mean
    square = np.einsum("ni,ij,nj->n", gap, np.linalg.inv(sigma), gap)
    return np.exp(-0.5 * square) / (2 * np.pi * np.sqrt(np.linalg.det(sigma)))


def simulate(episodes, steps, noise=0.0, seed=0, ends="truncated", spread=1.0):
    """Return a log of the logged policy, as columns; all episodes have the same length.

    Starts are ``spread`` times as far out.
    """
    rng = np.random.default_rng(seed)
    s = spread * rng.multivariate_normal([0.5, -0.2], np.diag([1.0, 0.5]), episodes)
    parts = []
    for t in range(steps):
        a = rng.multivariate_normal(np.zeros(2), SIGMA, episodes) + s @ LOGGED.T
        cost = np.einsum("ni,ij,nj->n", s, Q, s) + np.einsum("ni,ij,nj->n", a, R, a)
        after = s @ A.T + a @ B.T + np.sqrt(noise) * rng.standard_normal((episodes, 2))
        step, last = np.full(episodes, t), np.full(episodes, t == steps - 1)
        parts.append((np.arange(episodes), step, s, a, -cost, last, after,
                      density(a, s @ LOGGED.T, SIGMA)))  # fmt: skip
        s = after
    columns = [np.stack(part, axis=1) for part in zip(*parts, strict=True)]
    columns = [column.reshape(episodes * steps, *column.shape[2:]) for column in columns]
    ids, step, s, a, reward, last, after, mu = columns
    never = np.zeros(len(last), dtype=bool)
    return {
        "episode_id": ids, "step": step, "obs_0": s[:, 0], "obs_1": s[:, 1],
        "action_0": a[:, 0], "action_1": a[:, 1], "reward": reward,
        "terminated": last if ends == "terminated" else never,
        "truncated": last if ends == "truncated" else never,
        "next_obs_0": after[:, 0], "next_obs_1": after[:, 1], "behavior_prob": mu,
    }  # fmt: skip


def starts(data):
    """Return the first states of the episodes."""
    return np.column_stack([data["obs_0"], data["obs_1"]])[data["step"] == 0]
