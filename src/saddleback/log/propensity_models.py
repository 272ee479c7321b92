"""Models of a behaviour policy, fitted to observations and actions.

Each takes observations [n, d], actions [n], the share of each action in the whole log [K], and a
number of pseudo-counts, and returns μ̂ as a function of observations. The pseudo-counts are
distributed over the actions in proportion to their share q among the n rows, with as many of the
whole log added, so that no logged action has probability 0.

A row must not get a propensity from a model that has seen its own action: a flexible model then
predicts the logged action too well, and its weights are too small. So the rows of each fold of the
episodes get μ̂ as it was fitted to the other folds, `CrossFittedPolicy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray, OffsetArray
from saddleback.errors import InvalidParameter
from saddleback.log.episode_hashes import hash_ids
from saddleback.policies import Policy

MAX_CELLS = 2**62
"""Largest number of cells of a grid."""

FOLDS = 5
"""Number of folds of the episodes."""


def grid_edges(observations: FloatArray, bins: int) -> list[FloatArray]:
    """Return where a grid of ``bins`` cells cuts each entry: at quantiles, or between its values.

    Examples
    --------
    >>> [edge.tolist() for edge in grid_edges(np.array([[0.0, 1.0], [1.0, 5.0], [2.0, 1.0]]), 2)]
    [[1.0], [3.0]]
    """
    edges = []
    for column in observations.T:
        values = np.unique(column)
        if len(values) > bins:
            values = np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1])
            edges.append(np.unique(values))
        else:
            edges.append((values[1:] + values[:-1]) / 2)
    return edges


def cells_of(edges: Sequence[FloatArray]) -> float:
    """Return the number of cells of a grid."""
    return float(np.prod([len(edge) + 1.0 for edge in edges]))


def fit_counts(
    observations: FloatArray, actions: IntArray, shares: FloatArray, prior: float, edges: Any
) -> Policy:
    """Fit shares of actions within the cells of a grid, (n(s, a) + prior·q(a)) / (n(s) + prior)."""
    sizes, shares = [len(edge) + 1 for edge in edges], _smooth(actions, shares, prior)

    def cell(states: FloatArray) -> Any:
        bins = [np.searchsorted(e, c, side="right") for e, c in zip(edges, states.T, strict=True)]
        return np.ravel_multi_index(bins, sizes)

    cells, row = np.unique(cell(observations), return_inverse=True)
    table = np.zeros((len(cells) + 1, len(shares)))
    np.add.at(table, (row, actions), 1.0)
    table += max(prior, 1e-300) * shares
    table /= table.sum(axis=1, keepdims=True)

    def policy(states: FloatArray) -> FloatArray:
        index = cell(np.asarray(states, dtype=np.float64))
        row = np.minimum(np.searchsorted(cells, index), len(cells) - 1)
        return table[np.where(cells[row] == index, row, len(cells))]

    return policy


def fit_logistic(
    observations: FloatArray, actions: IntArray, shares: FloatArray, prior: float
) -> Policy:
    """Fit a multinomial logistic regression of standardised observations."""
    with_sklearn("logistic")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return _fit_classifier(model, observations, actions, shares, prior)


def fit_boosting(
    observations: FloatArray, actions: IntArray, shares: FloatArray, prior: float
) -> Policy:
    """Fit gradient-boosted trees on histograms, stopped early by rows that are set aside."""
    with_sklearn("boosting")
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=300, min_samples_leaf=20, early_stopping=True, random_state=0
    )
    with threadpool_limits(1, "openmp"):  # sums would depend on the number of threads
        return _fit_classifier(model, observations, actions, shares, prior)


def with_sklearn(method: str) -> None:
    """Raise an error unless scikit-learn is installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise InvalidParameter(
            f"estimate_behaviour: method={method!r} needs scikit-learn: "
            "pip install 'saddleback[sklearn]'."
        ) from None


def _fit_classifier(
    model: Any, observations: FloatArray, actions: IntArray, shares: FloatArray, prior: float
) -> Policy:
    """Fit a classifier p, (n·p(a|s) + prior·q(a)) / (n + prior) with the n rows that it has."""
    classes, counts = np.unique(actions, return_counts=True)
    shares = _smooth(actions, shares, prior)
    weight = len(actions) / (len(actions) + prior)
    if len(classes) < 2:

        def constant(states: FloatArray) -> FloatArray:
            only = np.zeros(len(shares))
            only[classes] = 1.0
            return np.tile(weight * only + (1.0 - weight) * shares, (len(states), 1))

        return constant
    if "early_stopping" in model.get_params() and counts.min() < 2:  # cannot be split evenly
        model.set_params(early_stopping=False, max_iter=30)
    model.fit(observations, actions)

    def policy(states: FloatArray) -> FloatArray:
        probabilities = np.zeros((len(states), len(shares)))
        probabilities[:, model.classes_] = model.predict_proba(np.asarray(states))
        return weight * probabilities + (1.0 - weight) * shares

    return policy


def _smooth(actions: IntArray, shares: FloatArray, prior: float) -> FloatArray:
    """Return the share of each action among some rows, with pseudo-counts of the whole log."""
    counts = np.bincount(actions, minlength=len(shares)) + max(prior, 1e-300) * shares
    return np.asarray(counts / counts.sum())


@dataclass(frozen=True, eq=False)
class CrossFittedPolicy:
    """μ̂ fitted to a log, and fits without each fold of its episodes.

    Examples
    --------
    >>> constant = lambda p: lambda states: np.full((len(states), 1), p)
    >>> ids, fold = np.array([5, 9], np.uint64), np.array([1, 0])
    >>> policy = CrossFittedPolicy(constant(0.1), (constant(0.2), constant(0.3)), ids, fold)
    >>> policy.of_episodes(np.zeros((3, 2)), np.array([9, 5, 7], np.uint64)).ravel()
    array([0.2, 0.3, 0.1])
    """

    policy: Policy  # fitted to all episodes; for states that are in none of them
    others: tuple[Policy, ...]  # fitted to the episodes outside each fold
    # Hashes of the ids of the episodes, sorted, and the fold of each; folds depend on what episodes
    # contain, not on their ids.
    ids: OffsetArray
    fold: IntArray

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Return μ̂ in new states."""
        return np.asarray(self.policy(observations))

    def of_episodes(self, observations: FloatArray, ids: OffsetArray) -> FloatArray:
        """Return μ̂ in the states of episodes, given the hash of each row's id."""
        place = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        fold = np.where(self.ids[place] == ids, self.fold[place], len(self.others))
        policies = (*self.others, self.policy)
        mu: FloatArray | None = None
        for k in np.unique(fold):
            rows = np.flatnonzero(fold == k)
            probabilities = np.asarray(policies[k](observations[rows]))
            if mu is None:
                mu = np.empty((len(observations), probabilities.shape[1]))
            mu[rows] = probabilities
        return np.zeros((0, 0)) if mu is None else mu


def row_ids(ids: Any, starts: Any) -> OffsetArray:
    """Return the hash of each row's id, given where episodes begin."""
    first = np.asarray(starts).copy()
    first[:1] = True
    hashes = hash_ids(ids.take(np.flatnonzero(first)))
    return np.take(hashes, np.cumsum(first) - 1)
