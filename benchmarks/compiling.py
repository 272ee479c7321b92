"""Time of the first run: commands with an empty cache of kernels, then with a full one.

Run by ``make bench``; writes ``results/bench-compiling.json``. The difference between the first and
the second run is compilation. CPU time is that of all cores, so other load matters less.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.table import Table

import saddleback as sb

LEARN = """
import saddleback as sb
problem = sb.problems.two_state(gamma=0.9)
sb.learn(sb.GES(0.5), problem, alpha=0.01, beta=0.01, steps=1000, rng=0)
"""


def commands(folder):
    """Return the arguments of the commands, by name."""
    log = Path(folder) / "log.parquet"
    sb.collect(sb.problems.mountain_car(), episodes=100, rng=0, out=log)
    evaluate = [
        "-m", "saddleback", "evaluate", str(log), "--target", "pump:0.8", "--gamma", "0.99",
        "--low=-1.2,-0.07", "--high=0.6,0.07", "--features",
    ]  # fmt: skip
    return {
        "evaluate, tiles:8x4": [*evaluate, "tiles:8x4"],
        "evaluate, polynomial:3": [*evaluate, "polynomial:3"],
        "quickstart": ["-m", "saddleback", "quickstart", "--out", str(Path(folder) / "quickstart")],
        "learn, once": ["-c", LEARN],
    }


def measure(arguments, cache):
    """Return the wall time and CPU time of a run, in seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], env=os.environ | {"NUMBA_CACHE_DIR": cache},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if done.returncode not in (0, 3, 4):  # verdicts
        raise SystemExit(done.stderr)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu}


def main():
    """Measure, print, write."""
    print(machine_line())
    numbers = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in commands(folder).items():
            with tempfile.TemporaryDirectory() as cache:
                first = measure(arguments, cache)
                later = [measure(arguments, cache) for _ in range(3)]
            second = {unit: min(run[unit] for run in later) for unit in first}
            compiling = {unit: first[unit] - second[unit] for unit in first}
            numbers[name] = {"first": first, "second": second, "compiling": compiling}
    table = Table(title="first and second run on a machine, s: wall (CPU)", box=box.SIMPLE)
    table.add_column("command")
    for column in ("first", "second", "compiling"):
        table.add_column(column, justify="right")
    for name, runs in numbers.items():
        cells = (f"{run['wall_s']:.1f} ({run['cpu_s']:.1f})" for run in runs.values())
        table.add_row(name, *cells)
    Console().print(table)
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "runs": numbers}
    Path("results/bench-compiling.json").write_text(
        json.dumps(content, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
