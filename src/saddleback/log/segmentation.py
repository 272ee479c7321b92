"""Split rows into complete episodes, each ending as its flags indicate.

    terminated                    no next value
    truncated, next observation   bootstraps from it; the trace is cut
    truncated without, or stops   the last transition is dropped, and counted

Very long episodes are split into segments of a fixed number of steps, counted from the start of the
episode, so that results do not depend on how the log is divided into files and batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.log.arrow_decode import DecodedRows, join
from saddleback.log.diagnostics import Finding, ProblemCounter
from saddleback.log.episode_hashes import hash_ids, hash_rows
from saddleback.log.row_checks import DROP_AUTORESET, MESSAGES, finite_rows

if TYPE_CHECKING:
    from saddleback.log.log import Log

SEGMENT = 1 << 16
"""Number of steps after which a long episode is split."""

HASHED_ROWS = 64
"""Number of rows of an episode that determine its block."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Consecutive transitions of a log, and the states they connect.

    Attributes
    ----------
    observations
        All states, [m, d]: those of the rows, then those that occur only as a next state.
    tables
        Tables of probabilities in those states, [m, K], NaN where they are unknown.
    states, next_states
        Indices of the states before and after each transition, [n].
    actions, rewards
        Action and reward of each transition, [n].
    continues
        Whether there is a next value; False where the task ended, [n].
    propensity
        μ of the logged action, [n], or None.
    starts
        Whether a transition begins an episode, [n].
    first_states
        Indices of the start states of the episodes that begin here, with or without transitions.
    ids, contents
        64-bit hashes of each of those episodes: of its id, and of its first 64 rows; the latter is
        odd if these contain only whole numbers, and so may well be equal to those of others.
    unfinished
        Which of the episodes that end here stop without a flag.
    continues_in_next, next_action
        Whether the last episode continues in the next segment, and if so the action taken there in
        the last of the observations.
    rows, index
        The rows, and the row of each transition, to report its episode and step.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> segment = next(collect(problems.mountain_car(), episodes=5, rng=0).segments())
    >>> len(segment), int(segment.starts.sum()), segment.observations.shape
    (604, 4, (604, 2))
    """

    observations: FloatArray
    tables: dict[str, FloatArray]
    states: IntArray
    next_states: IntArray
    actions: IntArray
    rewards: FloatArray
    continues: BoolArray
    propensity: FloatArray | None
    starts: BoolArray
    first_states: IntArray
    ids: OffsetArray
    contents: OffsetArray
    unfinished: BoolArray
    continues_in_next: bool
    next_action: int | None
    rows: DecodedRows
    index: IntArray

    def __len__(self) -> int:
        return len(self.rewards)

    @cached_property
    def row_episode(self) -> IntArray:
        """Number of the episode of each row, from 1; 0 if it began in an earlier segment."""
        return np.cumsum(self.rows.starts)

    @property
    def begins_new_episode(self) -> bool:
        """Whether the first row begins an episode."""
        return len(self.rows) == 0 or bool(self.rows.starts[0])

    @property
    def next_actions(self) -> IntArray:
        """Action taken in the next state of each transition, [n]; −1 where it is unknown."""
        actions = np.full(len(self.observations), -1, dtype=np.int64)
        actions[: len(self.rows.actions)] = self.rows.actions
        if self.next_action is not None:
            actions[-1] = self.next_action
        return actions[self.next_states]


@dataclass
class Segmenter:
    """Splits rows into segments of complete episodes, and counts how the episodes end."""

    log: Log
    problems: ProblemCounter = field(default_factory=ProblemCounter)
    terminated: int = 0
    truncated: int = 0
    with_next: int = 0
    limits: tuple[int, int] | None = None
    longest: int = 0
    stops: int = 0
    lost: int = 0
    bad_episodes: int = 0
    bad_rows: int = 0
    reset_rows: int = 0
    marked: int = 0
    logged_ends: int = 0
    _pending: DecodedRows | None = None
    _early_flags: int = 0
    _autoreset_like: int = 0
    _last_row_ended: bool = False

    def add(self, rows: DecodedRows) -> Iterator[Segment]:
        """Return the segments that the next rows complete."""
        pending = join(self._pending, rows)
        starts = np.flatnonzero(pending.starts)
        last_start = int(starts[-1]) if len(starts) else 0
        if last_start:
            yield from self._complete(pending.select(slice(0, last_start)))
        pending = pending.select(slice(last_start, None))
        steps = self.log.segment
        least = max(steps, HASHED_ROWS)  # so that the first rows of an episode are known
        while len(pending) > least and not self.drops:
            yield self._segment(pending.select(slice(0, steps)), pending)
            pending = pending.select(slice(steps, None))
        self._pending = pending

    def finish(self) -> Iterator[Segment]:
        """Return the last episode."""
        if self._pending is not None and len(self._pending):
            yield from self._complete(self._pending)
        self._pending = None

    @property
    def time_limit_steps(self) -> int | None:
        """The common length of all truncated episodes, if no episode is longer."""
        same = self.limits is not None and self.limits == (self.longest, self.longest)
        return self.longest if same else None

    def findings(self) -> list[Finding]:
        """Return findings about the ends of episodes."""
        findings = self.problems.findings(MESSAGES)
        if self._early_flags and self._early_flags == self._autoreset_like:
            return [replace(finding, fix=DROP_AUTORESET) for finding in findings]
        return findings

    @property
    def drops(self) -> bool:
        """Whether rows may be dropped, so that an episode is read to its end before it is used."""
        return self.log.drop_bad is not None or self.log.drop_autoreset

    def _complete(self, rows: DecodedRows) -> Iterator[Segment]:
        """Return complete episodes; long ones are split, counting from their start."""
        if (flag := self.log.episodes_end) is not None:
            last = np.append(rows.starts[1:], True)
            unmarked = last & ~rows.terminated & ~rows.truncated
            self.marked += int(unmarked.sum())
            self.logged_ends += int((last & rows.terminated).sum())
            rows = replace(rows, **{flag: getattr(rows, flag) | unmarked})
        if self.drops:
            rows = self._drop_autoresets(rows) if self.log.drop_autoreset else rows
            rows = self._drop_bad_episodes(rows) if self.log.drop_bad else rows
            if len(rows):
                yield self._segment(rows, None)
            return
        steps = self.log.segment
        bounds = np.unique(np.concatenate([[0], np.flatnonzero(rows.starts), [len(rows)]]))
        done = 0
        for i in np.flatnonzero(np.diff(bounds) > steps):
            begin, end = int(bounds[i]), int(bounds[i + 1])
            if begin > done:
                yield self._segment(rows.select(slice(done, begin)), None)
            rest = rows.select(slice(begin, end))
            while len(rest) > steps:
                yield self._segment(rest.select(slice(0, steps)), rest)
                rest = rest.select(slice(steps, None))
            yield self._segment(rest, None)
            done = end
        if done < len(rows):
            yield self._segment(rows.select(slice(done, None)), None)

    def _segment(self, rows: DecodedRows, rest: DecodedRows | None) -> Segment:
        """Return complete episodes, or the first rows of the ``rest`` of a long one."""
        last = np.append(rows.starts[1:], rest is None)
        ended = rows.terminated | rows.truncated
        self._check_flags(rows, last, ended)
        terminated = last & rows.terminated
        truncated = last & ~rows.terminated
        self.terminated += int(terminated.sum())
        self.truncated += int((truncated & rows.truncated).sum())
        lengths = rows.position[last] + 1
        self.longest = max(self.longest, int(lengths.max(initial=0)))
        cut = rows.position[truncated & rows.truncated] + 1
        if len(cut):
            low, high = self.limits or (int(cut[0]), int(cut[0]))
            self.limits = min(low, int(cut.min())), max(high, int(cut.max()))
        self.stops += int((truncated & ~rows.truncated).sum())
        has_next = np.zeros(len(rows), dtype=np.bool_)
        if rows.next_observations is not None:
            at = np.flatnonzero(truncated)
            has_next[at] = np.isfinite(rows.next_observations[at]).all(axis=1)
        self.with_next += int(has_next.sum())
        if self.log.time_limit == "task":
            terminated, truncated = last & ended, last & ~ended
            has_next &= truncated
        used = ~(truncated & ~has_next)
        self.lost += int((~used).sum())
        next_row = None if rest is None else rest.select(slice(len(rows), len(rows) + 1))
        contents = _hash_first_rows(rows if rest is None else rest)[: int(rows.starts.sum())]
        return _build_segment(rows, last, terminated, has_next, used, next_row, ended, contents)

    def _check_flags(self, rows: DecodedRows, last: BoolArray, ended: BoolArray) -> None:
        """Count flags inside an episode, and how many look like automatic resets."""
        early = np.flatnonzero(ended & ~last)
        if not len(early):
            return
        following = early + 1
        following = following[following < len(rows)]  # the flag may be on the segment's last row
        autoreset_like = last[following] & (rows.rewards[following] == 0.0)
        self._early_flags += len(early)
        self._autoreset_like += int(autoreset_like.sum())

        def describe(i: int) -> dict[str, Any]:
            ends = np.flatnonzero(last[i:])
            end = i + int(ends[0]) if len(ends) else len(rows) - 1
            flag = "terminated" if rows.terminated[i] else "truncated"
            episode, step = rows.location(i)
            length = int(rows.position[end]) + 1
            return {"flag": flag, "step": step, "length": length, "episode": episode}

        self.problems.add("E132", rows, ended & ~last, describe=describe)

    def _drop_bad_episodes(self, rows: DecodedRows) -> DecodedRows:
        finite = finite_rows(rows)
        if finite.all():
            return rows
        episode = np.cumsum(rows.starts)
        bad = np.unique(episode[~finite])
        keep = ~np.isin(episode, bad)
        self.bad_episodes += len(bad)
        self.bad_rows += int((~keep).sum())
        return rows.select(keep)

    def _drop_autoresets(self, rows: DecodedRows) -> DecodedRows:
        """Drop the row that a reset adds: after the row that ended an episode, with reward 0.

        It is the last of that episode, or the first of the next.
        """
        ended = rows.terminated | rows.truncated
        after_end = np.append(self._last_row_ended, ended[:-1]) & (rows.rewards == 0.0)
        self._last_row_ended = bool(ended[-1])
        drop = after_end & (rows.starts | np.append(rows.starts[1:], True))
        if not drop.any():
            return rows
        self.reset_rows += int(drop.sum())
        first = drop & rows.starts
        episode = np.maximum(np.cumsum(rows.starts) - 1, 0)
        shift = first[rows.starts].astype(np.int64)[episode]
        starts = rows.starts | np.append(False, first[:-1])
        return replace(rows, starts=starts, position=rows.position - shift).select(~drop)


def _hash_first_rows(rows: DecodedRows) -> OffsetArray:
    """Return `Segment.contents` of the episodes that begin in some rows."""
    episode = np.cumsum(rows.starts, dtype=np.int64)
    hashes = np.zeros(1 + int(episode[-1]), dtype=np.uint64)
    first = np.flatnonzero(rows.position < HASHED_ROWS)
    hash_rows(rows, episode, hashes, first)
    integers = np.ones(len(hashes), dtype=np.bool_)
    numbers = np.column_stack([rows.observations[first], rows.rewards[first]])
    with np.errstate(invalid="ignore"):  # a signalling NaN, which a damaged file may contain
        integers[episode[first[(np.floor(numbers) != numbers).any(axis=1)]]] = False
    return np.asarray(hashes // np.uint64(2) * np.uint64(2) + integers)[1:]


def _build_segment(
    rows: DecodedRows,
    last: BoolArray,
    terminated: BoolArray,
    has_next: BoolArray,
    used: BoolArray,
    next_row: DecodedRows | None,
    ended: BoolArray,
    contents: OffsetArray,
) -> Segment:
    n, extra = len(rows), np.flatnonzero(has_next)
    next_states = np.arange(1, n + 1)
    next_states[terminated] = np.flatnonzero(terminated)
    next_states[extra] = n + np.arange(len(extra))
    observations, tables = [rows.observations], {name: [t] for name, t in rows.tables.items()}
    if len(extra) and rows.next_observations is not None:
        observations.append(rows.next_observations[extra])
        for name, table in rows.tables.items():
            next_table = rows.tables.get(f"next_{name}")
            unknown = np.full((len(extra), table.shape[1]), np.nan)
            tables[name].append(unknown if next_table is None else next_table[extra])
    if next_row is not None:
        next_states[-1] = n + len(extra)
        observations.append(next_row.observations)
        for name, table in next_row.tables.items():
            tables[name].append(table)
    index = np.flatnonzero(used)
    # Where all rows are used, a segment shares their arrays.
    chosen = slice(None) if len(index) == n else index
    starts = np.flatnonzero(rows.starts)
    return Segment(
        observations=observations[0] if len(observations) == 1 else np.concatenate(observations),
        tables={
            name: parts[0] if len(parts) == 1 else np.concatenate(parts)
            for name, parts in tables.items()
            if not name.startswith("next_")
        },
        states=index,
        next_states=next_states[chosen],
        actions=rows.actions[chosen],
        rewards=rows.rewards[chosen],
        continues=~terminated[chosen],
        propensity=None if rows.propensity is None else rows.propensity[chosen],
        starts=rows.starts[chosen],
        first_states=starts,
        ids=hash_ids(rows.ids.take(starts)),
        contents=contents,
        unfinished=~ended[last],
        continues_in_next=next_row is not None,
        next_action=None if next_row is None else int(next_row.actions[0]),
        rows=rows,
        index=index,
    )
