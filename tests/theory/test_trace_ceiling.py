"""The λ ceiling: known values, the recursion of E‖e‖², and estimates from logs."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import capped, problem_for
from saddleback import mean_square, problems, step_sizes
from saddleback.theory import lambda_ceiling, lambda_ceiling_of_log, trace_radius


def test_known_ceilings():
    np.testing.assert_allclose(
        lambda_ceiling(problems.two_state(0.99), sb.GES(0.1)), 0.714, atol=5e-4
    )
    np.testing.assert_allclose(lambda_ceiling(problems.baird(0.99), sb.GES(0.1)), 0.382, atol=5e-4)
    car = problems.mountain_car()
    np.testing.assert_allclose(lambda_ceiling(car, sb.GES(0.1)), 0.620, atol=5e-4)


def test_above_the_ceiling_the_second_moment_grows():
    """E‖e_t‖² by its own recursion, over many steps."""
    problem = problems.random_mdp(0.9, rng=5)
    ceiling = lambda_ceiling(problem, sb.GES(0.5))
    for lam, bounded in ((0.98 * ceiling, True), (1.02 * ceiling, False)):
        rule = sb.GES(min(lam, 1.0))
        assert (trace_radius(problem, rule) < 1) == bounded
        kappa = sb.rules.terms(rule, problem).kappa.reshape(problem.behaviour.shape)
        square = np.zeros(problem.mdp.n_states)
        sizes = []
        for _ in range(3000):
            gained = problem.behaviour * (kappa**2 * square[:, None] + problem.visits[:, None])
            square = problem.mdp.gamma**2 * np.einsum("sa,sat->t", gained, problem.mdp.P)
            sizes.append(square.sum())
        assert (sizes[-1] < 1.01 * sizes[-1000]) == bounded


def test_ceilings_from_logs():
    problem = problems.random_mdp(0.9, rng=5, off_policy=0.7)
    steps = sb.sample(problem, 300_000, rng=0)
    rho = problem.rho[steps.states, steps.actions]
    exact = lambda_ceiling(problem, sb.GES(0.5))
    seen = lambda_ceiling_of_log(rho, 0.9, states=steps.states, starts=steps.starts)
    np.testing.assert_allclose(seen, exact, rtol=0.02)
    np.testing.assert_allclose(lambda_ceiling_of_log(rho, 0.9), exact, rtol=0.15)


@pytest.mark.slow
def test_an_emphasis_has_its_own_ceiling():
    P = np.zeros((2, 2, 2))
    P[:, 0, 0] = P[:, 1, 1] = 1
    mdp = sb.FiniteMDP(P, np.zeros((2, 2)), gamma=0.95)
    problem = sb.Problem(mdp, [[1.0], [2.0]], [[0, 1]] * 2, [[0.5, 0.5]] * 2)
    assert trace_radius(problem, sb.ETD(0.0)) > 1
    assert lambda_ceiling(problem, sb.ETD(0.0)) == 0.0
    # E[ρ²] = 2: β² · 2 is the radius of a follow-on trace with a β of its own.
    np.testing.assert_allclose(trace_radius(problem, sb.ETD(0.0, beta=0.6)), 0.72)
    with pytest.raises(sb.errors.Undefined, match="above the λ ceiling"):
        mean_square(problem, sb.ETD(0.0), alpha=1e-4)
    assert (
        step_sizes(problem_for("ETD", 4, gamma=0.5, off_policy=0.2), sb.ETD(0.0), steps=100).alpha
        > 0
    )


def test_ceilings_by_hand():
    """Two states in turn: K = γ²[[0, a], [b, 0]] has the radius γ²√(ab)."""
    ratios, states = [2.0, 0.5, 1.0, 1.5, 3.0], [7, 9, 7, 9, 7]
    a, b = (2.0**2 + 1.0**2) / 3, (0.5**2 + 1.5**2) / 2  # the last step leads nowhere
    ceiling = lambda_ceiling_of_log(ratios, 0.9, states=states)
    assert ceiling == pytest.approx((0.81 * np.sqrt(a * b)) ** -0.5)
    # The second step begins an episode, so that the first leads nowhere either.
    starts = [True, True, False, False, False]
    ceiling = lambda_ceiling_of_log(ratios, 0.9, states=states, starts=starts)
    assert ceiling == pytest.approx((0.81 * np.sqrt(1 / 3 * b)) ** -0.5)
    plain = lambda_ceiling_of_log(ratios, 0.9)
    assert plain == pytest.approx((0.81 * np.mean(np.square(ratios))) ** -0.5)
    assert lambda_ceiling_of_log([0.0, 0.0], 0.9) == np.inf
    assert lambda_ceiling_of_log([1.0], 0.9, states=[0]) == np.inf
    with pytest.raises(sb.errors.InvalidShape, match="starts must have one entry for each of 5"):
        lambda_ceiling_of_log(ratios, 0.9, states=states, starts=[True])
    with pytest.raises(sb.errors.InvalidParameter, match="all must be >= 0"):
        lambda_ceiling_of_log([1.0, -0.5], 0.9)


def test_the_ceiling_of_a_simulation_is_that_of_its_worst_kind_of_state():
    car = problems.mountain_car()
    growth = [
        sum(m * (p / m) ** 2 for p, m in zip(*pair, strict=True) if m)
        for pair in zip(np.atleast_2d(car.target), np.atleast_2d(car.behaviour), strict=True)
    ]
    expected = car.gamma**2 * 0.3**2 * max(growth)
    assert trace_radius(car, sb.GES(0.3)) == pytest.approx(expected)
    # With capped products only λ and γ are left.
    assert trace_radius(car, capped(0.3, 1.5)) == pytest.approx((car.gamma * 0.3) ** 2)


def test_a_follow_on_trace_may_grow_faster():
    """E[ρ²] = 2: γ²·2 is the radius of the emphasis for every λ, β²·2 with a β of its own."""
    P = np.zeros((2, 2, 2))
    P[:, 0, 0] = P[:, 1, 1] = 1
    for gamma, beta, expected in ((0.95, None, 0.95), (0.5, None, 0.5), (0.95, 0.6, 0.6)):
        mdp = sb.FiniteMDP(P, np.zeros((2, 2)), gamma=gamma)
        problem = sb.Problem(mdp, [[1.0], [2.0]], [[0, 1]] * 2, [[0.5, 0.5]] * 2)
        rule = sb.ETD(0.1, beta=beta) if beta else sb.ETD(0.1)
        assert trace_radius(problem, rule) == pytest.approx(2 * expected**2)
        grows = 2 * expected**2 >= 1
        assert lambda_ceiling(problem, rule) == (
            0.0 if grows else pytest.approx((2 * gamma**2) ** -0.5)
        )


def test_a_trace_that_never_lasts_has_no_ceiling():
    mdp = sb.FiniteMDP(np.ones((1, 1, 1)), np.ones((1, 1)), gamma=0.0)
    problem = sb.Problem(mdp, [[1.0]], [[1.0]], [[1.0]])
    assert lambda_ceiling(problem, sb.TD(0.5)) == np.inf
