"""Execution of the tasks that a store is missing; each result is written as soon as it is done."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from saddleback._plugins import USER_ERRORS
from saddleback._progress import Progress, TaskProgress
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.sweep.executors import ExecutorHandle
from saddleback.sweep.store import Store


class Shard(NamedTuple):
    """The result of a task: the content of its shard, and the learners that diverged in it."""

    content: bytes
    diverged: int = 0


@dataclass(frozen=True)
class Task:
    """An independent piece of work.

    Attributes
    ----------
    name
        Name of its shard.
    work
        Returns the content of the shard, or a `Shard`. For a cluster it must be picklable: a
        module-level function with plain arguments (`functools.partial`). Called with the `Progress`
        to report to, or None on a cluster.
    size
        Planned amount of work, in a unit common to all tasks.
    """

    name: str
    work: Callable[[Progress | None], bytes | Shard]
    size: int = 1


def run_tasks(
    tasks: Sequence[Task],
    store: Store,
    executor: ExecutorHandle,
    progress: Progress | None = None,
    *,
    name: str = "",
    unit: str = "",
) -> int:
    """Run the tasks that a store is missing, and return their number.

    Results do not depend on the executor. On any exception no new task starts, and finished ones
    are kept. ``name`` and ``unit``, that of the sizes, are shown with the progress.

    Examples
    --------
    >>> import tempfile
    >>> from functools import partial
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from saddleback.sweep import parquet_bytes, threads
    >>> def work(progress, i):
    ...     return parquet_bytes(pa.table({"i": [i]}))
    >>> tasks = [Task(f"t{i}", partial(work, i=i)) for i in range(3)]
    >>> with tempfile.TemporaryDirectory() as folder, threads(2) as executor:
    ...     with Store.open(Path(folder) / "s", {"n": 3}, command="") as store:
    ...         run_tasks(tasks, store, executor), store.table()["i"].to_pylist()
    (3, [0, 1, 2])
    """
    missing = [task for task in tasks if not store.has(task.name)]
    sizes = {task.name: task.size for task in missing}
    state = TaskProgress(progress, name, sizes, len(tasks), unit, executor.note)
    running: dict[Future[Any], Task] = {}
    queue = iter(missing)
    try:
        while True:
            for task in itertools.islice(queue, max(0, executor.capacity() - len(running))):
                report = _reporter(state, task.name) if executor.local else None
                running[executor.executor.submit(task.work, report)] = task
            if not running:
                return len(missing)
            ended = wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done
            if not ended:
                state.refresh()
            for future in sorted(ended, key=_failed):  # successes are written first
                task = running.pop(future)
                shard = _result(task, future, executor)
                if "function" in store.manifest["study"]:  # results of any type
                    store.check_columns(shard.content)
                store.put(task.name, shard.content)
                state.finish(task.name, shard.diverged)
    finally:
        for future in running:
            future.cancel()


def _reporter(state: TaskProgress, task: str) -> Progress:
    """Return the progress of a task within that of all tasks."""
    return lambda fraction, phase="": state.advance(task, fraction)


def _failed(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def _result(task: Task, future: Future[Any], executor: ExecutorHandle) -> Shard:
    """Return the result of a task; an unexpected error becomes a one-line `InvalidParameter`."""
    try:
        with executor.translate_errors(task.name):
            result = future.result()
            return result if isinstance(result, Shard) else Shard(result)
    except SaddlebackError:
        raise
    except USER_ERRORS as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise InvalidParameter(
            f"{task.name} failed: {type(error).__name__}: {error} ({Path(last.filename).name}, "
            f"line {last.lineno}). Finished tasks are kept."
        ) from error
