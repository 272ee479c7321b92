"""Running tasks: what is missing, a few at a time, each kept as soon as it is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import pyarrow as pa

from saddleback.sweep.store import Store


@dataclass(frozen=True)
class Task:
    """A piece of work that depends on nothing but itself.

    Attributes
    ----------
    name
        Name of its shard.
    work
        Returns its rows.
    """

    name: str
    work: Callable[[], pa.Table]


def run_tasks(
    tasks: Iterable[Task],
    store: Store,
    *,
    workers: int = 1,
    done: Callable[[Task, bool], object] = lambda task, fresh: None,
) -> None:
    """Do the tasks a store is missing, so many at a time; results do not depend on how many.

    ``done(task, fresh)`` is called as each is finished, or found to be so already. On an
    interruption nothing new begins, and what is finished is kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> tasks = [Task(f"t{i}", lambda i=i: pa.table({"i": [i]})) for i in range(3)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store.open(Path(folder) / "s", {"n": 3}, command="")
    ...     run_tasks(tasks, store, workers=2)
    ...     store.table()["i"].to_pylist()
    [0, 1, 2]
    """
    missing = []
    for task in tasks:
        if store.has(task.name):
            done(task, False)
        else:
            missing.append(task)
    with ThreadPoolExecutor(workers) as pool:
        running: dict[Future[pa.Table], Task] = {}
        queue = iter(missing)
        try:
            while True:
                for task in queue:
                    running[pool.submit(task.work)] = task
                    if len(running) == workers:
                        break
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    task = running.pop(future)
                    store.put(task.name, future.result())
                    done(task, True)
        finally:
            for future in running:
                future.cancel()
