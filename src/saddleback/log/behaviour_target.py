"""The logged policy itself as a target, without knowing it: what was done is what it does.

E_μ φ(S', ·) is replaced by φ(S', A') of the action that was taken there, which has that mean. So
the pipeline that evaluates other policies can be held against the returns that were logged,
whatever is known of μ, and whether that is right or wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log.log import Log
from saddleback.log.segmentation import Segment
from saddleback.log.target_policies import Target

NAME = "logged policy"


def check_name_not_reserved(names: Iterable[str]) -> None:
    """Refuse targets that are called as the logged policy is."""
    if NAME in names:
        raise InvalidParameter(f"{NAME!r} is what is compared with: give the target another name.")


@dataclass(frozen=True, eq=False)
class BehaviourTarget(Target):
    """What was done, as a policy.

    Attributes
    ----------
    usual
        Frequencies of the actions over the log, [K]: they stand in where nobody acted, in what
        truncated episodes led to, if μ is not known there.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> BehaviourTarget.of(collect(problems.mountain_car(), episodes=5, rng=0)).name
    'logged policy'
    """

    usual: tuple[float, ...] = ()

    @classmethod
    def of(cls, log: Log) -> BehaviourTarget:
        """Return what was done in a log, reading it once for the frequencies.

        Examples
        --------
        >>> from saddleback import problems
        >>> from saddleback.log import collect
        >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
        >>> [round(each, 2) for each in BehaviourTarget.of(log).usual]
        [0.44, 0.01, 0.55]
        """
        return cls.from_counts(np.asarray(log.summary().taken, dtype=np.float64))

    @classmethod
    def from_counts(cls, taken: FloatArray) -> BehaviourTarget:
        """Return what was done in a log, given how often each action was taken."""
        usual = taken / max(1.0, taken.sum())
        return cls(NAME, "as logged", usual=tuple(usual.tolist()))

    def probabilities(self, piece: Segment, n_actions: int) -> FloatArray:
        """Return 1 for the actions taken, [m, K]."""
        pi = np.zeros((len(piece.observations), n_actions))
        rows = len(piece.rows)
        pi[np.arange(rows), piece.rows.actions] = 1.0
        pi[rows:] = self.usual
        mu = piece.tables.get("mu")
        if mu is not None and len(mu) > rows:
            known = ~np.isnan(mu[rows:]).any(axis=1)
            pi[rows:][known] = mu[rows:][known]
        if piece.next_action is not None:
            pi[-1] = 0.0
            pi[-1, piece.next_action] = 1.0
        return pi

    def behaviour(self, piece: Segment) -> tuple[FloatArray | None, FloatArray | None]:
        """All ratios are 1."""
        return np.ones(len(piece)), None
