"""Discounted return, length and ending of each episode of a log."""

from __future__ import annotations

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine import EpisodeFold
from saddleback.log.segmentation import Segment


class EpisodeReturns:
    """Discounted return, length and ending of each episode, over consecutive segments.

    An episode that reached its time limit counts as ended if the limit is part of the task.
    Without a discount there are no returns.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> returns = EpisodeReturns(1.0, limit_is_task=False)
    >>> for segment in collect(problems.mountain_car(), episodes=3, rng=0).segments():
    ...     returns.add(segment)
    >>> returns.returns.tolist(), returns.lengths.tolist(), returns.ended.tolist()
    ([-173.0, -121.0, -154.0], [173, 121, 154], [True, True, True])
    """

    def __init__(self, gamma: float | None, limit_is_task: bool) -> None:
        self._gamma, self._limit_is_task = gamma, limit_is_task
        self._fold = EpisodeFold(2)
        self._lengths: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        self._ended: list[BoolArray] = [np.zeros(0, dtype=np.bool_)]
        self.rewards = np.array([np.inf, -np.inf])

    def add(self, segment: Segment) -> None:
        """Add the next segment."""
        rows = segment.rows
        if self._gamma is None or not len(rows):
            return
        low, high = self.rewards
        self.rewards = np.array([min(low, rows.rewards.min()), max(high, rows.rewards.max())])
        sums = self._fold.begin(segment)
        power = self._gamma ** rows.position.astype(np.float64)
        np.add.at(sums[:, 0], segment.row_episode, power * rows.rewards)
        sums[:, 1] += np.bincount(segment.row_episode[segment.index], minlength=len(sums))
        self._fold.end(segment, sums)
        last = np.flatnonzero(np.append(rows.starts[1:], not segment.continues_in_next))
        over = rows.terminated | rows.truncated if self._limit_is_task else rows.terminated
        self._lengths.append(rows.position[last] + 1)
        self._ended.append(over[last])

    @property
    def returns(self) -> FloatArray:
        """Discounted return of each episode, [n]."""
        return np.asarray(self._fold.rows[:, 0])

    @property
    def transitions(self) -> IntArray:
        """Number of transitions of each episode that are used, [n]."""
        return np.asarray(self._fold.rows[:, 1]).astype(np.int64)

    @property
    def lengths(self) -> IntArray:
        """Number of rows of each episode, [n]."""
        return np.concatenate(self._lengths)

    @property
    def ended(self) -> BoolArray:
        """Whether each episode ended; the others were truncated, [n]."""
        return np.concatenate(self._ended)

    @property
    def mean(self) -> float | None:
        """Mean return of the episodes that ended; None if there is none."""
        return float(self.returns[self.ended].mean()) if self.ended.any() else None
