"""One pass over a log: everything that is summed up, for all rules and targets at once."""

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
    BackwardSums,
    Columns,
    LoggedStreamer,
    check_logged,
    copies_of,
    count_mass,
    count_visits,
)
from saddleback.errors import InvalidParameter
from saddleback.evaluation.log_counts import Coverage, Ends, Portrait, Tally
from saddleback.evaluation.statistics_key import Setting
from saddleback.features import Features
from saddleback.log import Finding, Log, Piece, as_target
from saddleback.log.diagnostics import refuse
from saddleback.log.fingerprints import Prints
from saddleback.log.summary import undiscounted
from saddleback.rules import Rule
from saddleback.system import LARGEST

MEMORY = 8 * 2**30
"""Most bytes of sums that are held."""


def accumulate(
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

    With a ``sink``, which is handed the stream of the one rule and target, A, b and M are left out.
    """
    named = targets if isinstance(targets, Mapping) else {None: targets}
    if not named:
        raise InvalidParameter("there is no target policy to evaluate: give at least one.")
    policies = [as_target(given, log, name) for name, given in named.items()]
    setting = Setting.of(log, rules, policies, features, gamma, shared, blocks)
    for rule in rules:
        check_logged(rule, setting.values, bool(log.propensity), log.whole_behaviour)
    p = setting.p if sink is None else 0
    _room(p, len(rules) * len(policies), setting.blocks)
    shape = (len(policies), len(rules), setting.blocks, p)
    A, b, M = np.zeros((*shape, p)), np.zeros(shape), np.zeros((p, p))
    tally = _Counts(setting, log.time_limit == "task", p)
    each = [
        _Target(log, policy, setting, features, A[t], b[t], M if t == 0 else M[:0], sink)
        for t, policy in enumerate(policies)
    ]
    warnings: list[Finding] = []
    tables = [table for policy in policies for table in policy.tables]
    with thread_pool(_validate.count("Statistics", "threads", threads)) as pool:
        pending: list[Future[None]] = []
        for piece in log.pieces(tables, progress, warnings):
            block, mine = tally.add(piece)
            work = [
                job
                for t, target in enumerate(each)
                for job in target.add(piece, block, mine, None if t else tally.visits)
            ]
            for job in pending:  # a piece is made ready while the one before it is summed up
                job.result()
            pending = [pool.submit(job) for job in work]
        for job in pending:
            job.result()
    if setting.gamma == 1.0 and tally.cut:
        refuse([undiscounted(tally.cut / tally.episodes.sum())])
    uncovered = [target.coverage.finding(allow_uncovered) for target in each]
    findings = [*warnings, *(found for found in uncovered if found is not None)]
    refuse(findings)
    if not tally.steps.sum():
        raise InvalidParameter("Statistics: the log has no transition that can be used.")
    ids, prints, unfinished = tally.prints.arrays()
    return {
        "setting": setting, "A": A, "b": b, "M": M,
        "starts": np.array([target.starts for target in each]),
        "steps": tally.steps, "episodes": tally.episodes,
        "squares": np.array([target.squares for target in each]),
        "ids": ids, "prints": prints, "unfinished": unfinished,
        "tally": Tally(
            tally.visits, np.array([target.mass for target in each]), tally.ends.returns,
            tally.ends.rewards, tally.ends.beyond, tally.ends.lengths,
            tuple(target.portrait for target in each),
        ),
        "estimated": log.estimated, "findings": tuple(findings),
    }  # fmt: skip


class Blocks:
    """Deals episodes into blocks by their ids, as consecutive pieces come."""

    def __init__(self, count: int) -> None:
        self._count, self._now = np.uint64(count), 0

    def add(self, piece: Piece) -> tuple[IntArray, IntArray]:
        """Return the blocks of transitions, [n], and of the episodes that begin."""
        mine = (piece.ids % self._count).astype(np.int64)
        number = np.cumsum(piece.rows.starts)[piece.index]
        each = np.concatenate([[self._now], mine])[number]
        self._now = int(mine[-1]) if len(mine) else self._now
        return each, mine


def first_of_each(piece: Piece, numbers: IntArray) -> IntArray:
    """Return the numbers of the first transition of each episode of a piece."""
    begins = piece.starts.copy()
    begins[:1] = True
    return numbers[begins]


class _Counts:
    """What does not depend on the target: episodes, their blocks, and how they end."""

    def __init__(self, setting: Setting, task: bool, p: int) -> None:
        self.visits, self.ends = np.zeros(p), Ends(setting.gamma, setting.blocks, task)
        self.steps, self.episodes = (np.zeros(setting.blocks, dtype=np.int64) for _ in range(2))
        self.prints, self.cut, self._blocks = Prints(), 0, Blocks(setting.blocks)

    def add(self, piece: Piece) -> tuple[IntArray, IntArray]:
        """Return the blocks of the episodes with transitions, and of those that begin."""
        self.prints.add(piece)
        each, mine = self._blocks.add(piece)
        self.ends.add(piece, mine)
        self.steps += np.bincount(each, minlength=len(self.steps))
        self.episodes += np.bincount(mine, minlength=len(self.steps))
        last = np.append(piece.starts[1:], not piece.goes_on)[: len(piece)]
        self.cut += int((last & piece.continues).sum())
        return first_of_each(piece, each), mine


class _Target:
    """What is summed up for one target policy."""

    def __init__(
        self,
        log: Log,
        policy: Any,
        setting: Setting,
        features: Features,
        A: FloatArray,
        b: FloatArray,
        M: FloatArray,
        sink: Callable[[Columns], object] | None,
    ) -> None:
        self._policy, self._features, self._sink = policy, features, sink
        self._n_actions = log.n_actions
        self._copies = copies_of(log.n_actions, setting.values, setting.shared)
        self._streamer = LoggedStreamer(features, setting.rules, self._copies, setting.gamma)
        self._sums = [
            BackwardSums(A[r], b[r], M if r == 0 else M[:0]) for r in range(len(setting.rules))
        ]
        self.starts = np.zeros((setting.blocks, setting.p))
        self.squares, self.mass = 0.0, np.zeros(A.shape[-1])
        self.coverage = Coverage(policy.name, log.action_names)
        self.portrait = Portrait.begin(log.n_actions)

    def add(
        self,
        piece: Piece,
        block: IntArray,
        mine: IntArray,
        visits: FloatArray | None,
    ) -> list[Callable[[], None]]:
        """Take in a piece; return what is left to do, for each rule."""
        propensity, mu = self._policy.behaviour(piece)
        pi = self._policy.probabilities(piece, self._n_actions)
        self.coverage.add(piece, pi, mu)
        streams = self._streamer(piece, pi, propensity, mu)
        if propensity is not None:
            ratio = pi[piece.here, piece.actions] / propensity
            # One by one, so that it does not matter how the log comes in pieces.
            self.squares = float(np.cumsum(np.append(self.squares, ratio * ratio))[-1])
        first = piece.first_states
        active = self._features.encode(piece.observations[first])
        add_start(active, pi[first] @ self._copies, mine, self.starts)
        if self._sink is not None:
            self._sink(streams[0])
            return []
        if visits is not None:
            count_visits(streams[0].phi_index, visits)
        count_mass(streams[0].next_index, streams[0].next_b, self.mass)
        self.portrait.add(piece, pi)
        return [
            partial(each.add, stream, piece.starts, block, piece.goes_on)
            for each, stream in zip(self._sums, streams, strict=True)
        ]


def add_start(active: Any, weights: FloatArray, block: IntArray, total: FloatArray) -> None:
    """Add E_π φ(S_0, ·) of episodes to their blocks."""
    which, value = active
    copies = weights.shape[1]
    size = np.ones(which.shape) if value is None else value
    index = which[:, :, None] * np.uint32(copies) + np.arange(copies, dtype=np.uint32)
    np.add.at(total, (block[:, None, None], index), size[:, :, None] * weights[:, None, :])


def _room(p: int, count: int, blocks: int) -> None:
    """Refuse sums that would not fit, before anything is read."""
    if p > LARGEST:
        raise InvalidParameter(
            f"Statistics: {p:,} features (with a copy for each action) are more than {LARGEST:,}, "
            "the most whose matrices are held. Use fewer features, or solve without matrices, "
            "method 'svrg'."
        )
    need = 8.0 * p * p * (count * blocks + 1)
    if need > MEMORY:
        raise InvalidParameter(
            f"Statistics: {p:,} features, {blocks} blocks and {count} pairs of rule and target "
            f"need {need / 2**30:.1f} GB of sums, more than {MEMORY / 2**30:.0f} GB. Use fewer "
            "features, targets, rules or blocks."
        )
