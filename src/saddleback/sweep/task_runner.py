"""Running tasks: what is missing, a few at a time, each kept as soon as it is done."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saddleback._progress import Progress
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.sweep.executors import Place
from saddleback.sweep.store import Store


@dataclass(frozen=True)
class Task:
    """A piece of work that depends on nothing but itself.

    Attributes
    ----------
    name
        Name of its shard.
    work
        Returns the content of the shard. Sent to where it is done, so a function of some module
        with plain arguments (`functools.partial`) if that may be elsewhere. Called with what it
        reports its progress to, None if it is elsewhere.
    size
        How much work it is planned to be, in any unit that the tasks have in common.
    """

    name: str
    work: Callable[[Progress | None], bytes]
    size: int = 1


class Watcher:
    """Follows tasks as they are run; this one ignores them."""

    def begin(self, missing: Sequence[Task]) -> None:
        """Start, with the tasks that are missing."""

    def moved(self, task: Task, fraction: float) -> None:
        """A task has come so far; called by the thread it runs in."""

    def finished(self, task: Task) -> None:
        """A task is done, and its result kept."""

    def waiting(self) -> None:
        """All are waited for; called every second."""


def run_tasks(
    tasks: Iterable[Task],
    store: Store,
    place: Place,
    watcher: Watcher | None = None,
) -> int:
    """Do the tasks a store is missing; results do not depend on where and how many at a time.

    Returns how many they were. Whatever ends this, nothing new begins, and what is finished is
    kept.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow as pa
    >>> from saddleback.sweep import packed, threads
    >>> tasks = [Task(f"t{i}", lambda _, i=i: packed(pa.table({"i": [i]}))) for i in range(3)]
    >>> with tempfile.TemporaryDirectory() as folder, threads(2) as place:
    ...     with Store.open(Path(folder) / "s", {"n": 3}, command="") as store:
    ...         run_tasks(tasks, store, place), store.table()["i"].to_pylist()
    (3, [0, 1, 2])
    """
    watcher = watcher or Watcher()
    missing = [task for task in tasks if not store.has(task.name)]
    watcher.begin(missing)
    running: dict[Future[Any], Task] = {}
    queue = iter(missing)
    try:
        while True:
            for task in itertools.islice(queue, max(0, place.width() - len(running))):
                report = _reporter(watcher, task) if place.local else None
                running[place.executor.submit(task.work, report)] = task
            if not running:
                return len(missing)
            ended = wait(running, timeout=1.0, return_when=FIRST_COMPLETED).done
            if not ended:
                watcher.waiting()
            for future in sorted(ended, key=_failed):  # what is finished is kept first
                task = running.pop(future)
                store.put(task.name, _result(task, future, place))
                watcher.finished(task)
    finally:
        for future in running:
            future.cancel()


def _reporter(watcher: Watcher, task: Task) -> Progress:
    """Return what a task reports its progress to."""
    return lambda fraction, phase="": watcher.moved(task, fraction)


def _failed(future: Future[Any]) -> bool:
    """Whether a task came to nothing."""
    return future.cancelled() or future.exception() is not None


def _result(task: Task, future: Future[Any], place: Place) -> bytes:
    """Return what a task found; what went wrong in it is told in one line."""
    try:
        with place.watching(task.name):
            return future.result()  # type: ignore[no-any-return]
    except SaddlebackError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise InvalidParameter(
            f"{task.name} failed: {type(error).__name__}: {error} ({Path(last.filename).name}, "
            f"line {last.lineno}). What is finished is kept."
        ) from error
