"""Killed, interrupted or out of disk: finished tasks are never lost, and results bit-identical."""

import contextlib
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

import pytest

from helpers.studies import (
    SMALL,
    bits,
    command,
    invoke,
    run_study_rows,
    shards,
    sweep,
    unwrap,
    write_study,
)
from helpers.sweeps import (
    MANY,
    check_shards,
    has_more_shards,
    start_process,
    stop_process,
    sums,
    until,
    wait_for_start,
)
from saddleback.sweep import (
    Store,
    read_study,
    run_tasks,
    tasks_of,
    threads,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of POSIX")


@pytest.mark.slow
def test_a_sweep_killed_ten_times_ends_with_identical_results(folder, out):
    """At random moments; shards on disk stay, and the final results are identical."""
    rng = random.Random(8)
    before = {}
    for attempt in range(10):
        process = start_process("sweep", "study.toml", "--out", out, "--workers", 2)
        try:
            wait_for_start(process)
            if attempt % 2:
                time.sleep(rng.uniform(0.0, 0.4))
            else:
                until(partial(has_more_shards, out, len(before)))
                time.sleep(rng.uniform(0.0, 0.1))
        finally:
            stop_process(process)
        assert process.returncode == -signal.SIGKILL
        after = shards(out)
        assert before.items() <= after.items()
        before = after
    assert 5 <= len(before) < MANY
    done = sweep("study.toml", "--out", out, "--workers", 2, "--json")
    assert done.exit_code == 0, done.stderr
    assert "was damaged" not in done.stderr
    assert shards(out) == shards(folder / "whole")
    assert len(check_shards(out)) == MANY
    assert sums(out) == sums(folder / "whole")
    if shutil.which("sha256sum"):
        subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True
        )
    best = json.loads(done.stdout)["best"]
    assert [row["problem"] for row in best] == [f"toy.py:slow k={k}" for k in range(MANY)]


class Killed(BaseException):
    """Stands for the sudden end of a process."""


STEPS = ("open", "fsync", "open", "fsync", "replace", "fsync")
"""System calls of writing a shard: its hash, its temporary file, its name, the folder."""


@pytest.mark.parametrize("step", range(len(STEPS)))
def test_a_kill_at_any_step_of_writing_a_shard_loses_nothing(tmp_path, monkeypatch, step):
    """Killed before each system call that changes the disk."""
    path = write_study(tmp_path)
    complete = run_study_rows(path, tmp_path / "whole", workers=1)
    study, calls = read_study(path), []

    def fragile(name, act):
        def acting(*given, **named):
            if name != "open" or given[1:2] in (("ab+",), ("x+b",)):
                calls.append(name)
                if len(calls) - 1 == len(STEPS) + step:  # in the second shard
                    raise Killed
            return act(*given, **named)

        return acting

    def run():
        with (
            threads(1) as executor,
            Store.open(tmp_path / "s", study.as_dict(), "") as store,
            monkeypatch.context() as patch,
        ):
            patch.setattr(os, "fsync", fragile("fsync", os.fsync))
            patch.setattr(Path, "open", fragile("open", Path.open))
            patch.setattr(Path, "replace", fragile("replace", Path.replace))
            run_tasks(tasks_of(study, tmp_path), store, executor)

    with pytest.raises(Killed):
        run()
    assert calls == list(STEPS + STEPS)[: len(STEPS) + step + 1]
    assert bits(run_study_rows(path, tmp_path / "s")) == bits(complete)
    assert shards(tmp_path / "s") == shards(tmp_path / "whole")
    assert not (tmp_path / "s" / "damaged").exists()
    assert len(check_shards(tmp_path / "s")) == 6


