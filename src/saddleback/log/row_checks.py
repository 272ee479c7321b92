"""Checks of every row of a log, and the counts and ranges of its summary."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import numpy as np

from saddleback._typing import BoolArray, FloatArray
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.diagnostics import MAX_LOCATIONS, Finding, ProblemCounter
from saddleback.log.episode_ids import EpisodeIds
from saddleback.log.messages import MESSAGES
from saddleback.log.propensity_checks import TOLERANCE, PropensityChecks


class RowChecks:
    """Counts the problems of rows as they are read, and summarises their values."""

    def __init__(
        self,
        names: Mapping[str, str],
        observations: tuple[str, ...],
        actions: Sequence[str],
        propensity_source: str,
        check_clock: bool = False,
    ) -> None:
        self.problems = ProblemCounter()
        self._names, self._observations, self._actions = names, observations, actions
        self.propensities = PropensityChecks(self.problems, names, propensity_source)
        self.n_rows = self.n_episodes = 0
        self.action_counts = np.zeros(len(actions), dtype=np.int64)
        self.reward_sum, self.reward_low, self.reward_high = 0.0, np.inf, -np.inf
        self.n_rewards = 0
        self.low: FloatArray = np.full(0, np.inf)
        self.high: FloatArray = np.full(0, -np.inf)
        self._ids = EpisodeIds()
        self._zero_starts = self._zero_inside = self._after_end = 0
        self._last_step, self._last_id_missing = 0, False
        self._last_row_ended = False
        self._check_clock = check_clock
        self._last_observation: FloatArray | None = None
        self._increments: tuple[FloatArray, FloatArray] | None = None

    def add(self, rows: DecodedRows) -> None:
        """Check the next rows."""
        self.n_rows += len(rows)
        starts = np.flatnonzero(rows.starts)
        self.n_episodes += len(starts)
        self.action_counts += np.bincount(
            rows.actions[rows.actions >= 0], minlength=len(self.action_counts)
        )
        self._check_missing(rows)
        self._check_actions(rows)
        self._ids.add(rows.ids.take(starts), starts + rows.first)
        self._check_numbers(rows)
        if self._check_clock:
            self._track_increments(rows)
        self._check_steps(rows)
        if rows.propensity is not None:
            self.propensities.add(rows, rows.propensity)
        for name, table in rows.tables.items():
            self._check_table(rows, name, table)
        zero = rows.rewards == 0.0
        ended = rows.terminated | rows.truncated
        after_end = rows.starts & np.append(self._last_row_ended, ended[:-1])
        self._last_row_ended = bool(ended[-1])
        self._after_end += int(after_end.sum())
        self._zero_starts += int((zero & after_end).sum())
        self._zero_inside += int((zero & ~after_end).sum())

    def _check_missing(self, rows: DecodedRows) -> None:
        """Count missing values of columns that must be complete."""
        if rows.ids.null_count:
            rows.invalid["episode_id"] = rows.ids.is_null().to_numpy(zero_copy_only=False)
        for role in ("episode_id", "step", "terminated", "truncated"):
            if role in rows.invalid:
                missing = np.flatnonzero(rows.invalid[role])
                locations = [(None, rows.first + int(i)) for i in missing[:MAX_LOCATIONS]]
                self.problems.add(("E121", self._names[role], role), len(missing), locations)

    def _check_actions(self, rows: DecodedRows) -> None:
        """Count unknown actions, and suggest the name that was probably meant."""
        unknown = np.flatnonzero(rows.actions < 0)
        if not len(unknown):
            return
        names, (value,) = list(self._actions), rows.invalid["action"]
        numbered = names == list(map(str, range(len(names))))
        expected = f"0 … {len(names) - 1}" if numbered else ", ".join(names)
        close = []
        if not numbered and value is not None:
            close = difflib.get_close_matches(str(value), names, n=1)
        shown = "empty" if value is None else repr(value)
        self.problems.add(
            ("E145", self._names["action"], expected), len(unknown), rows.locations(unknown),
            (shown, *(close or [""])),
        )  # fmt: skip

    def _check_numbers(self, rows: DecodedRows) -> None:
        if not len(self.low):
            self.low = np.full(len(self._observations), np.inf)
            self.high = np.full(len(self._observations), -np.inf)
        for d, (name, column) in enumerate(
            zip(self._observations, rows.observations.T, strict=True)
        ):
            low, high = self._finite_range(rows, name, column)
            self.low[d], self.high[d] = min(self.low[d], low), max(self.high[d], high)
        self._check_next_observations(rows)
        low, high = self._finite_range(rows, self._names["reward"], rows.rewards)
        self.reward_low, self.reward_high = min(self.reward_low, low), max(self.reward_high, high)
        finite = np.isfinite(rows.rewards)
        self.reward_sum += float(rows.rewards.sum(where=finite))
        self.n_rewards += int(finite.sum())

    def _finite_range(
        self, rows: DecodedRows, name: str, column: FloatArray
    ) -> tuple[float, float]:
        """Return the range of a column, and count NaN and infinities."""
        low, high = float(column.min()), float(column.max())
        if np.isfinite(low) and np.isfinite(high):
            return low, high
        for kind, wrong in (("NaN", np.isnan(column)), ("infinite", np.isinf(column))):
            where = np.flatnonzero(wrong)
            self.problems.add(("E120", name, kind), len(where), rows.locations(where))
        finite = column[np.isfinite(column)]
        return float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))

    def _check_next_observations(self, rows: DecodedRows) -> None:
        """Count next observations of truncated rows that are known only in part."""
        if rows.next_observations is None:
            return
        truncated = np.flatnonzero(rows.truncated)
        next_rows = rows.next_observations[truncated]
        finite = np.isfinite(next_rows)
        partial = ~finite.all(axis=1) & (finite.any(axis=1) | np.isinf(next_rows).any(axis=1))
        if partial.any():
            column = np.zeros(len(rows))
            for d, name in enumerate(self._observations):
                column[truncated[partial]] = next_rows[partial, d]
                self._finite_range(rows, f"next_{name}", column)

    def _track_increments(self, rows: DecodedRows) -> None:
        """Track the range of the increments of each entry of the observation."""
        observations = rows.observations
        before = observations[:1] if self._last_observation is None else self._last_observation
        with np.errstate(invalid="ignore"):
            increments = np.diff(observations, axis=0, prepend=before)[~rows.starts]
        self._last_observation = observations[-1:]
        if len(increments):
            low, high = increments.min(axis=0), increments.max(axis=0)
            if self._increments is not None:
                low = np.minimum(low, self._increments[0])
                high = np.maximum(high, self._increments[1])
            self._increments = (low, high)

    @property
    def has_clock(self) -> bool:
        """Whether an entry of the observation changes by the same amount in every step."""
        if self._increments is None:
            return True
        low, high = self._increments
        return bool(((high - low <= 1e-6 * np.abs(high)) & (high != 0)).any())

    def _check_steps(self, rows: DecodedRows) -> None:
        if rows.step is None:
            return
        all_rows = np.ones(len(rows), dtype=np.bool_)
        numbered = ~rows.invalid["step"] if "step" in rows.invalid else all_rows
        begins = rows.starts & numbered
        if "episode_id" in rows.invalid or self._last_id_missing:
            # Next to a missing id it is unknown where the episode began.
            missing = rows.invalid.get("episode_id", ~all_rows)
            begins &= ~missing & ~np.append(self._last_id_missing, missing[:-1])
            self._last_id_missing = bool(missing[-1])
        late = np.flatnonzero(begins & (rows.step != 0))
        for i in late[:1]:
            begin = (str(rows.ids[int(i)].as_py()), str(int(rows.step[i])))
            self.problems.add(("E134",), len(late), rows.locations(late), begin)
        before = np.append(self._last_step, rows.step[:-1])
        both = numbered & np.append(True, numbered[:-1]) & (before >= 0)
        jumps = np.flatnonzero(~rows.starts & both & (rows.step != before + 1))
        for i in jumps[:1]:
            episode = rows.ids[int(i)].as_py()
            details = (str(episode), str(before[i]), str(rows.step[i]))
            self.problems.add(("E130",), len(jumps), rows.locations(jumps), details)
        self._last_step = int(rows.step[-1]) if numbered[-1] else -1

    def _check_table(self, rows: DecodedRows, name: str, table: FloatArray) -> None:
        total = table @ np.ones(table.shape[1])
        if table.min() >= 0 and np.abs(total - 1.0).max() <= TOLERANCE:
            return
        wrong = ~(np.abs(total - 1.0) <= TOLERANCE) | (table < 0).any(axis=1)
        if name.startswith("next_"):
            wrong &= ~np.isnan(table).all(axis=1)
        where = np.flatnonzero(wrong)
        for i in where[:1]:
            problem = (
                "is NaN" if np.isnan(total[i])
                else f"contains {table[i].min():.6g}" if table[i].min() < 0
                else f"sums to {total[i]:.6g}"
            )  # fmt: skip
            self.problems.add(("E104", name), len(where), rows.locations(where), (problem,))

    def failed(self, tolerated: set[str]) -> bool:
        """Whether there is an error already, so that nothing more needs to be computed."""
        if self.propensities.failed("E101" in tolerated):
            return True
        return any(code in self.problems for code in MESSAGES if code not in tolerated)

    def findings(self, min_prob: float | None, n_dropped: int) -> list[Finding]:
        """Return all findings, after the last row."""
        self.propensities.finalise(min_prob)
        findings = self.problems.findings(MESSAGES)
        if n_dropped:
            findings = [finding for finding in findings if finding.code != "E120"]
            plural = "" if n_dropped == 1 else "s"
            message = f"dropped {n_dropped:,} episode{plural} with NaN or infinities."
            findings.append(Finding("W121", message))
        findings += self._ids.find_split_episodes(self.n_rows)
        if self._after_end >= 2 and not self._zero_inside and self._zero_starts == self._after_end:
            findings.append(autoreset_finding())
        return findings + self.propensities.findings(self.n_rows, len(self._actions))


def autoreset_finding() -> Finding:
    """Return the warning that resets of an environment were logged as steps."""
    return Finding(
        "W133",
        "a zero-reward row follows every episode end. This looks like Gymnasium's NEXT_STEP "
        "autoreset: pass drop_autoreset=True.",
    )


def finite_rows(rows: DecodedRows) -> BoolArray:
    """Return which rows are finite and have a complete next observation or none."""
    finite = np.isfinite(rows.rewards) & np.isfinite(rows.observations).all(axis=1)
    if rows.next_observations is not None:
        truncated = np.flatnonzero(rows.truncated)
        next_rows = rows.next_observations[truncated]
        complete = np.isfinite(next_rows).all(axis=1)
        finite[truncated] &= complete | np.isnan(next_rows).all(axis=1)
    return finite
