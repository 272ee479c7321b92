"""`run_study`: from a study file to its results."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from saddleback._progress import Progress
from saddleback.sweep.executors import cluster, threads
from saddleback.sweep.store import Store
from saddleback.sweep.study_file import read_study
from saddleback.sweep.task import tasks_of
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
    """Run the missing tasks of a study, and return its store.

    Parameters
    ----------
    study
        The TOML file; see docs/learn/studies.md.
    out
        Folder of the results. Results that exist already are kept, and missing ones added.
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
    path, folder = Path(study), Path(out)
    settings = read_study(path)
    tasks = tasks_of(settings, path.parent)
    with (
        threads(workers) if dask is None else cluster(dask) as executor,
        Store.open(folder, settings.as_dict(), command) as store,
    ):
        for name, (stored, current) in store.version_mismatches.items():
            logger.info(
                "note: %s was started with %s %s; this is %s, so the last bits of new results may "
                "differ.", folder, name, stored, current,
            )  # fmt: skip
        plural = "s" if len(tasks) > 1 else ""
        logger.info(
            "%s: %s task%s on %s", settings.title, f"{len(tasks):,}", plural, executor.description
        )
        if not run_tasks(tasks, store, executor, progress, name="sweep", unit="learner-steps"):
            logger.info("all tasks are already complete in %s.", folder)
    return store
