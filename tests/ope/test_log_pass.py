"""How often a log is read and its rows are encoded, and which thread does the work."""

from __future__ import annotations

import cProfile
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import FOURIER, always, target
from helpers.logs import mixed
from saddleback.features import Custom
from saddleback.log.reader import LogReader
from saddleback.ope.cumulative_weights import CumulativeWeights
from saddleback.ope.log_pass import read_log

pytestmark = pytest.mark.usefixtures("few_candidates")

METHODS = ["is", "pdis", "wis", "pdwis", "dr", "wdr", "fqe"]
TARGETS = {"one": target, "other": always(0.2, 0.3, 0.5)}


@pytest.fixture
def reads(monkeypatch):
    """Count the validated reads of a log from its source."""
    count, read = [], LogReader._read

    def counted(self, progress):
        count.append(self)
        return read(self, progress)

    monkeypatch.setattr(LogReader, "_read", counted)
    return count


@pytest.fixture
def uncached(monkeypatch):
    """Treat every log as too large for memory."""
    monkeypatch.setattr(sys.modules["saddleback.ope.evaluate"], "CACHED_ROWS", 0)


def evaluated(d=2, **options):
    """Evaluate two targets with all estimators that need no further reads."""
    options = {"features": FOURIER, "methods": METHODS, "path": True} | options
    return sb.evaluate(sb.Log(mixed(3, d=d)), TARGETS, gamma=0.8, **options)


def test_evaluate_reads_a_large_log_twice(reads, uncached):
    evaluated()
    assert len(reads) == 2


def test_evaluation_can_be_profiled():
    """A profiler keeps references to what is in use."""
    options = {"features": "tiles:3x1", "methods": [], "path": False}
    plain = evaluated(**options)
    with cProfile.Profile():
        assert evaluated(**options).verdicts[0].value == plain.verdicts[0].value


@pytest.mark.parametrize("features", ["polynomial:2", lambda states: states**2])
def test_features_with_the_range_of_the_log_take_no_further_read(reads, uncached, features):
    evaluated(features=features)
    assert len(reads) == 2


def test_automatic_features_take_one_more_read_for_a_sample(reads, uncached):
    evaluated(features="auto", d=3)
    assert len(reads) == 3


def test_evaluate_reads_a_log_that_fits_into_memory_once(reads):
    evaluated()
    assert len(reads) == 1


def test_check_reads_a_log_once(reads):
    sb.Log(mixed(3)).summary(0.8)
    assert len(reads) == 1


def test_importance_sampling_reads_a_log_once(reads):
    sb.importance_sampling(sb.Log(mixed(3)), TARGETS, gamma=0.8)
    assert len(reads) == 1


def test_each_row_is_encoded_once_in_each_pass(uncached):
    """Besides, a few states are encoded to measure coverage, and some to check the function."""
    encoded = []

    def features(states):
        encoded.append(len(states))
        return FOURIER(states)

    rows = len(mixed(3)["reward"])
    evaluated(features=Custom(features, FOURIER.size))
    assert sum(n >= rows for n in encoded) <= 4 + 2 * len(TARGETS)
    states = len(next(sb.Log(mixed(3)).segments()).observations)
    assert encoded.count(states) == 2 + 4


def test_results_do_not_depend_on_the_cache(monkeypatch):
    one = evaluated().as_dict()
    monkeypatch.setattr(sys.modules["saddleback.ope.evaluate"], "CACHED_ROWS", 0)
    assert evaluated().as_dict() == one


def test_rows_in_a_temporary_file_give_the_same_scores(monkeypatch):
    log = sb.Log(mixed(3), segment=7)
    one = sb.doubly_robust(log, target, features=FOURIER, gamma=0.8)["target"]
    monkeypatch.setattr(CumulativeWeights.__init__, "__defaults__", (20,))
    two = sb.doubly_robust(log, target, features=FOURIER, gamma=0.8)["target"]
    np.testing.assert_array_equal(one.scores, two.scores)


class Threads:
    """A reducer that notes the thread which does the work of each segment."""

    def __init__(self):
        self.seen = []

    def add(self, batch):
        return [lambda: self.seen.append(threading.get_ident())]


def test_work_is_done_once_and_a_busy_pool_is_not_waited_for():
    log, free, busy, release = sb.Log(mixed(3), segment=5), Threads(), Threads(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        read_log(log, [free], [], pool=pool)
        pool.submit(release.wait, 60)
        read_log(log, [busy], [], pool=pool)
        release.set()
    assert len(free.seen) == len(busy.seen) > 5
    assert set(busy.seen) == {threading.get_ident()}
