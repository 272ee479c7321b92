"""Whatever dies meanwhile: finished work is never lost, never doubled, and the same to the bit."""

import contextlib
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import distributed
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from helpers.logs import columns
from helpers.studies import (
    SMALL,
    bits,
    command,
    finished,
    invoked,
    shards,
    sweep,
    unbroken,
    written,
)
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter
from saddleback.sweep import (
    Store,
    cluster,
    executors,
    read_study,
    run_tasks,
    task,
    tasks_of,
    threads,
)
from saddleback.sweep import store as store_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of POSIX")

TOY = """\
import os
import threading
import time

from saddleback import problems


def elsewhere():
    return threading.current_thread() is not threading.main_thread()


def slow(k):
    "A problem that takes its time where work is done, not where the study is read."
    if elsewhere():
        time.sleep(float(os.environ.get("NAP", "0")))
    return problems.two_state(gamma=1 - 1 / (k + 2), rewards=[[1.0, 2.0], [3.0, 4.0]])


def failing(k):
    return problems.two_state(gamma=0.5 / (3 - k if elsewhere() else 1))
"""

MANY = 40

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a study of many tasks, and its undisturbed results in whole/."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "toy.py").write_text(TOY)
    finished(written(folder, SLOW), folder / "whole")
    return folder


@pytest.fixture
def out(folder, tmp_path, monkeypatch):
    """Where results go; the current folder is that of the study."""
    monkeypatch.chdir(folder)
    return tmp_path / "out"


def started(*arguments, nap=0.1, **options):
    """Start `saddleback` in a process of its own, whose tasks take so many seconds each."""
    # What ignores Ctrl-C passes that on to what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"NAP": str(nap)}, **options,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)


def ended(process):
    """Kill a process if it still runs; return what it had said."""
    process.kill()
    return process.communicate()


def until(condition, seconds=60.0):
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)
    return found


def begun(process):
    """Wait until a run says that it begins."""
    first, line = process.stderr.readline(), process.stderr.readline()
    assert first == "reading study.toml …\n"
    assert f"slow: {MANY} tasks on " in line, line + process.stderr.read()
    return line + (process.stderr.readline() if "Dask" in line else "")


def grown(out, count):
    """Whether there are more shards than so many."""
    return len(shards(out)) > count


def sums(out):
    """Return the hashes that a store has, by the names of shards."""
    pairs = [line.split("  shards/") for line in (out / "SHA256SUMS").read_text().splitlines()]
    return {name: found for found, name in pairs}


def intact(out):
    """Return the names of shards, each of which is what was written; nothing else is there."""
    found = shards(out)
    assert {name: hashlib.sha256(b).hexdigest() for name, b in found.items()}.items() <= (
        sums(out).items()
    )
    assert {path.name for path in (out / "shards").iterdir()} == set(found)
    return set(found)


# The main process.


@pytest.mark.slow
def test_killed_ten_times(folder, out):
    """At random moments; every time what was there stays, and in the end it is the same."""
    rng = random.Random(8)
    before = {}
    for attempt in range(10):
        process = started("sweep", "study.toml", "--out", out, "--workers", 2)
        try:
            begun(process)
            if attempt % 2:
                time.sleep(rng.uniform(0.0, 0.4))
            else:
                until(partial(grown, out, len(before)))
                time.sleep(rng.uniform(0.0, 0.1))
        finally:
            ended(process)
        assert process.returncode == -signal.SIGKILL
        after = shards(out)
        assert before.items() <= after.items()
        before = after
    assert 5 <= len(before) < MANY
    done = sweep("study.toml", "--out", out, "--workers", 2, "--json")
    assert done.exit_code == 0, done.stderr
    assert "was damaged" not in done.stderr
    assert shards(out) == shards(folder / "whole")
    assert len(intact(out)) == MANY
    assert sums(out) == sums(folder / "whole")
    if shutil.which("sha256sum"):
        subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True
        )
    best = json.loads(done.stdout)["best"]
    assert [row["problem"] for row in best] == [f"toy.py:slow k={k}" for k in range(MANY)]


