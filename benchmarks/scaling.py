"""Scaling over local workers and a Dask cluster, and the projected cost of large jobs.

Run by ``make bench``. The same tasks, of a second or more, are run by two threads without a store,
by ``--workers 1`` and ``2``, and by a Dask cluster of two workers with one thread each; the
overhead of a task is measured as well. From these numbers follows the projected cost, on 100
machines like this one, of a study with a million settings and of a log with ten billion rows.
Writes ``results/scaling.json`` and ``results/scaling.md``.
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
from machine import machine, machine_line

from saddleback import GES, features, problems
from saddleback._progress import si_number
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

MACHINES, CORES = 100, 2
"""The projected cluster: number of machines like this one, and their cores."""

TURNS = 2
"""Repetitions of each way to run the tasks; the best counts."""

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
    """Run a scheduler and workers of one thread each; yield its address."""
    program = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        host = ["--host", "127.0.0.1"]
        started = [
            subprocess.Popen(
                [*program, "scheduler", *host, "--port", "0", "--dashboard-address", "127.0.0.1:0",
                 "--scheduler-file", str(file)], **quiet,
            )
        ]  # fmt: skip
        try:
            while not file.exists():
                time.sleep(0.1)
            address = json.loads(file.read_text(encoding="utf-8"))["address"]
            worker = [*program, "worker", address, "--nthreads", "1", "--no-nanny"]
            started += [
                subprocess.Popen(
                    [*worker, *host, "--no-dashboard", "--local-directory", folder], **quiet
                )
                for _ in range(workers)
            ]
            with cluster(address) as executor:
                while executor.capacity() < 2 * workers:
                    time.sleep(0.1)
            yield address
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


def timed(act):
    """Return the result of a call, and its seconds."""
    started = time.perf_counter()
    result = act()
    return result, time.perf_counter() - started


def run_with_store(tasks, folder, executor, suffix=".parquet"):
    """Run tasks as the command does; return the bytes of the shards."""
    with Store.open(folder, {"folder": folder.name}, "", suffix) as store:
        run_tasks(tasks, store, executor)
    return sum(path.stat().st_size for path in (folder / "shards").iterdir())


def ways(tasks, folder, address, suffix=".parquet"):
    """Return the smallest seconds of all tasks for each way to run them, after warming up."""

    def without_store(_):
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(_run, tasks))

    def kept(make):
        def act(store):
            with make() as executor:
                run_with_store(tasks, store, executor, suffix)

        return act

    executions = {
        "plain, 2 threads": without_store,
        "--workers 1": kept(lambda: threads(1)),
        "--workers 2": kept(lambda: threads(2)),
        "--dask, 2 workers": kept(lambda: cluster(address)),
    }
    with cluster(address) as executor:
        list(executor.executor.map(_run, tasks[:4]))
    without_store(None)
    seconds = {name: [] for name in executions}
    for turn in range(TURNS):
        for name, act in executions.items():
            where = folder / f"{name} {turn}"
            seconds[name].append(timed(lambda act=act, where=where: act(where))[1])
    return {name: min(several) for name, several in seconds.items()}


def _run(task):
    """Run a task; its result is discarded."""
    task.work(None)


def overheads(address, folder):
    """Return the overhead of a task in seconds: sent over Dask, and written to a store."""
    with cluster(address) as executor:
        list(executor.executor.map(_run_nothing, range(10)))
        over = timed(lambda: list(executor.executor.map(_run_nothing, range(300))))[1] / 300
        big = (
            timed(lambda: [executor.executor.submit(bytes, 10**8).result() for _ in range(3)])[1]
            / 3
        )
    content = os.urandom(200_000)
    with Store.open(folder / "puts", {}, "") as store:
        put = timed(lambda: [store.put(f"t{k}", content) for k in range(100)])[1] / 100
    return {"dask_task": over, "put": put, "dask_bytes_per_second": 1e8 / big}


def _run_nothing(_):
    return b""


def study_tasks(folder):
    """Return a study and its tasks, of some seconds each."""
    path = folder / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    study = read_study(path, share=400_000_000)
    return study, tasks_of(study, folder)


def log_tasks(folder, files=4, episodes=15_000):
    """Return the tasks of a log, one per file."""
    for k in range(files):
        log = collect(problems.mountain_car(), episodes=episodes, rng=k)
        table = pa.table(log.data) if isinstance(log.data, dict) else log.data
        ids = pa.array(np.asarray(table["episode_id"]) + k * episodes)
        executor = table.column_names.index("episode_id")
        pq.write_table(table.set_column(executor, "episode_id", ids), folder / f"day{k}.parquet")
    tiles = features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=8, tilings=4)
    log = Log(str(folder / "day*.parquet"))
    what = ChunkedStatistics(log, (GES(0.0),), {"target": "pump:0.8"}, tiles, 0.99, blocks=5)
    from saddleback.sweep import statistics_chunks

    statistics_chunks.MIN_ROWS, statistics_chunks.BYTES_PER_ROW = 1, 10**9
    return what, what.tasks()


def projection(study, log):
    """Project a million settings and 10^10 rows to the cluster: lines with the limits, seconds."""
    threads_ = MACHINES * CORES
    settings, steps = 1_000_000, 1_000_000
    work = settings * steps / study["rate"]
    tasks = settings * steps / SHARE
    seconds = work / tasks
    lines = [
        f"a study of {settings:,} settings with {steps:,} steps each:",
        f"  learner-steps {si_number(settings * steps)}, tasks {tasks:,.0f} of {seconds:.1f} s",
        f"  work {format_duration(work)} of one core, "
        f"{format_duration(work / threads_)} on {threads_} cores",
        f"  results {si_number(settings * 21 * study['row_bytes'])}B in {tasks:,.0f} shards",
        f"  the process that writes them: {1e3 * study['put']:.1f} ms per shard, busy for "
        f"{format_duration(tasks * study['put'])}; the bottleneck from "
        f"{seconds / study['put']:,.0f} threads",
        f"  the scheduler: {1e3 * study['dask_task']:.1f} ms per task, the bottleneck from "
        f"{seconds / study['dask_task']:,.0f} threads",
    ]
    projected = {"study": max(work / threads_, tasks * max(study["dask_task"], study["put"]))}
    rows = 10**10
    groups = 1000
    projected["log"] = rows / log["rate"] / threads_
    projected["merge"] = groups * log["sum_bytes"] / study["dask_bytes_per_second"]
    seconds = rows / groups / log["rate"]
    lines += [
        f"a log of {rows:,} rows (p = {log['p']}, {log['pairs']} pairs of rule and target, "
        f"{log['blocks']} blocks):",
        f"  work {format_duration(rows / log['rate'])} of one core, "
        f"{format_duration(projected['log'])} on {threads_} cores; "
        f"{groups} groups of {format_duration(seconds)}",
        f"  log of {si_number(rows * log['row_bytes'])}B, read by {threads_} cores at "
        f"{si_number(threads_ * log['rate'] * log['row_bytes'])}B/s in all",
        f"  statistics of {si_number(log['sum_bytes'])}B per group, "
        f"{si_number(groups * log['sum_bytes'])}B in all, through one process at "
        f"{si_number(study['dask_bytes_per_second'])}B/s: "
        f"{format_duration(projected['merge'])}",
    ]
    return lines, projected


def main():
    """Measure, compute, print, write."""
    print(machine_line())
    with tempfile.TemporaryDirectory() as name, dask_cluster() as address:
        folder = Path(name)
        study, tasks = study_tasks(folder)
        seconds = ways(tasks, folder, address)
        shards = sum(
            path.stat().st_size for path in (folder / "--workers 2 0" / "shards").iterdir()
        )
        size = sum(task.size for task in tasks)
        rows = size / study.cases[0].count * len(study.cases[0].points)
        sweep = {
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
    for label, job, unit in (("study", sweep, "learner_steps"), ("log", log, "rows")):
        first = job["seconds"]["plain, 2 threads"]
        rates = [f"{si_number(job[unit] / s)}/s ({first / s:.0%})" for s in job["seconds"].values()]
        duration = job["seconds"]["--workers 1"] / job["tasks"]
        title = f"{label}, {job['tasks']} tasks of {duration:.1f} s, {unit.replace('_', '-')}"
        lines.append(f"| {title} | {' | '.join(rates)} |")
    computed, projected = projection(sweep, log)
    print(
        "\n".join(
            [*lines, "", f"on {MACHINES} machines of {CORES} cores like this one:", *computed]
        )
    )
    Path("results").mkdir(exist_ok=True)
    content = {"machine": machine(), "study": sweep, "log": log, "projected_s": projected}
    Path("results/scaling.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    Path("results/scaling.md").write_text(
        "\n".join([machine_line(), "", *lines, "", *computed]) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
