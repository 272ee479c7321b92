"""Threads take the same chunks, produce them in turn, and none waits for one that failed."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest

import saddleback as sb
from saddleback.engine.learner_batch import Block
from saddleback.engine.worker_threads import QUEUED, SharedChunks

SECONDS = 60  # a thread that waits in vain fails the test instead of stopping it


def take_all(chunks, n):
    return list(iter(lambda: chunks.take(n), None))


def test_every_thread_takes_every_chunk_in_order():
    chunks = SharedChunks(iter(range(100)), threads=3)
    with ThreadPoolExecutor(3) as pool:
        taken = pool.map(lambda n: take_all(chunks, n), range(3), timeout=SECONDS)
        assert list(taken) == [list(range(100))] * 3
    assert chunks.empty


def test_a_none_ends_a_call_for_each_thread():
    chunks = SharedChunks(iter([0, 1, None, 2, None]), threads=2)
    assert [take_all(chunks, 0), take_all(chunks, 1)] == [[0, 1], [0, 1]]
    assert [take_all(chunks, 0), take_all(chunks, 1)] == [[2], [2]]


def test_the_slowest_thread_bounds_what_is_produced():
    numbers = count()
    chunks = SharedChunks(numbers, threads=2)
    assert [chunks.take(0) for _ in range(QUEUED)] == list(range(QUEUED))
    assert next(numbers) == QUEUED
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(chunks.take, 0)
        assert chunks.take(1) == 0  # makes room for another
        assert waiting.result(SECONDS) == QUEUED + 1


@pytest.mark.parametrize(("threads", "ahead"), [(1, 1), (2, 2)])
def test_no_more_is_produced_than_the_fastest_thread_needs(threads, ahead):
    """One chunk at a time for one thread, and one ahead of the next for several."""
    numbers = count()
    chunks = SharedChunks(numbers, threads)
    assert chunks.take(0) == 0
    assert next(numbers) == ahead


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_error_while_producing_is_raised(threads):
    source = sb.problems.mountain_car(features=sb.features.Custom(broken, size=2))
    options = dict(alpha=np.full(7, 1e-3), beta=1e-3, steps=20_000, rng=0)
    for metrics in ({}, {"first": first}):
        with pytest.raises(sb.errors.InvalidParameter, match="features failed: ZeroDivisionError"):
            sb.learn(sb.GES(0.5), source, metrics=metrics, threads=threads, **options)


CALLS = count()


def broken(observations):
    if next(CALLS) % 8 == 7:
        raise ZeroDivisionError
    return observations


def test_an_error_of_one_thread_ends_the_others(monkeypatch):
    rule, problem = sb.GES(0.5), sb.problems.mountain_car()
    advance, blocks = Block.advance, []

    def fails(block, stream, done):
        if block not in blocks:
            blocks.append(block)
        if done and block is blocks[0]:
            raise FloatingPointError
        advance(block, stream, done)

    monkeypatch.setattr(Block, "advance", fails)
    with pytest.raises(FloatingPointError):
        sb.learn(rule, problem, alpha=np.full(9, 1e-3), beta=1e-3, steps=50_000, rng=0, threads=3)


def test_updates_are_counted_where_nothing_is_measured():
    car, options = sb.problems.mountain_car(), dict(alpha=[1e-3, 1e-2], beta=1e-3, rng=0)
    plain = sb.learn(sb.GES(0.5), car, steps=9000, **options)
    measured = sb.learn(
        sb.GES(0.5), car, steps=9000, metrics={"first": first}, threads=2, **options
    )
    np.testing.assert_array_equal(plain.updates, measured.updates)
    np.testing.assert_array_equal(plain.recorded, measured.recorded)
    np.testing.assert_array_equal(plain.theta, measured.theta)
    assert len(plain.updates) == 101


def first(theta):
    return theta[..., 0]
