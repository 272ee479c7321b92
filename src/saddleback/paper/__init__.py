"""The paper's experiments: each a short recipe over the rooms below."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from saddleback._progress import Progress, part_of, split_progress
from saddleback.errors import InvalidParameter
from saddleback.sweep import Store, Task, TaskProgress, run_tasks, threads

QUICK = (
    "A quick run, from little data, to see that it works: its numbers and verdicts are not to be "
    "quoted."
)

PACKED = 0.35
"""Share of the size of results that their shards take on disk."""


@dataclass(frozen=True)
class Options:
    """What the command line may say; None is the recipe's own choice.

    Attributes
    ----------
    out
        Folder for figures, and for a store of each experiment.
    runs, episodes, lam, zeta
        Independent runs, episodes of MountainCar, λ and ABQ's ζ of the comparison.
    rules
        Names of rules to compare in place of the usual ones.
    seed
        From which all runs are spawned.
    quick
        Everything small, to see that it works.
    workers
        How many tasks at a time.
    progress
        What an experiment reports its progress to, if anybody follows it.
    """

    out: Path
    runs: int | None = None
    episodes: int | None = None
    lam: float | None = None
    zeta: float | None = None
    rules: tuple[str, ...] = ()
    seed: int = 0
    quick: bool = False
    workers: int = 2
    progress: Progress | None = field(default=None, compare=False)

    def spoken(self, experiment: str) -> str:
        """Return the command that runs an experiment with these options, but for where and how."""
        words = ["saddleback", "paper", experiment]
        for name in ("runs", "episodes", "lam", "zeta"):
            value = getattr(self, name)
            words += [f"--{name}", f"{value:g}"] if value is not None else []
        words += ["--seed", str(self.seed)] if self.seed else []
        return " ".join([*words, *["--quick"] * self.quick])

    def save(self, figure: Any, name: str) -> list[Path]:
        """Write a figure; quickly, as a coarse picture only."""
        from saddleback import plots

        if self.quick:
            return plots.save(figure, self.out, name, ("png",), dpi=100)
        return plots.save(figure, self.out, name)


def prepare(out: Path) -> None:
    """Make the folder for figures, before any work is done that could be lost."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise InvalidParameter(
            f"cannot write into {out}: {error.strerror}. Choose another folder with --out."
        ) from None


def check(names: Sequence[str], options: Options) -> None:
    """Refuse, before any work, rules that do not fit and results that nothing here could hold."""
    memory, disk = _memory(), shutil.disk_usage(options.out).free
    total = 0.0
    for name in names:
        size = getattr(_recipe(name), "check", lambda _: 0)(options)
        total += PACKED * size
        for needed, room, what in ((size, memory, "memory"), (total, disk, f"{options.out}")):
            if needed > room:
                runs = "as usual" if options.runs is None else str(options.runs)
                most = int((options.runs or 0) * room / needed)
                fix = f"Use at most {most}." if most else "Make room, or choose another --out."
                raise InvalidParameter(
                    f"--runs {runs}: the results of {name} would take {needed / 1e9:.3g} GB, and "
                    f"{what} has room for {room / 1e9:.3g} GB. {fix}"
                )


def _memory() -> float:
    """Bytes of memory of this machine, where the system says."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError):
        return float("inf")


@dataclass(frozen=True)
class Preparation:
    """Something that several tasks need, computed before them: how, and at what planned cost."""

    work: Callable[[], object]
    size: int


def execute(
    name: str,
    study: dict[str, Any],
    tasks: Sequence[Task],
    options: Options,
    preparations: Sequence[Preparation] = (),
) -> Store:
    """Do what is missing of an experiment's tasks; return its store.

    What they need is prepared first, in the same threads, unless nothing is missing. Sizes of
    preparations and tasks are in the same unit.
    """
    command = shlex.join(["saddleback", *sys.argv[1:]])
    with (
        threads(options.workers) as place,
        Store.open(options.out / name, study, command) as store,
    ):
        missing = [task for task in tasks if not store.has(task.name)]
        needed = preparations if missing else ()
        sizes = [sum(each.size for each in some) for some in (needed, missing)]
        phases = [(f"{name}, reference values", float(sizes[0])), (name, float(sizes[1]))]
        preparing, running = split_progress(options.progress, phases)
        futures = [place.executor.submit(each.work) for each in needed]
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            if preparing is not None:
                preparing(done / len(needed))
        run_tasks(tasks, store, place, TaskProgress(name, tasks, store, running))
    return store


def results_of(name: str, options: Options) -> Store:
    """Return the store of an experiment, which must have been run."""
    folder = options.out / name
    if not (folder / "manifest.json").exists():
        words = ["saddleback", "paper", name, *(["--quick"] if options.quick else [])]
        raise InvalidParameter(
            f"{options.out} has no results of {name} yet: run {shlex.join(words)} --out "
            f"{shlex.quote(str(options.out))} first, or all experiments."
        )
    return Store.load(folder)


def _recipe(name: str) -> Any:
    return importlib.import_module(f"saddleback.paper.{name.replace('-', '_')}")


SECONDS = {
    "stability": 2.0, "theorem1": 4.0, "two-state": 12.0, "baird": 10.0, "step-size": 10.0,
    "table1": 32.0, "theory": 3.0, "mountain-car": 72.0, "reproduction": 3.0,
}  # fmt: skip
"""What each experiment takes at full size, roughly: their ratios plan the progress of all."""


COMPUTED = 0.85
"""Share of an experiment before its tables and figures are made."""


def planned_seconds(name: str, options: Options) -> float:
    """What an experiment is planned to take with these options."""
    seconds = SECONDS[name]
    if options.runs is not None and name not in ("stability", "theorem1", "reproduction"):
        seconds *= options.runs / (5 if name == "mountain-car" else 10)
    if options.episodes is not None and name == "mountain-car":
        seconds *= options.episodes / 5000
    return seconds


def run(names: Sequence[str], options: Options) -> Iterator[tuple[str, list[Table], list[Path]]]:
    """Run experiments one after the other; return the tables of each, and its figures."""
    costs = [(name, planned_seconds(name, options)) for name in names]
    for name, progress in zip(names, split_progress(options.progress, costs), strict=True):
        if progress is not None:
            progress(0.0, name)
        inner = part_of(progress, 0.0, COMPUTED, name)
        tables, paths = _recipe(name).run(replace(options, progress=inner))
        if progress is not None:
            progress(1.0, name)
        yield name, tables, paths
