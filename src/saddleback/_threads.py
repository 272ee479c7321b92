"""Threads that are not waited for when what they work for has failed or was interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def thread_pool(count: int) -> Iterator[ThreadPoolExecutor]:
    """Work in so many threads; on an exception what is not begun is dropped, and none waited for.

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