class Killed(BaseException):
    """The end of a process, in the middle of anything."""


STEPS = ("open", "fsync", "open", "fsync", "replace", "fsync")
"""Of keeping a shard: its hash, then itself aside, then its name, then the folder."""


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_killed_at_every_step_of_keeping_a_shard(tmp_path, monkeypatch, step):
    """Before each of the calls that leave something on disk."""
    path = written(tmp_path)
    whole = finished(path, tmp_path / "whole", workers=1)
    study, calls = read_study(path), []

    def fragile(name, act):
        def acting(*given, **named):
            if name != "open" or given[1:2] in (("ab+",), ("wb",)):
                calls.append(name)
                if len(calls) - 1 == len(STEPS) + step:  # in the second shard
                    raise Killed
            return act(*given, **named)

        return acting

    def run():
        with (
            threads(1) as here,
            Store.open(tmp_path / "s", study.as_dict(), "") as store,
            monkeypatch.context() as patch,
        ):
            patch.setattr(os, "fsync", fragile("fsync", os.fsync))
            patch.setattr(Path, "open", fragile("open", Path.open))
            patch.setattr(Path, "replace", fragile("replace", Path.replace))
            run_tasks(tasks_of(study, tmp_path), store, here)

    with pytest.raises(Killed):
        run()
    assert calls == list(STEPS + STEPS)[: len(STEPS) + step + 1]
    assert bits(finished(path, tmp_path / "s")) == bits(whole)
    assert shards(tmp_path / "s") == shards(tmp_path / "whole")
    assert not (tmp_path / "s" / "damaged").exists()
    assert len(intact(tmp_path / "s")) == 6


@pytest.mark.slow
def test_interrupted(folder, out):
    """Ctrl-C waits for nothing, and the command it prints finishes the work."""
    shutil.copytree(folder / "whole", out)
    for path in sorted((out / "shards").iterdir())[10:]:
        path.unlink()
    before = shards(out)
    process = started("sweep", "study.toml", "--out", out, "--workers", 2, "--json", nap=60)
    try:
        begun(process)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said = unbroken(process.communicate(timeout=20)[1])
    finally:
        ended(process)
    assert process.returncode == 130
    first, resume = said.splitlines()[-2:]
    assert first == "interrupted; finished tasks are kept. Resume with:"
    assert shards(out) == before
    program, *arguments = shlex.split(resume)
    assert program == "saddleback"
    done = invoked(*arguments)
    assert done.exit_code == 0, done.stderr
    assert shards(out) == shards(folder / "whole")


@pytest.mark.slow
def test_two_at_once(folder, out):
    """The second is refused, and a dead process refuses nobody."""
    first = started("sweep", "study.toml", "--out", out, "--workers", 1, nap=0.2)
    try:
        until(lambda: shards(out))
        second = sweep("study.toml", "--out", out)
        assert first.poll() is None
    finally:
        ended(first)
    assert second.exit_code == 2
    assert re.fullmatch(
        rf"reading study.toml …\nerror: {re.escape(str(out))} is being written by process {first.pid} on \S+, since .+\. "
        r"Wait for it to finish, or choose another folder with --out\.\n",
        second.stderr,
    )
    assert (out / ".lock").read_text().startswith(f"process {first.pid} ")
    third = sweep("study.toml", "--out", out, "--quiet")
    assert third.exit_code == 0, third.stderr
    assert shards(out) == shards(folder / "whole")
    assert (out / ".lock").read_text() == ""


# The disk.

BIG = SMALL.replace("checkpoints = 4", "checkpoints = 100").replace(
    "gamma = 0.9", "gamma = 0.9\nsteps = 3"
)


