"""Where work is done: threads here, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from saddleback._threads import thread_pool
from saddleback.errors import InvalidParameter

PATIENCE = 10.0
"""Seconds within which a scheduler must answer."""

AHEAD = 2
"""Tasks sent to each thread of a cluster, so that none waits for the next."""


@dataclass(frozen=True)
class Place:
    """Where work is done.

    Attributes
    ----------
    executor
        To which it is handed.
    width
        How many tasks to hand out at a time, asked again and again since workers come and go.
    words
        What it is, to be told.
    local
        Whether it is this process, so that tasks can report their progress.
    watching
        Turns what goes wrong there with a task into a complaint of ours.
    note
        What is to be said of it now, if anything.
    """

    executor: Executor
    width: Callable[[], int]
    words: str
    local: bool = True
    watching: Callable[[str], AbstractContextManager[Any]] = nullcontext
    note: Callable[[], str] = str


@contextmanager
def threads(count: int) -> Iterator[Place]:
    """Work in so many threads of this process."""
    with thread_pool(count) as pool:
        yield Place(pool, lambda: count, _threads(count))


@contextmanager
def cluster(address: str) -> Iterator[Place]:
    """Work on the cluster of a Dask scheduler, whose workers have saddleback installed too."""
    try:
        import distributed
    except ImportError:
        raise InvalidParameter(
            "a Dask cluster needs dask.distributed: pip install 'saddleback[dask]'."
        ) from None
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":  # what matters we say ourselves
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        distributed.comm.get_address_host_port(address)
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InvalidParameter(
            f"no Dask scheduler answers at {address} ({type(error).__name__}). Start one: dask "
            "scheduler, and workers: dask worker ADDRESS."
        ) from None

    def count() -> int:
        if client.status != "running":
            raise _gone(address)
        try:
            return sum(client.nthreads().values())
        except OSError:
            raise _gone(address) from None

    @contextmanager
    def watching(name: str) -> Iterator[None]:
        try:
            yield
        except distributed.KilledWorker as error:
            raise InvalidParameter(
                f"{name} ended worker after worker, the last {error.last_worker.address}: out of "
                "memory? Give workers more, or the study fewer settings at a time."
            ) from None
        except CancelledError:
            raise _gone(address) from None

    try:
        _same_everywhere(client)
        there = _threads(count()) if count() else "no workers yet"
        yield Place(
            client.get_executor(pure=False),
            lambda: max(1, AHEAD * count()),
            f"Dask cluster at {address} ({there}){_dashboard(client)}",
            False,
            watching,
            lambda: "" if count() else f", no workers: start some, dask worker {address}",
        )
    finally:
        client.close(timeout=1)


def _dashboard(client: Any) -> str:
    """Say where the dashboard is, if there is one."""
    there = client.scheduler_info()["services"].get("dashboard")
    return f"\n  dashboard {client.dashboard_link}" if there else ""


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def _same_everywhere(client: Any) -> None:
    """Refuse workers without saddleback, which would end as soon as they are sent work."""
    wanted = version("saddleback")
    for worker, found in client.run(version, "saddleback", on_error="return").items():
        if isinstance(found, PackageNotFoundError) or (isinstance(found, str) and found != wanted):
            there = f"saddleback {found}" if isinstance(found, str) else "no saddleback"
            raise InvalidParameter(
                f"the Dask worker at {worker} has {there}, and {wanted} is wanted. Install it on "
                "every worker and on the scheduler."
            )


def _gone(address: str) -> InvalidParameter:
    return InvalidParameter(
        f"the Dask scheduler at {address} is gone. What is finished is kept; run the same command "
        "again when it is back, or with --workers."
    )
