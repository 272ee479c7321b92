"""Threads, files, row groups, hash seeds and the time of day do not change a bit of a result."""

import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import saddleback as sb
from helpers.logs import ENDS, columns

METHODS = ("fqe", "is", "pdis", "wis", "pdwis", "dr", "wdr", "streamed", "svrg")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    data = columns(rng.integers(1, 30, 60), rng.choice(ENDS, 60), seed=3)
    data["reward"] *= 10.0 ** rng.integers(-6, 3, len(data["reward"]))  # sums are sure to round
    return pa.table(data)


def saved(data, threads=1):
    """Return everything that is known about an evaluation, as text."""
    result = sb.evaluate(
        data, {"even": "uniform", "first": "always:0"}, gamma=0.9, features="polynomial:2",
        threads=threads, path=True, methods=METHODS, allow_uncovered=True,
    )  # fmt: skip
    return json.dumps(result.as_dict())


@pytest.fixture(scope="module")
def expected(rows):
    return saved(rows)


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
def test_threads_files_and_row_groups_do_not_matter(rows, expected, cached, tmp_path, monkeypatch):
    if not cached:
        monkeypatch.setattr(sys.modules["saddleback.ope.evaluate"], "CACHED_ROWS", 0)
    assert saved(rows, threads=3) == expected
    pq.write_table(rows, tmp_path / "all.parquet", row_group_size=7)
    assert saved(tmp_path / "all.parquet") == expected
    cuts = [0, 1, 100, 101, 500, len(rows)]
    for k, (begin, end) in enumerate(pairwise(cuts)):
        pq.write_table(rows.slice(begin, end - begin), tmp_path / f"part{k}.parquet")
    assert saved(str(tmp_path / "part*.parquet"), threads=2) == expected


PROGRAM = """
import sys
import pyarrow.parquet as pq
import saddleback as sb
from saddleback.cli.group import group

sb.Log(pq.read_table("rows.parquet"), actions=["a", "b", "c"]).write("log.parquet", gamma=0.9)
sb.system.save(sb.System.exact(sb.problems.two_state(0.9), sb.GES(0.5)), "system.npz")
options = ["--target", "uniform", "--features", "polynomial:1", "--quiet"]
for words in (
    ["evaluate", "log.parquet", *options, "--save", "result.json", "--report", "page.html"],
    ["stats", "log.parquet", *options, "--out", "log.stats"],
):
    sys.argv = ["saddleback", *words]
    try:
        group(words)
    except SystemExit as end:
        assert end.code in (None, 0, 3, 4), end.code
"""


@pytest.mark.slow
def test_files_of_equal_content_are_equal_whatever_the_hash_seed_and_the_time(rows, tmp_path):
    contents = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        pq.write_table(rows, folder / "rows.parquet")
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, check=True,
            capture_output=True,
        )  # fmt: skip
        contents.append(
            {
                path.relative_to(folder): path.read_bytes()
                for path in folder.rglob("*")
                if path.is_file()
            }
        )
    one, other = contents
    assert len(one) == 6
    assert one.keys() == other.keys()
    assert [str(path) for path in one if one[path] != other[path]] == []