@pytest.mark.slow
def test_a_file_too_large(tmp_path):
    """Small shards fit under the limit, a large one does not; later all do."""
    path = written(tmp_path, BIG)
    finished(path, tmp_path / "whole")
    sizes = {name: len(content) for name, content in shards(tmp_path / "whole").items()}
    limit = 16
    small = {name for name, size in sizes.items() if size < limit * 1024}
    assert small == {"p000-0000-run00000.parquet", "p000-0001-run00000.parquet"}
    out = tmp_path / "out"
    arguments = command("sweep", path, "--out", out, "--workers", 1)
    done = subprocess.run(
        ["bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", *arguments],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert unbroken(done.stderr).splitlines()[-1] == (
        f"error: cannot write {out}/shards/p001-0000-run00000.parquet: File too large. "
        "Finished tasks are kept; free some space and run again."
    )
    assert intact(out) == small
    assert sweep(path, "--out", out).exit_code == 0
    assert shards(out) == shards(tmp_path / "whole")


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own, which can be made larger."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        tool = shutil.which("mount")
        if tool is None:
            pytest.skip("cannot mount")
        done = subprocess.run(
            [tool, "-t", "tmpfs", *options, "tmpfs", str(place)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("may not mount")

    mount("-o", "size=128k")
    try:
        yield place, lambda: mount("-o", "remount,size=8m")
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk(folder, monkeypatch, disk):
    monkeypatch.chdir(folder)
    room, enlarge = disk
    out = room / "out"
    done = []
    for _ in range(2):  # once more with no room at all
        done.append(sweep("study.toml", "--out", out))
        assert done[-1].exit_code == 2
        assert re.search(
            rf"error: cannot write {out}/shards/p\d{{3}}-0000-run00000.parquet: No space left on "
            r"device\. Finished tasks are kept; free some space and run again\.\n\Z",
            done[-1].stderr,
        )
        assert 0 < len(intact(out)) < MANY
    assert "was damaged" not in done[1].stderr
    enlarge()
    assert sweep("study.toml", "--out", out).exit_code == 0
    assert shards(out) == shards(folder / "whole")
    assert len(intact(out)) == MANY


def test_a_disk_full_from_the_start(folder, monkeypatch, disk):
    monkeypatch.chdir(folder)
    room, enlarge = disk
    filler, out = room / "filler", room / "out"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        file.write(bytes(1 << 20))
    done = sweep("study.toml", "--out", out)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"error: cannot write into {out}: No space left on device. Choose another folder with "
        "--out.\n"
    )
    filler.unlink()
    enlarge()
    assert sweep("study.toml", "--out", out).exit_code == 0
    assert shards(out) == shards(folder / "whole")


def test_folders_that_cannot_be_written(folder, out):
    out.write_text("a file")
    for where, why in [(out / "s", "Not a directory"), (out, "File exists|Not a directory")]:
        done = sweep("study.toml", "--out", where)
        assert done.exit_code == 2
        assert re.search(
            rf"error: cannot write into {re.escape(str(where))}: ({why})\. Choose another folder "
            r"with --out\.\n\Z",
            done.stderr,
        )
    assert out.read_text() == "a file"


# Damage.


@pytest.fixture
def store(tmp_path):
    """A finished store of a small study, beside a copy."""
    path = written(tmp_path)
    finished(path, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "s")
    return path, tmp_path / "whole", tmp_path / "s"


def flipped(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def forget(path):
    """Leave a shard without its hash."""
    file = path.parent.parent / "SHA256SUMS"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if path.name not in line))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flipped(path, 0),
        lambda path: flipped(path, path.stat().st_size // 2),
        lambda path: flipped(path, -1),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.with_name("p000-0000-run00000.parquet").read_bytes()),
        forget,
    ],
)
def test_damaged_shards(store, damage):
    path, whole, out = store
    name = "p001-0000-run00000.parquet"
    damage(out / "shards" / name)
    damaged = (out / "shards" / name).read_bytes()
    done = sweep(path, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert f"{name} was damaged; moved to damaged/ and recomputed.\n" in done.stderr
    assert done.stderr.count("was damaged") == 1
    assert (out / "damaged" / name).read_bytes() == damaged
    assert shards(out) == shards(whole)
    assert bits(Store.load(out).table()) == bits(Store.load(whole).table())
    assert "was damaged" not in sweep(path, "--out", out).stderr
    damage(out / "shards" / name)
    assert sweep(path, "--out", out, "--quiet").exit_code == 0
    assert {path.name for path in (out / "damaged").iterdir()} == {name, f"{name}-2"}


@pytest.mark.parametrize("cut", [1, 10, 40, 80, 92])
def test_hashes_with_a_torn_last_line(store, cut):
    path, whole, out = store
    file = out / "SHA256SUMS"
    last = file.read_text().splitlines()[-1].split("/")[1]
    file.write_bytes(file.read_bytes()[:-cut])
    done = sweep(path, "--out", out)
    assert done.exit_code == 0
    named = re.findall(r"(\S+) was damaged", done.stderr)
    assert named == ([] if cut == 1 else [last])  # only the end of the line was missing
    assert shards(out) == shards(whole)
    assert "was damaged" not in sweep(path, "--out", out).stderr


@pytest.mark.parametrize("text", [None, "", "gone\n"])
@pytest.mark.parametrize("command", ["sweep", "report"])
def test_shards_without_their_hashes_are_kept(store, command, text):
    path, whole, out = store
    (out / "SHA256SUMS").unlink() if text is None else (out / "SHA256SUMS").write_text(text)
    words = (path, "--out", out) if command == "sweep" else (out,)
    done = CliRunner().invoke(group, [command, *map(str, words)])
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert f"error: {out}/SHA256SUMS is missing or damaged" in said
    assert shards(out) == shards(whole)
    fix = re.search(r"recreate it: (.*); otherwise", said)[1]
    subprocess.run(["bash", "-c", fix], check=True)
    assert "all tasks are already complete in" in sweep(path, "--out", out).stderr


def test_damage_is_named_also_when_the_run_fails(store, monkeypatch):
    path, _, out = store
    flipped(out / "shards" / "p001-0000-run00000.parquet", 50)

    def broken(*_, **__):
        raise ZeroDivisionError("as it were")

    monkeypatch.setattr(task, "learn", broken)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert "p001-0000-run00000.parquet was damaged; moved to damaged/" in done.stderr
    assert re.search(
        r"error: p001-0000-run00000 failed: ZeroDivisionError: as it were \(test_crash_safety\.py, line "
        r"\d+\)\. Finished tasks are kept\.\n\Z",
        done.stderr,
    )


def test_a_shard_that_cannot_be_read(store):
    path, _, out = store
    shard = out / "shards" / "p001-0000-run00000.parquet"
    shard.unlink()
    shard.mkdir()
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"error: cannot read {shard}: Is a directory.\n")


