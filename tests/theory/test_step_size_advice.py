"""Advice on step sizes, against grids of step sizes."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import rule_named
from saddleback import System, iterate, learn, mean_square, problems, step_sizes, theorem2
from saddleback.problem import Problem
from saddleback.theory import MeanStability, step_size_advice
from saddleback.theory.noise_chain import noise_chain


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_advice_comes_near_the_best_of_a_grid(seed):
    """By exact expected errors, over 121 pairs, at λ = 0."""
    problem, rule, steps = problems.random_mdp(0.9, rng=seed), sb.GES(0.0), 2000
    advice = step_sizes(problem, rule, steps=steps)
    alphas, ratios = 2.0 ** -np.arange(1, 12), 2.0 ** np.arange(-5, 6)
    from saddleback.theory.moment_model import of_chain

    model = of_chain(noise_chain(problem, rule))
    best = min(model.error(a, a * r, steps) for a in alphas for r in ratios)
    assert advice.error <= 1.02 * best
    np.testing.assert_allclose(
        advice.error,
        mean_square(problem, rule, alpha=advice.alpha, beta=advice.beta).curve(steps),
        rtol=1e-8,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GES", "GQ", "ExpectedSarsa"])
def test_advice_without_a_budget_is_stable(name):
    problem = problems.random_mdp(0.9, rng=1)
    advice = step_sizes(problem, rule_named(name, 0.2))
    assert advice.error is None
    assert mean_square(
        problem, rule_named(name, 0.2), alpha=advice.alpha, beta=advice.beta or None
    ).stable


@pytest.mark.slow
def test_advice_by_the_other_methods():
    problem = problems.random_mdp(0.9, rng=1)
    system = System.exact(problem, sb.GES(0.0))
    assert step_sizes(system, method="mean").radius == MeanStability(system).best().radius
    constants = theorem2(system)
    assert step_sizes(system, method="theorem2").alpha == constants.alpha
    estimated = System.estimate(
        problem, sb.GES(0.0), steps=200_000, rng=0, batches=200, keep_batches=True
    )
    one, two = step_sizes(estimated, steps=10_000), step_sizes(problem, sb.GES(0.0), steps=10_000)
    exact = mean_square(problem, sb.GES(0.0), alpha=one.alpha, beta=one.beta).curve(10_000)
    assert exact <= 1.3 * two.error


@pytest.mark.slow
def test_missing_step_sizes_are_advised():
    problem = problems.random_mdp(0.9, rng=1)
    advice = step_sizes(problem, sb.GES(0.0), steps=500)
    run = learn(sb.GES(0.0), problem, steps=500, rng=0)
    assert run.alpha == advice.alpha
    assert run.beta == advice.beta
    system = System.exact(problem, sb.GES(0.0))
    fast = iterate(system, steps=400)
    np.testing.assert_allclose(fast.theta, system.fixed_point, atol=1e-6)


def test_without_rewards_weights_start_at_one():
    problem = problems.two_state(gamma=0.9)
    advice = step_sizes(problem, sb.GES(0.0), steps=1000)
    result = mean_square(problem, sb.GES(0.0), alpha=advice.alpha, beta=advice.beta)
    np.testing.assert_allclose(result.curve(1000, theta0=1.0), advice.error, rtol=1e-8)


@pytest.mark.slow
def test_advice_for_user_streams():
    """From the batches of the stream itself; close to the advice for the problem."""
    problem, rule = problems.random_mdp(0.9, rng=1), sb.GES(0.0)
    t, seen = sb.rules.terms(rule, problem), sb.sample(problem, 50_000, rng=0)
    pairs = seen.states * problem.mdp.n_actions + seen.actions
    next_pairs = seen.next_states * problem.mdp.n_actions + seen.next_actions
    stream = sb.Stream.of(
        phi=t.phi[pairs], bootstrap=t.bootstrap[next_pairs], rewards=seen.rewards,
        discounts=seen.discounts, decay=0.0,
    )  # fmt: skip
    run = learn(rule, stream)
    exact = mean_square(problem, rule, alpha=float(run.alpha), beta=float(run.beta)).curve(50_000)
    assert exact <= 1.5 * step_sizes(problem, rule, steps=50_000).error


def test_advice_for_episodes():
    walk = problems.random_walk()
    run = learn(sb.TD(0.0), walk, episodes=50, rng=0)
    assert run.alpha == step_sizes(walk, sb.TD(0.0), steps=450).alpha  # nine steps to an episode


def test_the_widest_ratio_of_step_sizes_is_a_power_of_eight():
    """One state, γ near 1: the best β/α, (1 − γ)², lies beyond what the search admits."""
    one = np.ones((1, 1))
    problem = Problem(sb.FiniteMDP([[one[0]]], one, gamma=0.999), one[None], one, one)
    advice = step_sizes(problem, sb.GES(0.0))
    assert advice.beta / advice.alpha == pytest.approx(8.0**-4, rel=0.05)
    inside = step_sizes(
        Problem(sb.FiniteMDP([[one[0]]], one, gamma=0.9), one[None], one, one), sb.GES(0.0)
    )
    assert inside.beta / inside.alpha > 8.0**-3


@pytest.mark.parametrize("failures", [0, 3])
def test_steps_are_halved_until_they_are_stable(monkeypatch, failures):
    problem, rule = problems.two_state(0.5, [[1, -1], [0.5, 2]]), sb.GES(0.0)
    best, tried = step_sizes(problem, rule, steps=500), []

    def stable(model, noise, alpha, beta):
        tried.append((alpha, beta))
        return len(tried) > failures

    monkeypatch.setattr(step_size_advice, "stable", stable)
    advice = step_sizes(problem, rule, steps=500)
    expected = (best.alpha / 2**failures, best.beta / 2**failures)
    assert (advice.alpha, advice.beta) == tried[-1] == pytest.approx(expected)


def test_steps_that_are_never_stable_are_refused(monkeypatch):
    monkeypatch.setattr(step_size_advice, "stable", lambda *_: False)
    with pytest.raises(sb.errors.Undefined, match="no step sizes of GES"):
        step_sizes(problems.two_state(0.5, [[1, -1], [0.5, 2]]), sb.GES(0.0), steps=500)
