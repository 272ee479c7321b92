"""`run_study`: from a study file to its results."""

from __future__ import annotations

import logging
import os
from concurrent.futures import as_completed
from pathlib import Path

from saddleback._display import visible
from saddleback._progress import Progress, split_progress
from saddleback.learning.device import engine_on
from saddleback.sweep.executors import cluster, threads
from saddleback.sweep.store import Store
from saddleback.sweep.study import Study
from saddleback.sweep.study_file import read_study
from saddleback.sweep.task import device_memory, metric_tasks, tasks_of
from saddleback.sweep.task_runner import run_tasks

logger = logging.getLogger(__name__)


def run_study(
    study: Study | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    name: str = "sweep",
    workers: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> Store:
    """Run the missing tasks of a study, and return its store.

    Parameters
    ----------
    study
        The study, as `read_study` returns it, or its TOML file; see docs/learn/studies.md.
    out
        Folder of the results. Results that exist already are kept, and missing ones added.
    folder
        Folder to which paths in the study are relative: that of its file, or the current one.
    name
        Name of the computation, shown with the progress.
    workers, dask
        Number of threads, or the address of a Dask scheduler whose cluster is used instead.
    progress
        Called with the fraction of the missing work that is done, and a line of text. Other
        messages go to the logger ``saddleback``.
    command
        Command line to record in the manifest.

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
    if isinstance(study, Study):
        settings, home = study, Path(folder or "")
    else:
        settings, home = read_study(Path(study)), Path(folder or Path(study).parent)
    settings = settings.on_device(settings.device, workers)
    on_gpu = dask is None and settings.device != "cpu"  # one task at a time, in all threads
    if on_gpu:
        device_memory(settings, home)
    tasks = tasks_of(settings, home, workers if on_gpu else 1)
    with (
        threads(1 if on_gpu else workers) if dask is None else cluster(dask) as executor,
        Store.open(Path(out), settings.as_dict(), command) as store,
    ):
        for package, (stored, current) in store.version_mismatches.items():
            logger.info(
                "note: %s was started with %s %s; this is %s, so the last bits of new results may "
                "differ.", out, package, stored, current,
            )  # fmt: skip
        plural = "s" if len(tasks) > 1 else ""
        where = engine_on(settings.device).name if on_gpu else executor.description
        title = visible(settings.title, keep="")
        missing = [task for task in tasks if not store.has(task.name)]
        kept = len(tasks) - len(missing)
        complete = f", {kept:,} of them already complete" if kept and missing else ""
        logger.info("%s: %s task%s on %s%s", title, f"{len(tasks):,}", plural, where, complete)
        needed = metric_tasks(settings, home) if missing and executor.local else []
        sizes = [float(sum(task.size for task in group)) for group in (needed, missing)]
        phases = [(f"{name}, metrics", sizes[0]), (name, sizes[1])]
        preparing, running = split_progress(progress, phases)
        futures = [executor.executor.submit(task.work, None) for task in needed]
        for done, _ in enumerate(as_completed(futures), 1):  # a failure is raised by its task
            if preparing is not None:
                preparing(done / len(futures))
        unit = "calls" if settings.function else "learner-steps"
        if not run_tasks(tasks, store, executor, running, name=name, unit=unit):
            logger.info("all tasks are already complete in %s.", out)
    return store
