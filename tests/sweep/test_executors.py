"""Threads and Dask clusters: identical results, and one-line errors for failing workers."""

import os
import re
import sys
from types import SimpleNamespace

import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from helpers.logs import columns
from helpers.studies import (
    shards,
    sweep,
    unwrap,
    write_study,
)
from helpers.sweeps import (
    FAILING,
    MANY,
    SLOW,
    TOY,
    Dask,
    check_shards,
    start_process,
    stop_process,
    until,
    wait_for_start,
)
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter
from saddleback.sweep import (
    Store,
    cluster,
    executors,
    read_study,
    run_tasks,
    tasks_of,
    threads,
)
from saddleback.sweep import store as store_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of POSIX")


def test_a_worker_with_other_versions_is_refused(store, monkeypatch):
    path, _, out = store
    study = read_study(path)
    tasks = tasks_of(study, path.parent)
    versions = store_module.versions()
    monkeypatch.setattr(store_module, "versions", lambda: versions | {"numba": "0.1"})
    (out / "shards" / "p002-0001-run00000.parquet").unlink()
    with (
        threads(1) as executor,
        Store.open(out, study.as_dict(), "") as opened,
        pytest.raises(
            InvalidParameter,
            match=rf"a worker has numba 0\.1 instead of {versions['numba']}; results would not",
        ),
    ):
        run_tasks(tasks, opened, executor)
    assert len(check_shards(out)) == 5


def test_a_task_that_raises_is_reported_in_one_line(folder, out):
    text = FAILING + SLOW.replace(str(list(range(MANY))), "[2, 3]")
    path = write_study(folder, text, "failing.toml")
    done = sweep(path, "--out", out, "--workers", 1)
    assert done.exit_code == 2
    line = TOY.splitlines().index("def failing(problem, rule):") + 4
    assert done.stderr.endswith(
        f"error: p001-0000-run00000 failed: ValueError: k is 3 (toy.py, line {line}). "
        "Finished tasks are kept.\n"
    )
    assert check_shards(out) == {"p000-0000-run00000.parquet"}


def test_a_cluster_that_loses_a_worker_gives_identical_results(folder, out, dask):
    """No task is lost or run twice, and results are bit-identical to those of threads."""
    other = dask.worker()
    process = start_process("sweep", "study.toml", "--out", out, "--dask", dask.address)
    try:
        line = wait_for_start(process)
        until(lambda: len(shards(out)) >= 8)
        other.kill()
        assert len(shards(out)) < MANY
        messages = unwrap(process.communicate(timeout=60)[1])
    finally:
        stop_process(process)
    assert process.returncode == 0, messages
    assert re.search(
        rf"on Dask cluster at {dask.address} \(2 threads\)\n  dashboard http://127\.0\.0\.1:\d+/status\n",
        line,
    )
    assert shards(out) == shards(folder / "whole")
    assert len(check_shards(out)) == MANY
    assert len((out / "SHA256SUMS").read_text().splitlines()) == MANY


def test_errors_on_a_worker_are_reported_in_one_line(folder, out, dask):
    text = FAILING + SLOW.replace(str(list(range(MANY))), "[3]")
    done = sweep(write_study(folder, text, "failing.toml"), "--out", out, "--dask", dask.address)
    assert done.exit_code == 2
    assert re.search(
        r"error: p000-0000-run00000 failed: ValueError: k is 3 \(toy\.py, line \d+\)\. "
        r"Finished tasks are kept\.\n\Z",
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
        cluster(dask.address) as executor,
        Store.open(out / "s", study.as_dict(), "") as store,
        pytest.raises(InvalidParameter, match=r"a worker has numba \S+ instead of 0\.1;"),
    ):
        run_tasks(broken, store, executor)


def test_a_worker_with_another_saddleback_is_refused(out, dask, tmp_path):
    """The worker is refused before any task is sent and before a store is created."""
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


def test_a_task_that_kills_workers_is_reported(dask):
    with (
        cluster(dask.address) as executor,
        pytest.raises(
            InvalidParameter,
            match=r"^p000 killed several workers, most recently tcp://a:1; probably out of memory\.",
        ),
        executor.translate_errors("p000"),
    ):
        raise distributed.KilledWorker("p000", SimpleNamespace(address="tcp://a:1"), 3)


@pytest.mark.cluster
def test_a_lost_scheduler_is_reported_and_threads_can_finish(folder, out, tmp_path):
    """The error is one line, and finished tasks are kept."""
    with Dask(tmp_path, nap=0.1) as dask:
        with cluster(dask.address) as executor:
            assert "(no workers yet)\n  dashboard http://" in executor.description
            assert executor.capacity() == 1
        dask.worker()
        process = start_process("sweep", "study.toml", "--out", out, "--dask", dask.address)
        try:
            wait_for_start(process)
            until(lambda: len(shards(out)) >= 2)
            dask.scheduler.kill()
            messages = unwrap(process.communicate(timeout=60)[1])
        finally:
            stop_process(process)
    assert process.returncode == 2
    lines = [line for line in messages.splitlines() if not line.startswith("sweep, ")]
    assert lines == [
        f"error: lost the Dask scheduler at {dask.address}. Finished tasks are kept. Run again when "
        "it is back, or in threads of this machine: --workers …"
    ]
    assert 2 <= len(check_shards(out)) < MANY
    assert sweep("study.toml", "--out", out, "--workers", 2).exit_code == 0
    assert shards(out) == shards(folder / "whole")


@pytest.mark.parametrize(
    ("address", "why"),
    [("tcp://127.0.0.1:1", "OSError"), ("nonsense", "ValueError"), ("ftp://a:1", "ValueError")],
)
def test_a_missing_scheduler_is_reported(out, monkeypatch, address, why):
    monkeypatch.setattr(executors, "TIMEOUT", 0.3)
    done = sweep("study.toml", "--out", out, "--dask", address)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"error: no Dask scheduler answers at {address} ({why}). Start one: dask scheduler, and "
        "workers: dask worker ADDRESS.\n"
    )
    assert not out.exists()


def test_workers_and_dask_exclude_each_other(out):
    done = sweep("study.toml", "--out", out, "--dask", "tcp://127.0.0.1:1", "--workers", 2)
    assert done.exit_code == 2
    assert "Give --workers or --dask, not both." in done.stderr
    assert not out.exists()


def test_a_missing_dask_is_reported(out, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = sweep("study.toml", "--out", out, "--dask", "tcp://127.0.0.1:1")
    assert done.exit_code == 2
    assert "a Dask cluster needs dask.distributed: pip install 'saddleback[dask]'." in done.stderr


OWN = """\
import numpy as np


def probs(seen):
    return np.tile([0.3, 0.7], (len(seen), 1))


def line(seen):
    return np.column_stack([np.ones(len(seen)), seen])
"""


def test_statistics_from_a_cluster_are_bit_identical(tmp_path, dask, monkeypatch):
    """Custom policies, features and files are given by relative paths; workers run elsewhere."""
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
