"""Thread pools that do not wait after a failure, and values that are computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, TypeVar


class _OneBlasThread:
    """Linear algebra in one thread, from the first pool that begins to the last one that ends."""

    def __init__(self) -> None:
        self._guard, self._pools = threading.Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._guard:
            self._pools += 1
            if self._pools == 1:
                _take_control()
                self._limits = _blas().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._pools -= 1
            if not self._pools and self._limits is not None:
                _take_control()
                self._limits.restore_original_limits()
                self._limits = None


_one_blas_thread = _OneBlasThread()


@contextmanager
def thread_pool(count: int) -> Iterator[ThreadPoolExecutor]:
    """Provide ``count`` threads; on an exception, cancel pending work and return without waiting.

    Meanwhile linear algebra runs only in the thread that calls it: its own threads would compete
    with these.

    Examples
    --------
    >>> with thread_pool(2) as pool:
    ...     sum(pool.map(abs, [-1, 2]))
    3
    """
    with _one_blas_thread:
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


def _take_control() -> None:
    """Let this thread limit BLAS, also where another one did last."""
    for library in _blas().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)  # not in threadpoolctl 3.6
        if clear is not None:
            clear(force=True)


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
