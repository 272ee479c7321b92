"""Fitted Q evaluation with trees, and MAGIC with its values: other methods to compare with."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from sklearn.ensemble import ExtraTreesRegressor

TREES, LEAF, ROWS, REFITS = 25, 5, 6_000, 16
"""Trees, rows of a leaf, rows to fit on, and how many times splits are chosen."""

LENGTHS, RESAMPLES = 8, 200
"""Of MAGIC: numbers of weighted steps to choose from, and bootstrap resamples."""


class Forest:
    """Extremely randomised trees whose leaf means can be replaced."""

    def __init__(self, points, goal, seed):
        trees = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, random_state=seed)
        self._trees = trees.fit(points, goal)
        self._nodes = max(tree.tree_.node_count for tree in self._trees.estimators_)
        self._own = self.leaves(points)
        self._count = np.bincount(self._own.ravel(), minlength=TREES * self._nodes)

    def leaves(self, points):
        """Return the leaf of each point in each tree, [n, trees]."""
        return self._trees.apply(points) + self._nodes * np.arange(TREES)

    def means(self, goal):
        """Return the mean of a goal in each leaf."""
        sums = np.bincount(self._own.ravel(), np.repeat(goal, TREES), TREES * self._nodes)
        return sums / np.maximum(self._count, 1)


def with_action(states, actions, K):
    """Append actions as indicators."""
    return np.column_stack([states, np.eye(K)[np.broadcast_to(actions, len(states))]])


def steps_of(case):
    """Return the step of each row in its episode."""
    episode = case.log["episode_id"]
    return np.arange(len(episode)) - np.searchsorted(episode, episode)


def tree_fqe(case, seed=0):
    """Return Q of the actions taken and V, for all rows of a case; the value is V's mean at step 0.

    Q is fitted for the horizon of the task, or for as many steps as matter.
    """
    rows, K, gamma, step = case.log, case.actions, case.gamma, steps_of(case)
    states, actions = rows["observations"], rows["actions"]
    endless = 2 * (step.max() + 1) if gamma == 1 else int(np.log(0.01) / np.log(gamma)) + 1
    steps = case.horizon or endless
    own = np.arange(len(states)) if len(states) <= ROWS else np.arange(ROWS)
    reward, after = rows["rewards"][own], rows["next_observations"][own]
    next_pi = case.target(after) * ~rows["terminated"][own, None]
    points, pi = with_action(states[own], actions[own], K), case.target(states)
    q, v, goal = np.zeros(len(states)), np.zeros(len(states)), reward
    for h in range(1, steps + 1):
        if h == 1 or h % max(1, steps // REFITS) == 0:
            forest = Forest(points, goal, seed + h)
            following = [forest.leaves(with_action(after, a, K)) for a in range(K)]
        means = forest.means(goal)
        next_q = np.column_stack([means[leaves].mean(axis=1) for leaves in following])
        goal = reward + gamma * (next_q * next_pi).sum(axis=1)
        which = step == steps - h if case.horizon else np.full(len(states), h == steps)
        if which.any():
            every = [forest.leaves(with_action(states[which], a, K)) for a in range(K)]
            values = np.column_stack([means[leaves].mean(axis=1) for leaves in every])
            q[which] = values[np.arange(len(values)), actions[which]]
            v[which] = (values * pi[which]).sum(axis=1)
    return q, v


def magic(case, q, v):
    """Return the blend of weighted and model-based returns with the least estimated error.

    Thomas & Brunskill 2016: g_j has j weighted doubly robust steps, followed by the model.
    """
    rows, step, gamma = case.log, steps_of(case), case.gamma
    n, T = rows["episode_id"].max() + 1, step.max() + 1

    def table(column, empty=0.0):
        entries = np.full((n, T), empty)
        entries[rows["episode_id"], step] = column
        return entries

    taken = case.target(rows["observations"])[np.arange(len(step)), rows["actions"]]
    ratio = np.cumprod(table(taken / rows["propensities"], 1.0), axis=1)
    weight = ratio / np.maximum(ratio.sum(axis=0), 1e-300)
    before = np.column_stack([np.full(n, 1.0 / n), weight[:, :-1]])
    discount, V = gamma ** np.arange(T), table(v)
    terms = discount * (weight * (table(rows["rewards"]) - table(q)) + before * V)
    robust = np.column_stack([np.zeros(n), np.cumsum(terms, axis=1)])
    later = np.column_stack([before * V * discount, np.zeros(n)])
    lengths = np.unique(np.linspace(0, T, LENGTHS).round().astype(int))
    g = (robust + later)[:, lengths]
    draws = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.quantile(g[draws, -1].sum(axis=1), (0.25, 0.75))
    total = g.sum(axis=0)
    bias = np.maximum(0.0, np.maximum(low - total, total - high))
    error = n * np.cov(g.T) + np.outer(bias, bias)
    error /= max(np.abs(error).max(), 1e-300)
    J = len(lengths)
    blend = minimize(
        lambda x: x @ error @ x, np.full(J, 1.0 / J), jac=lambda x: 2.0 * error @ x,
        bounds=[(0.0, 1.0)] * J, constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
    ).x  # fmt: skip
    return float(blend @ total)
