"""How fast is a log? From Parquet on disk to sums and weights; one thread reads and one sums up.

Run by ``make bench`` after ``bench.py``; writes ``results/bench-logs.json``. The log is MountainCar
under the paper's μ, p = 972; a process of its own measures each length, for its peak memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import machine, told
from rich import box
from rich.console import Console
from rich.table import Table

import saddleback as sb
from saddleback.engine import Learners, LoggedStreamer, Schedule, copies_of

RULES = {"no trace": sb.GES(0.0), "Retrace(.5)": sb.GRetrace(0.5), "importance(.6)": sb.GES(0.6)}
EPISODES = (7_500, 75_000)
CAR = sb.problems.mountain_car()
OPTIONS = {"features": CAR.features, "gamma": CAR.gamma}


def solved(log, rule):
    """Return weights from a log, in one pass."""
    return sb.LSTD(target="pump:0.8", rule=rule, **OPTIONS).fit(log).theta_


def measure(path):
    """Times and peak memory for one log, printed as JSON by a process of its own."""
    small = sb.collect(CAR, episodes=20, rng=1)
    for rule in RULES.values():
        solved(small, rule)  # compiles
    log = sb.Log(path)
    found = {"rows": log.rows}
    start = time.perf_counter()
    for _ in log.segments():
        pass
    found["read_s"] = time.perf_counter() - start
    for name, rule in RULES.items():
        start = time.perf_counter()
        solved(log, rule)
        found[name] = time.perf_counter() - start
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def streamed(log, rule):
    """Rows a second of one learner over a log that is decoded already."""
    target = sb.as_target("pump:0.8", log)
    streamer = LoggedStreamer(CAR.features, [rule], copies_of(3, "action", False), CAR.gamma)
    streams = [
        streamer(p, target.probabilities(p, 3), p.propensity, p.tables["mu"])[0]
        for p in log.segments()
    ]
    times = []
    for _ in range(3):
        step = Schedule(np.array([1e-3]), 0.0)
        nothing = np.zeros((1, CAR.p))
        learner = Learners(rule.form, step, step, nothing, nothing, 1e12)
        start = time.perf_counter()
        for stream in streams:
            learner.blocks[0].advance(stream, learner.done)
            learner.done += len(stream.reward)
        times.append(time.perf_counter() - start)
    return log.rows / min(times)


WEIGHTED = ("is", "pdis", "wis", "pdwis", "dr", "wdr")


def methods(*names):
    """Options that ask for estimates."""
    return [word for name in names for word in ("--method", name)]


JUDGED = {
    "closed form, all weighted estimates, verdict": methods(*WEIGHTED),
    "with FQE, GES streamed and 200 resamples too": [
        *methods(*WEIGHTED, "fqe", "streamed"), "--bootstrap", "200",
    ],
}  # fmt: skip


def judged(path, words):
    """Seconds of ``saddleback evaluate`` from start to end, the best of three, on all cores."""
    command = [sys.executable, "-m", "saddleback", "evaluate", str(path), "--target", "pump:0.8"]
    command += ["--gamma", "0.99", "--features", "tiles:8x4", "--low=-1.2,-0.07"]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([*command, "--high=0.6,0.07", *words], stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    """Measure, print, write."""
    print(told())
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for episodes in EPISODES:
            path = Path(folder) / f"{episodes}.parquet"
            sb.collect(CAR, episodes=episodes, rng=0, out=path)
            said = subprocess.run(
                [sys.executable, __file__, str(path)], check=True, capture_output=True, text=True
            )
            found[episodes] = json.loads(said.stdout)
        path = Path(folder) / "paper.parquet"
        sb.collect(CAR, episodes=5000, rng=0, out=path)
        seconds = {name: judged(path, words) for name, words in JUDGED.items()}
    paper = sb.collect(CAR, episodes=5000, rng=0)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        solved(paper, sb.GES(0.0))
        times.append(time.perf_counter() - start)
    table = Table(title="logs of MountainCar, p = 972, two cores", box=box.SIMPLE)
    table.add_column("what")
    for each in found.values():
        table.add_column(f"{each['rows']:,} rows", justify="right")
    long = list(found.values())
    table.add_row("read and validate, rows/s", *(f"{r['rows'] / r['read_s']:,.0f}" for r in long))
    for name in RULES:
        table.add_row(
            f"Parquet to Â, b̂, M̂ and θ, {name}, rows/s",
            *(f"{r['rows'] / r[name]:,.0f}" for r in long),
        )
    table.add_row("peak memory, MB", *(f"{r['peak_mb']:,.0f}" for r in long))
    console = Console()
    console.print(table)
    rates = {str(rule): streamed(paper, rule) for rule in (sb.GES(0.0), sb.GES(0.5))}
    console.print(f"LSTD(0) on {paper.rows:,} rows in memory: {min(times):.2f} s")
    for name, rate in rates.items():
        console.print(f"{name} streamed over decoded rows: {rate:,.0f} rows/s", highlight=False)
    for name, each in seconds.items():
        console.print(f"saddleback evaluate, {paper.rows:,} rows, {name}: {each:.1f} s")
    Path("results").mkdir(exist_ok=True)
    content = {
        "machine": machine(),
        "logs": found,
        "evaluate_s": seconds,
        "lstd0_s": min(times),
        "streamed_rows_per_s": rates,
    }
    Path("results/bench-logs.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        main()
