"""The first pass over a log: the statistics for all rules and targets at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress
from saddleback._threads import thread_pool
from saddleback._typing import FloatArray, IntArray
from saddleback.engine import (
    BackwardMoments,
    Columns,
    LoggedStreamer,
    copies_of,
    count_mass,
    count_visits,
)
from saddleback.errors import InvalidParameter
from saddleback.features import Features
from saddleback.log import Finding, Log, Segment, as_target
from saddleback.log.diagnostics import raise_errors
from saddleback.log.fingerprints import Fingerprints
from saddleback.log.summary import undiscounted_error
from saddleback.ope.log_counts import ActionSupport, EpisodeEnds, LogCounts, PolicyCounts
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.rules import Rule
from saddleback.rules.requirements import check_log_requirements
from saddleback.system import LARGEST

MAX_BYTES = 8 * 2**30
"""Largest size of the sums, in bytes."""


def compute_statistics(
    log: Log,
    rules: Sequence[Rule],
    targets: Any,
    *,
    features: Features,
    gamma: float,
    shared: bool,
    blocks: int,
    allow_uncovered: bool,
    threads: int,
    progress: Progress | None,
    sink: Callable[[Columns], object] | None = None,
) -> dict[str, Any]:
    """Return the fields of `Statistics`.

    With a ``sink``, which receives the stream of the only rule and target, A, b and M are left out.
    """
    named = targets if isinstance(targets, Mapping) else {None: targets}
    if not named:
        raise InvalidParameter("no target policy: pass at least one.")
    policies = [as_target(given, log, name) for name, given in named.items()]
    setting = StatisticsKey.of(log, rules, policies, features, gamma, shared, blocks)
    for rule in rules:
        check_log_requirements(
            rule, setting.values, propensity=bool(log.propensity), behaviour=log.has_full_behaviour
        )
    p = setting.p if sink is None else 0
    _check_memory(p, len(rules) * len(policies), setting.blocks)
    shape = (len(policies), len(rules), setting.blocks, p)
    A, b, M = np.zeros((*shape, p)), np.zeros(shape), np.zeros((p, p))
    episodes = _EpisodeCounts(setting, log.time_limit == "task", p)
    sums = [
        _TargetSums(log, policy, setting, features, A[t], b[t], M if t == 0 else M[:0], sink)
        for t, policy in enumerate(policies)
    ]
    warnings: list[Finding] = []
    tables = [table for policy in policies for table in policy.tables]
    with thread_pool(_validate.count("Statistics", "threads", threads)) as pool:
        pending: list[Future[None]] = []
        for segment in log.segments(tables, progress, warnings):
            block, new_blocks = episodes.add(segment)
            work = [
                job
                for t, target in enumerate(sums)
                for job in target.add(segment, block, new_blocks, None if t else episodes.visits)
            ]
            for job in pending:  # a segment is prepared while the previous one is added
                job.result()
            pending = [pool.submit(job) for job in work]
        for job in pending:
            job.result()
    if setting.gamma == 1.0 and episodes.truncated:
        raise_errors([undiscounted_error(episodes.truncated / episodes.episodes.sum())])
    uncovered = [target.support.finding(allow_uncovered) for target in sums]
    findings = [*warnings, *(finding for finding in uncovered if finding is not None)]
    raise_errors(findings)
    if not episodes.steps.sum():
        raise InvalidParameter("Statistics: the log has no usable transitions.")
    ids, fingerprints, unfinished = episodes.fingerprints.arrays()
    return {
        "setting": setting, "A": A, "b": b, "M": M,
        "starts": np.array([target.starts for target in sums]),
        "steps": episodes.steps, "episodes": episodes.episodes,
        "squares": np.array([target.squares for target in sums]),
        "kappa_squares": np.array([target.kappa_squares for target in sums]),
        "ids": ids, "fingerprints": fingerprints, "unfinished": unfinished,
        "counts": LogCounts(
            episodes.visits, np.array([target.mass for target in sums]), episodes.ends.returns,
            episodes.ends.rewards, episodes.ends.truncated_weight, episodes.ends.lengths,
            tuple(target.counts for target in sums),
        ),
        "estimated": log.estimated, "findings": tuple(findings),
    }  # fmt: skip


class EpisodeBlocks:
    """Assigns the episodes of consecutive segments to blocks by their ids."""

    def __init__(self, count: int) -> None:
        self._count, self._open_block = np.uint64(count), 0

    def add(self, segment: Segment) -> tuple[IntArray, IntArray]:
        """Return the blocks of transitions, [n], and of the episodes that begin."""
        new_blocks = (segment.ids % self._count).astype(np.int64)
        number = np.cumsum(segment.rows.starts)[segment.index]
        blocks = np.concatenate([[self._open_block], new_blocks])[number]
        self._open_block = int(new_blocks[-1]) if len(new_blocks) else self._open_block
        return blocks, new_blocks


def first_of_episodes(segment: Segment, numbers: IntArray) -> IntArray:
    """Return the entries of the first transition of each episode of a segment."""
    begins = segment.starts.copy()
    begins[:1] = True
    return numbers[begins]


class _EpisodeCounts:
    """Counts that do not depend on the target: episodes, their blocks and their ends."""

    def __init__(self, setting: StatisticsKey, task: bool, p: int) -> None:
        self.visits, self.ends = np.zeros(p), EpisodeEnds(setting.gamma, setting.blocks, task)
        self.steps, self.episodes = (np.zeros(setting.blocks, dtype=np.int64) for _ in range(2))
        self.fingerprints, self.truncated = Fingerprints(), 0
        self._blocks = EpisodeBlocks(setting.blocks)

    def add(self, segment: Segment) -> tuple[IntArray, IntArray]:
        """Return the blocks of the episodes with transitions, and of those that begin."""
        self.fingerprints.add(segment)
        blocks, new_blocks = self._blocks.add(segment)
        self.ends.add(segment, new_blocks)
        self.steps += np.bincount(blocks, minlength=len(self.steps))
        self.episodes += np.bincount(new_blocks, minlength=len(self.steps))
        last = np.append(segment.starts[1:], not segment.continues_in_next)[: len(segment)]
        self.truncated += int((last & segment.continues).sum())
        return first_of_episodes(segment, blocks), new_blocks


class _TargetSums:
    """The sums for one target policy."""

    def __init__(
        self,
        log: Log,
        policy: Any,
        setting: StatisticsKey,
        features: Features,
        A: FloatArray,
        b: FloatArray,
        M: FloatArray,
        sink: Callable[[Columns], object] | None,
    ) -> None:
        self._policy, self._features, self._sink = policy, features, sink
        self._n_actions = log.n_actions
        self._copies = copies_of(log.n_actions, setting.values, setting.shared)
        self._streamer = LoggedStreamer(
            features, setting.rules, self._copies, setting.gamma, corrections=False
        )
        self._sums = [
            BackwardMoments(A[r], b[r], M if r == 0 else M[:0]) for r in range(len(setting.rules))
        ]
        self.starts = np.zeros((setting.blocks, setting.p))
        self.squares, self.mass = 0.0, np.zeros(A.shape[-1])
        self.support = ActionSupport(policy.name, log.action_names)
        self.counts = PolicyCounts.empty(log.n_actions)

    @property
    def kappa_squares(self) -> FloatArray:
        """Σκ² of each rule."""
        return self._streamer.kappa_squares

    def add(
        self,
        segment: Segment,
        block: IntArray,
        new_blocks: IntArray,
        visits: FloatArray | None,
    ) -> list[Callable[[], None]]:
        """Add a segment; return the remaining work, one job per rule."""
        propensity, mu = self._policy.behaviour(segment)
        pi = self._policy.probabilities(segment, self._n_actions)
        self.support.add(segment, pi, mu)
        streams = self._streamer(segment, pi, propensity, mu)
        if propensity is not None:
            ratio = pi[segment.states, segment.actions] / propensity
            # One by one, so that the sum does not depend on how the log is divided into segments.
            self.squares = float(np.cumsum(np.append(self.squares, ratio * ratio))[-1])
        first = segment.first_states
        active = self._features.encode(segment.observations[first])
        add_start(active, pi[first] @ self._copies, new_blocks, self.starts)
        if self._sink is not None:
            self._sink(streams[0])
            return []
        if visits is not None:
            count_visits(streams[0].phi_index, visits)
        count_mass(streams[0].next_index, streams[0].next_b, self.mass)
        self.counts.add(segment, pi)
        return [
            partial(total.add, stream, segment.starts, block, segment.continues_in_next)
            for total, stream in zip(self._sums, streams, strict=True)
        ]


def add_start(active: Any, weights: FloatArray, block: IntArray, total: FloatArray) -> None:
    """Add E_π φ(S_0, ·) of episodes to their blocks."""
    which, value = active
    copies = weights.shape[1]
    size = np.ones(which.shape) if value is None else value
    index = which[:, :, None] * np.uint32(copies) + np.arange(copies, dtype=np.uint32)
    np.add.at(total, (block[:, None, None], index), size[:, :, None] * weights[:, None, :])


def _check_memory(p: int, count: int, blocks: int) -> None:
    """Raise if the sums would not fit into memory, before anything is read."""
    if p > LARGEST:
        raise InvalidParameter(
            f"Statistics: {p:,} features (one copy per action) exceed {LARGEST:,}, the largest "
            "number for which matrices are computed. Use fewer features, or solve without "
            "matrices: method 'svrg'."
        )
    need = 8.0 * p * p * (count * blocks + 1)
    if need > MAX_BYTES:
        raise InvalidParameter(
            f"Statistics: {p:,} features, {blocks} blocks and {count} pairs of rule and target "
            f"need {need / 2**30:.1f} GB of sums, more than {MAX_BYTES / 2**30:.0f} GB. Use fewer "
            "features, targets, rules or blocks."
        )
