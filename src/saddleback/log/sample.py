"""A sample of the states of a log, their range, and counts of the actions taken."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from saddleback._typing import FloatArray, IntArray

SAMPLE_SIZE = 4096
"""Size of the sample of states: between this number and twice it."""


@dataclass
class StridedSample:
    """A sample of every 2ʲ-th row, with j such that its size stays within bounds."""

    max_size: int = 2 * SAMPLE_SIZE
    _stride: int = 1
    _count: int = 0
    _parts: list[tuple[FloatArray, ...]] = field(default_factory=list)

    def add(self, *rows: FloatArray) -> None:
        """Add the next rows of several aligned tables, as copies: views would keep all rows."""
        first = -self._count % self._stride
        self._count += len(rows[0])
        self._parts.append(tuple(table[first :: self._stride].copy() for table in rows))
        while -(-self._count // self._stride) > self.max_size:
            self._stride *= 2
            self._parts = [tuple(table[::2] for table in self.rows)]

    @property
    def rows(self) -> tuple[FloatArray, ...]:
        """The sampled rows of each table."""
        return tuple(np.concatenate(parts) for parts in zip(*self._parts, strict=True))


class LogSample:
    """States spaced evenly over the rows of a log, and counts of its actions.

    Attributes
    ----------
    low, high
        Range of each entry of the observation, over all rows.
    action_counts
        Number of rows with each action, [K].

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> sample = collect(problems.mountain_car(), episodes=5, rng=0).sample()
    >>> sample.states.shape, sample.action_counts.tolist()
    ((756, 2), [329.0, 11.0, 416.0])
    """

    def __init__(self, n_actions: int, dimensions: int) -> None:
        self.action_counts = np.zeros(n_actions)
        self.low, self.high = np.full(dimensions, np.inf), np.full(dimensions, -np.inf)
        self._sample = StridedSample()
        self._sample.add(np.zeros((0, dimensions)))

    def add(self, states: FloatArray, actions: IntArray) -> None:
        """Add the next rows."""
        self._sample.add(states)
        self.low = states.min(axis=0, initial=np.inf, where=True).clip(max=self.low)
        self.high = states.max(axis=0, initial=-np.inf, where=True).clip(min=self.high)
        self.action_counts += np.bincount(actions, minlength=len(self.action_counts))

    @property
    def states(self) -> FloatArray:
        """The sampled states, [n, d]."""
        return self._sample.rows[0]
