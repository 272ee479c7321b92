"""The same table gives the same bits from every file format, whatever its extension."""

import bz2
import gzip
import json
from contextlib import suppress

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from benchmarks.faults.mutations import damaged, generated

from helpers.log_cases import error_matching, good
from helpers.logs import assert_same_content, content, mixed
from saddleback.errors import SaddlebackError
from saddleback.log import Log, LogError, text_files
from saddleback.ope import evaluate


def table(data=None):
    """Return a log as an Arrow table, with nulls for unknown values."""
    data = mixed() if data is None else data
    return pa.table({k: pa.array(v, from_pandas=True) for k, v in data.items()})


def json_lines(data):
    """Return a table as one JSON object per line."""
    return "".join(json.dumps(row) + "\n" for row in data.to_pylist()).encode()


def csv_bytes(data, **options):
    """Return a table as pandas writes it."""
    return data.to_pandas().to_csv(index=False, **options).encode()


def arrow_stream(path, data):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, data.schema) as writer:
        writer.write_table(data, max_chunksize=7)


WRITERS = {
    "a.parquet": lambda path, data: pq.write_table(data, path, row_group_size=7),
    "a.feather": lambda path, data: pyarrow.feather.write_feather(data, path, chunksize=7),
    "a.arrow": arrow_stream,
    "a.csv": lambda path, data: path.write_bytes(csv_bytes(data)),
    "b.csv": lambda path, data: pyarrow.csv.write_csv(data, path),
    "windows.csv": lambda path, data: path.write_bytes(
        b"\xef\xbb\xbf" + csv_bytes(data, lineterminator="\r\n")
    ),
    "quoted.csv": lambda path, data: path.write_bytes(csv_bytes(data, quoting=1)),
    "german.csv": lambda path, data: path.write_bytes(csv_bytes(data, sep=";", decimal=",")),
    "a.tsv": lambda path, data: path.write_bytes(csv_bytes(data, sep="\t")),
    "a.txt": lambda path, data: path.write_bytes(csv_bytes(data, sep="|")),
    "a.csv.gz": lambda path, data: path.write_bytes(gzip.compress(csv_bytes(data))),
    "a.csv.bz2": lambda path, data: path.write_bytes(bz2.compress(csv_bytes(data))),
    "a.csv.zst": lambda path, data: path.write_bytes(pa.compress(csv_bytes(data), "zstd", True)),
    "a.jsonl": lambda path, data: path.write_bytes(json_lines(data)),
    "a.jsonl.gz": lambda path, data: path.write_bytes(gzip.compress(json_lines(data))),
}


