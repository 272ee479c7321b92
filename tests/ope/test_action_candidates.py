"""Continuous actions: candidate features by their rules, coverage, and calibration of densities."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import saddleback as sb
from helpers.linear_quadratic import NEW, simulate
from saddleback.features.action_distribution import GaussianActions
from saddleback.features.standardised import median_distance
from saddleback.features.state_action import JointCustom, JointMonomials, JointScaling
from saddleback.log.continuous_targets import as_continuous_targets
from saddleback.ope import action_candidates as module
from saddleback.ope import action_evidence, density_weights
from saddleback.ope.action_candidates import action_candidates
from saddleback.ope.action_evidence import density_calibration, outside_logged
from saddleback.ope.candidates import GIVEN, HISTORY, OBSERVATION, STEP, views
from saddleback.ope.density_weights import BANDWIDTHS, DensityTarget, choose_bandwidth, is_smooth
from saddleback.ope.episode_sample import sample_episodes
from saddleback.policies import Gaussian

SMALL = np.array([[0.1, 0.02], [0.02, 0.15]])


@pytest.fixture(scope="module")
def target():
    return as_continuous_targets({"new": Gaussian(lambda x: x @ NEW.T, SMALL)}, data())[0]


def data():
    return sb.Log(simulate(12, 4))


@pytest.fixture(scope="module")
def sample(target):
    return sample_episodes(data(), [target], 10_000, None)[0]


def combinations(entries, degree):
    """Return the number of monomials of some entries up to a degree."""
    ranges = np.indices((degree + 1,) * entries).reshape(entries, -1)
    return int((ranges.sum(axis=0) <= degree).sum())


def names_by_rule(view, actions, thorough, limit):
    """Return the names of the bases of a view, as documented, with their sizes and seeds."""
    scaling = JointScaling.of(view.before, actions)
    x, a = scaling.states(view.before), scaling.actions(actions)
    d, k, observed = x.shape[1], a.shape[1], view.name == OBSERVATION
    names = []
    for degree, name in enumerate(("constant", "linear", "quadratic", "cubic")):
        allowed = observed or (degree == 1 if view.name == HISTORY else degree in (1, 2))
        size = combinations(d + k, degree)
        if allowed and size <= limit:
            names.append((name, size, None))
    width = median_distance(np.column_stack([x, a]))
    waves = [(300 if thorough else 100, f) for f in ((0.5, 1, 2, 4) if observed else (1, 2))]
    waves += [(100, 1), (100, 4)] if thorough and observed else []
    for seed, (size, factor) in enumerate(waves):
        count = min(size, limit - 1 - d - k)
        if count >= 8:
            name = f"random Fourier {count}, bandwidth {width * factor:.2g}"
            names.append((name, 1 + d + k + count, 5 + seed))
    width = median_distance(x)
    for seed, factor in enumerate((0.25, 0.5, 1, 2) if observed else (0.5, 1)):
        count = min(300, limit // (1 + k) - 1 - d)
        if count >= 8:
            name = f"random Fourier {count} by action, bandwidth {width * factor:.2g}"
            names.append((name, (1 + d + count) * (1 + k), 5 + seed))
    return names


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("most", [600, 120, 60, 40, 20])
def test_bases_are_those_of_the_rules(monkeypatch, sample, target, thorough, most):
    monkeypatch.setattr(module, "MAX_FEATURES", most)
    bases = action_candidates(sample, None, thorough, target, seed=5)
    limit = most if thorough else most // 4
    for view in views(sample):
        own = [basis for basis in bases if basis.view.name == view.name]
        expected = names_by_rule(view, sample.action_values, thorough, limit)
        named = [
            (basis.name, basis.features.size, getattr(basis.features, "seed", None))
            for basis in own
        ]
        assert named == expected
        for basis in own:
            assert basis.is_smooth == basis.name.startswith("random Fourier")


def test_given_features_come_first_with_a_constant(sample, target):
    custom = JointCustom(lambda states, actions: states[:, :1] * actions[:, :1], 1)
    first = action_candidates(sample, custom, False, target)[0]
    assert (first.name, first.view.name) == ("given", GIVEN)
    product = sample.states[:4, 0] * sample.action_values[:4, 0]
    assert np.array_equal(first.before(np.arange(4)), np.column_stack([np.ones(4), product]))
    assert first.features.size == 2
    monomials = JointMonomials(JointScaling.of(sample.states, sample.action_values), 1)
    assert module._with_constant(monomials) is monomials


def test_expectations_are_those_of_the_target(sample, target):
    """Of linear features they are those of its mean action."""
    bases = action_candidates(sample, None, False, target)
    basis = next(one for one in bases if one.name == "linear" and one.view.name == STEP)
    rows = np.array([3, 0, 7])
    after, start = sample.next_states @ NEW.T, sample.starts @ NEW.T
    expected = basis.features(basis.view.after[rows], after[rows])
    np.testing.assert_allclose(basis.after(rows), expected, atol=1e-9)
    expected = basis.features(basis.view.start, start)
    np.testing.assert_allclose(basis.start(), expected, atol=1e-9)


# Coverage and calibration.


def test_actions_are_outside_beyond_a_tenth_of_the_range():
    logged = np.array([[0.0, 5.0], [2.0, 6.0], [1.0, 5.5]])
    for column, edges in enumerate([(-0.2, 2.2), (4.9, 6.1)]):
        for edge, step in zip(edges, (-1e-9, 1e-9), strict=True):
            actions = np.tile([1.0, 5.5], (2, 1))
            actions[0, column] = edge - step
            assert outside_logged(actions, logged) == 0.0
            actions[0, column] = edge + step
            assert outside_logged(actions, logged) == 0.5
    assert outside_logged(np.array([[9.0, 9.0], [1.0, 5.5]]), logged) == 0.5


def calibrated(n=600, wrong=1.0, seed=0, dimensions=1):
    """Return a sample of noisy actions, with densities that are wrong by a factor."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, dimensions))
    noise = rng.normal(size=n)
    return SimpleNamespace(
        states=states, action_values=np.column_stack([states[:, 0] + noise, np.full(n, 3.0)]),
        propensities=wrong * stats.norm.pdf(noise), episode=np.arange(n) // 6,
    )  # fmt: skip


