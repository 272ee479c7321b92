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

from saddleback._jit import compiled, subroutine
from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.features import Features
from saddleback.ope.episode_sample import EpisodeSample

ROWS_PER_STATE = 10
"""Least number of rows for each distinct observation, on average."""

FEW_ROWS = 5
"""Number of rows below which a state and action are rarely logged."""

NEGLIGIBLE_DISCOUNT = 1e-3
"""Discount γ^t after which no more rewards are added."""

NO_LIMIT = 2**62
"""Number of steps that no simulation takes."""

ENDED, UNKNOWN = -1, -2
"""Where a draw is that has ended, or came to a state and action that were never logged."""


class OutOfSteps(Exception):
    """A simulation needs more steps than it may take."""


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
        labels = None if features is None else [active_feature(features, one) for one in points]
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


def active_feature(features: Features, points: FloatArray) -> FloatArray | None:
    """Return which feature is active, [n, 1]; None unless it is one for every observation."""
    active = features.encode(points)
    if active.indices.shape[1] != 1 or (active.value is not None and np.ptp(active.value) > 0):
        return None
    return np.asarray(active.indices, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated returns of a policy."""

    returns: FloatArray  # the returns of draws that did not come to an unknown state and action
    unknown: float  # share of the draws that did, or that did not end without a discount
    rare: float  # share of the steps with a state and action that are rarely logged
    steps: float  # steps of a draw, on average


@dataclass(frozen=True, eq=False)
class EmpiricalModel:
    """Rows of a log by state and action, and the actions of a policy after each of them."""

    # Of the rows, sorted by state and action, [n].
    rewards: FloatArray
    continues: BoolArray
    episode: IntArray
    bounds: IntArray  # where the rows of each state and action begin, [S·K + 1]
    # The state after each row, then of each start, [n + E], and cumulative probabilities of the
    # actions there, [n + E, K].
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
        max_steps: int = NO_LIMIT,
    ) -> Simulated:
        """Simulate returns; ``weights`` of the episodes, [E], replace equal ones.

        Without a discount, draws end after ``limit`` steps. The same seed gives the same random
        numbers to each draw, whatever the weights. Raises ``OutOfSteps`` if all draws together need
        more than ``max_steps``.
        """
        weights = np.ones(self.n_episodes) if weights is None else weights
        rng = np.random.default_rng(seed)
        steps = limit_of_steps(gamma, limit) if horizon is None else horizon
        first = np.cumsum(weights)
        start = np.searchsorted(first, rng.random(draws) * first[-1], side="right")
        at = len(self.rewards) + np.minimum(start, len(weights) - 1).astype(np.int64)
        streams = rng.integers(0, 2**64, draws, dtype=np.uint64)
        cumulative = np.append(0.0, np.cumsum(weights[self.episode]))
        returns, counts = np.zeros(draws), np.zeros(2, dtype=np.int64)
        with np.errstate(over="ignore"):  # of the streams, where the compiler is off
            _simulate(
                streams, at, returns, counts, steps, max_steps, gamma, self.rewards,
                self.continues, self.bounds, self.state, self.choice, cumulative,
            )  # fmt: skip
        if counts[0] > max_steps:
            raise OutOfSteps
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
def _simulate(
    streams: OffsetArray,
    at: IntArray,
    returns: FloatArray,
    counts: IntArray,
    steps: int,
    max_steps: int,
    gamma: float,
    rewards: FloatArray,
    continues: BoolArray,
    bounds: IntArray,
    state: IntArray,
    choice: FloatArray,
    cumulative: FloatArray,
) -> None:
    """Follow every draw to its end, at most some steps; stop after ``max_steps`` of all draws."""
    n_actions = choice.shape[1]
    nearby = _rows_at_equal_shares(bounds, cumulative)
    for i in range(len(at)):
        place, discount, stream = at[i], 1.0, streams[i]
        for _ in range(steps):
            stream = stream + np.uint64(0x9E3779B97F4A7C15)
            first = _uniform(stream)
            stream = stream + np.uint64(0x9E3779B97F4A7C15)
            second = _uniform(stream)
            action = 0
            while action < n_actions - 1 and first >= choice[place, action]:
                action += 1
            group = state[place] * n_actions + action
            low, high = bounds[group], bounds[group + 1]
            if low == high:
                place = UNKNOWN
                break
            counts[0] += 1
            if counts[0] > max_steps:
                return
            counts[1] += high - low < FEW_ROWS
            point = cumulative[low] + second * (cumulative[high] - cumulative[low])
            row = nearby[low + int(second * (high - low))]
            while row < high - 1 and cumulative[row + 1] <= point:
                row += 1
            returns[i] += discount * rewards[row]
            discount *= gamma
            if not continues[row]:
                place = ENDED
                break
            place = row
        at[i] = place


@subroutine
def _rows_at_equal_shares(bounds: IntArray, cumulative: FloatArray) -> IntArray:
    """Return the row at share k/n of the weight of its n rows of a state and action, [rows].

    From there, the row at a share between k/n and (k + 1)/n is about one row further.
    """
    nearby = np.empty(len(cumulative) - 1, dtype=np.int64)
    for group in range(len(bounds) - 1):
        low, high = bounds[group], bounds[group + 1]
        size, row = cumulative[high] - cumulative[low], low
        for k in range(high - low):
            point = cumulative[low] + k / (high - low) * size
            while row < high - 1 and cumulative[row + 1] <= point:
                row += 1
            nearby[low + k] = row
    return nearby


@subroutine
def _uniform(stream: np.uint64) -> float:
    """Return a number in [0, 1) from the state of a stream of SplitMix64."""
    x = (stream ^ (stream >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
