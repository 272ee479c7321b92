"""How learners lie in memory, and how they are divided into blocks."""

import numpy as np
import pytest

import saddleback as sb
from saddleback.engine import learner_batch
from saddleback.engine.learner_batch import Learners, aligned_zeros


def test_lanes_fill_vectors_and_avoid_powers_of_two():
    """One learner has one lane; others a multiple of 8, but no multiple of 512."""
    widths = {1: 1, 2: 8, 8: 8, 9: 16, 16: 16, 504: 504, 505: 520, 512: 520, 513: 520, 1024: 1032}
    assert {n: learner_batch._padded(n) for n in widths} == widths


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(3, 8), (1,), (5, 1)])
def test_tables_begin_with_a_cache_line(dtype, shape):
    tables = [aligned_zeros(shape, np.dtype(dtype)) for _ in range(5)]
    for table in tables:
        assert (table.shape, table.dtype) == (shape, dtype)
        assert table.ctypes.data % 64 == 0
        assert not table.any()
        assert table.flags.c_contiguous
        copied = learner_batch._aligned(np.full(shape, 2.5, dtype)[..., ::-1])
        assert copied.ctypes.data % 64 == 0
        assert (copied == 2.5).all()


@pytest.mark.parametrize("blocks", [1, 2, 3, 10])
def test_blocks_take_turns(blocks):
    """Learner k is in block k modulo their number, and keeps its own weights and step size."""
    theta, omega = np.random.default_rng(0).normal(size=(2, 7, 3))
    alpha = sb.Schedule(np.arange(7.0), 0.5, 2.0)
    learners = Learners(sb.GES(0.5).form, alpha, alpha, theta, omega, 1e3, blocks)
    count = min(blocks, 7)
    assert len(learners.blocks) == count
    for first, block in enumerate(learners.blocks):
        own = np.arange(first, 7, count)
        np.testing.assert_array_equal(block.theta(), theta[own])
        np.testing.assert_array_equal(block.omega(), omega[own])
        np.testing.assert_array_equal(block._lanes.alpha[: len(own)], own)
        assert (block._lanes.limit == 1e3).all()
        assert block._settings.alpha_power == 0.5
        assert block._settings.alpha_offset == 2.0
    np.testing.assert_array_equal(learners.current_theta(), theta)
    np.testing.assert_array_equal(learners.weights()[1], omega)
    assert learners.diverged_at.tolist() == [-1] * 7


def test_postponed_sums_are_folded_in():
    """θ = θ̃ + F_θ·g and ω = s (ω̃ + F·g)."""
    theta, omega = np.random.default_rng(1).normal(size=(2, 2, 4))
    alpha = sb.Schedule([0.1, 0.2])
    (block,) = Learners(sb.GES(0.5).form, alpha, alpha, theta, omega, 1e3).blocks
    block._trace.values[[1, 3]], block._trace.touched[:2] = [2.0, -1.0], [3, 1]
    block._trace.n_touched[0] = 2
    lanes = block._lanes
    lanes.F_theta[:2], lanes.F[:2], lanes.s[:2] = [0.5, 0.25], [3.0, -1.0], [1.0, 0.5]
    g = np.array([0.0, 2.0, 0.0, -1.0])
    np.testing.assert_allclose(block.theta(), theta + np.outer([0.5, 0.25], g))
    np.testing.assert_allclose(block.omega(), [omega[0] + 3 * g, 0.5 * (omega[1] - g)])
