"""Values far outside all others: codes for missing values, slips of a unit, corrupted numbers.

Only the smallest and the largest value of a column are suspected, with the distance of the farthest
other value from the median as the scale, so that heavy tails and rare rewards at the end of
episodes are not: such values are either near others, or equal, or the others are constant. Several
different rewards are suspected together if the rest hardly matters beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from saddleback._typing import BoolArray, FloatArray
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.diagnostics import Finding, ProblemCounter
from saddleback.log.sample import StridedSample

if TYPE_CHECKING:
    from saddleback.log.log import Log

CODES = frozenset(
    {-99.0, *(s * (10.0**k - 1) for k in range(3, 11) for s in (1, -1))}
    | {-(2.0**15), 2.0**15 - 1, -(2.0**31), 2.0**31 - 1, -(2.0**63), 2.0**63}
)
"""Numbers that often stand for a missing value."""

CODE_DISTANCE, REPEATED_DISTANCE, SINGLE_DISTANCE = 3.0, 1000.0, 100.0
"""Distances from the median, relative to the farthest other value, from which a value is suspected:
that of a code, of another value that several rows have, and of one that a single row has."""

HUGE = 1e15
"""Size from which a value is always suspected, if the median is below its square root."""

IMPROBABLE = 1e-3
"""Probability below which a small propensity of an action that was taken is suspected."""

DOMINANT_SHARE = 0.5
"""Share of the sum of all rewards' sizes above which a few of them are suspected."""

SAMPLED_ROWS = 4096
"""Number of rows from which medians are computed."""


@dataclass
class _Extreme:
    """The largest of the numbers so far, after multiplication by a sign, and the next smaller."""

    sign: float
    value: float = -np.inf
    following: float = -np.inf
    count: int = 0
    only_at_ends: bool = True
    rows: ProblemCounter = field(default_factory=ProblemCounter)

    def add(self, rows: DecodedRows, column: FloatArray) -> None:
        """Add the next rows."""
        with np.errstate(invalid="ignore"):  # a signalling NaN, which a damaged file may contain
            signed = self.sign * column
        top = float(np.max(signed, initial=-np.inf, where=np.isfinite(signed)))
        if top < self.value:
            self.following = max(self.following, top)
            return
        hit: BoolArray = signed == top
        below = float(np.max(signed, initial=-np.inf, where=signed < top))
        if top > self.value:
            self.following, self.value, self.count = self.value, top, 0
            self.only_at_ends, self.rows = True, ProblemCounter()
        self.following = max(self.following, below)
        self.count += int(hit.sum())
        self.only_at_ends &= bool((rows.terminated | rows.truncated)[hit].all())
        self.rows.add("W155", rows, hit)


