"""How work scales over local workers and a Dask cluster, and what that means for large jobs.

Run by ``make bench``. The same tasks, of a second or more, are done plainly by two threads (no
store), by ``--workers 1`` and ``2``, and by a Dask cluster of two workers with one thread each; and
what a task costs besides its work is measured. From these numbers it is computed what a study of a
million settings and a log of ten thousand million rows need on 100 machines like this one. Writes
``results/scaling.json`` and ``results/scaling.md``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import machine, told

from saddleback import GES, features, problems
from saddleback.cli.progress import format_duration
from saddleback.log import Log, collect
from saddleback.sweep import (
    ChunkedStatistics,
    Store,
    cluster,
    read_study,
    run_tasks,
    tasks_of,
    threads,
)
from saddleback.sweep.study_file import SHARE
from saddleback.sweep.task_progress import si_number

MACHINES, CORES = 100, 2
"""The cluster that is computed: so many machines like this one."""

TURNS = 2
"""Times that each way is tried; the best counts."""

STUDY = """
title = "scaling"
runs = 1
steps = 1_000_000
metrics = ["mspbe"]
[grid]
alpha = { scale = 0.01, powers = [-10, 0] }
ratio = { scale = 1.0, powers = [-5, 5] }
[[problem]]
name = "random_mdp"
each = { rng = [0, 1, 2, 3, 4, 5, 6, 7] }
[[rule]]
name = "GES"
lam = [0.0, 0.2, 0.4]
"""


@contextmanager
def dask_cluster(workers=2):
    """Start a scheduler and workers of one thread each; give its address; stop them again."""
    program = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        here = ["--host", "127.0.0.1"]
        started = [
            subprocess.Popen(
                [*program, "scheduler", *here, "--port", "0", "--dashboard-address", "127.0.0.1:0",
                 "--scheduler-file", str(file)], **quiet,
            )
        ]  # fmt: skip
        try:
            while not file.exists():
                time.sleep(0.1)
            address = json.loads(file.read_text())["address"]
            worker = [*program, "worker", address, "--nthreads", "1", "--no-nanny"]
            started += [
                subprocess.Popen(
                    [*worker, *here, "--no-dashboard", "--local-directory", folder], **quiet
                )
                for _ in range(workers)
            ]
            with cluster(address) as place:
                while place.width() < 2 * workers:
                    time.sleep(0.1)
            yield address
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


def timed(act):
    """Return what it returns, and how long it took."""
    begun = time.perf_counter()
    found = act()
    return found, time.perf_counter() - begun


def stored(tasks, folder, place, suffix=".parquet"):
    """Do tasks as the command does; return the bytes of the shards."""
    with Store.open(folder, {"folder": folder.name}, "", suffix) as store:
        run_tasks(tasks, store, place)
    return sum(path.stat().st_size for path in (folder / "shards").iterdir())


def ways(tasks, folder, address, suffix=".parquet"):
    """Return the least seconds of all tasks, done in each way in turn, after warming up."""

    def plainly(_):
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(_run, tasks))

    def kept(make):
        def act(store):
            with make() as place:
                stored(tasks, store, place, suffix)

        return act

    each = {
        "plain, 2 threads": plainly,
        "--workers 1": kept(lambda: threads(1)),
        "--workers 2": kept(lambda: threads(2)),
        "--dask, 2 workers": kept(lambda: cluster(address)),
    }
    with cluster(address) as place:
        list(place.executor.map(_run, tasks[:4]))
    plainly(None)
    seconds = {name: [] for name in each}
    for turn in range(TURNS):
        for name, act in each.items():
            where = folder / f"{name} {turn}"
            seconds[name].append(timed(lambda act=act, where=where: act(where))[1])
    return {name: min(several) for name, several in seconds.items()}


def _run(task):
    return len(task.work())


def overheads(address, folder):
    """Seconds that a task costs besides its work: sent over Dask, and kept in a store."""
    with cluster(address) as place:
        list(place.executor.map(_run_nothing, range(10)))
        over = timed(lambda: list(place.executor.map(_run_nothing, range(300))))[1] / 300
        big = timed(lambda: [place.executor.submit(bytes, 10**8).result() for _ in range(3)])[1] / 3
    content = os.urandom(200_000)
    with Store.open(folder / "puts", {}, "") as store:
        put = timed(lambda: [store.put(f"t{k}", content) for k in range(100)])[1] / 100
    return {"dask_task": over, "put": put, "dask_bytes_per_second": 1e8 / big}


def _run_nothing(_):
    return b""


def study_tasks(folder):
    """The tasks of a study, of some seconds each."""
    path = folder / "study.toml"
    path.write_text(STUDY)
    study = read_study(path, share=400_000_000)
    return study, tasks_of(study, folder)


def log_tasks(folder, files=4, episodes=15_000):
    """The tasks of a log, a file each."""
    for k in range(files):
        log = collect(problems.mountain_car(), episodes=episodes, rng=k)
        table = pa.table(log.data) if isinstance(log.data, dict) else log.data
        ids = pa.array(np.asarray(table["episode_id"]) + k * episodes)
        place = table.column_names.index("episode_id")
        pq.write_table(table.set_column(place, "episode_id", ids), folder / f"day{k}.parquet")
    tiles = features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=8, tilings=4)
    log = Log(str(folder / "day*.parquet"))
    what = ChunkedStatistics(log, (GES(0.0),), {"target": "pump:0.8"}, tiles, 0.99, blocks=5)
    from saddleback.sweep import statistics_chunks

    statistics_chunks.MIN_ROWS, statistics_chunks.BYTES_PER_ROW = 1, 10**9
    return what, what.tasks()


def projected(study, log):
    """What a million settings and 10^10 rows take on so many machines, and what is the limit."""
    threads_ = MACHINES * CORES
    settings, steps = 1_000_000, 1_000_000
    work = settings * steps / study["rate"]
    tasks = settings * steps / SHARE
    each = work / tasks
    lines = [
        f"a study of {settings:,} settings with {steps:,} steps each:",
        f"  learner-steps {si_number(settings * steps)}, tasks {tasks:,.0f} of {each:.1f} s",
        f"  work {format_duration(work)} of one core, "
        f"{format_duration(work / threads_)} on {threads_} cores",
        f"  results {si_number(settings * 21 * study['row_bytes'])}B in {tasks:,.0f} shards",
        f"  the process that keeps them: {1e3 * study['put']:.1f} ms a shard, busy "
        f"{format_duration(tasks * study['put'])}; it is the limit from "
        f"{each / study['put']:,.0f} threads on",
        f"  the scheduler: {1e3 * study['dask_task']:.1f} ms a task, the limit from "
        f"{each / study['dask_task']:,.0f} threads on",
    ]
    rows = 10**10
    groups = 1000
    each = rows / groups / log["rate"]
    lines += [
        f"a log of {rows:,} rows (p = {log['p']}, {log['pairs']} pairs of rule and target, "
        f"{log['blocks']} blocks):",
        f"  work {format_duration(rows / log['rate'])} of one core, "
        f"{format_duration(rows / log['rate'] / threads_)} on {threads_} cores; "
        f"{groups} groups of {format_duration(each)}",
        f"  log of {si_number(rows * log['row_bytes'])}B, read by {threads_} cores at "
        f"{si_number(threads_ * log['rate'] * log['row_bytes'])}B/s in all",
        f"  {si_number(log['sum_bytes'])}B of sums per group, "
        f"{si_number(groups * log['sum_bytes'])}B "
        f"in all, through one process at {si_number(study['dask_bytes_per_second'])}B/s: "
        f"{format_duration(groups * log['sum_bytes'] / study['dask_bytes_per_second'])}",
    ]
    return lines


def main():
    """Measure, compute, print, write."""
    print(told())
    with tempfile.TemporaryDirectory() as name, dask_cluster() as address:
        folder = Path(name)
        study, tasks = study_tasks(folder)
        seconds = ways(tasks, folder, address)
        shards = sum(
            path.stat().st_size for path in (folder / "--workers 2 0" / "shards").iterdir()
        )
        size = sum(task.size for task in tasks)
        rows = size / study.cases[0].count * len(study.cases[0].points)
        found = {
            "seconds": seconds, "tasks": len(tasks), "learner_steps": size,
            "rate": size / seconds["--workers 1"], "row_bytes": shards / rows,
            **overheads(address, folder),
        }  # fmt: skip
        what, parts = log_tasks(folder)
        taken = ways(parts, folder / "sums", address, ".npz")
        sums = sorted((folder / "sums" / "--workers 2 0" / "shards").iterdir())
        log = {
            "seconds": taken, "tasks": len(parts), "rows": what.log.rows, "p": what.setting().p,
            "rate": what.log.rows / taken["--workers 1"], "blocks": what.blocks,
            "pairs": len(what.rules) * (len(what.targets) + 1),
            "row_bytes": sum(p.stat().st_size for p in folder.glob("day*")) / what.log.rows,
            "sum_bytes": sums[0].stat().st_size,
        }  # fmt: skip
    lines = ["| | plain, 2 threads | --workers 1 | --workers 2 | --dask, 2 workers |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    for label, each, unit in (("study", found, "learner_steps"), ("log", log, "rows")):
        first = each["seconds"]["plain, 2 threads"]
        said = [
            f"{si_number(each[unit] / s)}/s ({first / s:.0%})" for s in each["seconds"].values()
        ]
        long = each["seconds"]["--workers 1"] / each["tasks"]
        words = f"{label}, {each['tasks']} tasks of {long:.1f} s, {unit.replace('_', '-')}"
        lines.append(f"| {words} | {' | '.join(said)} |")
    computed = projected(found, log)
    print(
        "\n".join(
            [*lines, "", f"on {MACHINES} machines of {CORES} cores like this one:", *computed]
        )
    )
    Path("results").mkdir(exist_ok=True)
    words = {"machine": machine(), "study": found, "log": log, "projected": computed}
    Path("results/scaling.json").write_text(json.dumps(words, indent=1))
    Path("results/scaling.md").write_text("\n".join([told(), "", *lines, "", *computed]) + "\n")


if __name__ == "__main__":
    main()
