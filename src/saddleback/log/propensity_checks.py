"""Checks of logged propensities: are they probabilities, and those of the logged actions?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.diagnostics import Finding, ProblemCounter, format_rows

TOLERANCE = 1e-6
"""Largest deviation from 1 of a row of probabilities."""

BINS = 10_000
"""Bins of the histogram of propensities, which gives their median."""

AGREE = 1e-6
"""Largest difference at which a propensity agrees with μ of the action."""


class PropensityChecks:
    """Counts problems of the propensities of the logged actions."""

    def __init__(self, problems: ProblemCounter, names: Mapping[str, str], source: str) -> None:
        self._problems = problems
        self._name = {
            "mu": "mu of the logged action",
            names.get("behavior_logp"): f"exp({names.get('behavior_logp')})",
        }.get(source, source)
        self.low, self.high = np.inf, -np.inf
        self.histogram = np.zeros(BINS + 1, dtype=np.int64)
        self._negative: list[Any] = []
        self._zero: list[Any] = []
        self._agree, self._compared = np.zeros(3), 0

    def add(self, rows: DecodedRows, propensity: FloatArray) -> None:
        """Check the propensities of the next rows."""
        low, high = float(np.min(propensity)), float(np.max(propensity))
        if np.isnan(low):
            where = np.flatnonzero(np.isnan(propensity))
            self._problems.add(("E102", self._name, "NaN"), len(where), rows.locations(where))
            low = float(np.nanmin(propensity, initial=np.inf))
            high = float(np.nanmax(propensity, initial=-np.inf))
        self.low, self.high = min(self.low, low), max(self.high, high)
        if high > 1.0 + TOLERANCE:
            where = np.flatnonzero(propensity > 1.0 + TOLERANCE)
            self._problems.add(("E102", self._name, "> 1"), len(where), rows.locations(where))
        if low < 0.0:
            where = np.flatnonzero(propensity < 0)
            self._negative.append((len(where), rows.locations(where)))
        if low <= 0.0:
            where = np.flatnonzero(propensity == 0)
            self._zero.append((len(where), rows.locations(where)))
        valid = propensity[(propensity > 0) & (propensity <= 1)]
        self.histogram += np.bincount((valid * BINS).astype(np.int64), minlength=BINS + 1)
        mu = rows.tables.get("mu")
        if mu is not None and len(rows) > 1:
            mu_taken = mu[np.arange(len(rows)), np.maximum(rows.actions, 0)]
            same_episode = ~rows.starts[1:]
            self._compared += int(same_episode.sum())
            for k, (logged, expected) in enumerate(
                (
                    (propensity[1:], mu_taken[1:]),
                    (propensity[1:], mu_taken[:-1]),
                    (propensity[:-1], mu_taken[1:]),
                )
            ):
                differences = np.abs(logged - expected)[same_episode]
                self._agree[k] += int((differences <= AGREE).sum())

    def failed(self, allow_zero: bool) -> bool:
        """Whether there is an error that is counted only at the end."""
        return bool(self._negative or (self._zero and not allow_zero))

    def finalise(self, min_prob: float | None) -> None:
        """Count the problems whose kind depends on all rows."""
        if self._negative:
            kind = "log" if self.high <= 0.0 else "< 0"
            for count, locations in self._negative:
                self._problems.add(("E102", self._name, kind), count, locations)
        if self._zero and min_prob is None and not (self._negative and self.high <= 0.0):
            for count, locations in self._zero:
                self._problems.add(("E101", self._name), count, locations)

    def findings(self, n_rows: int, n_actions: int) -> list[Finding]:
        """Return the warnings that concern the propensities of the log as a whole."""
        findings = []
        low, high = self.low, self.high
        uniform = abs(low * n_actions - 1.0) <= AGREE and n_actions > 1
        if n_rows > 1 and low == high and 0 < low <= 1 and not uniform:
            reason = (
                "with a deterministic behaviour policy no other policy can be evaluated."
                if low == 1
                else f"not 1/{n_actions}. Check that it is the probability of the logged action."
            )
            findings.append(Finding("W103", f"{self._name} is {low} on every row: {reason}"))
        return findings + self._compare_with_mu()

    def _compare_with_mu(self) -> list[Finding]:
        """Return a warning if propensities differ from μ, or agree with it on another row."""
        if not self._compared:
            return []
        same, before, after = self._agree / self._compared
        if same >= 0.99:
            return []
        best, where = (before, "t-1") if before >= after else (after, "t+1")
        if best > max(0.95, same):
            return [
                Finding(
                    "W151",
                    f"{self._name} equals mu of step {where} on {best:.1%} of rows, but mu of step "
                    f"t on {same:.1%}: the column seems to be shifted by one row.",
                )
            ]
        different = int(self._compared - self._agree[0])
        return [
            Finding(
                "W152",
                f"{self._name} differs from mu of the logged action on {format_rows(different)}. "
                "Remove the one that is wrong.",
            )
        ]
