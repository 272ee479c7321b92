"""Progress of a set of tasks: the fraction of the planned work, including running tasks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from saddleback._progress import Progress
from saddleback.sweep.store import Store, shard_metadata
from saddleback.sweep.task_runner import Task, Watcher

logger = logging.getLogger(__name__)


class TaskProgress(Watcher):
    """Reports the progress of a set of tasks.

    Parameters
    ----------
    name
        Name of the computation, shown with the progress.
    tasks, store
        All tasks, and the store of their results.
    progress
        Called with the fraction of the missing work that is done, so that a resumed command
        starts at 0.
    unit
        Unit of the task sizes; with "learner-steps" diverged learners are counted, too.
    note
        Returns a remark to append, if any.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> tasks = [Task("a", lambda progress: b"", 100), Task("b", lambda progress: b"", 300)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.open(Path(folder) / "s", {}, command="") as store:
    ...         watcher = TaskProgress("sweep", tasks, store, lambda f, phase: print(f, phase))
    ...         watcher.begin(tasks)
    ...         watcher.advanced(tasks[1], 0.5)
    0.375 sweep, 0 of 2 tasks
    """

    def __init__(
        self,
        name: str,
        tasks: Sequence[Task],
        store: Store,
        progress: Progress | None = None,
        unit: str = "",
        note: Callable[[], str] = str,
    ) -> None:
        self._name, self._count, self._store, self._unit = name, len(tasks), store, unit
        self._progress, self._note = progress, note
        self._lock = threading.Lock()
        self._running: dict[str, float] = {}
        self._logged: set[str] = set()
        self._total, self._finished_size, self._finished_count, self._diverged = 0, 0.0, 0, 0
        self._start = time.monotonic()

    def begin(self, missing: Sequence[Task]) -> None:
        """Start, with the tasks that are missing; the others are done."""
        self._log_damage()
        self._total = sum(task.size for task in missing)
        self._finished_count = self._count - len(missing)
        self._start = time.monotonic()

    def advanced(self, task: Task, fraction: float) -> None:
        """Record the fraction of a task that is done; may be called from any thread."""
        with self._lock:
            if task.name in self._running or fraction < 1.0:
                self._running[task.name] = fraction * task.size
            self._report()

    def finished(self, task: Task) -> None:
        """Record a task that is done and written."""
        self._log_damage()
        with self._lock:
            self._running.pop(task.name, None)
            self._finished_size += task.size
            self._finished_count += 1
            if self._unit == "learner-steps":
                self._diverged += int(shard_metadata(self._store.path(task.name))["diverged"])
            self._report()

    def waiting(self) -> None:
        """Refresh the report while tasks are running."""
        self._log_damage()
        with self._lock:
            self._report()

    def _report(self) -> None:
        if self._progress is None:
            return
        done = self._finished_size + sum(self._running.values())
        elapsed = time.monotonic() - self._start
        text = f"{self._name}, {self._finished_count:,} of {self._count:,} tasks"
        if self._unit and self._finished_size and elapsed > 0:
            text += f", {si_number(done / elapsed)} {self._unit}/s"
        if self._diverged:
            text += f", {self._diverged:,} diverged so far"
        self._progress(done / self._total if self._total else 1.0, text + self._note())

    def _log_damage(self) -> None:
        for name in self._store.damaged:
            if name not in self._logged:
                logger.warning("%s was damaged; moved to damaged/ and recomputed.", name)
        self._logged.update(self._store.damaged)


def si_number(number: float) -> str:
    """Return a number with three digits and an SI prefix.

    Examples
    --------
    >>> si_number(1234567.0), si_number(25.0)
    ('1.23 M', '25')
    """
    for size, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{prefix}"
    return f"{number:.3g}"
