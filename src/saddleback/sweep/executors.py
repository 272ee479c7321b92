"""Executors of tasks: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from saddleback._threads import thread_pool
from saddleback.errors import Fix, InvalidParameter

TIMEOUT = 10.0
"""Seconds within which a scheduler must answer."""

PREFETCH = 2
"""Tasks sent to each thread of a cluster, so that no thread idles between two tasks."""


@dataclass(frozen=True)
class ExecutorHandle:
    """An executor of tasks, and how to use it.

    Attributes
    ----------
    executor
        Where tasks are submitted.
    capacity
        Returns the number of tasks to have submitted at a time; called repeatedly, since workers
        come and go.
    description
        Short description, for messages.
    local
        Whether tasks run in this process, and can report their progress.
    translate_errors
        Context manager, by the name of a task, that turns errors of the executor into a
        `SaddlebackError`.
    note
        Returns a remark on the present state to show with the progress, if any.
    """

    executor: Executor
    capacity: Callable[[], int]
    description: str
    local: bool = True
    translate_errors: Callable[[str], AbstractContextManager[Any]] = nullcontext
    note: Callable[[], str] = str


@contextmanager
def threads(count: int) -> Iterator[ExecutorHandle]:
    """Execute tasks in ``count`` threads of this process."""
    with thread_pool(count) as pool:
        yield ExecutorHandle(pool, lambda: count, _thread_count(count))


@contextmanager
def cluster(address: str) -> Iterator[ExecutorHandle]:
    """Execute tasks on a Dask cluster whose workers have saddleback installed, too."""
    try:
        import distributed
    except ImportError:
        raise InvalidParameter(
            "a Dask cluster needs dask.distributed: pip install 'saddleback[dask]'."
        ) from None
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":  # we report problems ourselves
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        distributed.comm.get_address_host_port(address)
        client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InvalidParameter(
            f"no Dask scheduler answers at {address} ({type(error).__name__}). Start one: dask "
            "scheduler, and workers: dask worker ADDRESS."
        ) from None

    def count() -> int:
        if client.status != "running":
            raise _scheduler_lost(address)
        try:
            return sum(client.nthreads().values())
        except OSError:
            raise _scheduler_lost(address) from None

    @contextmanager
    def translate_errors(name: str) -> Iterator[None]:
        try:
            yield
        except distributed.KilledWorker as error:
            raise InvalidParameter(
                f"{name} killed several workers, most recently {error.last_worker.address}; "
                "probably out of memory. Give workers more memory, or use fewer settings per "
                "study."
            ) from None
        except CancelledError:
            raise _scheduler_lost(address) from None

    try:
        _check_worker_versions(client)
        size = _thread_count(count()) if count() else "no workers yet"
        yield ExecutorHandle(
            client.get_executor(pure=False),
            lambda: max(1, PREFETCH * count()),
            f"Dask cluster at {address} ({size}){_dashboard(client)}",
            False,
            translate_errors,
            lambda: "" if count() else f", no workers; start one: dask worker {address}",
        )
    finally:
        client.close(timeout=1)


def _dashboard(client: Any) -> str:
    """Return a line with the address of the dashboard, if there is one."""
    running = client.scheduler_info()["services"].get("dashboard")
    return f"\n  dashboard {client.dashboard_link}" if running else ""


def _thread_count(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _check_worker_versions(client: Any) -> None:
    """Refuse workers without this version of saddleback, which would fail on their first task."""
    required = version("saddleback")
    for worker, result in client.run(version, "saddleback", on_error="return").items():
        installed = isinstance(result, str)
        if isinstance(result, PackageNotFoundError) or (installed and result != required):
            actual = f"saddleback {result}" if installed else "no saddleback"
            raise InvalidParameter(
                f"the Dask worker at {worker} has {actual}; {required} is required. Install it on "
                "every worker and on the scheduler."
            )


def _scheduler_lost(address: str) -> InvalidParameter:
    return InvalidParameter(
        f"lost the Dask scheduler at {address}. Finished tasks are kept.",
        Fix("Run again when it is back, or in threads of this machine", "workers"),
    )
