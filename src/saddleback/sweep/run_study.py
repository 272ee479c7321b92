"""A study from its file to its results."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from saddleback._progress import Progress
from saddleback.sweep.executors import cluster, threads
from saddleback.sweep.store import Store
from saddleback.sweep.study_file import read_study
from saddleback.sweep.task import tasks_of
from saddleback.sweep.task_progress import TaskProgress
from saddleback.sweep.task_runner import run_tasks

logger = logging.getLogger(__name__)


def run_study(
    study: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workers: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> Store:
    """Run what is missing of a study; return its store, to be read.

    Parameters
    ----------
    study
        The TOML file; see docs/learn/studies.md.
    out
        Folder of the results. If there are some, what is missing is added.
    workers, dask
        In so many threads, or on the cluster of the Dask scheduler at this address.
    progress
        Called with the fraction of the missing work that is done, and with a line about it. What
        happens besides is logged by the logger ``saddleback``.
    command
        Kept with the results: how they were made.

    Examples
    --------
    >>> import tempfile
    >>> text = '''
    ... steps = 500
    ... [grid]
    ... alpha = [0.1]
    ... ratio = [1.0]
    ... [[problem]]
    ... name = "two_state"
    ... [[rule]]
    ... name = "GES"
    ... lam = 0.5
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "s.toml").write_text(text)
    ...     store = run_study(Path(folder) / "s.toml", Path(folder) / "results")
    ...     print(store.table().num_rows, store.manifest["study"]["rules"])
    21 [['GES', {'lam': 0.5}]]
    """
    path, folder = Path(study), Path(out)
    chosen = read_study(path)
    tasks = tasks_of(chosen, path.parent)
    with (
        threads(workers) if dask is None else cluster(dask) as place,
        Store.open(folder, chosen.plain(), command) as store,
    ):
        for name, (then, now) in store.strangers.items():
            logger.info(
                "note: %s was begun with %s %s, this is %s: the last bits of what is added may "
                "differ.", folder, name, then, now,
            )  # fmt: skip
        plural = "s" if len(tasks) > 1 else ""
        logger.info("%s: %s task%s on %s", chosen.title, f"{len(tasks):,}", plural, place.words)
        watcher = TaskProgress("sweep", tasks, store, progress, "learner-steps", place.note)
        if not run_tasks(tasks, store, place, watcher):
            logger.info("nothing was left to do: %s has them all.", folder)
    return store