@pytest.mark.parametrize("wrong", [1.0, 1.12, 0.5, 2.0, 9.0])
def test_densities_are_compared_with_those_of_a_regression(wrong):
    """Means of x = g/μ − 1 by episodes, with g of half the variance of a quadratic fit."""
    sample = calibrated(wrong=wrong)
    s, a = sample.states[:, 0], sample.action_values[:, 0]
    phi = np.column_stack([np.ones(len(s)), s, s**2])
    mean = phi @ np.linalg.solve(phi.T @ phi, phi.T @ a)
    variance = 0.5 * ((a - mean) ** 2).mean()
    g = stats.norm.pdf(a, mean, np.sqrt(variance))
    x = g / sample.propensities - 1
    sums = np.array([x[sample.episode == e].sum() for e in range(100)])
    z = abs(x.sum()) / np.sqrt((sums**2).sum())
    share = min(1.0, abs(x.mean()))
    actual = density_calibration(sample)
    assert actual[0] == pytest.approx(z, rel=1e-6)
    assert actual[1] == pytest.approx(share if z > 5 and share > 0.1 else 0.0, rel=1e-6)
    assert (actual[1] > 0) == (wrong in (0.5, 2.0, 9.0))


def test_actions_without_noise_have_no_density():
    sample = calibrated()
    both = np.column_stack([sample.action_values[:, 0], sample.states[:, 0] + 1.0])
    exact = SimpleNamespace(**vars(sample) | {"action_values": both})
    assert density_calibration(exact) == (0.0, 0.0)
    constant = SimpleNamespace(**vars(sample) | {"action_values": np.ones((600, 1))})
    assert density_calibration(constant) == (0.0, 0.0)
    for actions in (2.0 * sample.states, np.column_stack([sample.states, -sample.states])):
        linear = {"action_values": actions, "propensities": np.ones(600)}
        assert density_calibration(SimpleNamespace(**vars(sample) | linear)) == (0.0, 0.0)


@pytest.mark.parametrize(("dimensions", "degree"), [(20, 2), (21, 1)])
def test_many_observations_are_fitted_by_lines(monkeypatch, dimensions, degree):
    seen = []
    monomials = action_evidence.Monomials

    def spied(scaling, own):
        seen.append(own)
        return monomials(scaling, 1)

    monkeypatch.setattr(action_evidence, "Monomials", spied)
    density_calibration(calibrated(60, dimensions=dimensions))
    assert seen == [degree]