# Other stores.


def manifest(out, **changes):
    path = out / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def files(out):
    """Return all that is in a folder but the lock."""
    return {
        path.relative_to(out): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (3, "has schema 3, written by a newer saddleback; this version reads 2. Update: pip"),
        (1, "has schema 1; this version reads 2. Run the study again into another folder."),
    ],
)
def test_stores_of_other_versions(store, schema, message):
    path, _, out = store
    manifest(out, schema=schema)
    before = files(out)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert f"error: {out}/manifest.json {message}" in done.stderr
    assert files(out) == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 2}', '{"schema": "x"}', "\x00"])
def test_a_damaged_manifest(store, text):
    path, _, out = store
    (out / "manifest.json").write_text(text)
    before = files(out)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"error: {out}/manifest.json is damaged, or not the manifest of a store. Choose another "
        "folder.\n"
    )
    assert files(out) == before


PROBLEMS = SMALL[SMALL.index("[[problem]]") : SMALL.index("[[rule]]")]
FIRST, SECOND = PROBLEMS.split("\n\n")[:2]


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("seed = 7", "seed = 8", "seed is 7 there and 8 here"),
        ("alpha = [0.05,", "alpha = [0.04,", "alphas is [0.05, 0.1, 0.2] there and [0.04, 0.1, 0.2] here"),
        ("gamma = 0.9", "gamma = 0.8", "cases: two_state: parameters: gamma is 0.9 there and 0.8 here"),
        ("rng = [1, 2]", "rng = [1]", "cases: random_mdp rng=2 is {'label': 'random_mdp rng=2'"),
        ("steps = 200", "steps = 201", "cases: random_mdp rng=1: count is 200 there and 201 here"),
        ("lam = 0.5", "lam = 0.6", "rules is [['GES', {'lam': 0.0}], ['GES', {'lam': 0.5}]"),
        ("rng = [1, 2]", "rng = [2, 1]", "the order of cases is ['two_state', 'random_mdp rng=1', 'random_mdp rng=2'] there and"),
        (PROBLEMS, f"{SECOND}\n\n{FIRST}\n\n", "the order of cases is ['two_state', "),
    ],
)  # fmt: skip
def test_another_study_is_refused(store, old, new, difference):
    path, _, out = store
    assert SMALL.count(old) == 1
    (out / "shards" / "p002-0001-run00000.parquet").unlink()
    before = files(out)
    done = sweep(written(path.parent, SMALL.replace(old, new)), "--out", out)
    assert done.exit_code == 2
    assert f"error: {out} holds another study: {difference}" in done.stderr
    assert done.stderr.endswith("Nothing was changed. Choose another folder with --out.\n")
    assert files(out) == before


