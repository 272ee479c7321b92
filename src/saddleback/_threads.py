"""Thread pools that do not wait after a failure, and values that are computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, TypeVar


@contextmanager
def thread_pool(count: int) -> Iterator[ThreadPoolExecutor]:
    """Provide ``count`` threads; on an exception, cancel pending work and return without waiting.

    Until they end, linear algebra uses the thread that calls it alone: threads of its own would
    compete with these, and change the last bits of results.

    Examples
    --------
    >>> with thread_pool(2) as pool:
    ...     sum(pool.map(abs, [-1, 2]))
    3
    """
    with _blas().limit(limits=1, user_api="blas"):
        pool = ThreadPoolExecutor(count)
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()


@cache
def _blas() -> Any:
    """Return what limits the threads of BLAS; to find the libraries takes a millisecond."""
    import scipy.linalg  # noqa: F401, which has a BLAS of its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class ThreadSafeCache(Generic[Key, Value]):
    """A function that computes each value once, also when called from several threads.

    Examples
    --------
    >>> calls = []
    >>> square = ThreadSafeCache(lambda k: calls.append(k) or k * k)
    >>> square(3), square(3), calls
    (9, 9, [3])
    """

    def __init__(self, work: Callable[[Key], Value]) -> None:
        self._work, self._guard = work, threading.Lock()
        self._futures: dict[Key, Future[Value]] = {}

    def __call__(self, key: Key) -> Value:
        """Return the value, waiting if another thread is computing it."""
        with self._guard:
            first = key not in self._futures
            future = self._futures.setdefault(key, Future())
        if first:
            try:
                future.set_result(self._work(key))
            except BaseException as error:
                future.set_exception(error)
        return future.result()
