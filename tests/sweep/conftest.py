"""Fixtures of the tests of sweeps: finished studies, and a cluster."""

import shutil

import pytest

from helpers.studies import (
    run_study_rows,
    write_study,
)
from helpers.sweeps import SLOW, TOY, Dask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a study of many tasks, and its complete results in whole/."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "toy.py").write_text(TOY)
    run_study_rows(write_study(folder, SLOW), folder / "whole")
    return folder


@pytest.fixture
def out(folder, tmp_path, monkeypatch):
    """The output folder; the current folder is that of the study."""
    monkeypatch.chdir(folder)
    return tmp_path / "out"


@pytest.fixture(scope="module")
def finished_store(tmp_path_factory):
    """A finished store of a small study, which tests copy."""
    folder = tmp_path_factory.mktemp("finished")
    run_study_rows(write_study(folder), folder / "whole")
    return folder / "whole"


@pytest.fixture
def store(finished_store, tmp_path):
    """A finished store of a small study, and a copy of it."""
    for name in ("whole", "s"):
        shutil.copytree(finished_store, tmp_path / name)
    return write_study(tmp_path), tmp_path / "whole", tmp_path / "s"


@pytest.fixture(scope="module")
def dask(folder):
    with Dask(folder, nap=0.05) as dask:
        dask.worker()
        yield dask