@pytest.mark.parametrize("block", [300, 1 << 24])
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_bits(name, block, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK", block)
    WRITERS[name](tmp_path / name, table())
    log, expected = Log(tmp_path / name), content(Log(table()))
    assert log.rows == len(table())
    assert_same_content(content(log), expected)
    monkeypatch.undo()
    assert not any(finding.code == "W195" for finding in log.summary().findings)
    assert_same_content(content(Log(str(tmp_path / "*"))), expected)
    assert_same_content(content(Log(tmp_path)), expected)


@pytest.mark.slow
def test_an_evaluation_of_csv_equals_that_of_parquet(tmp_path):
    data = table()
    pq.write_table(data, tmp_path / "log.parquet")
    pyarrow.csv.write_csv(data, tmp_path / "log.csv")
    results = [
        evaluate(tmp_path / f"log.{suffix}", "uniform", gamma=0.9).as_dict()
        for suffix in ("parquet", "csv")
    ]
    assert results[0] == results[1]
    (tmp_path / "log.csv").rename(tmp_path / "log.json")
    warnings = evaluate(tmp_path / "log.json", "uniform", gamma=0.9).warnings
    assert "W195" in [finding.code for finding in warnings]


@pytest.mark.parametrize("block", [60, 1 << 24])
def test_types_are_inferred_from_the_entire_file(block, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK", block)
    n = 40
    data = {
        "episode_id": [str(i) for i in range(n - 1)] + ["x"],
        "obs_0": [1] * (n - 1) + [0.5],
        "action": [0, 1] * (n // 2),
        "reward": [None] * (n // 2) + [2.0] * (n // 2),
        "terminated": [True] * n,
        "truncated": [False] * n,
        "at": [None] * 3 + ["2026-01-01"] * 30 + ["2026-01-01 10:00:00"] * 7,
        "note": ['a "quoted"\nnote, with a comma'] * n,
    }
    path = tmp_path / "log.csv"
    pandas.DataFrame(data).to_csv(path, index=False)
    schema = Log(path).sources[0].schema
    expected = ["string", "double", "int64", "double", "bool", "bool", "timestamp[s]", "string"]
    assert [str(kind) for kind in schema.types] == expected
    (source,) = Log(path).sources
    read = pa.Table.from_batches(source.batches(schema.names)).to_pylist()
    assert [row["episode_id"] for row in read] == data["episode_id"]
    assert [row["reward"] for row in read] == data["reward"]
    assert [row["note"] for row in read] == data["note"]
    assert [row["obs_0"] for row in read] == data["obs_0"]


def test_text_files_of_one_log_share_their_types(tmp_path):
    integers = table(good() | {"reward": np.arange(12.0)})
    pyarrow.csv.write_csv(integers.slice(0, 4), tmp_path / "a.csv")  # rewards 0 … 3
    one = Log(tmp_path / "a.csv").sources[0].schema.field("reward").type
    (tmp_path / "b.jsonl").write_bytes(json_lines(integers.slice(4, 4)))
    pq.write_table(integers.slice(8), tmp_path / "c.parquet")
    files = [tmp_path / "a.csv", tmp_path / "b.jsonl", tmp_path / "c.parquet"]
    assert one == pa.int64()
    assert_same_content(content(Log(files)), content(Log(integers)))
    assert_same_content(content(Log(files[:2])), content(Log(integers.slice(0, 8))))


def test_lists_in_json_are_observations_of_fixed_size(tmp_path):
    data = good()
    rows = [
        {k: v[i].item() for k, v in data.items() if not k.startswith(("obs", "next"))}
        | {"obs": [data["obs_0"][i], data["obs_1"][i]]}
        for i in range(12)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = {k: v for k, v in data.items() if not k.startswith("next")}
    assert_same_content(content(Log(path)), content(Log(expected)))


@pytest.mark.parametrize(
    ("writer", "name", "message"),
    [
        ("a.csv", "log.parquet", "W195 {0} is CSV, not Parquet, and is read as such. Rename it."),
        ("a.parquet", "log.csv", "W195 {0} is Parquet, not CSV, and is read as such. Rename it."),
        ("a.csv.gz", "log.csv", "W195 {0} is CSV (gzip), not CSV, and is read as such. Rename it."),
        ("a.jsonl", "log.csv", "W195 {0} is JSON lines, not CSV, and is read as such. Rename it."),
        ("a.feather", "log.pq", "W195 {0} is Arrow, not Parquet, and is read as such. Rename it."),
    ],
)
def test_a_wrong_extension_is_recognised(writer, name, message, tmp_path):
    path = tmp_path / name
    WRITERS[writer](path, table())
    log = Log(path)
    assert_same_content(content(log), content(Log(table())))
    warnings = [str(f) for f in log.summary().findings if f.code == "W195"]
    assert warnings == [message.format(path)]


@pytest.mark.parametrize(
    ("content_bytes", "name", "message"),
    [
        (b"PK\3\4xyz", "log.csv", "is a zip archive or an Excel workbook, which is not read. "
         "Extract it, or save the sheet as CSV."),
        (b'[{"a": 1}]', "log.json", "is a JSON array, which is not read. Write one object per"),
        (b'{\n "kind": "saddleback evaluation"}', "r.json", "holds a result, not a log."),
        (b'{"kind":"saddleback ranking"}', "r.json", "holds a saddleback ranking, not a log."),
        ("a,b\n1,2\n".encode("utf-16"), "log.csv", "is UTF-16 text, which is not read. Save it"),
        (gzip.compress(b"PAR1", mtime=0), "log.gz", "is a compressed Parquet file: decompress it"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "log.csv.gz", "cannot be read as CSV (Compre"),
        (b"a,b\n1,2\n3\n", "log.csv", "cannot be read as CSV (line 3: Expected 2 columns, got"),
        (b"a,b\n1,M\xfcnchen\n", "log.csv", "cannot be read as CSV (line 2 or below: column 'b' is "
         "not UTF-8)"),
        (b"M\xfcnchen,b\n1,2\n", "log.csv", "cannot be read as CSV ('utf-8' codec can't decode"),
        (b"a" * 200_000, "log.csv", "cannot be read as CSV (field larger than field limit"),
        (b'{"M\xfcnchen": 1}\n', "log.jsonl", "cannot be read as JSON lines (line 1: 'utf-8' co"),
        (b'{"a": 1}\n{"a": "x"}\n', "log.jsonl", "cannot be read as JSON lines (line 2: Column(/a) "
         "changed from number to string)"),
        (b"\xff\xff\xff\xffabc", "log.arrow", "cannot be read as Arrow ("),
        (b"ARROW1abc", "log.feather", "cannot be read as Arrow ("),
        (b"\0\1\2\3", "log.csv.parquet", "cannot be read as Parquet ("),
        (b"0,1.5,-2e3,x\n1,2,3,y\n", "log.csv", "has no header: its first line must name the "
         "columns."),
        (b"a,b\n1,Z\xfcrich\n", "log.csv", "cannot be read as CSV (line 2 or below: column 'b' is "
         "not UTF-8). Save it as UTF-8."),
        (b"a,Z\xfcrich\n1,2\n", "log.csv", "cannot be read as CSV ('utf-8' codec can't decode byte "
         "0xfc in position 3: invalid start byte). Save it as UTF-8."),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_say_why(content_bytes, name, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content_bytes)
    with error_matching(LogError, f"E190 {path} {message}"):
        Log(path)


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.arrow", "a.csv", "a.jsonl"])
@pytest.mark.slow
def test_damaged_files_are_read_or_refused(name, tmp_path):
    """Validation of Arrow batches, and text that is not UTF-8, ended in tracebacks."""
    intact = tmp_path / name
    WRITERS[name](intact, table())
    damage = damaged(intact.read_bytes())
    for seed in range(80):
        (tmp_path / f"damaged-{name}").write_bytes(generated(damage, seed)[1])
        with suppress(SaddlebackError):
            Log(tmp_path / f"damaged-{name}").summary()


def test_an_empty_text_file_is_an_empty_log(tmp_path):
    path = tmp_path / "log.csv"
    for text in ("", "episode_id,reward\n"):
        path.write_text(text)
        with error_matching(LogError, f"E193 the log is empty: {path} has no rows."):
            Log(path)


def test_repeated_names_of_columns_are_reported(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("episode_id,reward,reward\n1,2,x\n")
    with error_matching(LogError, "E105 the log has several columns 'reward'"):
        Log(path)


def test_a_text_file_that_changes_after_opening_is_reported(tmp_path):
    path = tmp_path / "log.csv"
    pyarrow.csv.write_csv(table(), path)
    log = Log(path)
    pyarrow.csv.write_csv(table().slice(0, 50), path)
    with error_matching(LogError, f"E190 {path} cannot be read as CSV (it holds 50 of 110 rows)"):
        content(log)
