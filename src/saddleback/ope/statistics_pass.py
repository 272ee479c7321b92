"""The first pass over a log: the statistics for all rules and targets at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
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
from saddleback.errors import Fix, InvalidParameter
from saddleback.features import Features
from saddleback.log import Log, Segment, Target
from saddleback.log.altered_rows import AlteredRows
from saddleback.log.diagnostics import raise_errors
from saddleback.log.reader import LogReader
from saddleback.log.summary import undiscounted_error
from saddleback.log.target_policies import as_targets
from saddleback.ope.log_counts import ActionSupport, EpisodeTotals, LogCounts, OutsideBox
from saddleback.ope.log_pass import EncodeOnce, Job, SegmentBatch, read_log
from saddleback.ope.policy_counts import PolicyCounts
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.rules import Rule
from saddleback.rules.requirements import check_log_requirements
from saddleback.system import LARGEST

MAX_BYTES = 8 * 2**30
"""Largest size of the sums, in bytes."""

Sink = Callable[[Columns], object]
"""Receives the stream of the only rule and target; A, b and M are then left out."""


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
    sink: Sink | None = None,
) -> dict[str, Any]:
    """Return the fields of `Statistics`, from one pass."""
    policies = as_targets(targets, log)
    setting = StatisticsKey.of(log, rules, policies, features, gamma, shared, blocks)
    once = EncodeOnce(features)
    reducer = StatisticsReducer(log, setting, policies, once, sink=sink)
    with thread_pool(_validate.count("Statistics", "threads", threads)) as pool:
        reader = read_log(log, [reducer], policies, once, pool=pool, progress=progress)
    reducer.check(reader, allow_uncovered)
    return reducer.by_block()


class StatisticsReducer:
    """Accumulates the statistics of a log.

    With ``main``, only the first rule of this many first targets is kept by block; of other pairs
    there are totals, and those of other targets only for the first rule.
    """

    def __init__(
        self,
        log: Log,
        setting: StatisticsKey,
        policies: Sequence[Target],
        features: EncodeOnce,
        *,
        main: int | None = None,
        sink: Sink | None = None,
    ) -> None:
        for rule in setting.rules:
            check_log_requirements(
                rule, setting.values, propensity=bool(log.propensity),
                behaviour=log.has_full_behaviour, actions=log.n_actions,
            )  # fmt: skip
        p = setting.p if sink is None else 0
        T, R = len(policies), len(setting.rules)
        shape = (T, R) if main is None else (main, 1)
        check_memory(p, shape[0] * shape[1] * setting.blocks + (0 if main is None else T * R))
        self._log, self.setting = log, setting
        self._A = np.zeros((*shape, setting.blocks, p, p))
        self._b = np.zeros((*shape, setting.blocks, p))
        total = (0, 0) if main is None else (T, R)
        self._total_A, self._total_b = np.zeros((*total, 1, p, p)), np.zeros((*total, 1, p))
        self._M, self._visits = np.zeros((p, p)), np.zeros(p)
        self._episodes = EpisodeTotals(log, setting.gamma)
        self._returns = self._episodes.returns
        self._outside = OutsideBox(features.features, log.observation_names)
        self._altered = AlteredRows()
        self.targets = []
        for t, policy in enumerate(policies):
            rules = setting.rules if main is None or t < main else setting.rules[:1]
            moments = []
            for r in range(len(rules)):
                by_block = t < shape[0] and r < shape[1]
                A, b = (self._A, self._b) if by_block else (self._total_A, self._total_b)
                gram = self._M if t == r == 0 else self._M[:0]
                moments.append((BackwardMoments(A[t][r], b[t][r], gram), setting.blocks * by_block))
            visits = self._visits if t == 0 else self._visits[:0]
            self.targets.append(
                _TargetSums(log, policy, setting, features, rules, moments, visits, sink)
            )

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        """Add the next segment; return the remaining work, one job per rule and target."""
        self._episodes.add(batch)
        self._outside.add(batch.segment)
        return [job for target in self.targets for job in target.add(batch)]

    def check(self, reader: LogReader, allow_uncovered: bool) -> None:
        """Raise if the log cannot be evaluated; otherwise keep its warnings."""
        ended = self._returns.ended
        if self.setting.gamma == 1.0 and not ended.all():
            raise_errors([undiscounted_error(float(np.mean(~ended)), reader.segmenter)])
        uncovered = [target.support.finding(allow_uncovered) for target in self.targets]
        own = [*uncovered, self._outside.finding()]
        self.findings = (*reader.findings(), *(finding for finding in own if finding is not None))
        raise_errors(self.findings)
        self._altered = replace(reader.altered, outside=self._outside.rows)
        if not self._returns.transitions.sum():
            raise InvalidParameter("Statistics: the log has no usable transitions.")
        if not all(np.isfinite(sums).all() for sums in (self._b, self._total_b, self._M)):
            raise InvalidParameter(
                "Statistics: the sums over the log overflow, in the trace or in the rewards. Use a "
                "trace that cannot grow, such as Retrace, or larger propensities.",
                Fix("Clip them from below", "min_prob", 0.01),
            )

    @property
    def mean_return(self) -> float | None:
        """Mean return of the episodes that ended."""
        return self._returns.mean

    def by_block(self) -> dict[str, Any]:
        """Return the fields of the statistics that are kept by block."""
        T, R, B = self._b.shape[:3]
        return self._fields(self._A, self._b, self.setting.part(range(T), range(R), B))

    def of_active(self) -> dict[str, Any]:
        """Return `by_block` for the features that are ever active, and free the sums of others."""
        active = np.flatnonzero(np.diag(self._M) > 0)
        for target in self.targets:
            target.finish()  # nothing may refer to memory that is freed
        _move_to_front(self._A, active)
        self._A.resize((*self._b.shape[:3], len(active), len(active)), refcheck=False)
        fields = self.by_block()
        for name in ("b", "starts"):
            fields[name] = np.ascontiguousarray(fields[name][..., active])
        fields["M"] = self._M[np.ix_(active, active)]
        fields["setting"] = replace(fields["setting"], p=len(active))
        return fields

    def totals(self) -> dict[str, Any]:
        """Return the fields of the statistics of all rules and targets, in one block."""
        T, R = self._b.shape[:2]
        for t, r, k in np.ndindex(self._b.shape[:3]):
            self._total_A[t, r, 0] += self._A[t, r, k]
        self._total_b[:T, :R, 0] = self._b.sum(axis=2)
        setting = replace(self.setting, blocks=1)
        return self._fields(self._total_A, self._total_b, setting)

    def _fields(self, A: FloatArray, b: FloatArray, setting: StatisticsKey) -> dict[str, Any]:
        block = self._episodes.blocks(setting.blocks)
        steps = np.zeros(setting.blocks, dtype=np.int64)
        np.add.at(steps, block, self._returns.transitions)
        targets = self.targets[: len(setting.targets)]
        starts = np.array([target.starts for target in targets])
        kappa_squares = np.zeros((len(targets), len(setting.rules)))
        for squares, target in zip(kappa_squares, targets, strict=True):
            count = min(len(squares), len(target.kappa_squares))
            squares[:count] = target.kappa_squares[:count]
        return {
            "setting": setting, "A": A, "b": b, "M": self._M,
            "starts": starts if setting.blocks > 1 else starts.sum(axis=1, keepdims=True),
            "steps": steps, "episodes": np.bincount(block, minlength=setting.blocks),
            "squares": np.array([target.squares for target in targets]),
            "kappa_squares": kappa_squares,
            **self._episodes.identities(),
            "counts": LogCounts.of(
                self._returns, block, setting.blocks, setting.gamma, self._altered, self._visits,
                np.array([target.mass for target in targets]),
                tuple(target.counts for target in targets),
            ),
            "estimated": self._log.estimated, "findings": self.findings,
        }  # fmt: skip


def _move_to_front(matrices: FloatArray, chosen: IntArray) -> None:
    """Move the chosen rows and columns of square matrices to the front of their memory."""
    p, size = matrices.shape[-1], len(chosen) ** 2
    flat = matrices.reshape(-1)
    for k, matrix in enumerate(matrices.reshape(-1, p, p)):
        flat[k * size : (k + 1) * size] = matrix.take(chosen, axis=0).take(chosen, axis=1).ravel()


def first_of_episodes(segment: Segment, numbers: IntArray) -> IntArray:
    """Return the entries of the first transition of each episode of a segment."""
    begins = segment.starts.copy()
    begins[:1] = True
    return numbers[begins]


class _TargetSums:
    """The sums for one target policy."""

    def __init__(
        self,
        log: Log,
        policy: Target,
        setting: StatisticsKey,
        features: EncodeOnce,
        rules: Sequence[Rule],
        moments: Sequence[tuple[BackwardMoments, int]],
        visits: FloatArray,
        sink: Sink | None,
    ) -> None:
        self._policy, self._sink, self._moments, self._visits = policy, sink, moments, visits
        self._copies = copies_of(log.n_actions, setting.values, setting.shared)
        self._streamer = LoggedStreamer(
            features, rules, self._copies, setting.gamma, corrections=False
        )
        self._blocks = setting.blocks
        self.starts = np.zeros((setting.blocks, setting.p))
        self.squares, self.mass = 0.0, np.zeros(setting.p if sink is None else 0)
        self.support = ActionSupport(policy.name, log.action_names)
        self.counts = PolicyCounts.empty(log.n_actions)

    @property
    def kappa_squares(self) -> FloatArray:
        """Σκ² of each rule."""
        return self._streamer.kappa_squares

    def finish(self) -> None:
        """Let go of the moments, after the last segment."""
        self._moments = ()

    def add(self, batch: SegmentBatch) -> list[Job]:
        """Add a segment; return the remaining work, one job per rule."""
        segment, pi = batch.segment, batch.pi(self._policy)
        propensity, mu = self._policy.behaviour(segment)
        self.support.add(segment, pi, mu)
        streams = self._streamer(segment, pi, propensity, mu)
        if propensity is not None:
            ratio = pi[segment.states, segment.actions] / propensity
            # One by one, so that the sum does not depend on how the log is divided into segments.
            self.squares = float(np.cumsum(np.append(self.squares, ratio * ratio))[-1])
        blocks = batch.blocks(self._blocks)
        first = pi[segment.first_states] @ self._copies
        add_start(batch.first_active, first, blocks[1:], self.starts)
        if self._sink is not None:
            self._sink(streams[0])
            return []
        if len(self._visits):
            count_visits(streams[0].phi_index, self._visits)
        count_mass(streams[0].next_index, streams[0].next_b, self.mass)
        self.counts.add(segment, pi)
        block = first_of_episodes(segment, blocks[segment.row_episode[segment.index]])
        none = np.zeros_like(block)
        return [
            partial(
                total.add, stream, segment.starts, block if by_block else none,
                segment.continues_in_next,
            )
            for (total, by_block), stream in zip(self._moments, streams, strict=True)
        ]  # fmt: skip


def add_start(active: Any, weights: FloatArray, block: IntArray, total: FloatArray) -> None:
    """Add E_π φ(S_0, ·) of episodes to their blocks."""
    which, value = active
    copies = weights.shape[1]
    size = np.ones(which.shape) if value is None else value
    index = which[:, :, None] * np.uint32(copies) + np.arange(copies, dtype=np.uint32)
    np.add.at(total, (block[:, None, None], index), size[:, :, None] * weights[:, None, :])


def check_memory(p: int, matrices: int) -> None:
    """Raise if the sums would not fit into memory, before anything is read."""
    if p > LARGEST:
        raise InvalidParameter(
            f"Statistics: {p:,} features (one copy per action) exceed {LARGEST:,}, the largest "
            "number for which matrices are computed.",
            Fix("Use fewer features, or solve without matrices", "methods", ["svrg"]),
        )
    need = 8.0 * p * p * (matrices + 1)
    if need > MAX_BYTES:
        raise InvalidParameter(
            f"Statistics: {matrices:,} matrices of {p:,} features (one per block, rule and target) "
            f"need {need / 2**30:.1f} GB, more than {MAX_BYTES / 2**30:.0f} GB. Use fewer "
            "features, targets, rules or blocks."
        )
