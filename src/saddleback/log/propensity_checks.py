"""Checks of the propensities of the logged actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.diagnostics import Finding, ProblemCounter, format_rows
from saddleback.log.sample import StridedSample

if TYPE_CHECKING:
    from saddleback.log.log import Log

TOLERANCE = 1e-6
"""Largest deviation from 1 of a row of probabilities."""

SMALLEST_PROPENSITY = 1e-30
"""Smallest propensity of an action that was taken; ratios of smaller ones overflow."""

LEAST_SUGGESTED = 1e-3
"""Smallest bound on propensities that a message suggests."""

BINS = 10_000
"""Bins of the histogram of propensities, which gives their median."""

CLEARLY = 2.0
"""Factor by which one explanation of propensities above 1 must be closer than the other."""

AGREE = 1e-6
"""Largest difference at which a propensity agrees with μ of the action."""


class PropensityChecks:
    """Counts problems of the propensities of the logged actions."""

    def __init__(self, problems: ProblemCounter, log: Log) -> None:
        self._problems, self._is_density = problems, log.has_continuous_actions
        self._densities = StridedSample()
        logp = log.roles.names.get("behavior_logp")
        self.name = {"mu": "mu of the logged action", logp: f"exp({logp})"}.get(
            log.propensity, log.propensity
        )
        self.low, self.high = np.inf, -np.inf
        self.low_positive = np.inf
        self.histogram = np.zeros(BINS + 1, dtype=np.int64)
        self._agree, self._compared = np.zeros(3), 0
        self._n_positive, self._sum, self._inverse_sum = 0, 0.0, 0.0

    def add(self, rows: DecodedRows, propensity: FloatArray) -> None:
        """Check the propensities of the next rows."""
        low, high = float(np.min(propensity)), float(np.max(propensity))
        if np.isnan(low):
            self._problems.add("E102 NaN", rows, np.isnan(propensity), self.name)
            low = float(np.nanmin(propensity, initial=np.inf))
            high = float(np.nanmax(propensity, initial=-np.inf))
        self.low, self.high = min(self.low, low), max(self.high, high)
        positive = propensity[propensity >= SMALLEST_PROPENSITY]
        valid = positive if self._is_density else positive[positive <= 1.0]
        self.low_positive = min(self.low_positive, float(valid.min(initial=np.inf)))
        self._n_positive += len(positive)
        self._sum += float(positive.sum())
        self._inverse_sum += float((1.0 / positive).sum())
        if high > 1.0 + TOLERANCE and not self._is_density:
            self._problems.add("E102 > 1", rows, propensity > 1.0 + TOLERANCE, self.name)
        if low <= 0.0:
            self._problems.add("E102 < 0", rows, propensity < 0, self.name)
            self._problems.add("E101", rows, propensity == 0, self.name)
        if low < SMALLEST_PROPENSITY:
            small = (propensity > 0) & (propensity < SMALLEST_PROPENSITY)
            self._problems.add("E101 > 0", rows, small, self.name)
        if self._is_density:
            self._densities.add(propensity)
            return
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

    @property
    def median(self) -> float | None:
        """The median, to four decimals for probabilities; None if there are none."""
        if self._is_density and np.isfinite(self.low):
            return float(np.median(self._densities.rows[0]))
        cumulative = np.cumsum(self.histogram)
        if not cumulative[-1]:
            return None
        return int(np.searchsorted(cumulative, (cumulative[-1] + 1) // 2)) / BINS

    @property
    def exceeds_one(self) -> bool:
        """Whether there are probabilities above 1."""
        return self.high > 1.0 + TOLERANCE and not self._is_density

    @property
    def suggested_min_prob(self) -> float | None:
        """A bound that changes only invalid propensities, or hardly any others, if there is one."""
        if not np.isfinite(self.low_positive):
            return None
        bound = min(max(self.low_positive, LEAST_SUGGESTED), 1.0)
        unit = 10.0 ** np.floor(np.log10(bound))
        return float(f"{np.floor(bound / unit * (1 + 1e-12)) * unit:.1g}")

    def renamed(self, min_prob: float | None, n_actions: int) -> dict[str, str | None]:
        """Return other keys of the problems whose kind depends on all rows."""
        if self.low < 0.0 and self.high <= 0.0:
            return {"E102 < 0": "E102 log", "E101": None}
        if self.low >= 1.0 and self.high > 1.0 and not self._is_density:
            return {"E102 > 1": self._kind_above_1(n_actions)}
        return {} if min_prob is None else {"E101": None, "E101 > 0": None}

    def _kind_above_1(self, n_actions: int) -> str:
        """Return the key of the message about propensities that are all at least 1.

        The mean of 1/μ(A|S) is the number of actions that μ takes: that of 100/p of percentages,
        and of inverse propensities themselves.
        """
        percent, inverse = (
            abs(np.log(total / self._n_positive / n_actions))
            for total in (100.0 * self._inverse_sum, self._sum)
        )
        margin = np.log(CLEARLY)
        if self.high > 100.0:
            return "E102 inverse" if inverse <= margin else "E102 > 1"
        if abs(percent - inverse) < margin:
            return "E102 percent or inverse"
        return "E102 percent" if percent < inverse else "E102 inverse"

    def findings(self, n_rows: int, n_actions: int) -> list[Finding]:
        """Return the warnings that concern the propensities of the log as a whole."""
        findings: list[Finding] = []
        low, high = self.low, self.high
        if self._is_density:
            return findings
        uniform = abs(low * n_actions - 1.0) <= AGREE and n_actions > 1
        if n_rows > 1 and low == high and 0 < low <= 1 and not uniform:
            reason = (
                "with a deterministic behaviour policy no other policy can be evaluated."
                if low == 1
                else f"not 1/{n_actions}. Check that it is the probability of the logged action."
            )
            findings.append(Finding("W103", f"{self.name} is {low} on every row: {reason}"))
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
                    f"{self.name} equals mu of step {where} on {best:.1%} of rows, but mu of step "
                    f"t on {same:.1%}: the column seems to be shifted by one row.",
                )
            ]
        different = int(self._compared - self._agree[0])
        return [
            Finding(
                "W152",
                f"{self.name} differs from mu of the logged action on {format_rows(different)}. "
                "Remove the one that is wrong.",
            )
        ]
