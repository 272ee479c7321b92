"""State of episodes that may extend over several segments of a log."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class EpisodeSegment(Protocol):
    """Consecutive rows of a log; see `saddleback.log.Segment`."""

    @property
    def first_states(self) -> Any:
        """The states in which episodes begin."""

    @property
    def continues_in_next(self) -> bool:
        """Whether the last episode continues in the next segment."""

    @property
    def begins_new_episode(self) -> bool:
        """Whether the first row begins an episode."""


class EpisodeFold:
    """One row of numbers per episode; an open episode's row is carried into the next segment.

    A segment's episodes are numbered from 1 in the order in which they begin; 0 is the episode
    that began in an earlier segment, if any. This is the only place where an episode is carried
    over; see `saddleback.log.Segment.row_episode`.
    """

    def __init__(self, width: int, dtype: Any = np.float64) -> None:
        self._carry: Any = np.zeros((1, width), dtype=dtype)
        self._closed: list[Any] = [self._carry[:0]]

    def begin(self, segment: EpisodeSegment) -> Any:
        """Return the rows of a segment's episodes, [1 + new, width]; those of new ones are 0."""
        new = np.zeros((len(segment.first_states), self._carry.shape[1]), self._carry.dtype)
        return np.concatenate([self._carry, new])

    def end(self, segment: EpisodeSegment, rows: Any) -> None:
        """Store the updated rows of a segment's episodes, and carry over the open one."""
        first = 1 if segment.begins_new_episode else 0
        self._closed.append(rows[first : -1 if segment.continues_in_next else None])
        self._carry = rows[-1:] if segment.continues_in_next else np.zeros_like(self._carry)

    @property
    def rows(self) -> Any:
        """The rows of all closed episodes, in order, [n, width]."""
        self._closed = [np.concatenate(self._closed)]
        return self._closed[0]
