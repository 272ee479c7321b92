"""Learners that diverge give up their lanes; nothing else changes."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import as_list, tables
from oracles import naive
from saddleback.engine import learner_batch

RULES = [sb.GES(0.9), sb.GQ(0.9), sb.ExpectedSarsa(0.9)]
PROBLEM = sb.problems.two_state(0.99, [[1, -1], [0.5, 2]])
ALPHA = np.geomspace(0.01, 3.0, 30)


def learned(monkeypatch, alpha, rows):
    """Return runs in chunks of 20 steps; with ``rows`` 0, diverged learners stay in their lanes."""
    monkeypatch.setattr(learner_batch, "ROWS", rows)
    monkeypatch.setattr("saddleback.engine.chunking.CHUNK", 20)
    return sb.learn(RULES, PROBLEM, alpha=alpha, beta=0.5, steps=400, rng=1, record=50, bound=1e3)


@pytest.mark.kernel
def test_dropping_diverged_learners_changes_no_bit(monkeypatch):
    for one, other in zip(
        learned(monkeypatch, ALPHA, 8), learned(monkeypatch, ALPHA, 0), strict=True
    ):
        assert len(np.unique(one.diverged_at[~one.ok] // 20)) > 3  # in several chunks
        assert one.ok.any()
        for name in ("theta", "omega", "diverged_at"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        for name, curve in one.curves.items():
            assert np.array_equal(curve, other.curves[name])


@pytest.mark.kernel
def test_learners_that_all_diverge_keep_their_last_weights(monkeypatch):
    blocks, drop = set(), learner_batch.Block._drop_diverged

    def observed(self, steps):
        drop(self, steps)
        blocks.add(self)

    monkeypatch.setattr(learner_batch.Block, "_drop_diverged", observed)
    together = learned(monkeypatch, np.array([2.0, 2.5, 3.0]), 8)
    assert all(len(stopped.learners) for block in blocks for stopped in block._stopped)
    singles = [learned(monkeypatch, alpha, 8) for alpha in (2.0, 2.5, 3.0)]
    for run, *single in zip(together, *singles, strict=True):
        assert not run.ok.any()
        assert np.array_equal(run.theta, [one.theta for one in single])
        assert np.isfinite(run.theta).all()


@pytest.mark.parametrize("pays", [True, False])
def test_lanes_are_as_many_as_learners_that_go_on(monkeypatch, pays):
    """Unless moving the weights takes longer than the steps that diverged learners idle."""
    widths, advance = {}, learner_batch.Block.advance

    def observed(self, stream, done):
        advance(self, stream, done)
        widths[self] = self._lanes.theta.shape[1]

    monkeypatch.setattr(learner_batch.Block, "advance", observed)
    runs = learned(monkeypatch, ALPHA, 8 if pays else 1e-3)
    expected = [-(-int(run.ok.sum()) // 8) * 8 if pays else 32 for run in runs]
    assert list(widths.values()) == expected
    assert not pays or max(expected) < 32


def test_equal_metrics_are_computed_once():
    system, calls = sb.System.exact(PROBLEM, RULES[0]), []

    class Counted:
        def mspbe(self, theta):
            calls.append(len(theta))
            return system.mspbe(theta)

    counted = Counted()
    metrics = {"own": counted.mspbe, "common": counted.mspbe, "other": system.mse_absolute}
    run = sb.learn(
        RULES[0], PROBLEM, alpha=ALPHA[:3], beta=0.5, steps=40, rng=1, record=20, metrics=metrics
    )
    assert calls == [3, 3, 3]
    assert np.array_equal(run.curves["own"], run.curves["common"])
    assert not np.array_equal(run.curves["own"], run.curves["other"])


@pytest.mark.kernel
def test_offline_divergence_is_recorded():
    problem = sb.problems.two_state(gamma=0.999)
    run = sb.learn_offline(
        sb.ExpectedSarsa(0.0), problem, alpha=[0.0, 0.1], steps=500, horizon=3, rng=0, theta0=1.0,
        bound=1.01,
    )  # fmt: skip
    assert run.ok.tolist() == [True, False]
    experience, first = as_list(sb.sample(problem, 502, rng=0)), int(run.diverged_at[1])

    def largest(updates):
        theta = naive.learn_offline(
            "ExpectedSarsa", 0.0, *tables(problem), experience, lambda t: 0.1, np.ones(problem.p),
            updates, 3,
        )  # fmt: skip
        return np.abs(theta).max()

    assert largest(first - 1) <= 1.01 < largest(first)
    assert np.abs(run.theta[1]).max() == pytest.approx(largest(first - 1), rel=1e-10)
