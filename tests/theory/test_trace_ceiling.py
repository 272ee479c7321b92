"""The λ ceiling: known values, the recursion of E‖e‖², and estimates from logs."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import problem_for
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
