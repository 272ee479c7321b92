"""The CUDA kernel compiled for the CPU: its logic, and the engine around it, without a GPU."""

import numpy as np
import pytest

from helpers.device_cases import CASES, assert_same, compare
from saddleback.cuda.gpu import SOURCE

pytestmark = [pytest.mark.usefixtures("emulated"), pytest.mark.slow]

INTERPRETED = (
    "TDRC(0.8), episodic",
    "schedule 0.5",
    "overflow",
    "endless 0.3",
    "GES(0.6), continuing",
)
"""Cases that also run with the compiler off, and reach every line of the recorded traces."""

CHUNKED = (
    "GQ(0.8), episodic",
    "MountainCar, tiles",
    "endless 0.99",
    "HTD(0.6), continuing",
    "TrueOnlineGTD(0.8), episodic",
)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.kernel] * (n in INTERPRETED)) for n in CASES]
)
def test_numbers_of_the_cpu(name, emulated):
    """Bit-identical, except for learners that diverged and further traces: other sums."""
    for expected, run in compare(name):
        assert_same(expected, run)
        if run.rule.form.has_further_traces:
            continue
        assert (run.diverged_at == expected.diverged_at).all()
        for actual, desired in ((run.theta, expected.theta), (run.omega, expected.omega)):
            assert np.array_equal(actual[run.ok], desired[expected.ok])
    assert emulated.launches


def test_cases_cover_divergence_and_survival():
    runs = [run for name in ("GES(0.6), continuing", "TD(0.8), episodic", "form UpdateNorm")
            for _, run in compare(name)]  # fmt: skip
    assert all(run.ok.any() and not run.ok.all() for run in runs)


@pytest.mark.parametrize("name", CHUNKED)
def test_chunks_of_any_size_give_the_same_numbers(name, monkeypatch):
    monkeypatch.setattr("saddleback.learning.device.CHUNK", 36)
    for expected, run in compare(name):
        assert_same(expected, run)


@pytest.mark.kernel
def test_room_is_added_where_many_entries_of_a_trace_are_recorded(monkeypatch):
    monkeypatch.setattr("saddleback.engine.trace_records.ROOM", 0)
    for expected, run in compare("endless 0.3"):
        assert_same(expected, run)


@pytest.mark.slow
def test_single_precision():
    for expected, run in compare("MountainCar, tiles", dtype="float32", alpha=1e-3, beta=1e-3):
        assert run.theta.dtype == np.float32
        assert_same(expected, run, rtol=1e-4)


def test_the_package_stays_small():
    """700 lines at most, with the kernel."""
    files = [file for file in SOURCE.parent.iterdir() if file.suffix in (".py", ".cu")]
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) <= 700
