"""The closed form with features of observation and continuous action, from a sample in memory.

With φ_t = φ(s_t, a_t) and φ'_t = E_π φ(s_{t+1}, ·), 0 after the end of the task, sums over the
rows of each block of episodes are those of `Statistics` for λ = 0:

    A = Σ φ_t(γφ'_t − φ_t)ᵀ      b = Σ φ_t r_t      x = Σ over episodes of E_π φ(s_0, ·)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.features.action_distribution import ActionDistribution, GaussianActions
from saddleback.features.state_action import StateActionFeatures
from saddleback.log.behaviour_target import NAME
from saddleback.log.continuous_targets import ContinuousTarget
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.scoring_pass import EpisodeScores, solve_adjoint
from saddleback.ope.statistics import Statistics
from saddleback.rules import Rule

CHUNK = 1 << 14
"""Rows whose features are in memory at the same time."""


@dataclass(frozen=True, eq=False)
class SampledPolicy:
    """A policy on a sample of episodes."""

    name: str
    # Its actions in the next states, and in the first ones.
    after: ActionDistribution
    start: ActionDistribution
    used: BoolArray  # which transitions are used, [n]: all whose next action is known

    @classmethod
    def of(
        cls, target: ContinuousTarget, features: StateActionFeatures, sample: EpisodeSample
    ) -> SampledPolicy:
        """Return a target policy, with its actions as the features need them."""
        after, start = target.actions(sample.next_states), target.actions(sample.starts)
        used = np.ones(len(sample.rewards), dtype=np.bool_)
        return cls(target.name, features.prepared(after), features.prepared(start), used)

    @classmethod
    def logged(cls, sample: EpisodeSample) -> SampledPolicy:
        """Return the logged policy, represented by the actions it took.

        The action after a truncated episode is unknown, so that its last transition is not used:
        values are bootstrapped from the last action before it.
        """
        assert sample.action_values is not None
        actions = sample.action_values
        first = np.full((len(sample.starts), actions.shape[1]), np.nan)
        begins = sample.step == 0
        first[sample.episode[begins]] = actions[begins]
        first = np.where(np.isnan(first), actions[begins].mean(axis=0), first)  # no transitions
        following = np.roll(actions, -1, axis=0)
        used = ~(sample.last & sample.continues)
        return cls(NAME, _certain(following), _certain(first), used)


def _certain(actions: FloatArray) -> GaussianActions:
    n, k = actions.shape
    return GaussianActions(actions, np.zeros((n, k, k)))


@dataclass(frozen=True, eq=False)
class JointSums:
    """Sums over blocks of episodes: the fields A, b, M, starts, steps, episodes of `Statistics`."""

    features: StateActionFeatures
    sample: EpisodeSample
    gamma: float
    policies: tuple[SampledPolicy, ...]

    def chunks(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield some of the given rows at a time, with φ(s, a)."""
        sample = self.sample
        assert sample.action_values is not None
        for begin in range(0, len(rows), CHUNK):
            part = rows[begin : begin + CHUNK]
            yield part, self.features(sample.states[part], sample.action_values[part])

    def following(self, policy: SampledPolicy, part: IntArray) -> FloatArray:
        """Return γφ' of some rows."""
        after = self.features.expected(self.sample.next_states[part], policy.after[part])
        return np.asarray(self.gamma * self.sample.continues[part, None] * after)

    def starts(self, policy: SampledPolicy) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield some of the episodes at a time, with E φ(s_0, ·)."""
        for begin in range(0, len(self.sample.starts), CHUNK):
            part = np.arange(begin, min(begin + CHUNK, len(self.sample.starts)))
            yield part, self.features.expected(self.sample.starts[part], policy.start[part])

    def by_block(self, block: IntArray, count: int) -> dict[str, Any]:
        """Return the sums, given the block of each episode of the sample."""
        T, p, sample = len(self.policies), self.features.size, self.sample
        A, b = np.zeros((T, 1, count, p, p)), np.zeros((T, 1, count, p))
        M, starts = np.zeros((p, p)), np.zeros((T, count, p))
        of_row = block[sample.episode]
        for k in range(count):
            for part, phi in self.chunks(np.flatnonzero(of_row == k)):
                M += phi.T @ phi
                for t, policy in enumerate(self.policies):
                    used = phi * policy.used[part, None]
                    A[t, 0, k] += used.T @ (self.following(policy, part) - phi)
                    b[t, 0, k] += used.T @ sample.rewards[part]
        for t, policy in enumerate(self.policies):
            for part, first in self.starts(policy):
                np.add.at(starts[t], block[part], first)
        return {
            "A": A, "b": b, "M": M, "starts": starts,
            "steps": np.bincount(of_row, minlength=count),
            "episodes": np.bincount(block, minlength=count),
        }  # fmt: skip

    def scores(self, sums: Statistics, rule: Rule, t: int, ridge: float) -> EpisodeScores:
        """Return the influence of each episode on the closed form of a policy."""
        policy, sample = self.policies[t], self.sample
        theta, start, u = solve_adjoint(sums, rule, policy.name, ridge)
        score, discounted = np.zeros(len(sample.rewards)), np.zeros(len(sample.rewards))
        for part, phi in self.chunks(np.arange(len(sample.rewards))):
            delta = sample.rewards[part] + (self.following(policy, part) - phi) @ theta
            delta *= policy.used[part]
            score[part] = (phi @ u) * delta - ridge * (phi**2 @ (u * theta))
            discounted[part] = self.gamma ** sample.step[part] * delta
        by_episode = [
            np.bincount(sample.episode, column, minlength=len(sample.starts)).astype(float)
            for column in (score, discounted)
        ]
        values = np.concatenate([first @ theta for _, first in self.starts(policy)])
        return EpisodeScores(theta, float(theta @ start), values, *by_episode)
