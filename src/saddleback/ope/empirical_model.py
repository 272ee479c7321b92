"""The empirical model of a log with few states, and the return of a policy in it.

A state is a distinct observation, or the one feature that is active there. From state s and action
a, the model draws one of the rows that have both, with its reward r and next state s'; the first
state is drawn from the first states of the episodes. The return then solves the distributional
Bellman equation of the log,

    Z(s, a) = r + γ Z(s', A'),    A' ~ π(·|s')        in distribution

and its mean is the closed form with λ = 0 and one feature per state and action. It is solved by
simulation, which is exact up to the number of draws, whatever the rewards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.features import Features
from saddleback.ope.episode_sample import EpisodeSample

ROWS_PER_STATE = 10
"""Least number of rows for each distinct observation, on average."""

FEW_ROWS = 5
"""Number of rows below which a state and action are rarely logged."""

CHUNK = 1 << 20
"""Number of steps of all draws that are simulated at a time."""

NEGLIGIBLE_DISCOUNT = 1e-3
"""Discount γ^t after which no more rewards are added."""

ENDED, UNKNOWN = -1, -2
"""Where a draw is that has ended, or came to a state and action that were never logged."""


@dataclass(frozen=True, eq=False)
class StateLabels:
    """Number of the state before and after each transition, [n], and at the starts, [E]."""

    before: IntArray
    after: IntArray
    start: IntArray
    count: int

    @classmethod
    def of(cls, sample: EpisodeSample, features: Features | None) -> StateLabels | None:
        """Label the states of a sample; None if there are too many for a model."""
        points = (sample.states, sample.next_states, sample.starts)
        limit = len(sample.rewards) // ROWS_PER_STATE
        labels = None if features is None else [_active_feature(features, one) for one in points]
        if labels is None or any(one is None for one in labels):
            if len(np.unique(sample.states[: 2 * limit + 2], axis=0)) > limit:
                return None
            labels = list(points)
        joined = np.concatenate([np.asarray(one) for one in labels])
        values, index = np.unique(joined, axis=0, return_inverse=True)
        if len(values) > limit:
            return None
        n = len(sample.rewards)
        index = index.ravel()
        return cls(index[:n], index[n : 2 * n], index[2 * n :], len(values))


def _active_feature(features: Features, points: FloatArray) -> FloatArray | None:
    """Return which feature is active, [n, 1]; None unless it is one for every observation."""
    active = features.encode(points)
    if active.indices.shape[1] != 1 or (active.value is not None and np.ptp(active.value) > 0):
        return None
    return np.asarray(active.indices, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated returns of a policy.

    Attributes
    ----------
    returns
        The returns of draws that did not come to an unknown state and action.
    unknown
        Share of the draws that did, or that did not end without a discount.
    rare
        Share of the steps with a state and action that are rarely logged.
    steps
        Steps of a draw, on average.
    """

    returns: FloatArray
    unknown: float
    rare: float
    steps: float