@pytest.mark.slow
def test_ctrl_c_prints_a_command_that_finishes_the_study(folder, out):
    """Ctrl-C ends the command immediately."""
    shutil.copytree(folder / "whole", out)
    for path in sorted((out / "shards").iterdir())[10:]:
        path.unlink()
    before = shards(out)
    process = start_process("sweep", "study.toml", "--out", out, "--workers", 2, "--json", nap=60)
    try:
        wait_for_start(process)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        messages = unwrap(process.communicate(timeout=20)[1])
    finally:
        stop_process(process)
    assert process.returncode == 130
    first, resume = messages.splitlines()[-2:]
    assert first == "interrupted; finished tasks are kept. Resume with:"
    assert shards(out) == before
    program, *arguments = shlex.split(resume)
    assert program == "saddleback"
    done = invoke(*arguments)
    assert done.exit_code == 0, done.stderr
    assert shards(out) == shards(folder / "whole")


@pytest.mark.slow
def test_a_second_writer_is_refused_until_the_first_ends(folder, out):
    """A killed process leaves no lock behind."""
    first = start_process("sweep", "study.toml", "--out", out, "--workers", 1, nap=0.2)
    try:
        until(lambda: shards(out))
        second = sweep("study.toml", "--out", out)
        assert first.poll() is None
    finally:
        stop_process(first)
    assert second.exit_code == 2
    assert re.fullmatch(
        rf"reading study.toml …\nerror: {re.escape(str(out))} is being written by process {first.pid} on \S+, since .+\. "
        r"Wait for it to finish, or choose another folder: --out …\n",
        second.stderr,
    )
    assert (out / ".owner").read_text().startswith(f"process {first.pid} ")
    third = sweep("study.toml", "--out", out, "--quiet")
    assert third.exit_code == 0, third.stderr
    assert shards(out) == shards(folder / "whole")
    assert not (out / ".owner").exists()


# The disk.

BIG = SMALL.replace("checkpoints = 4", "checkpoints = 100").replace(
    "gamma = 0.9", "gamma = 0.9\nsteps = 3"
)


@pytest.mark.slow
def test_a_shard_too_large_to_write_keeps_the_others(tmp_path):
    """Small shards fit under the limit, a large one does not; without the limit all do."""
    path = write_study(tmp_path, BIG)
    run_study_rows(path, tmp_path / "whole")
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
    assert unwrap(done.stderr).splitlines()[-1] == (
        f"error: cannot write {out}/shards/p001-0000-run00000.parquet: File too large. "
        "Finished tasks are kept; free some space and run again."
    )
    assert check_shards(out) == small
    assert sweep(path, "--out", out).exit_code == 0
    assert shards(out) == shards(tmp_path / "whole")


@pytest.fixture
def disk(tmp_path):
    """A small separate disk that can be enlarged."""
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
def test_a_sweep_resumes_after_a_full_disk(folder, monkeypatch, disk):
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
        assert 0 < len(check_shards(out)) < MANY
    assert "was damaged" not in done[1].stderr
    enlarge()
    assert sweep("study.toml", "--out", out).exit_code == 0
    assert shards(out) == shards(folder / "whole")
    assert len(check_shards(out)) == MANY


def test_a_disk_that_is_full_at_the_start_is_reported(folder, monkeypatch, disk):
    monkeypatch.chdir(folder)
    room, enlarge = disk
    filler, out = room / "filler", room / "out"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        file.write(bytes(1 << 20))
    done = sweep("study.toml", "--out", out)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"error: cannot write into {out}: No space left on device. Choose another folder: --out …\n"
    )
    filler.unlink()
    enlarge()
    assert sweep("study.toml", "--out", out).exit_code == 0
    assert shards(out) == shards(folder / "whole")


def test_unwritable_folders_are_refused(folder, out):
    out.write_text("a file")
    for where, why in [(out / "s", "Not a directory"), (out, "File exists|Not a directory")]:
        done = sweep("study.toml", "--out", where)
        assert done.exit_code == 2
        assert re.search(
            rf"error: cannot write into {re.escape(str(where))}: ({why})\. Choose another folder: "
            r"--out …\n\Z",
            done.stderr,
        )
    assert out.read_text() == "a file"
