"""The behaviour policy as a target, even if its probabilities are unknown.

E_μ φ(S', ·) is replaced by φ(S', A') of the logged action, which has the same mean. The estimator
used for other policies can thus be compared with the logged returns, whether or not μ is known or
correct.
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
    """Raise an error if a target has the name that is reserved for the behaviour policy."""
    if NAME in names:
        raise InvalidParameter(f"{NAME!r} is a reserved target name. Choose another one.")


@dataclass(frozen=True, eq=False)
class BehaviourTarget(Target):
    """The behaviour policy, represented by the logged actions.

    Attributes
    ----------
    action_frequencies
        Share of each action in the log, [K]. They replace μ in the states that truncated episodes
        led to, where no action was logged, if μ is unknown there.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> BehaviourTarget.of(collect(problems.mountain_car(), episodes=5, rng=0)).name
    'logged policy'
    """

    action_frequencies: tuple[float, ...] = ()

    @classmethod
    def of(cls, log: Log) -> BehaviourTarget:
        """Return the behaviour policy of a log; reads it once to count the actions.

        Examples
        --------
        >>> from saddleback import problems
        >>> from saddleback.log import collect
        >>> log = collect(problems.mountain_car(), episodes=5, rng=0)
        >>> [round(share, 2) for share in BehaviourTarget.of(log).action_frequencies]
        [0.44, 0.01, 0.55]
        """
        return cls.from_counts(np.asarray(log.summary().taken, dtype=np.float64))

    @classmethod
    def from_counts(cls, counts: FloatArray) -> BehaviourTarget:
        """Return the behaviour policy of a log in which each action was taken ``counts`` times."""
        frequencies = counts / max(1.0, counts.sum())
        return cls(NAME, "as logged", action_frequencies=tuple(frequencies.tolist()))

    def probabilities(self, segment: Segment, n_actions: int) -> FloatArray:
        """Return 1 for the logged actions and 0 for the others, [m, K]."""
        pi = np.zeros((len(segment.observations), n_actions))
        n_rows = len(segment.rows)
        pi[np.arange(n_rows), segment.rows.actions] = 1.0
        pi[n_rows:] = self.action_frequencies
        mu = segment.tables.get("mu")
        if mu is not None and len(mu) > n_rows:
            recorded = ~np.isnan(mu[n_rows:]).any(axis=1)
            pi[n_rows:][recorded] = mu[n_rows:][recorded]
        if segment.next_action is not None:
            pi[-1] = 0.0
            pi[-1, segment.next_action] = 1.0
        return pi

    def behaviour(self, segment: Segment) -> tuple[FloatArray | None, FloatArray | None]:
        """Return propensities of 1, so that all ratios are 1."""
        return np.ones(len(segment)), None