class _RewardSizes:
    """Number and sum of the sizes of rewards other than 0, by power of two."""

    EXPONENTS = 2100  # of any number, shifted by 1075

    def __init__(self) -> None:
        self._count, self._inside, self._sum = (np.zeros(self.EXPONENTS) for _ in range(3))

    def add(self, rows: DecodedRows) -> None:
        """Add the next rows."""
        size = np.abs(rows.rewards)
        used = np.isfinite(size) & (size > 0)
        bins, inside = np.frexp(size[used])[1] + 1075, ~(rows.terminated | rows.truncated)[used]
        for sums, weights in ((self._count, None), (self._inside, inside), (self._sum, size[used])):
            sums += np.bincount(bins, weights, self.EXPONENTS)

    def dominant(self, equal: int) -> tuple[int, float] | None:
        """Return how many rewards make up most of the sum, and their share, if these are few.

        Few are ten, or a thousandth if that is more, but at most a hundredth. They are as intended
        if most are equal, as the ``equal`` largest are, or all are at the ends of episodes.
        """
        n, total = int(self._count.sum()), float(self._sum.sum())
        count, inside, sums = (
            np.cumsum(x[::-1]) for x in (self._count, self._inside, self._sum)
        )  # fmt: skip
        few = np.flatnonzero(count <= min(n // 100, max(10, n // 1000)))
        if not len(few) or not np.isfinite(total) or not inside[few[-1]]:
            return None
        number, share = int(count[few[-1]]), float(sums[few[-1]]) / total
        intended = equal > 1 and 2 * equal >= number
        return (number, share) if share > DOMINANT_SHARE and not intended else None


class Outliers:
    """Finds the outliers of rewards, observations, continuous actions and propensities."""

    def __init__(self, log: Log, propensity: str) -> None:
        self._actions = log.roles.actions
        self._names = [log.roles.names["reward"], *log.observation_names, *self._actions]
        self._filled = log.fill_reward  # the reward where none was logged
        self._ends = [(_Extreme(-1.0), _Extreme(1.0)) for _ in self._names]
        self._propensity, self._smallest = propensity, _Extreme(-1.0)
        self._sample, self._sizes = StridedSample(SAMPLED_ROWS), _RewardSizes()
        self._rows = 0

    def add(self, rows: DecodedRows) -> None:
        """Add the next rows."""
        actions = rows.tables["action"].T if self._actions else ()
        columns = [rows.rewards, *rows.observations.T, *actions]
        self._rows += len(rows)
        self._sample.add(*columns)
        self._sizes.add(rows)
        for ends, column in zip(self._ends, columns, strict=True):
            for end in ends:
                end.add(rows, column)
        if rows.propensity is not None and not self._actions:  # densities have no scale
            self._smallest.add(rows, np.where(rows.propensity > 0, rows.propensity, np.inf))

    def findings(self, n_actions: int) -> tuple[list[Finding], int]:
        """Return a warning for each outlier, and the number of rows they are on.

        Of outliers in observations at most a hundredth of the rows count: they may be intended.
        """
        suspected = list(self._suspected(n_actions))
        in_observations = sum(end.count for k, end, _ in suspected if k > 0)
        count = sum(end.count for k, end, _ in suspected if k <= 0)
        if not any(k == 0 for k, *_ in suspected):
            largest = max(self._ends[0], key=lambda end: abs(end.value))
            equal = sum(end.count for end in self._ends[0] if abs(end.value) == abs(largest.value))
            if (dominant := self._sizes.dominant(equal)) is not None:
                count += dominant[0]
                suspected.append((0, largest, (
                    f"{_escaped(self._names[0])}: {dominant[0]:,} of {self._rows:,} rows make up "
                    f"{dominant[1]:.0%} of the sum of sizes, above all {{rows}} with "
                    f"{largest.sign * largest.value:.6g}: probably an error."
                )))  # fmt: skip
        findings = [
            finding
            for _, end, message in suspected
            for finding in end.rows.findings({"W155": (message, None)})
        ]
        return findings, count + min(in_observations, max(1, self._rows // 100))

    def _suspected(self, n_actions: int) -> Iterator[tuple[int, _Extreme, str]]:
        """Yield each outlier: number of its column (−1 for propensities), the end, a message."""
        samples = self._sample.rows if self._rows else ()
        for k, (name, sample) in enumerate(zip(self._names, samples, strict=False)):
            for end, other in (self._ends[k], self._ends[k][::-1]):
                value, rest = end.sign * end.value, sample[np.isfinite(sample)]
                rest = rest[rest != value]
                if not len(rest) or end.following == -np.inf:
                    continue
                opposite = other.following if other.sign * other.value in CODES else other.value
                low, high = sorted((end.sign * end.following, other.sign * opposite))
                is_filled = k == 0 and value == self._filled and 2 * end.count < self._rows
                is_reading = value not in CODES and not is_filled
                if _is_outlier(end, value, float(np.median(rest)), (low, high), is_reading):
                    what = "a code for missing values" if value in CODES else "an error"
                    yield k, end, (
                        f"{_escaped(name)} is {value:.6g} in {{rows}}, and from {low:.6g} to "
                        f"{high:.6g} in all others: probably {what}."
                    )  # fmt: skip
        smallest = -self._smallest.value
        if smallest * n_actions * self._rows < IMPROBABLE * self._smallest.count:
            yield -1, self._smallest, (
                f"{_escaped(self._propensity)} is {smallest:.3g} in {{rows}}: actions of that "
                f"probability are hardly ever taken in {self._rows:,} rows."
            )  # fmt: skip


def _is_outlier(
    end: _Extreme, value: float, median: float, others: tuple[float, float], is_reading: bool
) -> bool:
    """Whether an extreme value, which a reading may be, is too far from the others."""
    distance = abs(value - median)
    if abs(value) >= HUGE and abs(median) < np.sqrt(HUGE):
        return True
    reach = max(abs(other - median) for other in others)
    if not is_reading:
        return distance > CODE_DISTANCE * reach
    if not reach:  # the others are constant, which gives no scale
        return False
    if end.count == 1:
        return distance > SINGLE_DISTANCE * reach
    return distance > REPEATED_DISTANCE * reach and not end.only_at_ends


def _escaped(name: str) -> str:
    """Return a name for use in a message that is formatted."""
    return name.replace("{", "{{").replace("}", "}}")
