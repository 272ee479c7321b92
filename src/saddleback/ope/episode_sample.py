"""A sample of whole episodes of a log in memory, with what is known before each decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from saddleback._progress import Progress
from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.errors import InvalidParameter
from saddleback.log import Log, LogSample, Target
from saddleback.ope.log_pass import Job, Rechecks, Reducer, SegmentBatch, read_log

FOLDS = 5
"""Number of folds of episodes."""


@dataclass(frozen=True, eq=False)
class EpisodeSample:
    """Transitions of whole episodes, in the order of a hash of what they contain."""

    # Observations before and after each transition, [n, d].
    states: FloatArray
    next_states: FloatArray
    # Action and reward of each transition, [n].
    actions: IntArray
    rewards: FloatArray
    continues: BoolArray  # whether there is a next value; False where the task ended, [n]
    # Number of the episode of each transition, from 0, and its step, [n].
    episode: IntArray
    step: IntArray
    starts: FloatArray  # first observations of the episodes, [E, d]
    # For each target, π in the next states [n, K] and in the first ones [E, K].
    next_pi: dict[str, FloatArray]
    start_pi: dict[str, FloatArray]
    # Position in the log of each episode, and the 64-bit number it is sampled and sorted by, [E].
    numbers: IntArray
    priorities: OffsetArray
    total: int  # number of episodes of the log
    # Logged propensities of the actions, densities if these are continuous, [n]; NaN if unknown.
    propensities: FloatArray
    # Continuous actions [n, k]; None if actions are discrete.
    action_values: FloatArray | None = None
    # Whether propensities that were not logged are estimates.
    estimated: bool = False

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(next(iter(self.next_pi.values())).shape[1])

    @property
    def folds(self) -> IntArray:
        """Fold of each episode, [E]."""
        return np.arange(len(self.starts)) % FOLDS

    @property
    def last(self) -> BoolArray:
        """Whether a transition is the last of its episode, [n]."""
        return np.append(self.step[1:] == 0, True)

    @property
    def task_horizon(self) -> int | None:
        """The common length of the truncated episodes, if it is the largest of all lengths."""
        truncated = self.step[self.last & self.continues] + 1
        same = len(truncated) and (truncated == self.step.max() + 1).all()
        return int(truncated[0]) if same else None

    def taken_pi(self, target: str) -> FloatArray:
        """Return π of the action that was taken in each transition, [n]."""
        taken = np.roll(self.next_pi[target], 1, axis=0)[np.arange(len(self.step)), self.actions]
        first = self.step == 0
        taken[first] = self.start_pi[target][self.episode[first], self.actions[first]]
        return taken

    def action_ratios(self, target: str) -> FloatArray | None:
        """Return π(a|s)/μ(a|s) of the action taken in each transition, [n].

        None if actions are continuous, or propensities are not known.
        """
        if self.action_values is not None or not np.isfinite(self.propensities).all():
            return None
        return self.taken_pi(target) / self.propensities

    def thinned(self, max_rows: int) -> EpisodeSample:
        """Return the first episodes, at most a number of rows but at least two a fold."""
        rows = np.cumsum(np.bincount(self.episode, minlength=len(self.starts)))
        count = max(int(np.searchsorted(rows, max_rows, "right")), 2 * FOLDS)
        n = int(rows[count - 1]) if count < len(rows) else len(self.rewards)
        return EpisodeSample(
            self.states[:n], self.next_states[:n], self.actions[:n], self.rewards[:n],
            self.continues[:n], self.episode[:n], self.step[:n], self.starts[:count],
            {name: pi[:n] for name, pi in self.next_pi.items()},
            {name: pi[:count] for name, pi in self.start_pi.items()}, self.numbers[:count],
            self.priorities[:count],
            self.total, self.propensities[:n],
            None if self.action_values is None else self.action_values[:n], self.estimated,
        )  # fmt: skip

    def returns(self, gamma: float) -> FloatArray:
        """Return the discounted return of each episode, [E]."""
        discounted = gamma**self.step * self.rewards
        totals = np.zeros(len(self.starts))
        np.add.at(totals, self.episode, discounted)
        return totals


@dataclass
class _SampledEpisode:
    """What is kept of one episode: its parts, one for each segment it spans."""

    priority: int
    number: int
    start: FloatArray
    start_pi: list[FloatArray]
    parts: list[tuple[npt.NDArray[Any], ...]]
    rows: int = 0


class EpisodeSampler:
    """Keeps the episodes of a log with the smallest block numbers, up to a number of rows.

    An episode longer than a sixteenth of ``max_rows`` is cut there. ``estimated`` tells whether
    propensities that the log does not have are estimates.
    """

    def __init__(
        self, targets: Sequence[Target], max_rows: int, *, estimated: bool = False
    ) -> None:
        self._targets, self._max_rows, self._estimated = list(targets), max_rows, estimated
        self._longest = max(1, max_rows // 16)
        self._kept: list[_SampledEpisode] = []
        self._rows, self._count = 0, 0
        self._threshold = np.uint64(2**64 - 1)
        self._open: _SampledEpisode | None = None
        self.has_next_observations, self.longest_episode = False, 0

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        """Add the next segment."""
        segment = batch.segment
        self.has_next_observations |= segment.rows.next_observations is not None
        pi = [batch.pi(target) for target in self._targets]
        begins = np.flatnonzero(segment.starts)
        ends = np.append(begins[1:], len(segment))
        self.longest_episode = max(self.longest_episode, int((ends - begins).max(initial=0)))
        if self._open is not None:
            self._extend(self._open, batch, pi, 0, int(begins[0]) if len(begins) else len(segment))
            self._open = self._open if segment.continues_in_next and not len(begins) else None
        rank = {int(segment.states[t]): k for k, t in enumerate(begins)}
        priority = batch.block_numbers[1:]
        for i in np.flatnonzero(priority < self._threshold):
            first = int(segment.first_states[i])
            episode = _SampledEpisode(
                int(priority[i]), self._count + int(i), segment.observations[first].copy(),
                [p[first].copy() for p in pi], [],
            )  # fmt: skip
            self._kept.append(episode)
            k = rank.get(first)  # None for an episode without transitions
            if k is not None:
                self._extend(episode, batch, pi, int(begins[k]), int(ends[k]))
                if segment.continues_in_next and k == len(begins) - 1:
                    self._open = episode
        self._count += len(priority)
        self._thin()
        return ()

    def _extend(
        self,
        episode: _SampledEpisode,
        batch: SegmentBatch,
        pi: list[FloatArray],
        begin: int,
        end: int,
    ) -> None:
        end = min(end, begin + self._longest - episode.rows)
        if end <= begin:
            return
        # Copies of rows: views would keep whole segments in memory.
        segment, rows = batch.segment, np.arange(begin, end)
        after = segment.next_states[rows]
        none = np.zeros((len(segment.observations), 0))
        unknown = np.full(len(segment), np.nan)
        episode.parts.append(
            (
                segment.observations[segment.states[rows]], segment.observations[after],
                segment.actions[rows], segment.rewards[rows], segment.continues[rows],
                segment.tables.get("action", none)[segment.states[rows]],
                (unknown if segment.propensity is None else segment.propensity)[rows],
                *(p[after] for p in pi),
            )
        )  # fmt: skip
        episode.rows += end - begin
        self._rows += end - begin

    def _thin(self) -> None:
        """Drop the episodes of largest priority while there are too many rows."""
        if self._rows <= self._max_rows:
            return
        self._kept.sort(key=lambda episode: -episode.priority)
        while self._rows > self._max_rows and len(self._kept) > 1:
            dropped = self._kept.pop(0)
            self._rows -= dropped.rows
            self._threshold = np.uint64(dropped.priority)
            self._open = None if self._open is dropped else self._open

    @property
    def sample(self) -> EpisodeSample:
        """The sample, after the last segment."""
        kept = sorted(self._kept, key=lambda episode: episode.priority)
        parts = [part for episode in kept for part in episode.parts]
        if not parts:
            raise InvalidParameter("the log has no transitions to learn from.")
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        lengths = np.array([episode.rows for episode in kept])
        before = np.repeat(np.cumsum(lengths) - lengths, lengths)
        names = [target.name for target in self._targets]
        starts = [np.stack(pi) for pi in zip(*(episode.start_pi for episode in kept), strict=True)]
        states, after, actions, rewards, continues, values, propensities, *next_pi = columns
        return EpisodeSample(
            states,
            after,
            actions,
            rewards,
            continues,
            np.repeat(np.arange(len(kept)), lengths),
            np.arange(len(before)) - before,
            np.stack([episode.start for episode in kept]),
            dict(zip(names, next_pi, strict=True)),
            dict(zip(names, starts, strict=True)),
            np.array([episode.number for episode in kept]),
            np.array([episode.priority for episode in kept], dtype=np.uint64),
            self._count,
            propensities,
            values if values.shape[1] else None,
            self._estimated,
        )


MIN_STEPS, MAX_CELLS = 32, 500_000
"""Steps of a task that are summed over at least, and the largest product of steps and rows."""


def sample_episodes(
    log: Log,
    targets: Sequence[Target],
    max_rows: int,
    horizon: int | None = None,
    states: LogSample | None = None,
    progress: Progress | None = None,
    rechecks: Rechecks | None = None,
) -> tuple[EpisodeSample, int | None]:
    """Read a log once; return a sample of its episodes, and the horizon of the task, if any.

    If the time limit belongs to the task, the horizon is the common length of truncated episodes.
    Their next observations are used, since a value of H steps does not end with the log.
    ``states`` receives all rows, too. ``rechecks`` is that of `read_log`.
    """
    bounded = horizon is not None or log.time_limit == "task"
    source = log.with_options(time_limit="artifact") if bounded else log
    sampler = EpisodeSampler(targets, max_rows, estimated=log.estimated is not None)
    reducers: list[Reducer] = [sampler]
    if states is not None:
        reducers.append(_StateSampler(states))
    read_log(source, reducers, targets, rechecks=rechecks, mergeable=False, progress=progress)
    sample = sampler.sample
    if horizon is None and bounded:
        horizon = sample.task_horizon if sampler.has_next_observations else None
        if horizon is None:
            sample = replace(sample, continues=sample.continues & ~sample.last)
    if horizon is None:
        return sample, None
    if sampler.longest_episode > horizon:
        raise InvalidParameter(
            f"the horizon is {horizon:,}, but episodes have up to {sampler.longest_episode:,} "
            "steps, so logged returns are not comparable. Cut the episodes at the horizon."
        )
    return sample.thinned(MAX_CELLS // min(horizon, MIN_STEPS)), horizon


class _StateSampler:
    """Adds the rows of a log to a sample of its states."""

    def __init__(self, sample: LogSample) -> None:
        self._sample = sample

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        rows = batch.segment.rows
        self._sample.add(rows.observations, rows.actions)
        return ()