def test_other_versions_are_told(store):
    path, whole, out = store
    then = json.loads((out / "manifest.json").read_text())["versions"]
    manifest(out, versions=then | {"numba": "0.1"})
    done = sweep(path, "--out", out)
    assert done.exit_code == 0
    assert (
        f"note: {out} was started with numba 0.1; this is {then['numba']}, so the last"
        in done.stderr
    )
    assert shards(out) == shards(whole)


# Where work is done.


def test_a_worker_with_other_versions_is_refused(store, monkeypatch):
    path, _, out = store
    study = read_study(path)
    tasks = tasks_of(study, path.parent)
    wanted = store_module.versions()
    monkeypatch.setattr(store_module, "versions", lambda: wanted | {"numba": "0.1"})
    (out / "shards" / "p002-0001-run00000.parquet").unlink()
    with (
        threads(1) as here,
        Store.open(out, study.as_dict(), "") as there,
        pytest.raises(
            InvalidParameter,
            match=rf"a worker has numba 0\.1 instead of {wanted['numba']}; results would not",
        ),
    ):
        run_tasks(tasks, there, here)
    assert len(intact(out)) == 5


def test_a_task_that_raises(folder, out):
    text = SLOW.replace("toy.py:slow", "toy.py:failing").replace(str(list(range(MANY))), "[2, 3]")
    path = written(folder, text, "failing.toml")
    done = sweep(path, "--out", out, "--workers", 1)
    assert done.exit_code == 2
    line = TOY.splitlines().index("def failing(k):") + 2
    assert done.stderr.endswith(
        "error: p001-0000-run00000 failed: ZeroDivisionError: float division by zero (toy.py, line "
        f"{line}). Finished tasks are kept.\n"
    )
    assert intact(out) == {"p000-0000-run00000.parquet"}


class Dask:
    """A scheduler and workers in processes of their own."""

    def __init__(self, folder, nap=0.0):
        self.folder, self.nap, self.processes = folder, nap, []
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0",
            "--scheduler-file", file,
        )  # fmt: skip
        self.address = until(lambda: self._said(file))

    @staticmethod
    def _said(file):
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
        """Start a worker, and wait until it may be given work."""
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


@pytest.fixture(scope="module")
def dask(folder):
    with Dask(folder, nap=0.05) as dask:
        dask.worker()
        yield dask


