"""Rows cut into whole episodes, each ending as its flags say.

    terminated                    no next value
    truncated, next observation   bootstraps from it; the trace is cut
    truncated without, or stops   the last transition is dropped, and counted

Very long episodes come in segments of a fixed number of steps, counted from their own start, so
that results do not depend on how the log was cut into files and chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.log.arrow_decode import DecodedRows, join
from saddleback.log.diagnostics import Finding, ProblemCounter
from saddleback.log.episode_ids import hash_ids
from saddleback.log.messages import MESSAGES
from saddleback.log.row_checks import finite_rows

RESET = "(Looks like Gymnasium NEXT_STEP autoreset: pass drop_autoreset=True.)"
"""What flags in mid-episode mean where a row without reward follows each of them."""

SEGMENT = 1 << 16
"""Steps after which a long episode is handed on in part."""


@dataclass(frozen=True, eq=False)
class Segment:
    """Consecutive transitions, and the states between which they lead.

    Attributes
    ----------
    observations
        Every state that is met, [m, d]: those of the rows, then those only led to.
    tables
        Tables of probabilities in those states, [m, K], NaN where nothing is known.
    states, next_states
        States before and after each transition, [n].
    actions, rewards
        What was done, and what it brought, [n].
    continues
        Whether there is a next value: False where the task ended, [n].
    propensity
        μ of the action taken, [n], or None.
    starts
        Whether a transition begins an episode, [n].
    first_states
        Start states of the episodes that begin here, also of those without a transition.
    ids
        64 bits for each of those episodes.
    unfinished
        Which of the episodes that end here simply stop, without a flag.
    continues_in_next, next_action
        Whether the last episode goes on in the next piece, and the action with which it does, in
        the last of the observations.
    rows, index
        The rows themselves, and which of them each transition is, to name places.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> piece = next(collect(problems.mountain_car(), episodes=5, rng=0).segments())
    >>> len(piece), int(piece.starts.sum()), piece.observations.shape
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
    unfinished: BoolArray
    continues_in_next: bool
    next_action: int | None
    rows: DecodedRows
    index: IntArray

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass
class Segmenter:
    """Cuts rows into pieces of whole episodes, counting how they end."""

    time_limit: str
    drop_bad: bool
    drop_autoreset: bool
    segment: int = SEGMENT
    problems: ProblemCounter = field(default_factory=ProblemCounter)
    terminated: int = 0
    truncated: int = 0
    with_next: int = 0
    stops: int = 0
    lost: int = 0
    dropped: int = 0
    phantoms: int = 0
    _rest: DecodedRows | None = None
    _flagged: int = 0
    _phantom_like: int = 0
    _was_end: bool = False

    def add(self, rows: DecodedRows) -> Iterator[Segment]:
        """Return what is complete with the next rows."""
        held = join(self._rest, rows)
        begins = np.flatnonzero(held.starts)
        last = int(begins[-1]) if len(begins) else 0
        if last:
            yield from self._whole(held.part(slice(0, last)))
        held = held.part(slice(last, None))
        while len(held) > self.segment and not self._needs_whole:
            yield self._cut(held.part(slice(0, self.segment)), held)
            held = held.part(slice(self.segment, None))
        self._rest = held

    def finish(self) -> Iterator[Segment]:
        """Return the last episode, which nothing follows."""
        if self._rest is not None and len(self._rest):
            yield from self._whole(self._rest)
        self._rest = None

    def findings(self) -> list[Finding]:
        """What is wrong with how episodes end."""
        found = self.problems.findings(MESSAGES)
        if self._flagged and self._flagged == self._phantom_like:
            return [Finding("E132", f"{each.message} {RESET}") for each in found]
        return found

    @property
    def _needs_whole(self) -> bool:
        """Whether an episode must be seen to its end before any of it is used."""
        return self.drop_bad or self.drop_autoreset

    def _whole(self, rows: DecodedRows) -> Iterator[Segment]:
        """Return episodes that end here; long ones in segments, counted from their start."""
        if self._needs_whole:
            rows = self._kept(rows)
            if len(rows):
                yield self._cut(rows, None)
            return
        bounds = np.unique(np.concatenate([[0], np.flatnonzero(rows.starts), [len(rows)]]))
        done = 0
        for i in np.flatnonzero(np.diff(bounds) > self.segment):
            begin, end = int(bounds[i]), int(bounds[i + 1])
            if begin > done:
                yield self._cut(rows.part(slice(done, begin)), None)
            held = rows.part(slice(begin, end))
            while len(held) > self.segment:
                yield self._cut(held.part(slice(0, self.segment)), held)
                held = held.part(slice(self.segment, None))
            yield self._cut(held, None)
            done = end
        if done < len(rows):
            yield self._cut(rows.part(slice(done, None)), None)

    def _kept(self, rows: DecodedRows) -> DecodedRows:
        """Drop what is to be dropped."""
        if self.drop_autoreset:
            rows = self._without_phantoms(rows)
        return self._without_bad(rows) if self.drop_bad else rows

    def _cut(self, rows: DecodedRows, then: DecodedRows | None) -> Segment:
        """Return whole episodes, or a segment of one that goes on with ``then``."""
        continues_in_next = then is not None
        last = np.append(rows.starts[1:], not continues_in_next)
        ended = rows.terminated | rows.truncated
        self._look(rows, last, ended)
        terminated = last & rows.terminated
        truncated = last & ~rows.terminated
        self.terminated += int(terminated.sum())
        self.truncated += int((truncated & rows.truncated).sum())
        self.stops += int((truncated & ~rows.truncated).sum())
        known = np.zeros(len(rows), dtype=np.bool_)
        if rows.next_observations is not None:
            at = np.flatnonzero(truncated)
            known[at] = np.isfinite(rows.next_observations[at]).all(axis=1)
        self.with_next += int(known.sum())
        if self.time_limit == "task":
            terminated, truncated = last & ended, last & ~ended
            known &= truncated
        used = ~(truncated & ~known)
        self.lost += int((~used).sum())
        if then is not None:
            then = then.part(slice(len(rows), len(rows) + 1))
        return _piece(rows, last, terminated, known, used, then, ended)

    def _look(self, rows: DecodedRows, last: BoolArray, ended: BoolArray) -> None:
        """Notice flags in mid-episode, unless they are what an automatic reset leaves."""
        early = np.flatnonzero(ended & ~last)
        if not len(early):
            return
        follows = early + 1
        follows = follows[follows < len(rows)]  # a segment may end with the flag
        phantom = last[follows] & (rows.rewards[follows] == 0.0)
        self._flagged += len(early)
        self._phantom_like += int(phantom.sum())
        i = int(early[0])
        ends = np.flatnonzero(last)
        end = int(ends[ends >= i][0]) if (ends >= i).any() else len(rows) - 1
        name = "terminated" if rows.terminated[i] else "truncated"
        length = int(rows.position[end]) + 1
        episode, step = rows.place(i)
        details = (name, str(step), str(length), str(episode))
        self.problems.add(("E132",), len(early), rows.places(early), details)

    def _without_bad(self, rows: DecodedRows) -> DecodedRows:
        good = finite_rows(rows)
        if good.all():
            return rows
        episode = np.cumsum(rows.starts)
        spoiled = np.unique(episode[~good])
        self.dropped += len(spoiled)
        return rows.part(~np.isin(episode, spoiled))

    def _without_phantoms(self, rows: DecodedRows) -> DecodedRows:
        """Drop the row that a reset left: after the row that ended an episode, with reward 0.

        It is the last of that episode, or the first of the next.
        """
        ended = rows.terminated | rows.truncated
        after = np.append(self._was_end, ended[:-1]) & (rows.rewards == 0.0)
        self._was_end = bool(ended[-1])
        drop = after & (rows.starts | np.append(rows.starts[1:], True))
        if not drop.any():
            return rows
        self.phantoms += int(drop.sum())
        first = drop & rows.starts
        episode = np.maximum(np.cumsum(rows.starts) - 1, 0)
        shift = first[rows.starts].astype(np.int64)[episode]
        begins = rows.starts | np.append(False, first[:-1])
        return replace(rows, starts=begins, position=rows.position - shift).part(~drop)


