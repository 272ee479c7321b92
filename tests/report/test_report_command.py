"""The command that writes pages, and the input it refuses."""

from __future__ import annotations

import json
import shutil
import sys

import pyarrow as pa
from click.testing import CliRunner

from helpers.study_store import STUDY, rows
from saddleback.cli.group import group
from saddleback.sweep import Store, parquet_bytes


def run(*arguments):
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def refused(*arguments):
    done = run("report", *arguments)
    assert done.exit_code == 2, done.output
    return " ".join(done.stderr.split())


def test_the_page_is_written_into_the_folder_or_to_the_path_given(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    done = run("report", copy)
    assert done.stdout == f"wrote {copy / 'report.html'}\n"
    assert (copy / "report.html").stat().st_size < 4e6
    assert run("report", copy, "--out", tmp_path / "x.html").exit_code == 0
    assert (tmp_path / "x.html").exists()


def test_stores_that_are_missing_damaged_or_of_another_kind_are_refused(folder, tmp_path):
    assert "holds no results: no such file or folder." in refused(tmp_path / "none")
    assert "it has no manifest.json, which saddleback sweep" in refused(tmp_path)
    assert f"Did you mean {folder}?" in refused(folder / "shards")
    shutil.copytree(folder, tmp_path / "two" / "one")
    assert run("report", tmp_path / "two", "--out", tmp_path / "one.html").exit_code == 0
    shutil.copytree(folder, tmp_path / "two" / "two")
    assert f"choose one of them, {tmp_path / 'two' / 'one'}" in refused(tmp_path / "two")
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    shard = sorted((copy / "shards").iterdir())[0]
    shard.write_bytes(shard.read_bytes()[:200])
    assert "is damaged. Run the study again" in refused(copy)
    for shard in (copy / "shards").iterdir():
        shard.unlink()
    assert "has no finished task yet" in refused(copy)
    Store.load(copy).put("other", parquet_bytes(pa.table({"square": [1.0]})))
    assert "results of another kind, without problem, rule, run" in refused(copy)
    Store.load(copy).put("other", parquet_bytes(rows("walk", 0).slice(0, 0)))
    assert "has no rows of results" in refused(copy)
    manifest = copy / "manifest.json"
    intact = json.loads(manifest.read_text())
    for broken in ({"study": [1]}, {"study": STUDY | {"cases": 5}}, {"versions": None}):
        manifest.write_text(json.dumps(intact | broken))
        assert "manifest.json is damaged, or not the manifest of a store" in refused(copy)
    manifest.write_text(json.dumps(intact | {"schema": 99}))
    assert "schema 99" in refused(copy)
    manifest.write_text("{")
    assert "damaged" in refused(copy)
    assert not (copy / "report.html").exists()


def test_other_files_bad_paths_and_a_missing_extra_are_refused(folder, tmp_path, monkeypatch):
    other = tmp_path / "other.json"
    other.write_text('{"kind": "shopping list"}')
    assert "holds shopping list: give a file written by saddleback evaluate --save" in refused(
        other
    )
    other.write_text("not JSON")
    assert "is not JSON" in refused(other)
    assert "it is a folder" in refused(folder, "--out", tmp_path)
    assert "there is no folder" in refused(folder, "--out", tmp_path / "no" / "x.html")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "needs the extra report: pip install 'saddleback[report]'" in refused(folder)
    assert "pip install 'saddleback[report]'" in " ".join(
        run("explorer", "--out", tmp_path / "e.html").stderr.split()
    )
