"""A study of many slow tasks, sweeps in other processes, and a Dask cluster for them."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time

from helpers.fork_server import start_forked
from helpers.studies import shards

TOY = """\
import os
import time

from saddleback import problems
from saddleback.sweep import task

quick = getattr(task.learn, "quick", task.learn)


def learn(*arguments, **options):
    "Learning that takes longer, so that a test can interrupt it."
    time.sleep(float(os.environ.get("NAP", "0")))
    return quick(*arguments, **options)


if os.environ.get("NAP"):
    learn.quick, task.learn = quick, learn


def slow(k):
    return problems.two_state(gamma=1 - 1 / (k + 2), rewards=[[1.0, 2.0], [3.0, 4.0]])


def failing(problem, rule):
    "A metric that a worker cannot compute for k = 3."
    if problem.mdp.gamma == 0.8:
        raise ValueError("k is 3")
    return lambda theta: theta[..., 0]
"""

MANY = 40

FAILING = """\
metrics = ["toy.py:failing"]
"""

SLOW = f"""\
title = "slow"
seed = 5
steps = 100
checkpoints = 3
theta0 = 1.0

[grid]
alpha = [0.1, 0.2]
ratio = [1.0]

[[problem]]
make = "toy.py:slow"
each = {{ k = {list(range(MANY))} }}

[[rule]]
name = "GES"
lam = 0.5
"""


def start_process(*arguments, nap=0.1):
    """Start `saddleback` in a separate process, whose tasks take ``nap`` seconds each."""
    return start_forked(*arguments, NAP=str(nap))


def stop_process(process):
    """Kill a process if it still runs; return its output."""
    process.kill()
    return process.communicate()


def until(condition, seconds=60.0):
    """Wait for a condition to become true, and return its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.005)
    return value


def wait_for_start(process):
    """Wait until a sweep announces its start."""
    first, line = process.stderr.readline(), process.stderr.readline()
    assert first == "reading study.toml …\n"
    assert f"slow: {MANY} tasks on " in line, line + process.stderr.read()
    return line + (process.stderr.readline() if "Dask" in line else "")


def has_more_shards(out, count):
    """Whether a store has more than ``count`` shards."""
    return len(shards(out)) > count


def sums(out):
    """Return the hashes in a store by the names of shards."""
    pairs = [line.split("  shards/") for line in (out / "SHA256SUMS").read_text().splitlines()]
    return {name: digest for digest, name in pairs}


def check_shards(out):
    """Check that a store has only shards, with correct hashes; return their names."""
    contents = shards(out)
    assert {name: hashlib.sha256(b).hexdigest() for name, b in contents.items()}.items() <= (
        sums(out).items()
    )
    assert {path.name for path in (out / "shards").iterdir()} == set(contents)
    return set(contents)


class Dask:
    """A scheduler and workers in separate processes."""

    def __init__(self, folder, nap=0.0):
        self.folder, self.nap, self.processes = folder, nap, []
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0",
            "--scheduler-file", file,
        )  # fmt: skip
        self.address = until(lambda: self._read_address(file))

    @staticmethod
    def _read_address(file):
        with contextlib.suppress(OSError, ValueError):
            return json.loads(file.read_text())["address"]

    def _start(self, kind, *arguments, **environment):
        log = (self.folder / f"{kind}-{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--host", "127.0.0.1",
                 *map(str, arguments)],
                stdout=log, stderr=log, cwd=self.folder,
                env=os.environ | {"NAP": str(self.nap)} | environment,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def worker(self, **environment):
        """Start a worker, and wait until it has registered."""
        log = self.folder / f"worker-{len(self.processes)}.log"
        process = self._start(
            "worker", self.address, "--no-nanny", "--no-dashboard", "--nthreads", "1",
            "--memory-limit", "0", "--local-directory", self.folder, **environment,
        )  # fmt: skip
        until(lambda: b"Registered to" in log.read_bytes())
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
