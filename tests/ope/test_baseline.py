"""The logged policy: its observed value and the self-check."""

from __future__ import annotations

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import (
    CELLS,
    FOURIER,
    discounted_returns,
    logged_baseline,
    rare_dose_log,
    table_log,
)
from helpers.logs import columns
from saddleback.features import Custom, OneHot
from saddleback.ope.baseline import Baseline


@pytest.mark.kernel
@pytest.mark.parametrize("segment", [1 << 16, 5, 1])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_returns_are_those_that_were_logged(segment, gamma):
    """Whatever the features, which are poor here, and however episodes come in parts."""
    log = sb.Log(columns([1, 7, 12, 3, 1, 30, 2, 6], "terminated"), segment=segment)
    baseline, _ = logged_baseline(log, FOURIER, gamma, sb.GES(0.3))
    np.testing.assert_allclose(
        baseline.interval.value + baseline.influence,
        discounted_returns(log, gamma),
        rtol=1e-9,
        atol=1e-9,
    )
    returns = discounted_returns(log, gamma)
    assert baseline.interval.value == pytest.approx(returns.mean())
    assert baseline.interval.error == pytest.approx(returns.std(ddof=1) / np.sqrt(8))
    assert baseline.self_check == pytest.approx(baseline.estimate - returns.mean())


@pytest.mark.kernel
def test_returns_of_truncated_episodes_are_bootstrapped():
    data = columns([3, 4, 2], ["terminated", "truncated", "truncated"])
    log, gamma = sb.Log(data), 0.9
    baseline, scored = logged_baseline(log, FOURIER, gamma, sb.GES(0.0))
    mu = np.column_stack([data[f"next_mu_{a}"] for a in range(3)])
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])
    returns = discounted_returns(log, gamma)
    for episode, (row, length) in enumerate([(6, 4), (8, 2)], start=1):
        phi = np.outer(FOURIER(after[row][None])[0], mu[row]).ravel()
        returns[episode] += gamma**length * phi @ scored.theta
    np.testing.assert_allclose(baseline.interval.value + baseline.influence, returns, rtol=1e-9)
    cut, _ = logged_baseline(log, FOURIER, gamma, sb.GES(0.0), cut=True)
    assert cut.interval.value == scored.value
    np.testing.assert_array_equal(cut.influence, scored.influence)


def test_the_self_check_is_exact_for_one_decision():
    """The residuals of least squares with a constant sum to zero."""
    baseline, _ = logged_baseline(rare_dose_log(n=500), CELLS, 0.0, sb.GES(0.0))
    assert baseline.self_check == pytest.approx(0.0, abs=1e-9)


def test_the_self_check_is_exact_with_lambda_one_and_time_in_the_state():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, 60)
    time = np.concatenate([np.arange(n) for n in lengths])
    log = table_log(
        time, rng.integers(0, 2, len(time)), rng.normal(size=len(time)), lengths, K=2
    )  # fmt: skip
    baseline, _ = logged_baseline(log, OneHot(7), 0.9, sb.GES(1.0))
    assert baseline.estimate == pytest.approx(discounted_returns(log, 0.9).mean(), rel=1e-9)
    assert baseline.self_check == pytest.approx(0.0, abs=1e-9)


def test_the_self_check_detects_features_that_confuse_states():
    """Only the first step pays, and the features are constant."""
    n = 300
    log = table_log(
        np.tile([0, 1, 1, 1], n), np.tile([0, 1], 2 * n), np.tile([1.0, 0, 0, 0], n), [4] * n
    )
    blind = Custom(lambda seen: np.ones((len(seen), 1)), 1)
    baseline, _ = logged_baseline(log, blind, 0.9, sb.GES(0.0))
    assert baseline.interval.value == pytest.approx(1.0)
    assert abs(baseline.self_check) > 0.1
    sharp, _ = logged_baseline(log, OneHot(2), 0.9, sb.GES(0.0))
    assert sharp.self_check == pytest.approx(0.0, abs=1e-9)


def test_a_self_check_counts_beyond_two_standard_errors():
    def gap(difference, error):
        return Baseline(None, np.zeros(1), 1.0, 0.0, difference, error).gap

    assert gap(-1.0, 0.3) == pytest.approx(0.4)
    assert gap(1.0, 0.6) == 0.0
    assert gap(None, None) is None
