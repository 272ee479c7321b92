"""Numbers that must come out, each with its source."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import trace_radius
from saddleback import System, iterate, problems
from saddleback.rules import terms


def two_state_system(rule, gamma=0.99):
    return System.exact(problems.two_state(gamma=gamma), rule)


# Example 1 of the GES paper, corrected: Ξ = I/4.


@pytest.mark.parametrize("rule", [sb.GES, sb.GQ, sb.ExpectedSarsa])
@pytest.mark.parametrize("gamma", [0.3, 0.9, 0.99, 0.999])
@pytest.mark.parametrize("lam", [0.0, 0.5, 0.99])
def test_two_state_matrix(rule, gamma, lam):
    system = two_state_system(rule(lam), gamma)
    np.testing.assert_allclose(problems.two_state().weights, 0.25)
    a11 = (6 * gamma - gamma * lam - 5) / (4 * (1 - gamma * lam))
    a21 = 0.75 * gamma * (1 - lam) * (1 + gamma * lam) / (1 - gamma * lam)
    np.testing.assert_allclose(system.A, [[a11, 0.0], [a21, -1.25]], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(sorted(system.spectrum.real), sorted([a11, -1.25]), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "lam", "a11"),
    [
        (sb.GES, 0.0, 0.235),
        (sb.GES, 0.5, 0.220297),
        (sb.GES, 0.99, -0.503769),
        (sb.GTB, 0.5, 0.230066),
        (sb.GTB, 0.99, 0.220585),
        (sb.GRetrace, 0.5, 0.230066),
        (sb.GRetrace, 0.99, 0.220585),
    ],
)
def test_two_state_first_entry(make, lam, a11):
    assert two_state_system(make(lam)).A[0, 0] == pytest.approx(a11, abs=5e-7)


@pytest.mark.parametrize("lam", [0.0, 0.2, 0.5, 0.8, 0.95])
def test_two_state_is_unstable_exactly_beyond_the_boundary(lam):
    for make, boundary in (
        (sb.GES, 5 / (6 - lam)),
        (sb.GQ, 5 / (6 - lam)),
        (sb.ExpectedSarsa, 5 / (6 - lam)),
        (sb.GTB, 5 / (6 - lam / 2)),
        (sb.GRetrace, 5 / (6 - lam / 2)),
    ):
        assert two_state_system(make(lam), boundary - 1e-6).stable
        if boundary + 1e-6 < 1:
            assert not two_state_system(make(lam), boundary + 1e-6).stable


def test_the_setting_of_the_example_in_the_paper_is_stable():
    assert two_state_system(sb.ExpectedSarsa(0.99), 0.99).stable


# Classic Baird, published with chapter 11 of Sutton & Barto (2018).

W0 = np.array([1, 1, 1, 1, 1, 1, 10, 1.0])


@pytest.fixture
def baird():
    return problems.baird(gamma=0.99, features="classic")


def test_baird_spectrum(baird):
    np.testing.assert_allclose(baird.weights, 1 / 7)
    system = System.exact(baird, sb.TD(0.0))
    expected = [0.239250464, 0.0221781072, 0.0, *[-0.571428571] * 5]
    np.testing.assert_allclose(system.spectrum, expected, atol=5e-10)
    assert system.deficient
    assert system.rank == 7
    assert not system.stable


def test_baird_expected_semi_gradient(baird):
    system = System.exact(baird, sb.TD(0.0))
    run = iterate(system, alpha=0.01, steps=1000, theta0=W0)
    np.testing.assert_allclose(run.theta[:6], 114.43371614, atol=5e-9)
    np.testing.assert_allclose(run.theta[6:], [6.85003034, 335.00120911], atol=5e-9)
    assert np.sqrt(system.mse_absolute(run.theta)) == pytest.approx(581.3551048617, abs=5e-11)


def test_baird_expected_tdc(baird):
    system = System.exact(baird, sb.TDC(0.0))
    run = iterate(system, alpha=0.005, beta=0.05, steps=1000, theta0=W0)
    np.testing.assert_allclose(run.theta[:6], 2.13531376, atol=5e-9)
    np.testing.assert_allclose(run.theta[6:], [6.62805133, -2.33795607], atol=5e-9)
    assert np.sqrt(system.mse_absolute(run.theta)) == pytest.approx(1.93546454, abs=5e-9)
    assert np.sqrt(2 * system.mspbe(run.theta)) == pytest.approx(0.00737856, abs=5e-9)


def test_the_papers_baird_is_tabular_in_disguise():
    problem = problems.baird()
    assert problem.Phi.shape == (14, 16)
    assert np.linalg.matrix_rank(problem.Phi) == 14
    system = System.exact(problem, sb.GES(0.0))
    assert (system.rank, system.deficient) == (14, True)
    assert system.stable
    assert "on the range" in system.stability.reason


# Boyan (2002): the weights of the 13-state chain; Sutton (1988): the random walk.


def test_boyan_weights():
    problem = problems.boyan_chain()
    np.testing.assert_allclose(problem.truth, -2.0 * np.arange(12, -1, -1), atol=1e-12)
    for rule in (sb.TD(0.0), sb.TD(0.7), sb.GTD2(0.3), sb.ETD(0.5)):
        system = System.exact(problem, rule)
        np.testing.assert_allclose((problem.Phi @ system.fixed_point)[:-1], problem.truth[:-1])
        np.testing.assert_allclose(system.fixed_point[:3], [-24, -16, -8], rtol=1e-9)


def test_random_walk_values_and_features():
    for features, p in (("tabular", 5), ("inverted", 5), ("dependent", 3)):
        problem = problems.random_walk(features=features)
        assert problem.p == p
        np.testing.assert_allclose(problem.truth[:5], np.arange(1, 6) / 6)
        np.testing.assert_allclose(np.linalg.norm(problem.features[:5], axis=1), 1.0)
    r = np.sqrt(0.5)
    np.testing.assert_allclose(
        problem.features[:5],
        [[1, 0, 0], [r, r, 0], [3**-0.5] * 3, [0, r, r], [0, 0, 1]],
    )
    inverted = problems.random_walk(features="inverted").features[:5]
    np.testing.assert_allclose(inverted, 0.5 * (1 - np.eye(5)))


# The λ ceiling of MATH: radius of γ²[pμκ²] reaches 1 at λ = 1/(γ√E[ρ²]).


@pytest.mark.parametrize(
    ("problem", "ceiling"), [(problems.two_state(), 0.714), (problems.baird(), 0.382)]
)
def test_trace_ceilings(problem, ceiling):
    below, above = (
        trace_radius(problem, terms(sb.GES(lam), problem).kappa)
        for lam in (ceiling - 5e-4, ceiling + 5e-4)
    )
    assert below < 1 < above
