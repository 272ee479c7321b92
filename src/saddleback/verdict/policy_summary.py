"""What a target policy does on the rows of a log, and how often each action was taken there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from saddleback.evaluation.log_counts import Portrait
from saddleback.log import Piece
from saddleback.verdict.partition import Column


@dataclass(frozen=True)
class Policy:
    """The policy that was really evaluated, over the rows of the log.

    Attributes
    ----------
    mass
        Share of its probability on each action, by name.
    entropy
        Mean entropy, as a share of that of the uniform policy.
    greedy
        Share of rows where one action has nearly all of the probability.
    """

    mass: dict[str, float]
    entropy: float
    greedy: float

    @classmethod
    def of(cls, seen: Portrait, actions: Sequence[str], rows: int) -> Policy:
        """Tell it by sums over the rows."""
        uniform = np.log(max(2, len(actions)))
        mass = dict(zip(actions, (seen.chances / rows).tolist(), strict=True))
        return cls(mass, float(seen.shape[0] / rows / uniform), float(seen.shape[1]) / rows)


class RowLook:
    """Sums over the rows of a log that no target matters to."""

    def __init__(self, n_actions: int, columns: list[Column]) -> None:
        self._columns = columns
        self.taken = [np.zeros((len(each.edges) + 1, n_actions)) for each in columns]

    def add(self, piece: Piece) -> None:
        """Take in the next piece."""
        seen = piece.observations[piece.here]
        K = self.taken[0].shape[1] if self.taken else 1
        for k, column in enumerate(self._columns):
            at = column.find(seen[:, k]) * K + piece.actions
            counted = np.bincount(at, minlength=self.taken[k].size)
            self.taken[k] += counted.reshape(self.taken[k].shape)
