"""Checks of every row of a log, their messages, and the counts and ranges of its summary."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from saddleback._display import join_names
from saddleback._typing import BoolArray, FloatArray
from saddleback.errors import ESTIMATE_PROPENSITIES, Fix
from saddleback.log.arrow_decode import DecodedRows
from saddleback.log.categories import CategoryCodes
from saddleback.log.column_types import FLAGS
from saddleback.log.diagnostics import Finding, ProblemCounter
from saddleback.log.episode_hashes import EpisodeIds
from saddleback.log.outliers import Outliers
from saddleback.log.propensity_checks import TOLERANCE, PropensityChecks

if TYPE_CHECKING:
    from saddleback.log.log import Log

LARGEST = 1e100
"""Largest size of a number; sums of squares of larger ones overflow."""

REPLACE_PROPENSITIES = replace(
    ESTIMATE_PROPENSITIES, advice="Correct them, or replace all of them by estimates"
)
"""Fix of propensities that are no probabilities."""

GIVE_FUNCTION = Fix(
    "Otherwise give the target as a function",
    "target", "module.py:function", "evaluate(log, function)",
)  # fmt: skip
"""Fix of a target whose columns of probabilities are wrong."""

MESSAGES: dict[str, tuple[str, Fix | None]] = {
    "E101": (
        "{0} is 0 on {rows}. A logged action cannot have probability 0.",
        Fix("Fix the log, or clip propensities from below", "min_prob"),
    ),
    "E101 > 0": (
        "{0} is below 1e-30 on {rows}. No log is long enough for an action of that probability.",
        Fix("Fix the log, or clip propensities from below", "min_prob"),
    ),
    "E102 NaN": (
        "{0} is NaN on {rows}: every logged action needs a propensity.",
        replace(ESTIMATE_PROPENSITIES, advice="Fill them in, or estimate those that are missing"),
    ),
    "E102 > 1": (
        "{0} is > 1 on {rows}: probabilities must lie in (0, 1]. Densities belong to continuous "
        "actions, in columns action_0, action_1 and so on.",
        REPLACE_PROPENSITIES,
    ),
    "E102 percent": (
        "{0} is > 1 on {rows}, and nowhere below: these look like percentages. Divide them by 100.",
        None,
    ),
    "E102 inverse": (
        "{0} is > 1 on {rows}, and nowhere below: these look like inverse propensities. Replace "
        "each w by 1/w.",
        None,
    ),
    "E102 percent or inverse": (
        "{0} is > 1 on {rows}, and nowhere below: these are either percentages, to be divided by "
        "100, or inverse propensities, w, to be replaced by 1/w.",
        None,
    ),
    "E102 < 0": (
        "{0} is < 0 on {rows}: probabilities must lie in (0, 1].", REPLACE_PROPENSITIES,
    ),
    "E102 log": (
        "{0} is negative on {rows} and never positive: these look like log-probabilities.",
        Fix("Map it as such", "columns", {"behavior_logp": "behavior_prob"}),
    ),
    "E104": (
        "{0}_* {problem} on {rows}. Each row must be a probability distribution, within 1e-6: "
        "divide it by its sum if it was rounded.",
        replace(ESTIMATE_PROPENSITIES, advice="Otherwise estimate the propensities"),
    ),
    "E104 target": (
        "{0}_* {problem} on {rows}. Each row must be a probability distribution, within 1e-6: "
        "divide it by its sum if it was rounded.",
        GIVE_FUNCTION,
    ),
    "E120": (
        "{0} is {1} in {rows}.",
        Fix("Fill in the value, or drop the episode", "drop_bad", "episode"),
    ),
    "E120 end": (
        "{0} is {1} in {rows}.",
        Fix("Rewards that are known only at the end are 0 before it", "fill_reward", 0),
    ),
    "E121 episode_id": (
        "{0} has no value in {rows}. Every row needs the id of its episode.",
        Fix("Fill it in, or map another column", "columns", {"episode_id": "episode_id"}),
    ),
    "E121 step": (
        "{0} has no value in {rows}. Number the steps 0 … T−1, or remove the column if the rows "
        "are in order.",
        Fix("Otherwise sort them by a time", "order_by"),
    ),
    **{
        f"E121 {flag}": (
            "{0} has no value in {rows}. Use True on the last row of an episode that ended this "
            "way, False elsewhere.",
            Fix(
                "Or read missing flags as False, and say how episodes without one ended",
                "episodes_end", flag,
            ),
        )
        for flag in FLAGS
    },
    "E130": ("episode {episode}: {problem}{more}.", Fix("{repair}", "order_by")),
    "E132": (
        "{flag}=True at step {step} of {length} in episode {episode}{more}. Only the last row of "
        "an episode may have this flag: split the episode, or clear the flag.",
        Fix("If another column marks the ends, map it", "columns", {"{flag}": "{flag}"}),
    ),
    "E134": (
        "episode {episode} starts at step {step}{episodes}. If its first rows are in another file, "
        "pass all files of the log together, in order.",
        Fix("Otherwise sort the rows and count the steps anew", "order_by"),
    ),
    "E145": (
        "{0} is {value}, not one of {1}, in {rows}.{suggestion}",
        Fix("Correct the log, or list all actions", "actions"),
    ),
}  # fmt: skip
"""Message and fix of each kind of problem; see `ProblemCounter.findings` for the fields, and
`saddleback.log.fixes` for the values that depend on the log."""

DROP_AUTORESET = Fix(
    "This looks like Gymnasium's NEXT_STEP autoreset; drop its rows", "drop_autoreset", True
)
"""Fix of rows that resets of an environment left in the log."""


class RowChecks:
    """Counts the problems of rows as they are read, and summarises their values."""

    def __init__(self, log: Log) -> None:
        self.problems = ProblemCounter(log.sources[0].row_number)
        self._names, self._continuous = log.roles.names, log.roles.actions
        self._observations, self._actions = log.observation_names, log.action_names
        self.propensities = PropensityChecks(self.problems, log)
        self.action_range = [(np.inf, -np.inf)] * len(self._continuous)
        self.n_rows = self.n_episodes = 0
        self._unit = "row" if log.bandit else "episode"
        self.action_counts = np.zeros(len(self._actions), dtype=np.int64)
        self.reward_sum, self.reward_low, self.reward_high = 0.0, np.inf, -np.inf
        self.n_rewards = 0
        self.low: FloatArray = np.full(0, np.inf)
        self.high: FloatArray = np.full(0, -np.inf)
        self.ids = EpisodeIds()
        self.codes = CategoryCodes(self._observations)
        self._outliers = Outliers(log, self.propensities.name)
        self._zero_starts = self._zero_inside = self._after_end = 0
        self.unknown_actions: dict[Any, None] = {}
        self.incomplete: set[str] = set()
        self.misses_ids = False
        self.goes_back = False
        self._bad, self._bad_with_rewards = BadEpisodes(), BadEpisodes()
        self._last_step, self._last_id_missing = 0, False
        self._unsigned = "step" in self._names and pa.types.is_uint64(
            log.sources[0].schema.field(self._names["step"]).type
        )
        self._last_row_ended = False
        self._check_clock = log.time_limit == "task"
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
        self.ids.add(rows.ids.take(starts), starts + rows.first)
        self._check_numbers(rows)
        self._count_bad_episodes(rows)
        self._outliers.add(rows)
        self.codes.add(rows.observations)
        if self._check_clock:
            self._track_increments(rows)
        self._check_steps(rows)
        if rows.propensity is not None:
            self.propensities.add(rows, rows.propensity)
        for name, table in rows.tables.items():
            if self._continuous:
                self._check_continuous(rows, table)
            else:
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
            self.misses_ids = True
        for role in ("episode_id", "step", *FLAGS):
            if role in rows.invalid:
                missing, name = rows.invalid[role], self._names[role]
                self.problems.add(f"E121 {role}", rows, missing, name, by_number=True)

    def _check_actions(self, rows: DecodedRows) -> None:
        """Count unknown actions, and suggest the name that was probably meant."""
        unknown = rows.actions < 0
        if not unknown.any():
            return
        names, values = list(self._actions), rows.invalid["action"]
        value = values[0]
        self.unknown_actions |= dict.fromkeys(values)
        numbered = names == list(map(str, range(len(names))))
        expected = f"0 … {len(names) - 1}" if numbered else join_names(names)
        close = []
        if not numbered and value is not None:
            close = difflib.get_close_matches(str(value), names, n=1)
        details = {
            "value": "empty" if value is None else repr(value),
            "suggestion": f" Did you mean {close[0]!r}?" if close else "",
        }
        self.problems.add(
            "E145", rows, unknown, self._names["action"], expected, describe=lambda i: details
        )

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
        low, high = self._finite_range(rows, self._names["reward"], rows.rewards, "E120 reward")
        self.reward_low, self.reward_high = min(self.reward_low, low), max(self.reward_high, high)
        finite = _is_number(rows.rewards)
        # One by one, so that the sum does not depend on how the rows are read.
        total = np.add.accumulate(np.append(self.reward_sum, rows.rewards[finite]))
        self.reward_sum = float(total[-1])
        self.n_rewards += int(finite.sum())

    def _count_bad_episodes(self, rows: DecodedRows) -> None:
        """Count the episodes with NaN or infinities, with missing rewards and without."""
        others, rewards = finite_rows(rows, without_reward=True), _is_number(rows.rewards)
        self._bad.add(rows, others & rewards)
        self._bad_with_rewards.add(rows, others & (rewards | np.isnan(rows.rewards)))

    @property
    def n_bad_episodes(self) -> int:
        """Number of episodes with NaN or infinities."""
        return self._bad.count

    @property
    def n_bad_with_rewards(self) -> int:
        """Number of them that also have some if missing rewards are filled in."""
        return self._bad_with_rewards.count

    def _finite_range(
        self, rows: DecodedRows, name: str, column: FloatArray, key: str = "E120"
    ) -> tuple[float, float]:
        """Return the range of a column, and count NaN and infinities."""
        low, high = float(column.min()), float(column.max())
        if low >= -LARGEST and high <= LARGEST:
            return low, high
        self.incomplete.add(name)
        self.problems.add(key, rows, np.isnan(column), name, "NaN")
        self.problems.add("E120", rows, np.isinf(column), name, "infinite")
        huge = np.isfinite(column) & ~_is_number(column)
        self.problems.add("E120", rows, huge, name, f"larger than {LARGEST:.0e} in size")
        finite = column[_is_number(column)]
        return float(finite.min(initial=np.inf)), float(finite.max(initial=-np.inf))

    def _check_next_observations(self, rows: DecodedRows) -> None:
        """Count next observations of truncated rows that are known only in part."""
        if rows.next_observations is None:
            return
        truncated = np.flatnonzero(rows.truncated)
        next_rows = rows.next_observations[truncated]
        partial = ~_is_number(next_rows).all(axis=1) & ~np.isnan(next_rows).all(axis=1)
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
        step, before = rows.step, np.append(self._last_step, rows.step[:-1])
        self.problems.add(
            "E134", rows, begins & (step != 0),
            describe=lambda i: {"episode": rows.ids[i].as_py(), "step": self._as_logged(step[i])},
        )  # fmt: skip
        both = numbered & np.append(True, numbered[:-1]) & (before >= 0)
        self.problems.add(
            "E130", rows, ~rows.starts & both & (step != before + 1),
            describe=lambda i: (
                {"episode": rows.ids[i].as_py()}
                | _describe_jump(int(before[i]), self._as_logged(step[i]))
            ),
        )  # fmt: skip
        back = (step < before) & ((step >= 0) | (not self._unsigned))
        self.goes_back |= bool((~rows.starts & both & back).any())
        self._last_step = int(step[-1]) if numbered[-1] else -1

    def _as_logged(self, step: Any) -> int:
        """Return a step as in the log: unsigned ones from 2⁶³ are decoded as negative numbers."""
        return int(step) % 2**64 if self._unsigned else int(step)

    def _check_continuous(self, rows: DecodedRows, actions: FloatArray) -> None:
        """Count NaN and infinities of continuous actions, and track their range."""
        for k, (name, column) in enumerate(zip(self._continuous, actions.T, strict=True)):
            low, high = self._finite_range(rows, name, column)
            self.action_range[k] = (
                min(self.action_range[k][0], low), max(self.action_range[k][1], high)
            )  # fmt: skip

    def _check_table(self, rows: DecodedRows, name: str, table: FloatArray) -> None:
        total = table @ np.ones(table.shape[1])
        if table.min() >= 0 and np.abs(total - 1.0).max() <= TOLERANCE:
            return
        wrong = ~(np.abs(total - 1.0) <= TOLERANCE) | (table < 0).any(axis=1)
        if name.startswith("next_"):
            wrong &= ~np.isnan(table).all(axis=1)

        def describe(i: int) -> dict[str, str]:
            if np.isnan(total[i]):
                return {"problem": "is NaN"}
            low = table[i].min()
            return {"problem": f"contains {low:.6g}" if low < 0 else f"sums to {total[i]:.6g}"}

        key = "E104" if name.removeprefix("next_") == "mu" else "E104 target"
        self.problems.add(key, rows, wrong, name, describe=describe)

    def failed(self, tolerated: set[str]) -> bool:
        """Whether there is an error already, so that nothing more needs to be computed."""
        return bool(self.problems.codes - tolerated)

    def findings(self, min_prob: float | None, n_dropped: int) -> list[Finding]:
        """Return all findings, after the last row."""
        reward = "E120 end" if self.only_final_rewards else "E120"
        renamed = {"E120 reward": reward, **self.propensities.renamed(min_prob, len(self._actions))}
        findings = self.problems.findings(MESSAGES, renamed)
        if n_dropped:
            findings = [finding for finding in findings if finding.code != "E120"]
            noun = f"{self._unit}{'' if n_dropped == 1 else 's'}"
            message = f"dropped {n_dropped:,} {noun} with NaN or infinities."
            findings.append(Finding("W121", message))
        findings += self.ids.find_split_episodes(self.n_rows)
        if self._after_end >= 2 and not self._zero_inside and self._zero_starts == self._after_end:
            message = "a zero-reward row follows every episode end."
            findings.append(Finding("W133", message, DROP_AUTORESET))
        findings += self._outliers.findings(len(self._actions))[0]
        return findings + self.propensities.findings(self.n_rows, len(self._actions))

    @property
    def only_final_rewards(self) -> bool:
        """Whether there are at most as many rewards as episodes."""
        return 0 < self.n_rewards <= self.n_episodes < self.n_rows

    @property
    def outlying_rows(self) -> int:
        """Number of rows with outliers; see `Outliers.findings`."""
        return self._outliers.findings(len(self._actions))[1]


def _is_number(values: FloatArray) -> BoolArray:
    """Return which values can be computed with: neither NaN, infinite nor huge."""
    return np.abs(values) <= LARGEST


class BadEpisodes:
    """Counts episodes with bad rows; the first of the next rows may have begun in those before."""

    def __init__(self) -> None:
        self.count, self._last_is_bad = 0, False

    def add(self, rows: DecodedRows, finite: BoolArray) -> None:
        """Count those of the next rows."""
        episode = np.cumsum(rows.starts)
        bad = np.zeros(int(episode[-1]) + 1, dtype=np.bool_)
        bad[episode[~finite]] = True
        self.count += int(bad.sum()) - int(bad[0] and self._last_is_bad)
        self._last_is_bad = bool(bad[-1] or (len(bad) == 1 and self._last_is_bad))


def finite_rows(rows: DecodedRows, without_reward: bool = False) -> BoolArray:
    """Return which rows are finite and have a complete next observation or none."""
    finite: BoolArray = np.asarray(_is_number(rows.observations).all(axis=1))
    if not without_reward:
        finite &= _is_number(rows.rewards)
    if "action" in rows.tables:
        finite &= _is_number(rows.tables["action"]).all(axis=1)
    if rows.next_observations is not None:
        truncated = np.flatnonzero(rows.truncated)
        next_rows = rows.next_observations[truncated]
        complete = _is_number(next_rows).all(axis=1)
        finite[truncated] &= complete | np.isnan(next_rows).all(axis=1)
    return finite


def _describe_jump(before: int, after: int) -> dict[str, str]:
    """Return what is wrong with two consecutive steps, and how to repair it."""
    sort = "sort the rows and count the steps anew"
    if before == after:
        return {
            "problem": f"step {before} is repeated", "repair": f"Remove the duplicates, or {sort}",
        }  # fmt: skip
    if after < before:
        return {
            "problem": f"step goes back from {before} to {after}", "repair": sort.capitalize(),
        }  # fmt: skip
    return {
        "problem": f"step jumps from {before} to {after}",
        "repair": f"Add the missing rows, or {sort}",
    }
