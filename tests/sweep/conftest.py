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


@pytest.fixture
def store(tmp_path):
    """A finished store of a small study, and a copy of it."""
    path = write_study(tmp_path)
    run_study_rows(path, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "s")
    return path, tmp_path / "whole", tmp_path / "s"


@pytest.fixture(scope="module")
def dask(folder):
    with Dask(folder, nap=0.05) as dask:
        dask.worker()
        yield dask