@dataclass(frozen=True, eq=False)
class EmpiricalModel:
    """Rows of a log by state and action, and the actions of a policy after each of them.

    Attributes
    ----------
    rewards, continues, episode
        Of the rows, sorted by state and action, [n].
    bounds
        Where the rows of each state and action begin, [S·K + 1].
    state, choice
        The state after each row, then of each start, [n + E], and cumulative probabilities of the
        actions there, [n + E, K].
    """

    rewards: FloatArray
    continues: BoolArray
    episode: IntArray
    bounds: IntArray
    state: IntArray
    choice: FloatArray

    @classmethod
    def of(cls, sample: EpisodeSample, labels: StateLabels, target: str | None) -> EmpiricalModel:
        """Return the model of a target policy; of the logged one if there is no name."""
        n, episodes = len(sample.rewards), len(sample.starts)
        actions, pi = np.zeros(n, dtype=np.int64), np.ones((n + episodes, 1))
        if target is not None:
            actions = sample.actions
            pi = np.concatenate([sample.next_pi[target], sample.start_pi[target]])
        n_actions = pi.shape[1]
        group = labels.before * n_actions + actions
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(labels.count * n_actions + 1))
        origins = np.concatenate([order, np.arange(n, n + episodes)])
        state = np.concatenate([labels.after, labels.start])[origins]
        choice = np.cumsum(pi[origins], axis=1)
        choice /= choice[:, -1:]
        return cls(
            sample.rewards[order], sample.continues[order], sample.episode[order], bounds, state,
            choice,
        )  # fmt: skip

    @property
    def n_episodes(self) -> int:
        """Number of episodes."""
        return len(self.state) - len(self.rewards)

    def simulate(
        self,
        draws: int,
        gamma: float,
        horizon: int | None,
        *,
        limit: int,
        weights: FloatArray | None = None,
        seed: int = 0,
    ) -> Simulated:
        """Simulate returns; ``weights`` of the episodes, [E], replace equal ones.

        Without a discount, draws end after ``limit`` steps. The same seed gives the same random
        numbers to each draw, whatever the weights.
        """
        weights = np.ones(self.n_episodes) if weights is None else weights
        rng = np.random.default_rng(seed)
        steps = limit_of_steps(gamma, limit) if horizon is None else horizon
        first = np.cumsum(weights)
        start = np.searchsorted(first, rng.random(draws) * first[-1], side="right")
        at = len(self.rewards) + np.minimum(start, len(weights) - 1).astype(np.int64)
        cumulative = np.append(0.0, np.cumsum(weights[self.episode]))
        returns, discounts, counts = np.zeros(draws), np.ones(draws), np.zeros(2, dtype=np.int64)
        chunk = max(1, CHUNK // draws)
        for begin in range(0, steps, chunk):
            if (at < 0).all():
                break
            uniform = rng.random((min(chunk, steps - begin), draws, 2))
            _advance(
                uniform, at, returns, discounts, counts, gamma, self.rewards, self.continues,
                self.bounds, self.state, self.choice, cumulative,
            )  # fmt: skip
        has_return = at != UNKNOWN
        if gamma == 1.0 and horizon is None:
            has_return = at == ENDED
        return Simulated(
            returns[has_return], 1.0 - float(has_return.mean()), counts[1] / max(1, counts[0]),
            counts[0] / draws,
        )  # fmt: skip


def limit_of_steps(gamma: float, limit: int) -> int:
    """Return the number of steps to simulate without a horizon.

    Examples
    --------
    >>> limit_of_steps(0.9, 1000), limit_of_steps(0.0, 1000), limit_of_steps(1.0, 1000)
    (66, 1, 1000)
    """
    if gamma == 0.0:
        return 1
    if gamma == 1.0:
        return limit
    return int(np.ceil(np.log(NEGLIGIBLE_DISCOUNT) / np.log(gamma)))


@compiled
def _advance(
    uniform: FloatArray,
    at: IntArray,
    returns: FloatArray,
    discounts: FloatArray,
    counts: IntArray,
    gamma: float,
    rewards: FloatArray,
    continues: BoolArray,
    bounds: IntArray,
    state: IntArray,
    choice: FloatArray,
    cumulative: FloatArray,
) -> None:
    """Advance every draw that has not ended by some steps, with uniform numbers [steps, n, 2]."""
    steps, draws = uniform.shape[0], uniform.shape[1]
    n_actions = choice.shape[1]
    for i in range(draws):
        place = at[i]
        for t in range(steps):
            if place < 0:
                break
            action = 0
            while action < n_actions - 1 and uniform[t, i, 0] >= choice[place, action]:
                action += 1
            group = state[place] * n_actions + action
            low, high = bounds[group], bounds[group + 1]
            if low == high:
                place = UNKNOWN
                break
            counts[0] += 1
            counts[1] += high - low < FEW_ROWS
            size = cumulative[high] - cumulative[low]
            point = cumulative[low] + uniform[t, i, 1] * size
            while high - low > 1:
                middle = (low + high) // 2
                if cumulative[middle] <= point:
                    low = middle
                else:
                    high = middle
            returns[i] += discounts[i] * rewards[low]
            discounts[i] *= gamma
            place = low if continues[low] else ENDED
        at[i] = place
