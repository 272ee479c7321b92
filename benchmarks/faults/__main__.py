"""A campaign of faults, as one table.

Run by ``make faults``; ``make faults TRIES=10000`` sets the number of tries. Hypothesis generates
each try from a seed: it damages an input (logs, columns, rows, saved files, studies, stores,
policies, options), or kills a command or fills a disk while it writes. One that ends badly is
printed with the command that repeats it, and written to ``results/faults.json``. Outcomes are kept
in ``results/faults.jsonl``: a run that was stopped continues.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

WEIGHTS = {"kill -9": 0.1, "full disk": 0.2, "stores": 0.5}
"""Tries of a family, relative to the others: those with processes take longer."""

LONGEST = 600.0
"""Seconds after which a try counts as hanging."""

COLUMNS = {
    "tries": None, "refused clearly": "refused", "same answer": "same", "told": "told",
    "tracebacks": "traceback", "hangs": "hang", "silent changes": "silent", "skipped": "skipped",
}  # fmt: skip

BAD = ("traceback", "hang", "silent")


def work(root: Path) -> None:
    """Make the tries that standard input lists, one per line; print an outcome for each."""
    import resource
    import shutil
    import warnings

    from benchmarks.faults import run_try

    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    tempfile.tempdir = str(root)  # is removed at the end, even if this process is killed
    warnings.simplefilter("error")
    warnings.simplefilter("default", DeprecationWarning)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        family, seed = json.loads(line)
        folder = Path(tempfile.mkdtemp(dir=root))
        outcome, note = run_try(family, seed, folder)
        shutil.rmtree(folder, ignore_errors=True)
        answers.write(json.dumps([str(outcome), note[-3000:]]) + "\n")
        answers.flush()


class Worker:
    """A process that makes tries, replaced if it dies or hangs."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.faults", "--worker", str(self._root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._buffer = b""

    def send(self, family: str, seed: int) -> None:
        """Start a try."""
        self.trial, self.begun = (family, seed), time.monotonic()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(self.trial).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> tuple[str, str] | None:
        """Return the outcome of the try, None if it is still running."""
        assert self.process.stdout is not None
        stream = self.process.stdout.fileno()
        if select.select([stream], [], [], 0)[0]:
            data = os.read(stream, 1 << 16)
            self._buffer += data
            if not data:
                status = self.process.wait()
                self._start()
                return "traceback", f"the process died with {status}"
        if b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            outcome, note = json.loads(line)
            return outcome, note
        if time.monotonic() - self.begun > LONGEST:
            self.process.kill()
            self.process.wait()
            self._start()
            return "hang", f"longer than {LONGEST:.0f} s"
        return None

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def unmount(root: Path) -> None:
    """Unmount small disks that a killed worker left."""
    mounts = Path("/proc/mounts")
    for line in mounts.read_text(encoding="utf-8").splitlines() if mounts.exists() else ():
        place = line.split()[1]
        if place.startswith(f"{root}/"):
            subprocess.run(["umount", place], check=False)


def plan(tries: int, first: int, chosen: list[str]) -> list[tuple[str, int]]:
    """Return the family and seed of every try."""
    from benchmarks.faults import FAMILIES

    weights = {name: WEIGHTS.get(name, 1.0) for name in chosen or FAMILIES}
    total = sum(weights.values())
    counts = {name: math.ceil(tries * weight / total) for name, weight in weights.items()}
    return [(name, first + k) for k in range(max(counts.values())) for name in counts
            if k < counts[name]]  # fmt: skip


def campaign(
    trials: list[tuple[str, int]], jobs: int
) -> Iterator[tuple[tuple[str, int], tuple[str, str, float]]]:
    """Make tries; yield each with its outcome, note and seconds as it ends."""
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        left = iter(trials)
        workers = [Worker(Path(name)) for _ in range(jobs)]
        busy = []
        try:
            for worker in workers:
                if (trial := next(left, None)) is not None:
                    worker.send(*trial)
                    busy.append(worker)
            while busy:
                select.select([worker.process.stdout for worker in busy], [], [], 1.0)
                for worker in list(busy):
                    result = worker.receive()
                    if result is None:
                        continue
                    yield worker.trial, (*result, round(time.monotonic() - worker.begun, 3))
                    if (trial := next(left, None)) is None:
                        busy.remove(worker)
                    else:
                        worker.send(*trial)
        finally:
            for worker in workers:
                worker.stop()
            unmount(Path(name))


def outcomes(
    trials: list[tuple[str, int]], jobs: int
) -> dict[tuple[str, int], tuple[str, str, float]]:
    """Return outcome, note and seconds of every try: those kept of this code, and new ones."""
    import hypothesis
    from benchmarks.faults import command
    from benchmarks.resumable import PACKAGE, appending, files_digest, stored_results

    def print_bad(trial: tuple[str, int], outcome: str, note: str) -> None:
        if outcome in BAD:
            print(f"{outcome}: {command(*trial)}\n{note[-1500:]}", flush=True)

    sources = [path for folder in (PACKAGE, Path(__file__).parent) for path in folder.rglob("*.py")]
    kept = Path("results/faults.jsonl")
    code = f"{files_digest(others=sorted(sources))}, Hypothesis {hypothesis.__version__}"
    stored = stored_results(kept, code)
    done = {trial: stored[key] for trial in trials if (key := json.dumps(trial)) in stored}
    begun, before = time.monotonic(), len(done)
    if before:
        print(f"{before:,} tries of this code are kept in {kept}", flush=True)
    for trial, (outcome, note, _) in done.items():
        print_bad(trial, outcome, note)
    with appending(kept, code) as append:
        for trial, result in campaign([trial for trial in trials if trial not in done], jobs):
            done[trial] = result
            append(trial, result)
            print_bad(trial, *result[:2])
            if len(done) % 500 == 0:
                print(f"{len(done):,} tries, {time.monotonic() - begun:.0f} s", flush=True)
    return done


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("tries", nargs="?", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--family", action="append", default=[], help="only this family")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        work(options.worker)
        return
    from benchmarks.machine import machine, machine_line
    from rich import box
    from rich.console import Console
    from rich.table import Table

    print(machine_line())
    trials = plan(options.tries, options.first, options.family)
    results = outcomes(trials, options.jobs)
    done = [(*trial, *results[trial]) for trial in trials]
    table = Table(title="Faults", box=box.SIMPLE, title_justify="left", padding=(0, 0))
    table.add_column("damage", no_wrap=True)
    for heading in COLUMNS:
        table.add_column(heading, justify="right", min_width=max(map(len, heading.split())))
    rows = {}
    for family in dict.fromkeys(name for name, _ in trials):
        counts = Counter(outcome for name, _, outcome, *_ in done if name == family)
        rows[family] = {
            heading: sum(counts.values()) if key is None else counts[key]
            for heading, key in COLUMNS.items()
        }
    rows["all"] = {heading: sum(row[heading] for row in rows.values()) for heading in COLUMNS}
    for family, row in rows.items():
        table.add_row(family, *(f"{count:,}" for count in row.values()))
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    skipped = {note for _, _, outcome, note, _ in done if outcome == "skipped"}
    for note in sorted(skipped):
        print(f"skipped: {note}")
    bad = [trial for trial in done if trial[2] in BAD]
    Path("results").mkdir(exist_ok=True)
    seconds = round(sum(took for *_, took in done))
    content = {
        "machine": machine(), "tries": len(done), "seconds": seconds, "families": rows, "bad": bad,
    }  # fmt: skip
    Path("results/faults.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
