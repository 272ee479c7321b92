"""`Tally`: counts that a verdict needs, kept with the sums of a log and added up like them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.evaluation.policy_counts import Portrait
from saddleback.log import Segment

NEAR = 5
"""Lengths just below the greatest with which it is compared."""


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts over a log.

    Attributes
    ----------
    visits
        Steps on which each feature was active, [p].
    mass
        For each target Σ|b| over the states that were led to, [T, p]: what it would do there.
    returns
        Episodes that ended: how many, Σ and Σ² of their discounted returns, by block, [B, 3].
    rewards
        Least and greatest reward, [2].
    beyond
        Σγ^T over the episodes that were cut short, [1].
    lengths
        Lengths of episodes that ended, and how many have each, [n, 2].
    portraits
        What each target would do on the rows.
    """

    visits: FloatArray
    mass: FloatArray
    returns: FloatArray
    rewards: FloatArray
    beyond: FloatArray
    lengths: IntArray
    portraits: tuple[Portrait, ...]

    def merge(self, other: Tally) -> Tally:
        """Return the counts over both logs."""
        low, high = np.minimum(self.rewards, other.rewards), np.maximum(self.rewards, other.rewards)
        return Tally(
            self.visits + other.visits, self.mass + other.mass, self.returns + other.returns,
            np.array([low[0], high[1]]), self.beyond + other.beyond,
            counted(np.concatenate([self.lengths, other.lengths])),
            tuple(map(Portrait.merge, self.portraits, other.portraits)),
        )  # fmt: skip

    @property
    def limit(self) -> tuple[int, float]:
        """The greatest length of episodes that ended, and what share of those piles up there.

        Where lengths vary, and many more episodes have the very greatest one than those just below
        it, a time limit was perhaps logged as an end; else the share is 0.
        """
        ends = dict(self.lengths.tolist())
        longest = max(ends, default=0)
        before = [ends.get(longest - k, 0) for k in range(1, NEAR + 1)]
        if longest <= NEAR or ends[longest] <= 3 * max(before) or len(ends) < 2:
            return longest, 0.0
        return longest, ends[longest] / sum(ends.values())


def counted(lengths: IntArray) -> IntArray:
    """Add up pairs of length and number, [n, 2], so that each length is there once."""
    values, where = np.unique(lengths[:, 0], return_inverse=True)
    count = np.bincount(where, lengths[:, 1], len(values)).astype(np.int64)
    return np.column_stack([values, count])


class Ends:
    """Returns and lengths of episodes, as consecutive pieces come."""

    def __init__(self, gamma: float, blocks: int, task: bool) -> None:
        self._gamma, self._task = gamma, task
        self.returns, self.beyond = np.zeros((blocks, 3)), np.zeros(1)
        self.rewards = np.array([np.inf, -np.inf])
        self.lengths = np.zeros((0, 2), dtype=np.int64)
        self._held = np.zeros(1)
        self._block = np.zeros(1, dtype=np.int64)

    def add(self, piece: Segment, mine: IntArray) -> None:
        """Take in the next piece, with the blocks of the episodes that begin."""
        rows = piece.rows
        if not len(rows):
            return
        self.rewards = np.array(
            [min(self.rewards[0], rows.rewards.min()), max(self.rewards[1], rows.rewards.max())]
        )
        first = bool(rows.starts[0])
        number = np.cumsum(rows.starts) - (1 if first else 0)
        power = self._gamma ** rows.position.astype(np.float64)
        each = np.bincount(number, weights=power * rows.rewards)
        block = mine if first else np.concatenate([self._block, mine])
        if not first:
            each[0] += self._held[0]
        last = np.append(np.flatnonzero(rows.starts[1:]), len(rows) - 1)
        over: BoolArray = rows.terminated[last] | (rows.truncated[last] & self._task)
        here = np.append(np.ones(len(last) - 1, dtype=np.bool_), not piece.continues_in_next)
        if piece.continues_in_next:
            self._held, self._block = np.asarray(each[-1:], dtype=np.float64), block[-1:]
        done = np.flatnonzero(over & here)
        for column, what in enumerate((np.ones_like(each), each, each**2)):
            np.add.at(self.returns[:, column], block[done], what[done])
        ended = rows.position[last[done]] + 1
        pairs = np.column_stack([ended, np.ones_like(ended)]).astype(np.int64)
        self.lengths = counted(np.concatenate([self.lengths, pairs]))
        cut = last[~over & here]
        # One by one, so that it does not matter how the log comes in pieces.
        self.beyond = np.cumsum(np.append(self.beyond, power[cut] * self._gamma))[-1:]
