"""A behaviour policy that was estimated from the log it is applied to, cross-fitted by episode.

A row must not get a propensity from a model that has seen its own action: a flexible model then
predicts the logged action too well, and its weights are too small. So the rows of each fold of the
episodes get μ̂ as it was fitted to the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray, OffsetArray
from saddleback.log.episode_hashes import hash_ids
from saddleback.policies import Policy

FOLDS = 5
"""Number of folds of the episodes."""


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
