"""Damaged shards are recomputed; stores of other studies or versions are refused unchanged."""

import json
import re
import subprocess
import sys

import duckdb
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner

from helpers.studies import (
    SMALL,
    bits,
    shards,
    sweep,
    write_study,
)
from saddleback.cli.group import group
from saddleback.errors import InvalidParameter
from saddleback.sweep import Store, run_study, task

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and locks of POSIX")


def flip_byte(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def forget(path):
    """Remove the hash of a shard."""
    file = path.parent.parent / "SHA256SUMS"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if path.name not in line))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flip_byte(path, 0),
        lambda path: flip_byte(path, path.stat().st_size // 2),
        lambda path: flip_byte(path, -1),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.with_name("p000-0000-run00000.parquet").read_bytes()),
        forget,
    ],
)
def test_damaged_shards_are_moved_aside_and_recomputed(store, damage):
    path, intact, out = store
    name = "p001-0000-run00000.parquet"
    damage(out / "shards" / name)
    damaged = (out / "shards" / name).read_bytes()
    done = sweep(path, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert f"{name} was damaged; moved to damaged/ and recomputed.\n" in done.stderr
    assert done.stderr.count("was damaged") == 1
    assert (out / "damaged" / name).read_bytes() == damaged
    assert shards(out) == shards(intact)
    assert bits(Store.load(out).table()) == bits(Store.load(intact).table())
    assert "was damaged" not in sweep(path, "--out", out).stderr
    damage(out / "shards" / name)
    assert sweep(path, "--out", out, "--quiet").exit_code == 0
    assert {path.name for path in (out / "damaged").iterdir()} == {name, f"{name}-2"}


def test_a_shard_without_its_hash_is_not_left_out(store):
    """A damaged line among the hashes left out the rows of its shard, without a word."""
    path, intact, out = store
    file = out / "SHA256SUMS"
    file.write_text(file.read_text().replace("  shards/p001", " *shards/p001"))
    with pytest.raises(
        InvalidParameter, match=r"lacks the hash of \d shards \(first: p001-0000-ru"
    ):
        Store.load(out).table()
    assert sweep(path, "--out", out).exit_code == 0
    assert bits(Store.load(out).table()) == bits(Store.load(intact).table())


@pytest.mark.parametrize("cut", [1, 10, 40, 80, 92])
def test_an_incomplete_last_hash_costs_at_most_one_shard(store, cut):
    path, intact, out = store
    file = out / "SHA256SUMS"
    last = file.read_text().splitlines()[-1].split("/")[1]
    file.write_bytes(file.read_bytes()[:-cut])
    done = sweep(path, "--out", out)
    assert done.exit_code == 0
    named = re.findall(r"(\S+) was damaged", done.stderr)
    assert named == ([] if cut == 1 else [last])  # only the end of the line was missing
    assert shards(out) == shards(intact)
    assert "was damaged" not in sweep(path, "--out", out).stderr


@pytest.mark.parametrize("text", [None, "", "gone\n"])
@pytest.mark.parametrize("command", ["sweep", "report"])
def test_shards_are_kept_when_their_hashes_are_missing(store, command, text):
    path, intact, out = store
    (out / "SHA256SUMS").unlink() if text is None else (out / "SHA256SUMS").write_text(text)
    words = (path, "--out", out) if command == "sweep" else (out,)
    done = CliRunner().invoke(group, [command, *map(str, words)])
    assert done.exit_code == 2
    message = " ".join(done.stderr.split())
    assert f"error: {out}/SHA256SUMS is missing or damaged" in message
    assert shards(out) == shards(intact)
    fix = re.search(r"recreate it: (.*); otherwise", message)[1]
    subprocess.run(["bash", "-c", fix], check=True)
    assert "all tasks are already complete in" in sweep(path, "--out", out).stderr


def test_a_folder_in_the_place_of_a_file_is_reported(store):
    path, _, out = store
    (out / "SHA256SUMS").unlink()
    (out / "SHA256SUMS").mkdir()
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert f"cannot read {out}/SHA256SUMS: Is a directory." in " ".join(done.stderr.split())


def test_damage_is_reported_even_if_the_run_fails(store, monkeypatch):
    path, _, out = store
    flip_byte(out / "shards" / "p001-0000-run00000.parquet", 50)

    def broken(*_, **__):
        raise ZeroDivisionError("as it were")

    monkeypatch.setattr(task, "learn", broken)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert "p001-0000-run00000.parquet was damaged; moved to damaged/" in done.stderr
    assert re.search(
        r"error: p001-0000-run00000 failed: ZeroDivisionError: as it were \(test_damaged_stores\.py, line "
        r"\d+\)\. Finished tasks are kept\.\n\Z",
        done.stderr,
    )


def test_an_unreadable_shard_is_reported(store):
    path, _, out = store
    shard = out / "shards" / "p001-0000-run00000.parquet"
    shard.unlink()
    shard.mkdir()
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"error: cannot read {shard}: Is a directory.\n")