def test_policies_are_described_by_their_actions(target):
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    actions[:, 1] = np.where(np.arange(300) % 2, 3.0, 1.0)
    summary = action_evidence.describe_actions(target, states, actions, ("dose", "rate"))
    assert summary.description.endswith("; Gaussian")
    assert "rate 2 ± 1 (SD)" in summary.description.replace("2.0", "2").replace("1.0", "1")
    assert (summary.mass, summary.entropy, summary.greedy) == ({}, 0.0, 0.0)


def test_coverage_counts_logged_actions_of_both_columns(sample, target):
    """The parts of the columns have the rows of the log in them."""
    scaling = JointScaling.of(sample.states, sample.action_values)
    phi = JointMonomials(scaling, 1)
    features = phi(sample.states, sample.action_values)
    M = features.T @ features
    span = SimpleNamespace(
        inverse=np.linalg.inv(M / 48), null_projector=np.zeros_like(M)
    )  # fmt: skip
    setting = SimpleNamespace(values="state", shared=False)
    sums = SimpleNamespace(M=M, steps=np.array([48]), span=span, setting=setting)
    states, actions = sample.states[:9], 3 * sample.action_values[:9]
    names = ("x", "y", "u", "v")
    actual = action_evidence.action_coverage(phi, sums, sample, states, actions, names)
    points = phi(states, actions)
    rows = [1 / (point @ np.linalg.solve(M, point)) for point in points]
    assert actual.coverage == pytest.approx(np.mean(np.array(rows) >= 10))
    assert actual.rows == pytest.approx(1 / np.mean([min(1 / one, 1) for one in rows]))
    assert {part.column for part in actual.parts} == set(names)
    assert actual.action == ""
    assert all(0 <= part.rows <= 48 for part in actual.parts)
    assert sum(part.share for part in actual.parts) == pytest.approx(4.0)


# Densities and kernels.


def test_kernels_add_their_variance_to_that_of_the_target(sample, target):
    smoothed = DensityTarget.of(target, "one", (0.5, 2.0))
    states, actions = sample.states[:5], sample.action_values[:5]
    actual = smoothed.log_density(states, actions)
    expected = [
        stats.multivariate_normal.logpdf(a, s @ NEW.T, SMALL + np.diag([0.25, 4.0]))
        for s, a in zip(states, actions, strict=True)
    ]
    assert actual == pytest.approx(expected)
    assert (smoothed.name, DensityTarget.of(target, "two").bandwidths) == ("one", ())


def test_targets_are_smooth_if_no_covariance_is_singular():
    scale = np.array([10.0, 0.1])

    def target(*variances, has_density=True):
        covariance = np.array([np.diag(pair) for pair in variances])
        actions = GaussianActions(np.zeros((len(variances), 2)), covariance)
        return SimpleNamespace(has_density=has_density, actions=lambda states: actions)

    assert is_smooth(target((1.0, 1.0), (1.01e-6, 1.0)), None, scale)
    assert not is_smooth(target((1.0, 1.0), (0.99e-6, 1.0)), None, scale)
    assert not is_smooth(target((1.0, 0.99e-10)), None, scale)
    assert is_smooth(target((1.0, 1.01e-10)), None, scale)
    assert not is_smooth(target((1.0, 1.0), has_density=False), None, scale)
    drawn = SimpleNamespace(has_density=True, actions=lambda states: None)
    assert is_smooth(drawn, None, scale)


def test_bandwidths_are_six_from_a_twentieth_to_one_and_six_tenths():
    ratio = 32 ** (1 / 5)
    assert pytest.approx([0.05 * ratio**k for k in range(6)]) == BANDWIDTHS


def test_half_widths_of_small_bandwidths_are_at_least_those_of_larger_ones(monkeypatch):
    calls = []

    def chosen(values, widths):
        calls.append((values.tolist(), widths.tolist()))
        return 1

    monkeypatch.setattr(density_weights, "slope", chosen)

    def candidate(value, width):
        one = SimpleNamespace(value=value, low=value - width, high=value + width)
        return SimpleNamespace(estimate={"PDWIS": one}.__getitem__)

    pairs = [(np.nan, 1.0), (1.0, 2.0), (2.0, np.inf), (3.0, 5.0), (4.0, 1.0)]
    assert choose_bandwidth([candidate(*pair) for pair in pairs]) == 3
    assert calls == [([1.0, 3.0, 4.0], [5.0, 5.0, 1.0])]
    assert choose_bandwidth([candidate(*pair) for pair in pairs[:1] * 3]) == 2
