"""Thread pools that do not wait for their threads after a failure or an interruption."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def thread_pool(count: int) -> Iterator[ThreadPoolExecutor]:
    """Provide ``count`` threads; on an exception, cancel pending work and return without waiting.

    Examples
    --------
    >>> with thread_pool(2) as pool:
    ...     sum(pool.map(abs, [-1, 2]))
    3
    """
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
