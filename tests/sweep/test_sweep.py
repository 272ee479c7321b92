"""Stores and the task runner: complete shards only, no lost tasks, no mixed studies."""

import json
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import wait
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.studies import command, invoke
from saddleback.errors import InvalidParameter
from saddleback.sweep import Store, Task, parquet_bytes, run_tasks, threads


def tasks(count, calls, broken=None):
    def work(i):
        def act(progress):
            calls.append(i)
            if i == broken:
                raise KeyboardInterrupt
            return parquet_bytes(pa.table({"i": [i], "square": [i * i]}))

        return act

    return [Task(f"t{i}", work(i)) for i in range(count)]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_only_missing_tasks_are_run(tmp_path, workers):
    calls = []
    for _ in range(2):
        with Store.open(tmp_path / "s", {"n": 4}, "") as store, threads(workers) as place:
            run_tasks(tasks(4, calls), store, place)
    assert sorted(calls) == [0, 1, 2, 3]
    assert store.table()["square"].to_pylist() == [0, 1, 4, 9]
    assert pq.read_table(tmp_path / "s" / "shards" / "t2.parquet")["i"].to_pylist() == [2]


def test_an_interruption_keeps_finished_tasks(tmp_path):
    calls, reports = [], []
    store = Store.open(tmp_path / "s", {"n": 4}, "")
    with pytest.raises(KeyboardInterrupt), threads(1) as place:
        run_tasks(tasks(4, calls, broken=2), store, place)
    assert calls == [0, 1, 2]
    with threads(1) as place:
        run_tasks(tasks(4, calls), store, place, lambda *report: reports.append(report), name="s")
    assert calls == [0, 1, 2, 2, 3]
    assert reports == [(0.5, "s, 3 of 4 tasks"), (1.0, "s, 4 of 4 tasks")]
    store.close()


def test_another_study_is_refused(tmp_path):
    Store.open(tmp_path / "s", {"name": "one", "runs": 5}, "").close()
    before = (tmp_path / "s" / "manifest.json").read_bytes()
    with pytest.raises(InvalidParameter, match=r"runs is 5 there and 2 here\. Nothing was changed"):
        Store.open(tmp_path / "s", {"name": "one", "runs": 2}, "")
    assert (tmp_path / "s" / "manifest.json").read_bytes() == before


def test_missing_damaged_and_newer_stores_are_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="holds no results"):
        Store.load(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameter, match="cannot write into"):
        Store.open(tmp_path / "file" / "s", {}, "")
    Store.open(tmp_path / "s", {}, "").close()
    path = tmp_path / "s" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99}))
    with pytest.raises(InvalidParameter, match="has schema 99"):
        Store.load(tmp_path / "s")
    path.write_text("{")
    with pytest.raises(InvalidParameter, match="is damaged, or not"):
        Store.open(tmp_path / "s", {}, "")


def test_a_full_disk_keeps_finished_tasks(tmp_path, monkeypatch):
    """Finished tasks are kept, and the message suggests a fix."""
    store = Store.open(tmp_path / "s", {}, "")
    store.put("t0", parquet_bytes(pa.table({"i": [0]})))

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InvalidParameter, match=r"No space left on device\. Finished tasks are kept"
    ):
        store.put("t1", parquet_bytes(pa.table({"i": [1]})))
    assert store.has("t0")
    assert not store.has("t1")
    store.close()


@pytest.mark.slow
def test_a_killed_run_resumes_to_bit_identical_results(tmp_path):
    words = ("paper", "step-size", "--quick", "--out")
    assert invoke(*words, tmp_path / "whole").exit_code == 0
    process = subprocess.Popen(
        command(*words, tmp_path / "killed"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    shards = tmp_path / "killed" / "step-size" / "shards"
    for _ in range(600):
        if shards.exists() and len(list(shards.glob("*.parquet"))) >= 3:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "step-size.png").exists()
    assert invoke(*words, tmp_path / "killed").exit_code == 0
    complete = tmp_path / "whole" / "step-size" / "shards"
    names = sorted(path.name for path in complete.glob("*.parquet"))
    assert sorted(path.name for path in shards.glob("*.parquet")) == names
    for name in names:
        assert (complete / name).read_bytes() == (shards / name).read_bytes()


def test_tasks_finished_when_another_one_fails_are_kept(tmp_path):
    """All tasks end together; one raises, and the others are kept."""
    together = threading.Barrier(4)

    def act(i, progress):
        together.wait()
        if i == 0:
            raise ZeroDivisionError
        return parquet_bytes(pa.table({"i": [i]}))

    some = [Task(f"t{i}", partial(act, i)) for i in range(4)]
    with (
        Store.open(tmp_path / "s", {}, "") as store,
        pytest.raises(InvalidParameter, match="t0 failed: ZeroDivisionError"),
        threads(4) as place,
    ):
        run_tasks(some, store, replace(place, executor=Late(place.executor)))
    assert store.names() == ["t1", "t2", "t3"]


class Late:
    """Submits work, and waits for it before results are collected."""

    def __init__(self, executor):
        self._executor, self._given = executor, []

    def submit(self, work, *arguments):
        self._given.append(self._executor.submit(work, *arguments))
        if len(self._given) == 4:
            wait(self._given)
        return self._given[-1]


def test_files_of_other_studies_are_ignored(tmp_path):
    with Store.open(tmp_path / "s", {}, "") as store:
        store.put("t0", parquet_bytes(pa.table({"i": [0]})))
    shard = store.path("t0")
    shard.with_name("t0 (copy).parquet").write_bytes(shard.read_bytes())
    shard.with_name("other.parquet").write_bytes(parquet_bytes(pa.table({"x": ["y"]})))
    assert Store.load(tmp_path / "s").table()["i"].to_pylist() == [0]


def test_a_damaged_shard_is_refused(tmp_path):
    with Store.open(tmp_path / "s", {}, "") as store:
        store.put("t0", parquet_bytes(pa.table({"i": list(range(1000))})))
    content = bytearray(store.path("t0").read_bytes())
    content[40] ^= 1
    store.path("t0").write_bytes(content)
    with pytest.raises(InvalidParameter, match=r"t0\.parquet is damaged\. Run the study again"):
        Store.load(tmp_path / "s").table()
