"""Files that are missing, damaged or inconsistent are reported; writing is atomic."""

import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers.log_cases import error_matching, errors_of, good, without
from helpers.logs import assert_same_content, content
from saddleback import errors, problems
from saddleback.errors import SaddlebackError
from saddleback.log import Log, LogError, collect


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(good()), path)
    return path


def test_missing_files_are_reported(file, tmp_path):
    with pytest.raises(LogError) as caught:
        Log([tmp_path / "b.parquet", str(tmp_path / "*.csv"), file])
    assert str(caught.value) == (
        f"E190 no file matches '{tmp_path / '*.csv'}'.\nE190 {tmp_path / 'b.parquet'}: no such file. "
        f"Did you mean {file}?"
    )
    nowhere = tmp_path / "nowhere" / "log.parquet"
    with error_matching(LogError, f"{nowhere}: no such file. There is no folder {nowhere.parent}."):
        Log(nowhere)
    (tmp_path / "empty").mkdir()
    with error_matching(
        LogError,
        f"E190 the folder {tmp_path / 'empty'} contains no files of a log, such as *.parquet.",
    ):
        Log(tmp_path / "empty")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_incomplete_files_are_reported(file, share):
    content_bytes = file.read_bytes()
    file.write_bytes(content_bytes[: int(share * len(content_bytes))])
    with error_matching(
        LogError, f"E190 {file} cannot be read as Parquet (",
        "). It may be incomplete or in another format: write it again, or leave it out.",
    ):  # fmt: skip
        Log(file)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_names_of_files_that_are_not_text_are_reported(file):
    other = file.with_name("\udcff.parquet")
    file.rename(other)
    with error_matching(LogError, "E190 ", r"\udcff.parquet cannot be read as Parquet ("):
        Log(other)


def test_a_name_may_look_like_a_pattern(file):
    other = file.with_name("a [1].parquet")
    file.rename(other)
    assert Log(other).rows == 12


def test_hidden_files_of_a_folder_are_left_out(file, tmp_path):
    (tmp_path / "._a.parquet").write_bytes(b"\0\5\26\7")  # macOS adds them on other disks
    assert Log(tmp_path).rows == 12


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_pipes_are_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "log.csv")
    with error_matching(
        LogError, "E190 ", "log.csv is a pipe or a device, and a log is read twice"
    ):
        Log(tmp_path / "log.csv")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("a\0.parquet", "cannot be the name of a file"), (5000 * "x", "cannot be read as Parquet")],
)
def test_names_that_no_file_has_are_reported(name, problem):
    with pytest.raises(SaddlebackError, match=problem):
        Log(name)


def test_files_damaged_after_opening_are_reported(file):
    log = Log(file)
    content_bytes = bytearray(file.read_bytes())
    content_bytes[4:400] = bytes(396)
    file.write_bytes(content_bytes)
    with error_matching(
        LogError, f"E190 {file} cannot be read as Parquet (", "). It may be incomplete"
    ):
        content(log)


@pytest.mark.parametrize("how", ["write", "collect"])
def test_a_flipped_bit_of_a_page_never_changes_a_log(how, tmp_path):
    path = tmp_path / "log.parquet"
    car = problems.mountain_car()
    log = collect(car, episodes=3, rng=0, limit=20, out=path if how == "collect" else None)
    intact, data = (
        content(log),
        bytearray((log.write(path) if how == "write" else path).read_bytes()),
    )
    pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    refused = []
    for place in range(4, pages, 40):
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        data[place] ^= 1 << place % 8
        try:
            assert_same_content(content(Log(path)), intact)
        except LogError as error:
            refused += error.findings
    assert len(refused) > pages / 40 / 2
    assert {finding.code for finding in refused} == {"E190"}


def test_column_names_that_are_not_text_are_reported(file):
    file.write_bytes(file.read_bytes().replace(b"reward", b"rewar\xff"))
    with error_matching(LogError, f"E190 {file} cannot be read as Parquet ('utf-8' codec can't"):
        Log(file)


