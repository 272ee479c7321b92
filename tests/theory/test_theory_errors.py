"""Invalid input to the functions of saddleback.theory: one call and its message per line."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import REWARDED, system_from_arrays
from saddleback import System, iterate, learn, mean_square, problems, step_sizes, theorem2
from saddleback.theory import (
    MeanStability,
    lambda_ceiling,
    lambda_ceiling_of_log,
    newey_west,
    noise_covariance,
    primal_dual_gap,
    projected_descent,
    small_step_floor,
)
from saddleback.theory.noise_chain import noise_chain

SINGULAR = system_from_arrays([[1.0, 0.0], [0.0, 0.0]], np.eye(2), b=np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("message", "act"),
    [
        ("A is singular, and the theorem needs it regular", lambda: theorem2(SINGULAR)),
        ("M is singular", lambda: theorem2(system_from_arrays(np.eye(2), np.diag([1.0, 0.0])))),
        ("is not of the saddle form", lambda: theorem2(system_from_arrays(-1.0, 1.0, rule=sb.GQ(0.0)))),
        ("A[0, 1] is nan", lambda: system_from_arrays([[1.0, np.nan], [0.0, 1.0]], np.eye(2))),
        ("M must have shape [2, 2], got [3, 3]", lambda: System(np.eye(2), np.ones(2), np.eye(3), np.eye(2), sb.GES(0.0))),
        ("alpha must be a finite number > 0, got 0", lambda: MeanStability(SINGULAR).mean_map(0, 1)),
        ("step sizes must be > 0, got -1", lambda: MeanStability(SINGULAR).radius([-1.0], 1.0)),
        ("do not broadcast", lambda: MeanStability(SINGULAR).radius([1.0] * 2, [1.0] * 3)),
        ("has a dual variable ω: give beta", lambda: MeanStability(SINGULAR).mean_map(1.0)),
        ("has a dual variable", lambda: mean_square(REWARDED, sb.GES(0.0), alpha=0.1)),
        ("alpha must be", lambda: mean_square(REWARDED, sb.GES(0.0), alpha=-1.0, beta=1.0)),
        ("whole numbers >= 0", lambda: mean_square(REWARDED, sb.GQ(0), alpha=1, beta=1).curve(0.5)),
        ("theta0 must be", lambda: mean_square(REWARDED, sb.GQ(0), alpha=1, beta=1).curve(1, [1] * 3)),
        ("second moments grow by", lambda: mean_square(REWARDED, sb.GES(0), alpha=9, beta=9).floor),
        ("above the λ ceiling", lambda: mean_square(problems.two_state(), sb.GES(0.9), alpha=1, beta=1)),
        (
            "more than 400,000. Use fewer nodes, or small_step_floor",
            lambda: noise_chain(problems.random_mdp(rng=0, states=300, features=30), sb.GES(0.0)),
        ),
        ("the system is that of GES(0)", lambda: step_sizes(system_from_arrays(-1.0, 1.0), sb.GQ(0.0))),
        ("needs the noise", lambda: step_sizes(system_from_arrays(-1.0, 1.0))),
        ("unknown method 'mean-sq'", lambda: step_sizes(REWARDED, sb.GES(0.0), "mean-sq")),
        ("steps must be a whole number", lambda: step_sizes(REWARDED, sb.GES(0.0), steps=0)),
        (
            "no step size is stable",
            lambda: step_sizes(problems.two_state(gamma=0.999), sb.ExpectedSarsa(0.0)),
        ),
        ("the mean of ExpectedSarsa(0) does not converge", lambda: small_step_floor(problems.two_state(gamma=0.99), sb.ExpectedSarsa(0.0), alpha=0.01)),
        ("A, b and M alone do not determine the noise", lambda: noise_covariance(system_from_arrays(-1.0, 1.0))),
        ("rule must be a Rule, got None", lambda: noise_covariance(REWARDED)),
        ("above the λ ceiling", lambda: noise_covariance(problems.two_state(), sb.GES(0.9))),
        ("its emphasis has memory", lambda: noise_covariance(problems.random_walk(), sb.ETD(0.0))),
        ("has no λ", lambda: lambda_ceiling(REWARDED, sb.ABQ(0.5))),
        ("ratios must not be empty", lambda: lambda_ceiling_of_log([], 0.9)),
        ("states must be whole numbers", lambda: lambda_ceiling_of_log([1.0], 0.9, states=[0.5])),
        ("theta_radius must be", lambda: primal_dual_gap(SINGULAR, [0, 0], [0, 0], theta_radius=0)),
        (
            "is not of the saddle form",
            lambda: projected_descent(
                REWARDED, sb.GQ(0.0), theta_radius=1, omega_radius=1, steps=1
            ),
        ),
        ("a series of length 1 has no covariance", lambda: newey_west([[1.0]])),
        ("give alpha as well", lambda: learn(sb.GES(0.0), REWARDED, beta=0.1, steps=5)),
        ("GES(0) needs a step size", lambda: learn(sb.GES(0.0), problems.mountain_car(), steps=5)),
        ("give alpha as well", lambda: iterate(system_from_arrays(-1.0, 1.0), beta=0.1, steps=5)),
        ("at many ratios take too long", lambda: MeanStability(system_from_arrays(-np.eye(300), np.eye(300))).best()),
    ],
)  # fmt: skip
def test_invalid_input_is_refused_with_a_message(message, act):
    with pytest.raises(sb.errors.SaddlebackError) as caught:
        act()
    assert message in str(caught.value)
