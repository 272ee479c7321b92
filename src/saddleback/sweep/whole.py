"""A study from its file to its results."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from saddleback.sweep.compute import tasks_of
from saddleback.sweep.place import cluster, threads
from saddleback.sweep.progress import telling
from saddleback.sweep.read import read_study
from saddleback.sweep.run import run_tasks
from saddleback.sweep.store import Store


def run_study(
    study: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    workers: int = 1,
    dask: str | None = None,
    say: Callable[[str], object] | None = None,
    command: str = "",
) -> Store:
    """Run what is missing of a study; return its store, to be read.

    Parameters
    ----------
    study
        The TOML file; see docs/sweeps.md.
    out
        Folder of the results. If there are some, what is missing is added.
    workers, dask
        In so many threads, or on the cluster of the Dask scheduler at this address.
    say
        Is told what happens, and then progress is shown on standard error.
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
        if say is not None:
            for name, (then, now) in store.strangers.items():
                say(
                    f"note: {folder} was begun with {name} {then}, this is {now}: the last bits "
                    "of what is added may differ."
                )
            many = f"{len(tasks):,} task{'s' if len(tasks) > 1 else ''}"
            say(f"{chosen.title}: {many} on {place.words}")
        with telling("sweep", tasks, store, "learner-steps", say is None, place.note) as done:
            missing = run_tasks(tasks, store, place, done)
        if say is not None and not missing:
            say(f"nothing was left to do: {folder} has them all.")
    return store
