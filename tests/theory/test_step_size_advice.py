"""Advice on step sizes, against grids of step sizes."""

from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import problem_for, rule_named
from saddleback import System, iterate, learn, mean_square, problems, step_sizes, theorem2
from saddleback.problem import Problem
from saddleback.theory import MeanStability, moment_model, step_size_advice
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


class Bowl:
    """A model with the smallest error at one pair of step sizes, and the fastest at another."""

    def __init__(self, best, fastest):
        self.best, self.fastest = best, fastest

    def error(self, alpha, beta, steps):
        return steps * np.exp(self._far(alpha, beta, self.best))

    def radius(self, alpha, beta):
        return 1.0 - 0.5 * np.exp(-self._far(alpha, beta, self.fastest))

    def _far(self, alpha, beta, centre):
        pairs = zip((alpha, beta), centre, strict=True)
        return sum(np.log(size / best) ** 2 if best else size for size, best in pairs) / 10


PAIRS = [(0.1, 0.003), (1e-4, 0.1), (0.003, 0.003)]


@pytest.mark.parametrize("pair", PAIRS)
def test_the_search_comes_to_the_smallest_error(pair):
    system, model = System.exact(problems.two_state(0.9), sb.GES(0.4)), Bowl(pair, (0.02, 0.05))
    advice = step_size_advice._search(model, system, None, 7)
    assert (advice.alpha, advice.beta) == pytest.approx(pair, rel=0.05)
    assert advice.error == model.error(advice.alpha, advice.beta, 7)
    assert advice.radius == model.radius(advice.alpha, advice.beta)
    independent = "(steps treated as independent, with the long-run noise covariance)."
    assert advice.reason == f"smallest expected error after 7 steps {independent}"
    fastest = step_size_advice._search(model, system, None, None)
    assert (fastest.alpha, fastest.beta) == pytest.approx((0.02, 0.05), rel=0.05)
    assert fastest.reason == f"fastest in mean square {independent}"
    assert fastest.error is None


def test_the_search_without_a_dual_variable():
    system = System.exact(problems.random_walk(), sb.TD(0.0))
    advice = step_size_advice._search(Bowl((0.07, 0.0), (0.02, 0.0)), system, None, 9)
    assert advice.alpha == pytest.approx(0.07, rel=0.05)
    assert advice.beta == 0.0


def test_a_better_model_refines_the_search(monkeypatch):
    system, exact = System.exact(problems.two_state(0.9), sb.GES(0.4)), Bowl(PAIRS[0], (0.1, 0.1))
    monkeypatch.setattr(step_size_advice, "_exact", lambda noise: exact)
    monkeypatch.setattr(step_size_advice, "stable", lambda model, *_: model is exact)
    for loss, words in ((0.034, "exact; 3% of the trace truncated"), (0.01, "exact")):
        noise = SimpleNamespace(truncation_loss=loss)
        advice = step_size_advice._search(Bowl((0.05, 0.005), (0.1, 0.1)), system, noise, 7)
        assert (advice.alpha, advice.beta) == pytest.approx(PAIRS[0], rel=0.05)
        assert advice.reason.endswith(f"({words}).")


@pytest.mark.parametrize(("radius", "square", "limit", "expected"), [
    (1.0, True, 100, False), (0.99, True, 8, True), (0.99, False, 8, False),
    (0.99, False, 7, True), (0.99, None, 8, True),
])  # fmt: skip
def test_stability_by_the_model_and_by_a_small_chain(monkeypatch, radius, square, limit, expected):
    """A chain of 2 nodes and n = 2 is consulted if its 2 · 2² moments are few."""

    class Square:
        def __init__(self, noise, alpha, beta):
            assert (alpha, beta) == (0.1, 0.2)
            if square is None:
                raise sb.errors.Undefined("too close to 1")
            self.stable = square

    monkeypatch.setattr(step_size_advice, "MeanSquare", Square)
    monkeypatch.setattr(step_size_advice, "MAX_CHECKED_MOMENTS", limit)
    noise = SimpleNamespace(weight=np.ones(2), n=2)
    model = SimpleNamespace(radius=lambda alpha, beta: radius)
    assert step_size_advice.stable(model, noise, 0.1, 0.2) == expected
    assert step_size_advice.stable(model, None, 0.1, 0.2) == (radius < 1)


def test_the_exact_model_is_used_if_it_is_small(monkeypatch):
    noise = noise_chain(problems.two_state(0.5, [[1, -1], [0.5, 2]]), sb.GES(0.0))
    moments = 2 * 15  # of two nodes, the upper triangle of 5 × 5 each
    monkeypatch.setattr(moment_model, "LARGEST", moments)
    assert step_size_advice._exact(noise).moments == moments
    monkeypatch.setattr(moment_model, "LARGEST", moments - 1)
    assert step_size_advice._exact(noise) is None
    assert step_size_advice._exact(None) is None


@pytest.mark.parametrize(("rule", "most", "moments", "nodes"), [
    (sb.GES(0.1), 9, 10_000, 9), (sb.GES(0.1), 50, 100, 6), (sb.GES(0.1), 50, 10, 2),
    (sb.ExpectedSarsa(0.1), 50, 100, 25),
])  # fmt: skip
def test_the_chain_has_as_many_nodes_as_can_be_afforded(monkeypatch, rule, most, moments, nodes):
    """Of n² moments each, n = 4 with ω and 2 without; at least one for each state."""
    monkeypatch.setattr(step_size_advice, "NODES", most)
    monkeypatch.setattr(step_size_advice, "MOMENTS", moments)
    monkeypatch.setattr(step_size_advice, "noise_chain", lambda problem, rule, count: count)
    assert step_size_advice.affordable_chain(problems.two_state(0.5), rule) == nodes


def test_an_emphasis_has_the_model_of_its_chain():
    problem = problem_for("ETD", 3, states=3, features=2, gamma=0.5, off_policy=0.2)
    noise = noise_chain(problem, sb.ETD(0.0), nodes=5)
    recurrent = len(noise.recurrent.weight)
    assert recurrent > 1
    assert step_size_advice.quick_model(problem, noise).moments == recurrent * 3 * 4 // 2
    plain = noise_chain(problem, sb.TD(0.0), nodes=5)
    assert step_size_advice.quick_model(problem, plain).moments == 3 * 4 // 2


def test_the_other_methods_state_their_source():
    system = System.exact(problems.two_state(0.5, [[1, -1], [0.5, 2]]), sb.GES(0.0))
    best, constants, mean = MeanStability(system).best(), theorem2(system), MeanStability(system)
    advice = step_sizes(system, method="mean")
    assert (advice.alpha, advice.beta, advice.radius) == best
    assert (advice.method, advice.error) == ("mean", None)
    advice = step_sizes(system, method="theorem2")
    assert (advice.alpha, advice.beta) == (constants.alpha, constants.beta)
    assert advice.radius == mean.radius(constants.alpha, constants.beta) < 1
    assert (advice.method, advice.error) == ("theorem2", None)


def test_no_step_is_advised_where_every_mean_diverges():
    system = System.exact(problems.two_state(gamma=0.999), sb.ExpectedSarsa(0.0))
    with pytest.raises(sb.errors.Undefined, match="diverges for every pair"):
        step_size_advice._search(Bowl((0.1, 0.0), (0.1, 0.0)), system, None, 5)
