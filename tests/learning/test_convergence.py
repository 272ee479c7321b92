"""Sampled estimates and learners converge to the exact system."""

import itertools

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import as_list, problem_for, rule_named, tables, trace_radius
from oracles import naive
from saddleback import System, learn, problems, sample
from saddleback.rules import NAMED, terms

pytestmark = pytest.mark.statistical

GRADIENT = ["GES", "GQ", "ABQ", "GTB", "GRetrace", "GTD", "GTD2", "GTD2Split", "TDC", "TDRC"]


@pytest.mark.parametrize("termination", [0.0, 0.1])
@pytest.mark.parametrize("seed", [31, 32, 33])
@pytest.mark.parametrize("name", list(NAMED))
def test_long_run_averages_are_the_exact_system(name, seed, termination):
    problem = problem_for(name, seed=seed, termination=termination, off_policy=0.5)
    rule = rule_named(name, 0.4)
    t = terms(rule, problem)
    assert trace_radius(problem, t.kappa) < 0.9
    system = System.exact(problem, rule)
    estimate = System.estimate(problem, rule, steps=400_000, rng=seed, batches=40)
    for name in ("A", "b", "M"):
        exact, error = getattr(system, name), getattr(estimate.errors, name)
        assert (np.abs(getattr(estimate, name) - exact) < 5 * error).all(), name
        assert (5 * error < 0.2 * np.abs(exact).max()).all(), name


def well_posed(name):
    """Problems, by seed from 40, on which 10⁶ steps can be enough for 5 %.

    The time a gradient rule needs grows with the square of 1/σ_min(A), and its noise does not
    shrink with the fixed point, so neither may be too near zero.
    """
    for seed in itertools.count(40):
        problem = problem_for(name, seed=seed, off_policy=0.5, gamma=0.8)
        system = System.exact(problem, rule_named(name, 0.4))
        if np.linalg.svd(system.A)[1][-1] > 0.2 and np.linalg.norm(system.fixed_point) > 0.5:
            yield seed, problem


@pytest.mark.parametrize("name", GRADIENT)
def test_gradient_rules_reach_their_fixed_point(name):
    rule = rule_named(name, 0.4)
    for seed, problem in itertools.islice(well_posed(name), 2):
        system = System.exact(problem, rule)
        assert trace_radius(problem, terms(rule, problem).kappa) < 1
        run = learn(
            rule,
            problem,
            alpha=sb.inverse_sqrt(0.1),
            beta=sb.inverse_sqrt(1.0),
            steps=10**6,
            rng=seed,
            record=10**6,
        )
        star = system.fixed_point
        assert run.ok
        assert np.linalg.norm(run.theta - star) < 0.05 * np.linalg.norm(star), seed


@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.0), (0.95, 0.0), (0.9, 0.4), (0.95, 0.4)])
def test_online_expected_sarsa_converges_iff_stable(gamma, lam):
    problem = problems.two_state(gamma, rewards=[[1, -1], [0.5, 2]])
    rule = sb.ExpectedSarsa(lam)
    system = System.exact(problem, rule)
    run = learn(rule, problem, alpha=0.003, steps=10**6, rng=1, record=10**6)
    if system.stable:
        assert run.ok
        assert np.linalg.norm(run.theta - system.fixed_point) < 0.1 * np.linalg.norm(
            system.fixed_point
        )
    else:
        assert run.outcome == f"diverged at step {run.diverged_at}"
    assert system.stable == (gamma < 5 / (6 - lam))


def test_offline_update_follows_its_expectation():
    """The sampled off-line update drifts as θ ← θ + α(Aθ + b), to a small-step error."""
    problem = problems.two_state(0.8, rewards=[[1, -1], [0.5, 2]])
    rule = sb.ExpectedSarsa(0.5)
    system = System.exact(problem, rule)
    run = sb.learn_offline(rule, problem, alpha=0.001, steps=200_000, horizon=40, rng=2)
    np.testing.assert_allclose(run.theta, system.fixed_point, rtol=0.1)


@pytest.mark.parametrize("name", ["GES", "TDRC", "ExpectedSarsa"])
def test_postponed_sums_do_not_drift_over_50_000_steps(name):
    """Postponed sums do not drift: ρ is 10, 0.9 or 0, and the stream never resets."""
    given = problem_for(name, seed=30, actions=3)
    states = given.mdp.n_states
    problem = sb.Problem(
        given.mdp, given.features, target=[[0.5, 0.5, 0.0]] * states,
        behaviour=[[0.05, 0.55, 0.4]] * states,
    )  # fmt: skip
    experience = sample(problem, 50_000, rng=6)
    theta = np.ones(problem.p)
    run = learn(
        rule_named(name, 0.5), problem, alpha=0.0005, beta=0.002, experience=experience,
        theta0=theta, bound=1e300,
    )  # fmt: skip
    expected = naive.learn(
        name, 0.5, *tables(problem), as_list(experience), lambda t: 0.0005, lambda t: 0.002,
        theta, np.zeros(problem.p),
    )  # fmt: skip
    for actual, exact in zip((run.theta, run.omega), expected, strict=True):
        assert np.linalg.norm(actual - exact) <= 2e-11 * np.linalg.norm(exact)
