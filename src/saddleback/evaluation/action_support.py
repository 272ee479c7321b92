"""Does the log take the actions that the target policy would take?"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log import Finding, Segment

NEGLIGIBLE = 1e-6
"""Share of π's probability that may lie where μ never goes, as rounding leaves it."""


class Coverage:
    """Adds up π's probability on actions that μ does not take.

    Where the whole of μ is known, in the very state; else on actions that no row of the log takes.
    """

    def __init__(self, name: str, actions: tuple[str, ...]) -> None:
        self._name, self._actions = name, actions
        self._rows = 0
        self._never, self._taken = (np.zeros(len(actions)) for _ in range(2))
        self._mass, self._where = (np.zeros(len(actions)) for _ in range(2))

    def add(self, piece: Segment, pi: FloatArray, mu: FloatArray | None) -> None:
        """Take in the next piece."""
        here = pi[piece.states]
        self._rows += len(here)
        self._taken += np.bincount(piece.actions, minlength=len(self._actions))
        if mu is None:
            self._mass += np.ones(len(here)) @ here
            self._where += np.ones(len(here)) @ (here > 0)
            return
        if mu.min() > 0:
            return
        missing = (mu[piece.states] == 0) & (here > 0)
        self._never += np.where(missing, here, 0.0).sum(axis=0)
        self._where += missing.sum(axis=0)

    def finding(self, allowed: bool) -> Finding | None:
        """Say what is not covered, if anything."""
        mass = self._never + np.where(self._taken == 0, self._mass, 0.0)
        if not mass.sum() > NEGLIGIBLE * self._rows:
            return None
        worst = int(mass.argmax())
        return Finding(
            "W110" if allowed else "E110",
            f"pi ({self._name}) puts mass on actions mu never takes: "
            f"{mass.sum() / self._rows:.1%} of pi's probability (action "
            f"{self._actions[worst]!r} in {int(self._where[worst]):,} rows). Ratio estimators are "
            "biased; use DM only (allow_uncovered) or restrict pi.",
        )
