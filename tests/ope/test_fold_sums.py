"""Sums of a basis over each fold of a sample, and the penalty on its weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import target
from helpers.logs import columns
from saddleback.log.target_policies import as_targets
from saddleback.ope.episode_sample import sample_episodes
from saddleback.ope.fold_sums import FoldSums, Penalised, Rows


def chosen(observations):
    """A policy that is deterministic, or nearly so, but for a few observations."""
    pi = np.eye(3)[(observations[:, 0] > 0).astype(int) + (observations[:, 1] > 0.5)]
    return np.where(observations[:, :1] < -1.0, [[0.2, 0.5, 0.3]], pi)


@pytest.fixture(scope="module", params=[target, chosen], ids=["random", "deterministic"])
def sample(request):
    log = sb.Log(columns([3, 5, 2, 4, 6, 1, 4, 4, 2, 5, 3], "terminated"))
    return sample_episodes(log, as_targets({"new": request.param}, log), 10_000)[0]


def test_rows_are_sorted_by_fold_and_action(sample):
    rows = Rows.of(sample, "new", 0.9)
    keys = [
        (sample.episode[row] % 5, sample.actions[row], row) for row in range(len(sample.rewards))
    ]
    order = [row for *_, row in sorted(keys)]
    assert rows.order.tolist() == order
    assert rows.folds.tolist() == [fold for fold, *_ in sorted(keys)]
    assert rows.actions.tolist() == sample.actions[order].tolist()
    assert rows.rewards.tolist() == sample.rewards[order].tolist()
    for k, row in enumerate(order):
        expected = 0.9 * sample.next_pi["new"][row] * sample.continues[row]
        assert rows.weights[k] == pytest.approx(expected)
    assert rows.start_folds.tolist() == [e % 5 for e in range(11)]
    assert np.array_equal(rows.start_pi, sample.start_pi["new"])
    assert (rows.carried, rows.goals) == (None, None)


def test_shared_rows_are_those_of_one_action(sample):
    rows = Rows.shared(sample, "new", 0.9)
    order = sorted(range(len(sample.rewards)), key=lambda row: (sample.episode[row] % 5, row))
    assert rows.order.tolist() == order
    assert rows.folds.tolist() == [sample.episode[row] % 5 for row in order]
    assert rows.weights[:, 0] == pytest.approx(0.9 * sample.continues[order])
    assert not rows.actions.any()
    assert rows.rewards.tolist() == sample.rewards[order].tolist()
    assert rows.start_pi.tolist() == [[1.0]] * 11
    taken = sample.taken_pi("new")
    expected = [0.9 * taken[row] if sample.step[row] else 0.0 for row in order]
    assert rows.carried == pytest.approx(expected)
    continuous = replace(sample, action_values=np.zeros((len(order), 1)))
    assert Rows.shared(continuous, "new", 0.9).carried is None


def test_sums_of_a_fold_equal_those_of_its_rows(sample):
    """Row by row, with a feature of each action; traces may differ from the features."""
    rng = np.random.default_rng(0)
    n, E, K, m = len(sample.rewards), 11, 3, 2
    rows = Rows.of(sample, "new", 0.9)
    traces, before, after = rng.normal(size=(3, n, m))
    first, theta = rng.normal(size=(E, m)), rng.normal(size=(K * m, 4))
    for k in range(5):
        fold = FoldSums.of(k, traces, before, after, first, rows)
        own = np.flatnonzero(rows.folds == k)
        M, C, b = np.zeros((K, m, m)), np.zeros((K * m, K * m)), np.zeros(K * m)
        products = np.zeros((K, m, m))
        q, following = [], []
        for row in own:
            a = rows.actions[row]
            M[a] += np.outer(traces[row], before[row])
            e = np.kron(np.eye(K)[a], traces[row])
            expected_next = np.kron(rows.weights[row], after[row])
            C += np.outer(e, expected_next)
            b += rows.rewards[row] * e
            products[a] += np.outer(before[row], after[row])
            q.append(np.kron(np.eye(K)[a], before[row]) @ theta)
            following.append(expected_next @ theta)
        episodes = [e for e in range(E) if e % 5 == k]
        starts = np.array([np.kron(sample.start_pi["new"][e], first[e]) for e in episodes])
        expected = (M, C, b, starts.sum(axis=0))
        for one, other in zip(fold.sums, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fold.products(before, after), products, atol=1e-12)
        np.testing.assert_allclose(fold.of_actions(before, theta), q, atol=1e-12)
        cubes = theta.reshape(K * m, 2, 2)
        np.testing.assert_allclose(
            fold.of_actions(before, cubes), np.reshape(q, (-1, 2, 2)), atol=1e-12
        )
        np.testing.assert_allclose(
            fold.next_values(after, rows.weights, cubes), np.reshape(following, (-1, 2, 2)),
            atol=1e-12,
        )  # fmt: skip
        np.testing.assert_allclose(fold.starts(first, rows.start_pi), starts, rtol=1e-12)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("less", [False, True])
@pytest.mark.parametrize("K", [1, 3])
def test_penalties_are_those_of_mean_weights_and_of_differences(equal, less, K):
    """θᵀPθ written out: of means over actions, but for the constant, and of differences."""
    rng = np.random.default_rng(K)
    m, ridge, pooling = 4, 0.25, 7.0
    phi = rng.normal(size=(K, 9, m))
    M = np.array([one.T @ one for one in phi])
    L = rng.normal(size=(K * m, K * m)) if less else None
    penalised = Penalised(M, L, equal)
    matrix = penalised.matrix(ridge, pooling)
    squares = [sum((phi[a, :, i] ** 2).sum() for a in range(K)) / K for i in range(m)]
    squares = [squares[0]] * m if equal else squares
    trace = sum((phi**2).sum(axis=1).ravel())

    def energy(theta):
        theta = theta.reshape(K, m)
        total = sum(theta[a] @ M[a] @ theta[a] for a in range(K))
        total += 1e-9 * trace / (K * m) * (theta**2).sum()
        for i in range(m):
            mean = theta[:, i].mean()
            total += ridge * squares[i] * pooling * sum((theta[a, i] - mean) ** 2 for a in range(K))
            total += ridge * squares[i] * K * mean**2 * (i > 0)
        return total

    blocks = matrix + (0.0 if L is None else L)
    np.testing.assert_allclose(blocks, blocks.T, atol=1e-12)
    for theta in rng.normal(size=(5, K * m)):
        assert theta @ blocks @ theta == pytest.approx(energy(theta), rel=1e-11)
    second = penalised.matrix(ridge, pooling)
    matrix[:] = np.nan  # it may be overwritten
    np.testing.assert_allclose(second + (0.0 if L is None else L), blocks)


def test_features_that_are_never_active_have_a_small_ridge():
    M = np.zeros((2, 3, 3))
    M[0, 0, 0] = 6.0
    matrix = Penalised(M, None, False).matrix(0.0, 1.0)
    assert np.diag(matrix) == pytest.approx([6.0 + 1e-9, *[1e-9] * 5], rel=1e-12)
    nothing = Penalised(np.zeros((1, 2, 2)), None, False).matrix(0.0, 1.0)
    assert (np.diag(nothing) > 0).all()
