"""The second pass: TD errors, influence of episodes, and the adjoint solve."""

from __future__ import annotations

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    FOURIER,
    always,
    target,
)
from helpers.intervals import sandwich, score_episodes
from helpers.logs import mixed
from saddleback.log import as_target
from saddleback.ope.lstd_solve import FeatureSpan
from saddleback.ope.sandwich import interval_from_scores


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [1 << 16, 4])
def test_discounted_td_errors_equal_a_loop_over_rows(segment):
    """Σγ^tδ_t of each episode, by a loop over the rows, for a target that is not the logged one."""
    data, gamma = mixed(1), 0.8
    log = sb.Log(data, segment=segment)
    sums = sb.Statistics.of(log, sb.GRetrace(0.5), target, features=FOURIER, gamma=gamma)
    name = sums.setting.targets[0]
    seen = []
    (scored,) = score_episodes(
        log, sums, [as_target(target, log, name)], features=FOURIER, rule=sb.GRetrace(0.5),
        ridge=0.0, on_deltas=lambda batch, deltas: seen.append(deltas),
    )  # fmt: skip
    theta = scored.theta.reshape(-1, 3)
    obs = np.column_stack([data["obs_0"], data["obs_1"]])
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    ids = data["episode_id"]
    expected, deltas, first = [], [], []
    for episode in dict.fromkeys(ids.tolist()):
        rows, total = np.flatnonzero(ids == episode), 0.0
        first.append(float(target(obs[rows[:1]])[0] @ (FOURIER(obs[rows[:1]])[0] @ theta)))
        for t, row in enumerate(rows):
            ahead = 0.0
            if row == rows[-1] and not data["terminated"][row]:
                if not data["truncated"][row]:
                    continue  # the next state is unknown
                ahead = target(after[row][None])[0] @ (FOURIER(after[row][None])[0] @ theta)
            elif row != rows[-1]:
                ahead = target(obs[row + 1][None])[0] @ (FOURIER(obs[row + 1][None])[0] @ theta)
            own = FOURIER(obs[row][None])[0] @ theta[:, data["action"][row]]
            deltas.append(data["reward"][row] + gamma * ahead - own)
            total += gamma**t * deltas[-1]
        expected.append(total)
    np.testing.assert_allclose(scored.td_error_return, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.concatenate(seen), deltas, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scored.first, first, rtol=1e-9, atol=1e-9)


def test_intervals_of_an_evaluation_are_those_of_the_sandwich():
    log = sb.Log(mixed(1))
    rule = sb.GRetrace(0.5)
    targets = {"one": target, "other": always(0.2, 0.3, 0.5)}
    result = sb.evaluate(log, targets, features=FOURIER, gamma=0.8, methods=())
    sums = sb.Statistics.of(log, rule, targets, features=FOURIER, gamma=0.8)
    expected = sandwich(log, sums, targets, features=FOURIER)
    for interval, diagnosis, estimate in zip(
        expected, result.diagnoses, result.estimates, strict=True
    ):
        for name in ("value", "low", "high", "error"):
            assert getattr(diagnosis.interval, name) == pytest.approx(
                getattr(interval, name), rel=1e-12
            )
        assert diagnosis.interval.n == interval.n
        assert (estimate.low, estimate.high) == (diagnosis.interval.low, diagnosis.interval.high)


def test_scores_of_several_targets_equal_one_by_one():
    log = sb.Log(mixed(2))
    rule, targets = sb.GES(0.4), {"one": target, "other": always(0.2, 0.3, 0.5)}
    sums = sb.Statistics.of(log, rule, targets, features=FOURIER, gamma=0.8)
    policies = [as_target(policy, log, name) for name, policy in targets.items()]
    options = {"features": FOURIER, "rule": rule, "ridge": 1e-3}
    both = score_episodes(log, sums, policies, **options)
    for policy, scored in zip(policies, both, strict=True):
        (single,) = score_episodes(log, sums, [policy], **options)
        np.testing.assert_array_equal(single.influence, scored.influence)
        assert interval_from_scores(single) == interval_from_scores(scored)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_the_adjoint_solves_the_transposed_equations(ridge):
    rng = np.random.default_rng(0)
    root, A, x = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)
    M = root @ root.T
    factorised = FeatureSpan(M).factor(A, ridge)
    left = A - ridge * np.diag(np.diag(M))
    np.testing.assert_allclose(left.T @ factorised.adjoint(x), x, atol=1e-9)
    np.testing.assert_allclose(left @ factorised.solve(x).theta, -x, atol=1e-9)


def test_the_adjoint_of_a_singular_system_has_minimum_norm():
    A = np.array([[1.0, 2.0], [2.0, 4.0]]) @ np.diag([1.0, 3.0])
    factorised = FeatureSpan(np.eye(2)).factor(A)
    assert not factorised.unique
    x = A.T @ [1.0, 1.0]
    np.testing.assert_allclose(factorised.adjoint(x), np.linalg.pinv(A.T) @ x, atol=1e-9)
