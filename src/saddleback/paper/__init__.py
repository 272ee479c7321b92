"""The paper's experiments, one module each."""

from __future__ import annotations

import importlib
import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from saddleback import plots
from saddleback._progress import Progress, concurrent_progress, part_of
from saddleback._threads import thread_pool
from saddleback.errors import Fix, InvalidParameter, SaddlebackError
from saddleback.sweep import Store

QUICK = "Quick run, a smoke test on little data: do not cite its numbers or verdicts."
"""The warning that goes with the results of a quick run."""

PACKED = 0.35
"""Size on disk of the shards ÷ size of their results in memory."""


@dataclass(frozen=True)
class Options:
    """Options of the command line; None stands for the experiment's default.

    Attributes
    ----------
    out
        Folder for figures, and for a store of each experiment.
    runs, episodes, lam, zeta
        Independent runs, episodes of MountainCar, λ and ABQ's ζ of the comparison.
    rules
        Names of rules to compare in place of the default ones.
    seed
        Seed from which all runs are spawned.
    quick
        Whether this is a tiny smoke test.
    workers
        Number of tasks that run at the same time.
    progress
        Callback for the progress of an experiment.
    command
        Command line to record in the manifests.
    origin
        Command that gives the same numbers, for the page of claims.
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
    command: str = field(default="", compare=False)
    origin: str = field(default="saddleback paper all", compare=False)

    def save(self, figure: Any, name: str) -> list[Path]:
        """Write a figure as PNG and PDF; in a quick run, as a coarse PNG only."""
        if self.quick:
            return plots.save(figure, self.out, name, ("png",), dpi=100)
        return plots.save(figure, self.out, name)


def check(names: Sequence[str], options: Options) -> None:
    """Reject rules that do not fit, and results larger than memory or disk, before any work."""
    memory, disk = _memory(), shutil.disk_usage(options.out).free
    total = 0.0
    for name in names:
        size = getattr(_experiment(name), "check", lambda _: 0)(options)
        total += PACKED * size
        for needed, free, target in ((size, memory, "memory"), (total, disk, f"{options.out}")):
            if needed > free:
                runs = "default" if options.runs is None else str(options.runs)
                limit = int((options.runs or 0) * free / needed)
                fix = Fix("Use fewer", "runs", limit) if limit else None
                raise InvalidParameter(
                    f"{runs} runs: the results of {name} need {needed / 1e9:.3g} GB, but "
                    f"{target} has only {free / 1e9:.3g} GB.",
                    fix or Fix("Free some, or choose another folder", "out"),
                )


def _memory() -> float:
    """Return the memory of this machine in bytes; infinity where the system does not report it."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError):
        return float("inf")


class MissingResults(SaddlebackError):
    """Results of a study that an experiment needs are missing: all, or some of its tasks.

    ``experiment`` is the one that runs the study.
    """

    def __init__(self, folder: Path, study: str, done: int = 0, tasks: int = 0) -> None:
        has = f"{done:,} of {tasks:,} results of" if done else "no results of"
        yet = "" if done else " yet"
        super().__init__(f"{folder} has {has} {study}{yet}: run it first, or all experiments.")
        self.experiment = next(name for name in SECONDS if study.startswith(name))


def store_of(name: str, options: Options) -> Store:
    """Return the store of a study that has been run."""
    folder = options.out / name
    if not (folder / "manifest.json").exists():
        raise MissingResults(options.out, name)
    return Store.load(folder)


def _experiment(name: str) -> Any:
    return importlib.import_module(f"saddleback.paper.{name.replace('-', '_')}")


SECONDS = {
    "stability": 2.0, "theorem1": 3.0, "two-state": 15.0, "baird": 18.0, "step-size": 15.0,
    "table1": 14.0, "theory": 4.0, "mountain-car": 105.0, "reproduction": 3.0,
}  # fmt: skip
"""Approximate time of each experiment at full size; the ratios set the progress bar."""


COMPUTED = 0.85
"""Fraction of an experiment's progress before its tables and figures are made."""


def planned_seconds(name: str, options: Options) -> float:
    """Return the planned time of an experiment with these options."""
    seconds = SECONDS[name]
    if options.runs is not None and name not in ("stability", "theorem1", "reproduction"):
        seconds *= options.runs / (10 if name == "mountain-car" else 20)
    if options.episodes is not None and name == "mountain-car":
        seconds *= options.episodes / 5000
    return seconds


class Interrupted(Exception):
    """Ends a computation whose results nobody waits for any more."""


def run(
    names: Sequence[str], options: Options
) -> Iterator[tuple[str, list[Table], list[Path], float]]:
    """Run experiments in turn; yield the name, tables, figures and seconds of each.

    An experiment with a function ``prepare`` has its results computed beside the others from the
    beginning, in another thread; figures are drawn in this one.
    """
    parts = concurrent_progress(options.progress, [planned_seconds(n, options) for n in names])
    stop = threading.Event()
    with thread_pool(1) as pool:
        try:
            ahead = {
                name: pool.submit(_prepare, name, replace(options, progress=part), stop)
                for name, part in zip(names, parts, strict=True)
                if len(names) > 1 and hasattr(_experiment(name), "prepare")
            }
            for name, progress in zip(names, parts, strict=True):
                begun = time.perf_counter()
                waited = ahead[name].result() if name in ahead else 0.0
                if name in ahead:
                    begun = time.perf_counter()
                elif progress is not None:
                    progress(0.0, name)
                inner = None if name in ahead else part_of(progress, 0.0, COMPUTED, name)
                tables, paths = _experiment(name).run(replace(options, progress=inner))
                if progress is not None:
                    progress(1.0, name)
                yield name, tables, paths, waited + time.perf_counter() - begun
        finally:
            stop.set()


def _prepare(name: str, options: Options, stop: threading.Event) -> float:
    """Compute the results of an experiment; return the seconds that took."""
    begun, progress = time.perf_counter(), part_of(options.progress, 0.0, COMPUTED, name)

    def report(fraction: float, phase: str = "", /) -> None:
        if stop.is_set():
            raise Interrupted
        if progress is not None:
            progress(fraction, phase)

    _experiment(name).prepare(replace(options, progress=report))
    return time.perf_counter() - begun
