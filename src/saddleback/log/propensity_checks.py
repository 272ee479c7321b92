"""Propensities of a log: are they probabilities, of these actions, on these rows?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.diagnostics import Finding, ProblemCounter
from saddleback.log.diagnostics import rows as many

TOLERANCE = 1e-6
"""How far a row of probabilities may sum from 1."""

BINS = 10_000
"""Bins of the histogram of propensities, for their median."""

AGREE = 1e-6
"""How near a propensity must be to μ of the action to count as the same."""


class PropensityChecks:
    """Counts what is wrong with the probabilities of the actions taken."""

    def __init__(self, problems: ProblemCounter, names: Mapping[str, str], prob: str) -> None:
        self._problems = problems
        self._name = {
            "mu": "mu of the action taken",
            names.get("behavior_logp"): f"exp({names.get('behavior_logp')})",
        }.get(prob, prob)
        self.low, self.high = np.inf, -np.inf
        self.histogram = np.zeros(BINS + 1, dtype=np.int64)
        self._below_zero: list[Any] = []
        self._zero: list[Any] = []
        self._agree, self._compared = np.zeros(3), 0

    def look(self, piece: DecodedRows, prob: FloatArray) -> None:
        """Take in the propensities of the next rows."""
        low, high = float(np.min(prob)), float(np.max(prob))
        if np.isnan(low):
            where = np.flatnonzero(np.isnan(prob))
            self._problems.add(("E102", self._name, "NaN"), len(where), piece.places(where))
            low = float(np.nanmin(prob, initial=np.inf))
            high = float(np.nanmax(prob, initial=-np.inf))
        self.low, self.high = min(self.low, low), max(self.high, high)
        if high > 1.0 + TOLERANCE:
            where = np.flatnonzero(prob > 1.0 + TOLERANCE)
            self._problems.add(("E102", self._name, "> 1"), len(where), piece.places(where))
        if low < 0.0:
            where = np.flatnonzero(prob < 0)
            self._below_zero.append((len(where), piece.places(where)))
        if low <= 0.0:
            where = np.flatnonzero(prob == 0)
            self._zero.append((len(where), piece.places(where)))
        inside = prob[(prob > 0) & (prob <= 1)]
        self.histogram += np.bincount((inside * BINS).astype(np.int64), minlength=BINS + 1)
        mu = piece.tables.get("mu")
        if mu is not None and len(piece) > 1:
            own = mu[np.arange(len(piece)), np.maximum(piece.actions, 0)]
            inner = ~piece.starts[1:]
            self._compared += int(inner.sum())
            for k, (mine, theirs) in enumerate(
                ((prob[1:], own[1:]), (prob[1:], own[:-1]), (prob[:-1], own[1:]))
            ):
                self._agree[k] += int((np.abs(mine - theirs)[inner] <= AGREE).sum())

    def failed(self, zero_is_fine: bool) -> bool:
        """Whether an error has been found that is counted only at the end."""
        return bool(self._below_zero or (self._zero and not zero_is_fine))

    def finalise(self, min_prob: float | None) -> None:
        """Count what could be told only after the last row."""
        if self._below_zero:
            kind = "log" if self.high <= 0.0 else "< 0"
            for count, places in self._below_zero:
                self._problems.add(("E102", self._name, kind), count, places)
        if self._zero and min_prob is None and not (self._below_zero and self.high <= 0.0):
            for count, places in self._zero:
                self._problems.add(("E101", self._name), count, places)

    def findings(self, rows: int, actions: int) -> list[Finding]:
        """Say what is odd about a log of so many rows and actions as a whole."""
        found = []
        low, high = self.low, self.high
        uniform = abs(low * actions - 1.0) <= AGREE and actions > 1
        if rows > 1 and low == high and 0 < low <= 1 and not uniform:
            why = "is it really the same for every row?"
            if low == 1:
                why = "a deterministic log cannot support pi unless pi = mu"
            found.append(Finding("W103", f"{self._name} is {low} on every row: {why}"))
        return found + self._shifted()

    def _shifted(self) -> list[Finding]:
        """Propensities that belong to another row."""
        if not self._compared:
            return []
        here, before, after = self._agree / self._compared
        if here >= 0.99:
            return []
        best, where = (before, "t-1") if before >= after else (after, "t+1")
        if best > max(0.95, here):
            return [
                Finding(
                    "W151",
                    f"{self._name} matches your mu at step {where} on {best:.1%} of rows, at t on "
                    f"{here:.1%}: shifted by one?",
                )
            ]
        return [
            Finding(
                "W152",
                f"{self._name} differs from mu of the action taken on {many(self._differ)}: which "
                "of them is right? Drop the other.",
            )
        ]

    @property
    def _differ(self) -> int:
        return int(self._compared - self._agree[0])
