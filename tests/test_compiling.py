"""Compilation of kernels and its announcement, each in a separate process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import saddleback as sb
from saddleback._jit import _Announcement, compiled
from saddleback.cli.progress import display, messages_shown

CALLED = """
import numpy as np
from saddleback.engine import count_mass, count_visits
index, numbers = np.zeros(1, dtype=np.uint32), np.ones(1)
count_visits(index, numbers)
count_mass(index, numbers, numbers)
"""

LOGGED = """
import logging
logging.basicConfig(format="%(levelname)s %(name)s %(message)s", level=logging.INFO)
"""

SPECIALISED = """
import sys
from numba.core.dispatcher import Dispatcher
from saddleback.cli.group import group
one, other, *options = sys.argv[1:]
for log, features in ((one, "tiles:2x2"), (other, "polynomial:2")):
    try:
        group(["evaluate", log, "--features", features, *options], standalone_mode=False)
    except SystemExit as status:
        assert status.code in (0, 3, 4)
kernels = {
    value for name, module in sys.modules.items() if name.startswith("saddleback.")
    for value in vars(module).values() if isinstance(value, Dispatcher)
}
used = {f"{kernel.__module__}.{kernel.__name__}": len(kernel.signatures) for kernel in kernels}
print(sum(map(bool, used.values())), sorted(name for name, count in used.items() if count > 1))
"""

SEVERAL: list[str] = []
"""Kernels that ``evaluate`` may compile more than once, each with a reason."""


def run(program, *arguments, **environment):
    """Run a program, and return its standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, check=True, env=os.environ | environment,
    )  # fmt: skip
    return done.stdout, done.stderr


@pytest.mark.slow
def test_compiling_is_logged_once_and_reading_from_disk_is_not(tmp_path):
    first, second = (run(LOGGED + CALLED, NUMBA_CACHE_DIR=str(tmp_path))[1] for _ in range(2))
    assert first.startswith("INFO saddleback compiling kernels (about ")
    assert len(first.splitlines()) == 1
    assert second == ""


@pytest.fixture
def locators(monkeypatch):
    """The places of Numba's cache, to be changed."""
    from numba.core.caching import CacheImpl

    places = [*CacheImpl._locator_classes]
    monkeypatch.setattr(CacheImpl, "_locator_classes", places)
    return places


def double(x):
    return 2 * x


def test_a_read_only_package_is_cached_in_the_folder_of_the_user(locators, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    del locators[1]  # that in the tree: nothing of a package can be written
    folder = compiled(double)._cache.cache_path
    assert tmp_path / "numba" in Path(folder).parents or sys.platform != "linux"


def test_kernels_compile_where_no_folder_can_be_written(locators, caplog):
    locators.clear()
    kernel = compiled(double)
    assert kernel(4) == 8
    kernel.py_func.__module__ = "saddleback.kernels"
    with caplog.at_level("INFO", "saddleback"):
        _Announcement().on_start(SimpleNamespace(data={"dispatcher": kernel}))
    assert "each time: set NUMBA_CACHE_DIR" in caplog.text


RECORDED = """
import sys
from typing import NamedTuple
import numpy as np
sys.path.insert(0, {folder!r})
import kernels
print(kernels.total(kernels.{name}(np.arange(3.0))))
"""

MODULE = """
from typing import NamedTuple
from saddleback._jit import compiled
class {name}(NamedTuple):
    values: object
@compiled
def total(record):
    return record.values.sum()
"""


@pytest.mark.slow
def test_a_cache_of_another_version_is_compiled_again(tmp_path):
    """An upgrade may rename a record that the cached kernels take."""
    for name in ("Old", "Newer"):  # of other lengths: Python compares sizes and whole seconds
        (tmp_path / "kernels.py").write_text(MODULE.format(name=name))
        program = RECORDED.format(folder=str(tmp_path), name=name)
        printed, _ = run(program, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert printed == "3.0\n"


@pytest.mark.slow
def test_the_library_is_quiet_by_default(tmp_path):
    assert run(CALLED, NUMBA_CACHE_DIR=str(tmp_path)) == ("", "")


def test_the_command_line_shows_log_messages(capsys):
    logger = logging.getLogger("saddleback.anything")
    with messages_shown():
        logger.info("compiling")
        with display(quiet=True):
            logger.info("hidden")
            logger.warning("damaged")
        with display():
            logger.info("again")
    logger.warning("over")
    assert capsys.readouterr().err == "compiling\ndamaged\nagain\n"


@pytest.mark.slow
def test_evaluate_compiles_each_kernel_once(tmp_path):
    """Columns of other widths, dense and binary features: the kernels see the same types."""
    log, narrow = tmp_path / "log.parquet", tmp_path / "narrow.parquet"
    sb.collect(sb.problems.mountain_car(), episodes=20, rng=0, out=log)
    table = pq.read_table(log)
    place = table.schema.get_field_index("reward")
    pq.write_table(table.set_column(place, "reward", table["reward"].cast("float32")), narrow)
    printed, _ = run(
        SPECIALISED, str(log), str(narrow), "--target", "pump:0.8", "--gamma", "0.99",
        "--low=-1.2,-0.07", "--high=0.6,0.07", "--quiet",
    )  # fmt: skip
    count, several = printed.splitlines()[-1].split(" ", 1)
    assert int(count) >= 15
    assert several == str(SEVERAL)


@pytest.mark.slow
def test_kernels_of_other_packages_compile_silently():
    """Including generated kernels that belong to no module."""
    printed, _ = run(
        "import numba, saddleback._jit\nnames = {}\n"
        "exec('def double(x):\\n return 2 * x', {}, names)\n"
        "print(numba.njit(names['double'])(4))"
    )
    assert printed == "8\n"