def _piece(
    rows: DecodedRows,
    last: BoolArray,
    terminated: BoolArray,
    known: BoolArray,
    used: BoolArray,
    then: DecodedRows | None,
    ended: BoolArray,
) -> Segment:
    n, led_to = len(rows), np.flatnonzero(known)
    following = np.arange(1, n + 1)
    following[terminated] = np.flatnonzero(terminated)
    following[led_to] = n + np.arange(len(led_to))
    observed, tables = [rows.observations], {name: [t] for name, t in rows.tables.items()}
    if len(led_to) and rows.next_observations is not None:
        observed.append(rows.next_observations[led_to])
        for name, table in rows.tables.items():
            later = rows.tables.get(f"next_{name}")
            unknown = np.full((len(led_to), table.shape[1]), np.nan)
            tables[name].append(unknown if later is None else later[led_to])
    if then is not None:
        following[-1] = n + len(led_to)
        observed.append(then.observations)
        for name, table in then.tables.items():
            tables[name].append(table)
    index = np.flatnonzero(used)
    begins = np.flatnonzero(rows.starts)
    states = observed[0] if len(observed) == 1 else np.concatenate(observed)
    return Segment(
        observations=states,
        tables={
            name: parts[0] if len(parts) == 1 else np.concatenate(parts)
            for name, parts in tables.items()
            if not name.startswith("next_")
        },
        states=index,
        next_states=following[index],
        actions=rows.actions[index],
        rewards=rows.rewards[index],
        continues=~terminated[index],
        propensity=None if rows.propensity is None else rows.propensity[index],
        starts=rows.starts[index],
        first_states=begins,
        ids=hash_ids(rows.ids.take(begins)),
        unfinished=~ended[last],
        continues_in_next=then is not None,
        next_action=None if then is None else int(then.actions[0]),
        rows=rows,
        index=index,
    )
