"""Counts over a log: mergeable like its statistics, and the evidence behind a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback._typing import FloatArray, IntArray
from saddleback.errors import Fix
from saddleback.log import Finding, Log, Segment
from saddleback.log.altered_rows import AlteredRows
from saddleback.log.diagnostics import ProblemCounter, format_rows
from saddleback.log.episode_hashes import Fingerprints
from saddleback.log.episode_returns import EpisodeReturns
from saddleback.ope.log_pass import Job, SegmentBatch
from saddleback.ope.policy_counts import PolicyCounts

NEIGHBOURING_LENGTHS = 5
"""How many lengths below the maximum are compared with it."""

NEGLIGIBLE = 1e-6
"""Share of π's probability on actions μ never takes that is attributed to rounding."""

BOX_ROUNDING = 1e-9
"""Part of the width of a box that is attributed to rounding."""

MAX_OUTSIDE = 0.01
"""Share of rows outside the box above which there is a warning."""


class EpisodeTotals:
    """What the episodes of a log are: their returns, ids and fingerprints, and block numbers."""

    def __init__(self, log: Log, gamma: float) -> None:
        self.returns = EpisodeReturns(gamma, log.time_limit == "task")
        self._fingerprints, self._numbers = Fingerprints(), [np.zeros(0, dtype=np.uint64)]

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        """Add the next segment."""
        self.returns.add(batch.segment)
        self._fingerprints.add(batch.segment)
        self._numbers.append(batch.block_numbers[1:])
        return ()

    def blocks(self, count: int) -> IntArray:
        """Return which of a number of blocks each episode belongs to, [n]."""
        return (np.concatenate(self._numbers) % np.uint64(count)).astype(np.int64)

    def identities(self) -> dict[str, Any]:
        """Return ids, fingerprints and which may continue, as fields of `Statistics`."""
        names = ("ids", "fingerprints", "unfinished")
        return dict(zip(names, self._fingerprints.arrays(), strict=True))


@dataclass(frozen=True, eq=False)
class LogCounts:
    """Counts over a log."""

    visits: FloatArray  # number of steps on which each feature was active, [p]
    # For each target Σ|b| over the successor states, [T, p]: the features of its actions there.
    mass: FloatArray
    # Terminated episodes by block, [B, 3]: number, Σ and Σ² of their discounted returns.
    returns: FloatArray
    rewards: FloatArray  # smallest and largest reward, [2]
    truncated_weight: FloatArray  # Σγ^T over truncated episodes, [1]
    lengths: IntArray  # lengths of terminated episodes and the number of each, [n, 2]
    altered: IntArray  # the numbers of `AlteredRows`, [14]
    by_target: tuple[PolicyCounts, ...]  # counts for each target policy

    @classmethod
    def of(
        cls,
        returns: EpisodeReturns,
        block: IntArray,
        blocks: int,
        gamma: float,
        altered: AlteredRows,
        visits: FloatArray,
        mass: FloatArray,
        by_target: tuple[PolicyCounts, ...],
    ) -> LogCounts:
        """Count the episodes by block; the other arguments are attributes."""
        done, ended = np.zeros((blocks, 3)), returns.ended
        value = returns.returns[ended]
        for column, moment in enumerate((np.ones_like(value), value, value**2)):
            np.add.at(done[:, column], block[ended], moment)
        lengths = np.column_stack(np.unique(returns.lengths[ended], return_counts=True))
        # One by one, so that the sum does not depend on how the log is divided into segments.
        steps = returns.lengths[~ended] - 1
        weight = np.cumsum(np.append(0.0, gamma ** steps.astype(np.float64) * gamma))[-1:]
        rewards, numbers = returns.rewards, altered.array
        return cls(visits, mass, done, rewards, weight, lengths, numbers, by_target)

    def merge(self, other: LogCounts) -> LogCounts:
        """Return the counts of both logs together."""
        low, high = np.minimum(self.rewards, other.rewards), np.maximum(self.rewards, other.rewards)
        return LogCounts(
            self.visits + other.visits, self.mass + other.mass, self.returns + other.returns,
            np.array([low[0], high[1]]), self.truncated_weight + other.truncated_weight,
            merge_lengths(np.concatenate([self.lengths, other.lengths])),
            self.altered + other.altered,
            tuple(map(PolicyCounts.merge, self.by_target, other.by_target)),
        )  # fmt: skip

    @property
    def altered_rows(self) -> AlteredRows:
        """What was dropped, cut or clipped."""
        return AlteredRows(*self.altered.tolist())

    def attainable_returns(self, gamma: float) -> tuple[float, float]:
        """Return the least and the largest sum of discounted rewards within those of the log.

        Over the longest episode, or without end if some were truncated.
        """
        steps = np.inf if self.truncated_weight[0] > 0 else float(self.lengths[:, 0].max(initial=0))
        total = steps if gamma == 1.0 else (1.0 - gamma**steps) / (1.0 - gamma)
        low, high = min(0.0, float(self.rewards[0])), max(0.0, float(self.rewards[1]))
        return (low and low * total), (high and high * total)

    @property
    def time_limit(self) -> tuple[int, float]:
        """The maximum length of terminated episodes, and the share of them with that length.

        Where lengths vary and many more episodes have the maximum than lengths just below it, a
        time limit may have been logged as termination; otherwise the share is 0.
        """
        ends = dict(self.lengths.tolist())
        longest = max(ends, default=0)
        before = [ends.get(longest - k, 0) for k in range(1, NEIGHBOURING_LENGTHS + 1)]
        common = longest > NEIGHBOURING_LENGTHS and ends[longest] > max(2, 3 * max(before))
        if not common or len(ends) < 2:
            return longest, 0.0
        return longest, ends[longest] / sum(ends.values())


