"""The engine on a GPU against the engine on the CPU: `make gpu`, where there is one."""

import numpy as np
import pytest

import saddleback as sb
from helpers.device_cases import CASES, assert_same, compare
from saddleback import cuda


@pytest.fixture(autouse=True, scope="module")
def gpu():
    try:
        return cuda.current_device()
    except sb.errors.InvalidParameter as error:
        pytest.skip(f"not tested here: {error}")


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_the_cpu(name):
    for expected, run in compare(name):
        assert_same(expected, run)


def test_single_precision():
    for expected, run in compare("MountainCar, tiles", dtype="float32", alpha=1e-3, beta=1e-3):
        assert_same(expected, run, rtol=1e-4)


def test_a_long_run_of_many_learners_in_chunks():
    """More chunks than there are buffers, produced in threads, with learners that diverge."""
    car, alpha = sb.problems.mountain_car(), 2.0 ** -np.arange(11)[:, None]
    rules = [sb.GES(0.9), sb.GQ(0.9), sb.ExpectedSarsa(0.9)]
    options = dict(alpha=alpha, beta=alpha.T, episodes=600, runs=3, rng=0, record=200, threads=4)
    pairs = [sb.learn(rules, car, device=device, **options) for device in ("cpu", "cuda")]
    for expected, run in zip(*pairs, strict=True):
        assert_same(expected, run)
        assert expected.ok.any()
        assert not expected.ok.all()


def test_learners_that_do_not_fit_are_refused(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "memory", lambda: (10**6, 10**11))
    with pytest.raises(sb.errors.InvalidParameter, match="about 0 fit"):
        sb.learn(
            sb.GES(0.5), sb.problems.mountain_car(), alpha=0.1, beta=0.1, steps=9, device="cuda"
        )
