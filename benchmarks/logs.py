"""Speed on logs, from Parquet on disk to statistics and weights: one thread reads, one computes.

Run by ``make bench`` after ``bench.py``; writes ``results/bench-logs.json``. The log is MountainCar
under the paper's μ, p = 972; each length is measured in a separate process, for its peak memory.
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

import numpy as np
from machine import machine, machine_line
from rich import box
from rich.console import Console
from rich.table import Table

import saddleback as sb
from saddleback.engine import Learners, LoggedStreamer, Schedule, copies_of

RULES = {"no trace": sb.GES(0.0), "Retrace(.5)": sb.GRetrace(0.5), "importance(.6)": sb.GES(0.6)}
EPISODES = (7_500, 75_000)
EVALUATED = (500, 5_000, 75_000)
CAR = sb.problems.mountain_car()
OPTIONS = {"features": CAR.features, "gamma": CAR.gamma}


def lstd_weights(log, rule):
    """Return weights from a log, in one pass."""
    return sb.LSTD(target="pump:0.8", rule=rule, **OPTIONS).fit(log).theta_


def measure(path):
    """Print times and peak memory for one log as JSON; runs in a separate process."""
    small = sb.collect(CAR, episodes=20, rng=1)
    for rule in RULES.values():
        lstd_weights(small, rule)  # compiles
    log = sb.Log(path)
    measured = {"rows": log.rows}
    start = time.perf_counter()
    for _ in log.segments():
        pass
    measured["read_s"] = time.perf_counter() - start
    for name, rule in RULES.items():
        start = time.perf_counter()
        lstd_weights(log, rule)
        measured[name] = time.perf_counter() - start
    measured["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(measured))


def measure_evaluation(path):
    """Print time and peak memory of one evaluation as JSON; runs in a separate process.

    All default estimates, diagnostics and the verdict, on all cores, after a small evaluation that
    loads the kernels.
    """
    sb.evaluate(sb.collect(CAR, episodes=20, rng=1), "pump:0.8", **OPTIONS)
    log, start = sb.Log(path), time.perf_counter()
    sb.evaluate(log, "pump:0.8", threads=os.cpu_count(), **OPTIONS)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": log.rows, "seconds": seconds, "peak_mb": peak}))


def in_process(job, path):
    """Return what a job of this file prints, run in a process of its own."""
    command = [sys.executable, __file__, job, str(path)]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(process.stdout)


def streaming_rate(log, rule):
    """Return the rows per second of one learner over a decoded log."""
    target = sb.as_target("pump:0.8", log)
    streamer = LoggedStreamer(CAR.features, [rule], copies_of(3, "action", False), CAR.gamma)
    streams = [
        streamer(p, target.probabilities(p, 3), p.propensity, p.tables["mu"])[0]
        for p in log.segments()
    ]
    times = []
    for _ in range(3):
        step = Schedule(np.array([1e-3]), 0.0)
        zero = np.zeros((1, CAR.p))
        learner = Learners(rule.form, step, step, zero, zero, 1e12)
        start = time.perf_counter()
        for stream in streams:
            learner.blocks[0].advance(stream, learner.done)
            learner.done += len(stream.reward)
        times.append(time.perf_counter() - start)
    return log.rows / min(times)


WEIGHTED = ("is", "pdis", "wis", "pdwis", "dr", "wdr")


def methods(*names):
    """Return the options for these estimators."""
    return [part for name in names for part in ("--method", name)]


EVALUATIONS = {
    "closed form, all weighted estimates, verdict": methods(*WEIGHTED),
    "also FQE, streamed GES and 200 resamples": [
        *methods(*WEIGHTED, "fqe", "streamed"), "--bootstrap", "200",
    ],
}  # fmt: skip


def evaluate_seconds(path, options):
    """Return the seconds of ``saddleback evaluate`` on all cores, the best of three."""
    command = [sys.executable, "-m", "saddleback", "evaluate", str(path), "--target", "pump:0.8"]
    command += ["--gamma", "0.99", "--features", "tiles:8x4", "--low=-1.2,-0.07"]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([*command, "--high=0.6,0.07", *options], stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    """Measure, print, write."""
    print(machine_line())
    by_length = {}
    with tempfile.TemporaryDirectory() as folder:
        for episodes in EPISODES:
            path = Path(folder) / f"{episodes}.parquet"
            sb.collect(CAR, episodes=episodes, rng=0, out=path)
            by_length[episodes] = in_process("measure", path)
        evaluations = []
        for episodes in EVALUATED:
            path = Path(folder) / f"{episodes}.parquet"
            if not path.exists():
                sb.collect(CAR, episodes=episodes, rng=0, out=path)
            runs = [in_process("measure_evaluation", path) for _ in range(3)]
            evaluations.append(min(runs, key=lambda run: run["seconds"]))
        path = Path(folder) / "paper.parquet"
        sb.collect(CAR, episodes=5000, rng=0, out=path)
        seconds = {name: evaluate_seconds(path, options) for name, options in EVALUATIONS.items()}
    paper = sb.collect(CAR, episodes=5000, rng=0)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        lstd_weights(paper, sb.GES(0.0))
        times.append(time.perf_counter() - start)
    table = Table(title="logs of MountainCar, p = 972, two cores", box=box.SIMPLE)
    table.add_column("quantity")
    lengths = list(by_length.values())
    for length in lengths:
        table.add_column(f"{length['rows']:,} rows", justify="right")
    table.add_row(
        "read and validate, rows/s", *(f"{r['rows'] / r['read_s']:,.0f}" for r in lengths)
    )
    for name in RULES:
        table.add_row(
            f"Parquet to Â, b̂, M̂ and θ, {name}, rows/s",
            *(f"{r['rows'] / r[name]:,.0f}" for r in lengths),
        )
    table.add_row("peak memory, MB", *(f"{r['peak_mb']:,.0f}" for r in lengths))
    console = Console()
    console.print(table)
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    title = f"evaluate with all defaults, after loading kernels; {threads} BLAS thread per call"
    table = Table("rows", "seconds", "rows/s", "peak memory, MB", title=title, box=box.SIMPLE)
    for run in evaluations:
        rate = run["rows"] / run["seconds"]
        table.add_row(
            f"{run['rows']:,}", f"{run['seconds']:.2f}", f"{rate:,.0f}", f"{run['peak_mb']:,.0f}"
        )
    console.print(table)
    rates = {str(rule): streaming_rate(paper, rule) for rule in (sb.GES(0.0), sb.GES(0.5))}
    console.print(f"LSTD(0) on {paper.rows:,} rows in memory: {min(times):.2f} s")
    for name, rate in rates.items():
        console.print(f"{name} streamed over decoded rows: {rate:,.0f} rows/s", highlight=False)
    for name, duration in seconds.items():
        console.print(f"saddleback evaluate, {paper.rows:,} rows, {name}: {duration:.1f} s")
    Path("results").mkdir(exist_ok=True)
    content = {
        "machine": machine(),
        "logs": by_length,
        "evaluations": evaluations,
        "evaluate_s": seconds,
        "lstd0_s": min(times),
        "streamed_rows_per_s": rates,
    }
    Path("results/bench-logs.json").write_text(
        json.dumps(content, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"measure": measure, "measure_evaluation": measure_evaluation}[sys.argv[1]](sys.argv[2])
    else:
        main()
