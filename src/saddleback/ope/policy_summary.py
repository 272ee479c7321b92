"""Summary of a target policy on the rows of a log, and counts of the actions taken there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saddleback.log import Segment
from saddleback.ope.log_counts import PolicyCounts
from saddleback.ope.partition import Column


@dataclass(frozen=True)
class PolicySummary:
    """The target policy as evaluated on the rows of the log."""

    mass: dict[str, float]  # share of its probability on each action, by name
    entropy: float  # mean entropy, relative to that of the uniform policy
    greedy: float  # share of rows where one action has nearly all of the probability
    description: str = ""  # a policy of continuous actions, in words

    @classmethod
    def of(cls, counts: PolicyCounts, actions: Sequence[str], rows: int) -> PolicySummary:
        """Summarise counts over the rows."""
        uniform = np.log(max(2, len(actions)))
        mass = dict(zip(actions, (counts.action_mass / rows).tolist(), strict=True))
        return cls(mass, float(counts.entropy / rows / uniform), counts.greedy_rows / rows)


class ActionCounts:
    """Target-independent counts of actions along each column."""

    def __init__(self, n_actions: int, columns: list[Column]) -> None:
        self._columns = columns
        self.taken = [np.zeros((len(column.edges) + 1, n_actions)) for column in columns]

    def add(self, segment: Segment) -> None:
        """Add the next segment."""
        states = segment.observations[segment.states]
        K = self.taken[0].shape[1] if self.taken else 1
        for k, column in enumerate(self._columns):
            at = column.find(states[:, k]) * K + segment.actions
            added = np.bincount(at, minlength=self.taken[k].size)
            self.taken[k] += added.reshape(self.taken[k].shape)