def test_a_footer_that_lists_rows_the_file_does_not_hold_is_reported(file):
    pq.write_table(pa.table(good()).slice(0, 0), file)
    footer = file.read_bytes()
    assert footer.count(b"\x16\0\x19") == 1
    file.write_bytes(footer.replace(b"\x16\0\x19", b"\x16\x18\x19"))  # 12 rows, not 0
    problem = "it holds 0 of 12 rows"
    for read in (content, Log.sample, Log.summary):
        with error_matching(LogError, f"E190 {file} cannot be read as Parquet ({problem}). It may"):
            read(Log(file))


def test_text_that_is_not_utf8_is_reported(file):
    wrong = pa.array([b"\xff"] * 12)
    text = pa.Array.from_buffers(pa.string(), 12, wrong.buffers())
    names = [name for name in good() if "mu_" in name]
    pq.write_table(pa.table(without(*names) | {"action": text}), file)
    with error_matching(LogError, f"E190 {file} cannot be read as Parquet (", "UTF8"):
        content(Log(file))


def test_a_file_listed_twice_is_rejected(file, tmp_path):
    link = tmp_path / "b.parquet"
    link.symlink_to(file)
    for paths in ([file, file], [file, link], [file, str(tmp_path / "a*.parquet")]):
        with error_matching(LogError, "E192 ", f" is given twice (also as {file}): list it once."):
            Log(paths)


def test_a_copied_file_is_detected_by_its_episodes(file, tmp_path):
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(file.read_bytes())
    assert errors_of(Log([file, copy])) == (
        "E131 episode 10 appears in two separate blocks (rows 0-3, 12-15) (and 2 more such "
        "episodes). Each begins at step 0: give different episodes different ids, or remove the "
        "copy."
    )


def test_files_with_different_columns_are_rejected(file, tmp_path):
    other = tmp_path / "b.parquet"
    pq.write_table(pa.table(without("reward") | {"step": good()["step"].astype(np.int32)}), other)
    with pytest.raises(LogError) as caught:
        Log([file, other])
    assert str(caught.value) == (
        f"E191 {file} and {other} have different columns: reward is double in the first, missing in "
        "the second; step is int64 in the first, int32 in the second. Files of one log need the "
        "same columns."
    )
    pq.write_table(pa.table(without("behavior_prob")), file)
    pq.write_table(pa.table(good()), other)
    with error_matching(
        LogError, "E191 ", "behavior_prob is missing in the first, double in the second."
    ):
        Log([file, other])
    table = pa.table(good())
    pq.write_table(table, file)
    pq.write_table(pa.table([*table, table["step"]], names=[*table.column_names, "step"]), other)
    with error_matching(
        LogError, "E191 ", "step is int64 in the first, int64 and int64 in the second."
    ):
        Log([file, other])


def test_an_empty_log_is_rejected(file, tmp_path):
    none = tmp_path / "none.parquet"
    pq.write_table(pa.table(good()).slice(0, 0), none)
    with error_matching(LogError, f"E193 the log is empty: {none} has no rows."):
        Log(none)
    with error_matching(LogError, "E193 the log is empty: the table has no rows."):
        Log({name: [] for name in good()})
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "none.parquet"
    other.write_bytes(none.read_bytes())
    with error_matching(LogError, "E193 the log is empty: all 2 files have no rows."):
        Log([none, other])
    assert_same_content(content(Log([none, file])), content(Log(good())))


def test_failed_writes_leave_no_file(tmp_path):
    with error_matching(
        errors.InvalidParameter, f"cannot write {tmp_path / 'no' / 'log.parquet'}: ",
        "Choose another path.",
    ):  # fmt: skip
        Log(good()).write(tmp_path / "no" / "log.parquet")
    with error_matching(errors.InvalidParameter, "write: metadata must be serialisable as JSON: "):
        Log(good()).write(tmp_path / "log.parquet", gamma=np.ones(2))
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.table(good()), bad)
    log = Log(bad)
    bad.write_bytes(bad.read_bytes()[:300])
    with error_matching(LogError, "E190"):
        log.write(tmp_path / "log.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.parquet"]
