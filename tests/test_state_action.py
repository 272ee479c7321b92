"""Features of observation and continuous action, and their expectations over a policy's actions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from saddleback._user_functions import ImpureFunction
from saddleback.errors import InvalidParameter, InvalidShape
from saddleback.features.action_distribution import GaussianActions, SampledActions
from saddleback.features.state_action import (
    FourierByAction,
    JointCustom,
    JointFourier,
    JointMonomials,
    JointScaling,
)

pytestmark = pytest.mark.kernel

MAKERS = [
    lambda scaling: JointMonomials(scaling, 4),
    lambda scaling: JointFourier(scaling, 30, 2.0),
    lambda scaling: FourierByAction(scaling, 9, 2.0, degree=2),
]


def case(rng):
    """Features, states, and Gaussian actions of two correlated entries."""
    states, actions = rng.normal(size=(50, 3)), rng.normal(1.0, 2.0, size=(50, 2))
    scaling = JointScaling.of(states, actions)
    root = rng.normal(size=(50, 2, 2))
    gaussian = GaussianActions(actions, 0.3 * root @ root.transpose(0, 2, 1))
    return scaling, states, gaussian


@pytest.mark.parametrize("make", MAKERS, ids=["monomials", "Fourier", "Fourier by action"])
@pytest.mark.slow
def test_exact_expectations_agree_with_quadrature_and_random_draws(make):
    scaling, states, gaussian = case(np.random.default_rng(0))
    features = make(scaling)
    exact = features.expected(states, gaussian)
    quadrature = JointCustom(features, features.size).expected(states, gaussian)
    draws = gaussian.draws(np.random.default_rng(1), 20_000).points[:4]
    samples = features(np.repeat(states[:4], 20_000, axis=0), draws.reshape(-1, 2))
    samples = samples.reshape(4, 20_000, -1)
    error = samples.std(axis=1) / np.sqrt(20_000)
    assert np.allclose(exact, quadrature, rtol=1e-9, atol=1e-6)
    assert (np.abs(samples.mean(axis=1) - exact[:4]) <= 5 * error + 1e-9).all()


def test_actions_of_many_entries_are_drawn():
    rng = np.random.default_rng(0)
    features = JointCustom(lambda s, a: (a**2).sum(axis=1, keepdims=True), 1)
    gaussian = GaussianActions(np.zeros((4000, 3)), np.tile(np.eye(3), (4000, 1, 1)))
    values = features.expected(rng.normal(size=(4000, 1)), gaussian)
    assert values.std() > 0.1  # every state has draws of its own
    assert values.mean() == pytest.approx(3.0, abs=5 * np.sqrt(6.0 / 16 / 4000))


@pytest.mark.parametrize("make", MAKERS, ids=["monomials", "Fourier", "Fourier by action"])
def test_expectations_over_single_actions_are_the_features_themselves(make):
    scaling, states, gaussian = case(np.random.default_rng(2))
    features, actions = make(scaling), gaussian.mean
    certain = GaussianActions(actions, np.zeros((50, 2, 2)))
    sampled = SampledActions(actions[:, None], np.ones(1))
    for distribution in (certain, sampled):
        assert len(distribution) == 50
        np.testing.assert_allclose(
            features.expected(states, distribution), features(states, actions), atol=1e-12
        )
        rows = np.array([7, 3])
        np.testing.assert_allclose(
            features.expected(states[rows], distribution[rows]),
            features(states[rows], actions[rows]), atol=1e-12,
        )  # fmt: skip
    custom = JointCustom(features, features.size)
    np.testing.assert_allclose(custom.expected(states, certain), features(states, actions))


def test_an_entry_of_the_action_that_never_varies_is_dropped():
    states, actions = np.arange(4.0)[:, None], np.column_stack([np.arange(4.0), np.ones(4)])
    scaling = JointScaling.of(states, actions)
    assert scaling.sizes == (1, 1)
    sampled = SampledActions(actions[:, None], np.ones(1))
    np.testing.assert_array_equal(
        scaling.distribution(sampled).points[:, 0], scaling.actions(actions)
    )


def test_densities_are_those_of_scipy():
    _, _, gaussian = case(np.random.default_rng(3))
    actions = gaussian.mean + 0.3
    expected = [
        multivariate_normal(mean, covariance).logpdf(a)
        for mean, covariance, a in zip(gaussian.mean, gaussian.covariance, actions, strict=True)
    ]
    np.testing.assert_allclose(gaussian.log_density(actions), expected, rtol=1e-9)


def test_functions_of_the_user_are_checked():
    states, actions = np.ones((4, 2)), np.arange(4.0)[:, None]
    linear = JointCustom(lambda s, a: np.column_stack([s, a]), 3)
    linear.check_rows(states, actions)()
    assert linear(states, actions).tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 2], [1, 1, 3]]
    with pytest.raises(ImpureFunction):
        JointCustom(lambda s, a: a - a.mean(), 1).check_rows(states, actions)
    with pytest.raises(ImpureFunction):
        JointCustom(lambda s, a: np.add(a, 1.0, out=a), 1)(states, actions)
    with pytest.raises(InvalidShape, match=re.escape("must return [4, 2], got [4, 1]")):
        JointCustom(lambda s, a: a, 2)(states, actions)
    with pytest.raises(InvalidParameter, match="features failed: KeyError"):
        JointCustom(lambda s, a: {}["x"], 1)(states, actions)
    JointMonomials(JointScaling.of(states, actions), 1).check_rows(states, actions)()
