"""Threads that advance learners, and that produce in turn the experience they learn from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Condition

from saddleback.engine.learner_batch import Learners
from saddleback.engine.stream_columns import Columns

AHEAD, QUEUED = 2, 4
"""Chunks that wait for the fastest thread, if possible, and for the slowest, at most."""

Chunk = Sequence[Columns]


class Workers:
    """Threads that advance groups of learners; every thread has its own blocks of each group.

    The thread that calls is one of them. They wait for each other only at the end of a call.
    """

    def __init__(self, groups: Sequence[Learners], threads: int) -> None:
        self._groups = groups
        blocks = [(g, block) for g, group in enumerate(groups) for block in group.blocks]
        self._shares = [blocks[n::threads] for n in range(min(threads, len(blocks)))]
        others = len(self._shares) - 1
        self._pool = ThreadPoolExecutor(others) if others else None
        self._chunks: SharedChunks | None = None

    def advance(self, chunks: Iterable[Chunk | None]) -> None:
        """Learn from the next chunks, one stream per group, up to a None or the end.

        An iterator may be read ahead, for the next call with it.
        """
        if self._chunks is None or self._chunks.empty or self._chunks.source is not chunks:
            self._chunks = SharedChunks(chunks, len(self._shares))
        jobs = [
            self._pool.submit(self._advance, n, self._chunks)
            for n in range(1, len(self._shares)) if self._pool is not None
        ]  # fmt: skip
        try:
            done = self._advance(0, self._chunks)
        finally:
            wait(jobs)
        for job in jobs:
            job.result()
        for group, count in zip(self._groups, done, strict=True):
            group.done = count

    def _advance(self, n: int, chunks: SharedChunks) -> list[int]:
        """Advance the blocks of thread n; return the updates of each group."""
        done = [group.done for group in self._groups]
        try:
            while (streams := chunks.take(n)) is not None:
                for g, block in self._shares[n]:
                    block.advance(streams[g], done[g])
                done = [k + len(s.reward) for k, s in zip(done, streams, strict=True)]
        except BaseException:
            chunks.end()
            raise
        return done


class SharedChunks:
    """Chunks that every thread takes at its own pace, produced by a thread that is ahead.

    Producing takes turns of its own accord: it delays a thread, and then another is ahead.

    Examples
    --------
    >>> chunks = SharedChunks(["first", "second", None], threads=2)
    >>> [chunks.take(0), chunks.take(0), chunks.take(0), chunks.take(1)]
    ['first', 'second', None, 'first']
    """

    def __init__(self, source: Iterable[Chunk | None], threads: int) -> None:
        self.source = source
        self._iterator: Iterator[Chunk | None] = iter(source)
        self._waiting: list[deque[Chunk | None]] = [deque() for _ in range(threads)]
        self._ahead = AHEAD if threads > 1 else 1
        self._changed = Condition()
        self._producing = self._ended = False

    @property
    def empty(self) -> bool:
        """Whether every thread has taken everything."""
        return self._ended and not any(self._waiting)

    def take(self, n: int) -> Chunk | None:
        """Return the next chunk for thread n, or None if there is a None, or at the end."""
        waiting = self._waiting[n]
        while True:
            with self._changed:
                full = len(waiting) >= self._ahead or max(map(len, self._waiting)) >= QUEUED
                if full or self._producing or self._ended:
                    if waiting:
                        chunk = waiting.popleft()
                        self._changed.notify_all()
                        return chunk
                    if self._ended:
                        return None
                    self._changed.wait()
                    continue
                self._producing = True
            self._produce()

    def _produce(self) -> None:
        """Add a chunk to those that wait for each thread."""
        produced: list[Chunk | None] = []
        try:
            produced.append(next(self._iterator))
        except StopIteration:
            pass
        finally:
            with self._changed:
                self._producing, self._ended = False, self._ended or not produced
                for waiting in self._waiting:
                    waiting.extend(produced)
                self._changed.notify_all()

    def end(self) -> None:
        """End for all threads, after the chunks that they have."""
        with self._changed:
            self._ended = True
            for waiting in self._waiting:
                waiting.clear()
            self._changed.notify_all()
