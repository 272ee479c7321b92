"""Progress of a pile of tasks: how much of the planned work is done, also inside running tasks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from saddleback._progress import Progress
from saddleback.sweep.store import Store, facts_of
from saddleback.sweep.task_runner import Task, Watcher

logger = logging.getLogger(__name__)


class TaskProgress(Watcher):
    """Counts what is done of some tasks, and reports it.

    Parameters
    ----------
    name
        What the tasks are, to be shown.
    tasks, store
        All of them, and where their results are kept.
    progress
        Where the fraction is reported to. It is of the work that was missing, so that a resumed
        command begins at 0.
    unit
        In what the sizes of tasks are counted; if "learner-steps", diverged learners are counted.
    note
        Called for what else is to be shown.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> tasks = [Task("a", lambda progress: b"", 100), Task("b", lambda progress: b"", 300)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.open(Path(folder) / "s", {}, command="") as store:
    ...         count = TaskProgress("sweep", tasks, store, lambda f, phase: print(f, phase))
    ...         count.begin(tasks)
    ...         count.moved(tasks[1], 0.5)
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
        self._guard = threading.Lock()
        self._running: dict[str, float] = {}
        self._logged: set[str] = set()
        self._total, self._finished, self._ready, self._diverged = 0, 0.0, 0, 0
        self._begun = time.monotonic()

    def begin(self, missing: Sequence[Task]) -> None:
        """Start, with the tasks that are missing; the others are done."""
        self._log_damage()
        self._total = sum(task.size for task in missing)
        self._ready = self._count - len(missing)
        self._begun = time.monotonic()

    def moved(self, task: Task, fraction: float) -> None:
        """Take note of how far a task has come; may be called by any thread."""
        with self._guard:
            if task.name in self._running or fraction < 1.0:
                self._running[task.name] = fraction * task.size
            self._report()

    def finished(self, task: Task) -> None:
        """Take note of a task that is done and kept."""
        self._log_damage()
        with self._guard:
            self._running.pop(task.name, None)
            self._finished += task.size
            self._ready += 1
            if self._unit == "learner-steps":
                self._diverged += int(facts_of(self._store.path(task.name))["diverged"])
            self._report()

    def waiting(self) -> None:
        """Say how far it is, while all are waited for."""
        self._log_damage()
        with self._guard:
            self._report()

    def _report(self) -> None:
        if self._progress is None:
            return
        done = self._finished + sum(self._running.values())
        passed = time.monotonic() - self._begun
        text = f"{self._name}, {self._ready:,} of {self._count:,} tasks"
        if self._unit and self._finished and passed > 0:
            text += f", {short(done / passed)} {self._unit}/s"
        if self._diverged:
            text += f", {self._diverged:,} diverged so far"
        self._progress(done / self._total if self._total else 1.0, text + self._note())

    def _log_damage(self) -> None:
        for name in self._store.set_aside:
            if name not in self._logged:
                logger.warning("%s was damaged; set aside and computed again.", name)
        self._logged.update(self._store.set_aside)


def short(number: float) -> str:
    """Return a number in three digits.

    Examples
    --------
    >>> short(1234567.0), short(25.0)
    ('1.23 M', '25')
    """
    for size, name in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{name}"
    return f"{number:.3g}"