def test_a_cluster_finds_the_same_and_a_worker_may_die(folder, out, dask):
    """Nothing is lost, nothing doubled, and the bits are those of threads."""
    other = dask.worker()
    process = started("sweep", "study.toml", "--out", out, "--dask", dask.address)
    try:
        line = begun(process)
        until(lambda: len(shards(out)) >= 8)
        other.kill()
        assert len(shards(out)) < MANY
        said = unbroken(process.communicate(timeout=60)[1])
    finally:
        ended(process)
    assert process.returncode == 0, said
    assert re.search(
        rf"on Dask cluster at {dask.address} \(2 threads\)\n  dashboard http://127\.0\.0\.1:\d+/status\n",
        line,
    )
    assert shards(out) == shards(folder / "whole")
    assert len(intact(out)) == MANY
    assert len((out / "SHA256SUMS").read_text().splitlines()) == MANY


def test_what_goes_wrong_on_a_worker(folder, out, dask):
    text = SLOW.replace("toy.py:slow", "toy.py:failing").replace(str(list(range(MANY))), "[3]")
    done = sweep(written(folder, text, "failing.toml"), "--out", out, "--dask", dask.address)
    assert done.exit_code == 2
    assert re.search(
        r"error: p000-0000-run00000 failed: ZeroDivisionError: float division by zero \(toy\.py, "
        r"line \d+\)\. Finished tasks are kept\.\n\Z",
        done.stderr,
    )
    study = read_study(folder / "study.toml")
    tasks = tasks_of(study, folder)[:1]
    broken = [
        type(task)(
            task.name, lambda _, act=task.work: act.func(*act.args[:-1], {"numba": "0.1"}, None)
        )
        for task in tasks
    ]
    with (
        cluster(dask.address) as there,
        Store.open(out / "s", study.as_dict(), "") as store,
        pytest.raises(InvalidParameter, match=r"a worker has numba \S+ instead of 0\.1;"),
    ):
        run_tasks(broken, store, there)


def test_a_worker_of_another_version(out, dask, tmp_path):
    """It is refused before it is sent anything, and so before a store is made."""
    other = tmp_path / "saddleback-0.0.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: saddleback\nVersion: 0.0.1\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    process = dask.worker(PYTHONPATH=path)
    try:
        done = sweep("study.toml", "--out", out, "--dask", dask.address)
    finally:
        process.kill()
        process.wait()
    assert done.exit_code == 2
    assert re.search(
        r"error: the Dask worker at tcp://127\.0\.0\.1:\d+ has saddleback 0\.0\.1; \S+ is "
        r"required\. Install it on every worker and on the scheduler\.\n\Z",
        done.stderr,
    )
    assert not out.exists()


def test_a_task_that_ends_worker_after_worker(dask):
    with (
        cluster(dask.address) as there,
        pytest.raises(
            InvalidParameter,
            match=r"^p000 killed several workers, most recently tcp://a:1; probably out of memory\.",
        ),
        there.translate_errors("p000"),
    ):
        raise distributed.KilledWorker("p000", SimpleNamespace(address="tcp://a:1"), 3)


@pytest.mark.cluster
def test_the_scheduler_is_gone(folder, out, tmp_path):
    """One line says so; what is finished stays, and threads can finish it."""
    with Dask(tmp_path, nap=0.1) as dask:
        with cluster(dask.address) as there:
            assert "(no workers yet)\n  dashboard http://" in there.description
            assert there.capacity() == 1
        dask.worker()
        process = started("sweep", "study.toml", "--out", out, "--dask", dask.address)
        try:
            begun(process)
            until(lambda: len(shards(out)) >= 2)
            dask.scheduler.kill()
            said = unbroken(process.communicate(timeout=60)[1])
        finally:
            ended(process)
    assert process.returncode == 2
    lines = [line for line in said.splitlines() if not line.startswith("sweep: ")]
    assert lines == [
        f"error: lost the Dask scheduler at {dask.address}. Finished tasks are kept; run again when "
        "it is back, or with --workers."
    ]
    assert 2 <= len(intact(out)) < MANY
    assert sweep("study.toml", "--out", out, "--workers", 2).exit_code == 0
    assert shards(out) == shards(folder / "whole")


