"""What sampling converges to is what the exact system says."""

import itertools

import numba
import numpy as np
import pytest

import saddleback as sb
from helpers import problem_for, rule_named, trace_radius
from saddleback import System, learn, problems, sample
from saddleback.engine import Streamer
from saddleback.rules import NAMED, terms

GRADIENT = ["GES", "GQ", "ABQ", "GTB", "GRetrace", "GTD", "GTD2", "TDC", "TDRC"]


@numba.njit
def batch_sums(here, following, reward, discount, decay, weight, phi, b, batches):
    """Sums of e(γ'b − φ)ᵀ and R e, in equal batches of consecutive steps."""
    p = phi.shape[1]
    size = len(here) // batches
    sums = np.zeros((batches, p, p + 1))
    e = np.zeros(p)
    for t in range(size * batches):
        for i in range(p):
            e[i] = decay[t] * e[i] + weight[t] * phi[here[t], i]
        for i in range(p):
            for j in range(p):
                sums[t // size, i, j] += e[i] * (discount[t] * b[following[t], j] - phi[here[t], j])
            sums[t // size, i, p] += e[i] * reward[t]
    return sums / size


@pytest.mark.parametrize("termination", [0.0, 0.1])
@pytest.mark.parametrize("seed", [31, 32, 33])
@pytest.mark.parametrize("name", list(NAMED))
def test_long_run_averages_are_the_exact_system(name, seed, termination):
    problem = problem_for(name, seed=seed, termination=termination, off_policy=0.5)
    rule = rule_named(name, 0.4)
    t = terms(rule, problem)
    assert trace_radius(problem, t.kappa) < 0.9
    stream = Streamer(t, problem.mdp.n_actions)(sample(problem, 400_000, rng=seed))
    means = batch_sums(*stream, t.phi, t.bootstrap, 40)
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    system = System.exact(problem, rule)
    exact = np.hstack([system.A, system.b[:, None]])
    assert (np.abs(means.mean(axis=0) - exact) < 5 * error).all()
    assert (5 * error < 0.2 * np.abs(exact).max()).all()


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
def test_online_expected_sarsa_does_what_stable_says(gamma, lam):
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