def manifest(out, **changes):
    path = out / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def files(out):
    """Return the content of all files in a folder except the lock."""
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
def test_stores_of_other_schema_versions_are_refused(store, schema, message):
    path, _, out = store
    manifest(out, schema=schema)
    before = files(out)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert f"error: {out}/manifest.json {message}" in done.stderr
    assert files(out) == before


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 2}', '{"schema": "x"}', "\x00", "not text"]
)
def test_a_damaged_manifest_is_refused(store, text):
    path, _, out = store
    content = (out / "manifest.json").read_bytes().replace(b'"command": "', b'"command": "\xef')
    (out / "manifest.json").write_bytes(content if text == "not text" else text.encode())
    before = files(out)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"error: {out}/manifest.json is damaged, or not the manifest of a store. Choose another "
        "folder.\n"
    )
    assert files(out) == before


@pytest.mark.parametrize("suffix", ["/../../../victim.txt", ".npz", "", "/x"])
def test_a_manifest_cannot_lead_out_of_the_folder(store, suffix):
    path, _, out = store
    manifest(out, suffix=suffix)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert f"{out}/manifest.json is damaged, or not the manifest of a store." in done.stderr


@pytest.mark.parametrize("name", ["shards", "damaged", "SHA256SUMS", ".owner", "manifest.json"])
def test_links_do_not_lead_out_of_the_folder(store, tmp_path, name):
    path, _, out = store
    outside = tmp_path / "outside"
    if (out / name).exists():
        (out / name).rename(outside)
    (out / name).symlink_to(outside)
    before = files(tmp_path)
    done = sweep(path, "--out", out)
    assert done.exit_code == 2
    assert f"error: {out / name} is a link: nothing is written outside" in done.stderr
    assert files(tmp_path) == before


def test_a_shard_is_not_written_through_a_link(store, tmp_path):
    path, intact, out = store
    shard = out / "shards" / "p001-0000-run00000.parquet"
    shard.unlink()
    shard.symlink_to(tmp_path / "outside")
    assert sweep(path, "--out", out).exit_code == 0
    assert not shard.is_symlink()
    assert not (tmp_path / "outside").exists()
    assert shards(out) == shards(intact)


def test_a_lost_shard_is_reported_in_python(store):
    path, intact, out = store
    name = "p001-0000-run00000.parquet"
    (out / "shards" / name).unlink()
    lost = f"lacks 1 of 6 shards with a hash (first: {name}). Run the study again: it computes"
    with pytest.raises(InvalidParameter, match=re.escape(lost)):
        Store.load(out).table()
    run_study(path, out)
    assert bits(Store.load(out).table()) == bits(Store.load(intact).table())


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
    done = sweep(write_study(path.parent, SMALL.replace(old, new)), "--out", out)
    assert done.exit_code == 2
    assert f"error: {out} holds another study: {difference}" in done.stderr
    assert done.stderr.endswith("Nothing was changed. Choose another folder: --out …\n")
    assert files(out) == before


def test_other_package_versions_are_reported(store):
    path, intact, out = store
    versions = json.loads((out / "manifest.json").read_text())["versions"]
    manifest(out, versions=versions | {"numba": "0.1"})
    done = sweep(path, "--out", out)
    assert done.exit_code == 0
    assert (
        f"note: {out} was started with numba 0.1; this is {versions['numba']}, so the last"
        in done.stderr
    )
    assert shards(out) == shards(intact)


def test_duckdb_polars_and_pandas_read_the_shards(store):
    path, intact, out = store
    flip_byte(out / "shards" / "p001-0000-run00000.parquet", 50)
    assert sweep(path, "--out", out, "--quiet").exit_code == 0
    rows = bits(Store.load(intact).table())
    assert bits(duckdb.sql(f"FROM '{out}/shards/*.parquet'").to_arrow_table()) == rows
    assert bits(pl.read_parquet(f"{out}/shards/*.parquet").to_arrow()) == rows
    frame = pd.read_parquet(f"{out}/shards")
    assert {name: frame[name].dtype.kind for name in ("run", "alpha")} == {"run": "i", "alpha": "f"}
    assert len(frame) == len(rows["problem"])
    keys = ["problem", "rule", "run", "point", "alpha", "beta"]
    assert frame.sort_values(keys)["mspbe"].to_numpy().tobytes() == rows["mspbe"]


def test_another_title_is_the_same_study(store):
    path, intact, out = store
    path.write_text(path.read_text().replace('title = "small"', 'title = "renamed"'))
    (out / "shards" / "p001-0000-run00000.parquet").unlink()
    assert sweep(path, "--out", out).exit_code == 0
    assert shards(out) == shards(intact)
