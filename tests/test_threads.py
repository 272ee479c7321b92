"""Pools of threads: linear algebra uses one thread while they work, and as many as before after."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401, which has a BLAS of its own
from threadpoolctl import threadpool_info, threadpool_limits

import saddleback as sb
from saddleback._threads import thread_pool


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


pytestmark = pytest.mark.skipif(not blas_threads(), reason="this BLAS cannot be limited")


@pytest.fixture(autouse=True)
def two_blas_threads():
    """As by default on a machine with two cores."""
    with threadpool_limits(2, "blas"):
        assert blas_threads() == {2}
        yield
        assert blas_threads() == {2}


def test_pools_limit_blas_to_one_thread():
    with thread_pool(2) as pool:
        assert pool.submit(blas_threads).result() == blas_threads() == {1}
        with thread_pool(1):
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    with pytest.raises(ZeroDivisionError), thread_pool(2) as pool:
        pool.submit(lambda: 1 / 0).result()


def test_a_pool_keeps_the_limit_when_an_earlier_one_of_another_thread_ends():
    begun, end = threading.Event(), threading.Event()

    def other():
        with thread_pool(1):
            begun.set()
            end.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(10)
    with thread_pool(1):
        end.set()
        thread.join()
        assert blas_threads() == {1}


def test_the_last_pool_lifts_the_limit_whichever_thread_set_it():
    begun, end = threading.Event(), threading.Event()

    def other():
        with thread_pool(1):
            begun.set()
        end.wait(10)  # alive, but without a pool

    thread = threading.Thread(target=other)
    with thread_pool(1):
        thread.start()
        begun.wait(10)
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    end.set()
    thread.join()


def test_results_do_not_depend_on_the_number_of_blas_threads():
    rng = np.random.default_rng(0)
    n = 400
    log = {
        "episode_id": np.repeat(np.arange(n // 10), 10), "step": np.tile(np.arange(10), n // 10),
        "obs_0": rng.normal(size=n), "obs_1": rng.normal(size=n), "action": rng.integers(0, 2, n),
        "reward": rng.normal(size=n), "terminated": np.arange(n) % 10 == 9,
        "truncated": np.zeros(n, bool), "behavior_prob": np.full(n, 0.5),
    }  # fmt: skip
    options = {"gamma": 0.9, "methods": [], "features": "random-fourier:100"}
    two = sb.evaluate(log, "always:1", **options)
    with threadpool_limits(1, "blas"):
        one = sb.evaluate(log, "always:1", **options)
    assert one.as_dict() == two.as_dict()
