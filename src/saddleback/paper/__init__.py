"""The paper's experiments: each a short recipe over the rooms below."""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from saddleback.errors import InvalidParameter
from saddleback.sweep import Store, Task, run_tasks, telling, threads

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


def execute(name: str, study: dict[str, Any], tasks: Sequence[Task], options: Options) -> Store:
    """Do what is missing of an experiment's tasks, showing progress; return its store."""
    command = shlex.join(["saddleback", *sys.argv[1:]])
    with (
        threads(options.workers) as place,
        Store.open(options.out / name, study, command) as store,
        telling(name, tasks, store) as done,
    ):
        run_tasks(tasks, store, place, done)
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


def run(name: str, options: Options, err: bool = False) -> None:
    """Run one experiment: print its tables, write its figures, say where they are.

    With ``err`` all that goes to standard error.
    """
    tables, paths = _recipe(name).run(options)
    console = Console(stderr=err)
    for table in tables:
        console.print(table)
    if options.quick:
        console.print(QUICK, style="bold")
    for path in paths:
        console.print(f"  {path}", highlight=False)
