"""Fixtures of the study pages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from helpers.study_store import RUNS, STUDY, rows
from saddleback.report import read_results, study_page, write
from saddleback.sweep import Store, parquet_bytes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store as a sweep leaves it."""
    path = tmp_path_factory.mktemp("study") / "sweep"
    with Store.open(path, STUDY, "saddleback sweep x.toml --out sweep") as store:
        for run in range(RUNS):
            for problem in ("walk", "star & more"):
                store.put(f"{problem[:4]}-{run}", parquet_bytes(rows(problem, run)))
        other = pa.table({"rule": ["GES"], "mse": [1.0]})  # another kind, which is ignored
        store.put("other", parquet_bytes(other))
    return path


@pytest.fixture(scope="module")
def path(folder):
    return write(study_page(read_results(folder)), folder.parent / "study.html")
