"""One pass over a log for any number of reducers, which share the work on each segment.

A reducer accumulates one kind of result: moments, counts, weights, influence. It receives each
segment as a `SegmentBatch`, which holds what several of them need: encoded features, the
probabilities of each target policy, the blocks of the episodes. `evaluate` reads a log twice: what
needs θ̂ comes second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from functools import cached_property
from typing import Protocol

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import FloatArray, IntArray, OffsetArray
from saddleback._user_functions import Recheck
from saddleback.engine import EpisodeFold
from saddleback.features import Active, Features
from saddleback.features.base import check_feature_rows, encode
from saddleback.log import Log, Segment, Target
from saddleback.log.diagnostics import raise_errors
from saddleback.log.episode_hashes import BlockNumbers
from saddleback.log.reader import LogReader

Job = Callable[[], object]
"""Work that may run in another thread while the next segment is prepared."""


class Reducer(Protocol):
    """Accumulates a result over the segments of a log."""

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        """Add the next segment; return work that can be done later, in any order."""


class EncodeOnce:
    """Features that encode the states of a segment once for all reducers, in any thread."""

    def __init__(self, features: Features) -> None:
        self.size, self.dimensions = features.size, features.dimensions
        self.features, self._guard = features, threading.Lock()
        self._states: FloatArray | None = None
        self._active: Active | None = None

    def check_rows(self, segment: Segment, n_actions: int) -> Recheck:
        """Raise unless the features are a function of each observation alone."""
        return check_feature_rows(self.features, segment.observations)

    def encode(self, observations: FloatArray) -> Active:
        """Return the active features of observations; the last result is kept."""
        with self._guard:
            if observations is not self._states or self._active is None:
                self._states, self._active = observations, encode(self.features, observations)
            return self._active


class SegmentBatch:
    """A segment of a log, and what its reducers share.

    ``block_numbers`` are 64-bit numbers of its episodes, [1 + new], in the order of
    `Segment.row_episode`; the remainder is the block.
    """

    def __init__(
        self,
        segment: Segment,
        block_numbers: OffsetArray,
        features: EncodeOnce | None,
        actions: int,
    ) -> None:
        self.segment, self.block_numbers = segment, block_numbers
        self._features, self._actions = features, actions
        self._pi: dict[str, FloatArray] = {}

    @property
    def active(self) -> Active:
        """Active features of the states of the segment, [m, ·]."""
        assert self._features is not None
        return self._features.encode(self.segment.observations)

    @cached_property
    def first_active(self) -> Active:
        """Active features of the first states of the episodes that begin."""
        index, value = self.active
        first = self.segment.first_states
        return Active(index[first], None if value is None else value[first])

    def pi(self, target: Target) -> FloatArray:
        """Probabilities of a target policy in the states of the segment, [m, K]."""
        if target.name not in self._pi:
            self._pi[target.name] = target.probabilities(self.segment, self._actions)
        return self._pi[target.name]

    def row_pi(self, target: Target) -> FloatArray:
        """Probabilities of a target policy in the states of the rows, [n, K]."""
        rows = self.segment.rows
        if target.table is not None and target.name not in self._pi:
            return rows.tables[target.table]  # the states after truncated rows may be unknown
        return self.pi(target)[: len(rows)]

    def blocks(self, count: int) -> IntArray:
        """Return which of a number of blocks each episode belongs to, [1 + new]."""
        return (self.block_numbers % np.uint64(count)).astype(np.int64)


Rechecks = dict[Target | EncodeOnce, Recheck]
"""Checks of functions of the user that are repeated after the last pass."""


def read_log(
    log: Log,
    reducers: Sequence[Reducer],
    targets: Sequence[Target],
    features: EncodeOnce | None = None,
    *,
    pool: Executor | None = None,
    progress: Progress | None = None,
    rechecks: Rechecks | None = None,
    mergeable: bool = True,
) -> LogReader:
    """Drive reducers over a log in one pass; raise the errors of the log at its end.

    ``features`` are those that the reducers use, as one `EncodeOnce`. Functions of the user are
    called several times on some states of the first segment, and again on these at the end: of this
    pass, and of all passes with the same ``rechecks``. ``mergeable`` is that of `BlockNumbers`.
    """
    rechecks = {} if rechecks is None else rechecks
    functions: list[Target | EncodeOnce] = [*targets, *([] if features is None else [features])]
    reader = log.reader([table for target in targets for table in target.tables])
    contents, carried = BlockNumbers(mergeable), EpisodeFold(1, np.uint64)
    pending: list[tuple[list[Job], Future[object]]] = []
    for segment in reader.segments(progress):
        for function in functions:
            if function not in rechecks:
                rechecks[function] = function.check_rows(segment, log.n_actions)
        numbers = carried.begin(segment)
        numbers[1:, 0] = contents.of(segment.contents)
        batch = SegmentBatch(segment, numbers[:, 0], features, log.n_actions)
        carried.end(segment, numbers)
        jobs = [job for reducer in reducers for job in reducer.add(batch)]
        _finish(pending)  # a segment is prepared while the previous one is added
        pending = []
        for job in jobs:
            if pool is None:
                job()
            else:
                todo = [job]
                pending.append((todo, pool.submit(_do, todo)))
    _finish(pending)
    raise_errors(reader.findings())
    for recheck in rechecks.values():
        recheck()
    return reader


def _do(todo: list[Job]) -> None:
    todo.pop()()


def _finish(pending: Iterable[tuple[list[Job], Future[object]]]) -> None:
    """Wait for jobs of a pool, and do those that no thread has begun.

    Those are taken from their lists: a pool that is busy refers to the lists for long.
    """
    for todo, future in pending:
        if future.cancel():
            _do(todo)
        else:
            future.result()