def merge_lengths(lengths: IntArray) -> IntArray:
    """Merge pairs of length and count, [n, 2], so that each length occurs once."""
    values, where = np.unique(lengths[:, 0], return_inverse=True)
    count = np.bincount(where, lengths[:, 1], len(values)).astype(np.int64)
    return np.column_stack([values, count])


class ActionSupport:
    """Accumulates π's probability on actions that μ does not take.

    Where μ is known for all actions, state by state; otherwise on actions that no row takes.
    """

    def __init__(self, name: str, actions: tuple[str, ...]) -> None:
        self._name, self._actions = name, actions
        self._rows = 0
        self._never, self._taken = (np.zeros(len(actions)) for _ in range(2))
        self._mass, self._where = (np.zeros(len(actions)) for _ in range(2))

    def add(self, segment: Segment, pi: FloatArray, mu: FloatArray | None) -> None:
        """Add the next segment."""
        row_pi = pi[segment.states]
        self._rows += len(row_pi)
        self._taken += np.bincount(segment.actions, minlength=len(self._actions))
        if mu is None:
            self._mass += np.ones(len(row_pi)) @ row_pi
            self._where += np.ones(len(row_pi)) @ (row_pi > 0)
            return
        if mu.min() > 0:
            return
        missing = (mu[segment.states] == 0) & (row_pi > 0)
        self._never += np.where(missing, row_pi, 0.0).sum(axis=0)
        self._where += missing.sum(axis=0)

    def finding(self, allowed: bool) -> Finding | None:
        """Return a warning or an error if some of π's probability is not covered."""
        mass = self._never + np.where(self._taken == 0, self._mass, 0.0)
        if not mass.sum() > NEGLIGIBLE * self._rows:
            return None
        worst = int(mass.argmax())
        return Finding(
            "W110" if allowed else "E110",
            f"target {self._name!r} takes actions that the logged policy never takes: "
            f"{mass.sum() / self._rows:.1%} of its probability (action {self._actions[worst]!r} in "
            f"{format_rows(int(self._where[worst]))}). Importance-weighted estimates are biased.",
            None
            if allowed
            else Fix(
                "Restrict the target to logged actions, or accept the bias", "allow_uncovered", True
            ),
        )


class OutsideBox:
    """Counts the rows outside the box of features, if they have one."""

    def __init__(self, features: Any, columns: tuple[str, ...]) -> None:
        self._box: FloatArray | None = None
        ends: Any = (getattr(features, "low", None), getattr(features, "high", None))
        if np.shape(ends[0]) == np.shape(ends[1]) == (len(columns),):
            self._box = np.asarray(ends, dtype=np.float64)
        self._columns, self.rows, self._all_rows = columns, 0, 0
        self._problems = [ProblemCounter() for _ in columns]
        self._by_column: FloatArray = np.zeros(len(columns))

    def add(self, segment: Segment) -> None:
        """Add the next segment."""
        if self._box is None:
            return
        rows, (low, high) = segment.rows, self._box
        distance = np.maximum(low - rows.observations, rows.observations - high)
        wrong = distance > BOX_ROUNDING * (high - low)
        self._all_rows += len(rows)
        self.rows += int(wrong.any(axis=1).sum())
        self._by_column += wrong.sum(axis=0)
        for problems, column, mask in zip(self._problems, self._columns, wrong.T, strict=True):
            problems.add("W156", rows, mask, column)

    def finding(self) -> Finding | None:
        """Return a warning that names the column with the most such rows, and the first of them."""
        if self._box is None or self.rows <= MAX_OUTSIDE * self._all_rows:
            return None
        k = int(self._by_column.argmax())
        low, high = self._box[:, k]
        message = (
            f"{{0}} is not between {low:.6g} and {high:.6g}, the box of the features, "
            "in {rows}: observations are clipped to the box."
        )
        return self._problems[k].findings({"W156": (message, None)})[0]