@pytest.mark.parametrize(
    ("address", "why"),
    [("tcp://127.0.0.1:1", "OSError"), ("nonsense", "ValueError"), ("ftp://a:1", "ValueError")],
)
def test_no_scheduler(out, monkeypatch, address, why):
    monkeypatch.setattr(executors, "TIMEOUT", 0.3)
    done = sweep("study.toml", "--out", out, "--dask", address)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"error: no Dask scheduler answers at {address} ({why}). Start one: dask scheduler, and "
        "workers: dask worker ADDRESS.\n"
    )
    assert not out.exists()


def test_one_place_only(out):
    done = sweep("study.toml", "--out", out, "--dask", "tcp://127.0.0.1:1", "--workers", 2)
    assert done.exit_code == 2
    assert "Give --workers or --dask, not both." in done.stderr
    assert not out.exists()


def test_without_dask(out, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = sweep("study.toml", "--out", out, "--dask", "tcp://127.0.0.1:1")
    assert done.exit_code == 2
    assert "a Dask cluster needs dask.distributed: pip install 'saddleback[dask]'." in done.stderr


# Reading without us.


def test_readers_of_all_kinds(store):
    path, whole, out = store
    flipped(out / "shards" / "p001-0000-run00000.parquet", 50)
    assert sweep(path, "--out", out, "--quiet").exit_code == 0
    rows = bits(Store.load(whole).table())
    assert bits(duckdb.sql(f"FROM '{out}/shards/*.parquet'").to_arrow_table()) == rows
    assert bits(pl.read_parquet(f"{out}/shards/*.parquet").to_arrow()) == rows
    frame = pd.read_parquet(f"{out}/shards")
    assert {name: frame[name].dtype.kind for name in ("run", "alpha")} == {"run": "i", "alpha": "f"}
    assert len(frame) == len(rows["problem"])
    keys = ["problem", "rule", "run", "point", "alpha", "beta"]
    assert frame.sort_values(keys)["mspbe"].to_numpy().tobytes() == rows["mspbe"]


def test_another_title_is_the_same_study(store):
    path, whole, out = store
    path.write_text(path.read_text().replace('title = "small"', 'title = "renamed"'))
    (out / "shards" / "p001-0000-run00000.parquet").unlink()
    assert sweep(path, "--out", out).exit_code == 0
    assert shards(out) == shards(whole)


# Statistics of a log, on a cluster.

OWN = """\
import numpy as np


def probs(seen):
    return np.tile([0.3, 0.7], (len(seen), 1))


def line(seen):
    return np.column_stack([np.ones(len(seen)), seen])
"""


def test_statistics_are_the_same_from_a_cluster(tmp_path, dask, monkeypatch):
    """Policy and features of one's own, and files, are named from here; workers are elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("saddleback.sweep.statistics_chunks.MIN_ROWS", 6)
    (tmp_path / "own.py").write_text(OWN)
    data = columns([3, 5, 4, 6, 2], "terminated", actions=2)
    for k, rows in enumerate((slice(0, 8), slice(8, 12), slice(12, 20))):
        part = {name: np.asarray(value)[rows] for name, value in data.items()}
        pq.write_table(pa.table(part), tmp_path / f"day{k}.parquet")
    log = ["day0.parquet", "day1.parquet", "day2.parquet"]
    words = ["--target", "own.py:probs", "--gamma", "0.9", "--features", "own.py:line", "--quiet"]
    for name, where in (("here", ["--workers", "2"]), ("there", ["--dask", dask.address])):
        done = CliRunner().invoke(group, ["stats", *log, *words, "--out", name, *where])
        assert done.exit_code == 0, done.stderr
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    assert not (tmp_path / "there.parts").exists()
