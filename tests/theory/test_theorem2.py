"""Theorem 2 of the paper, as printed and as corrected."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saddleback as sb
from helpers.problems import system_from_arrays
from saddleback import System, iterate, mean_square, problems, theorem2


@st.composite
def saddle_problems(draw):
    """A and M with κ(M) ≤ 100, κ(A) ≤ 10 and scales from 10⁻³ to 10³."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p = draw(st.integers(1, 4))

    def spectrum(largest):
        values = np.concatenate([[1.0, 1.0 / draw(st.floats(1.0, largest))], np.ones(p)])[:p]
        values[2:] = rng.uniform(values.min(), 1.0, size=len(values[2:]))
        return values * 10 ** draw(st.floats(-3, 3))

    U, V, W = (np.linalg.qr(rng.normal(size=(p, p)))[0] for _ in range(3))
    A = U @ np.diag(spectrum(10.0)) @ V.T
    M = W @ np.diag(spectrum(100.0)) @ W.T
    return system_from_arrays(A, (M + M.T) / 2, b=rng.normal(size=p)), rng


@given(saddle_problems())
@settings(max_examples=60, deadline=None)
def test_theorem_2_never_fails(case):
    system, rng = case
    constants = theorem2(system)
    assert constants.contraction_tight <= constants.contraction * (1 + 1e-12)
    theta = system.fixed_point + rng.normal(size=system.p)
    omega = system.best_dual(theta) + rng.normal(size=system.p) * constants.nu
    distance = constants.distance(theta, omega)
    for _ in range(50):
        g = system.residual(theta)
        theta, omega = (
            theta - constants.alpha * system.A.T @ omega,
            omega + constants.beta * (g - system.M @ omega),
        )
        after = constants.distance(theta, omega)
        assert after <= constants.contraction_tight * distance * (1 + 1e-7)
        distance = after
        if distance < 1e-9 * constants.nu * np.linalg.norm(system.fixed_point):
            break


def test_theorem_2_as_printed_is_false():
    """With squared norms, ν‖x‖² + ‖y‖² may shrink by less than promised, and even grow.

    The worst direction is an eigenvector of TᵀNT against N = diag(ν, 1), T the step of (x, y).
    """
    rng, broken, grown = np.random.default_rng(0), 0, 0
    for _ in range(400):
        A, half = rng.normal(size=(2, 2, 2))
        M = half @ half.T + 0.2 * np.eye(2)
        constants = theorem2(system_from_arrays(A, M))
        back = np.linalg.solve(M, A)
        T = np.block([
            [np.eye(2) - constants.alpha * A.T @ back, -constants.alpha * A.T],
            [
                constants.alpha * back @ A.T @ back,
                np.eye(2) - constants.beta * M + constants.alpha * back @ A.T,
            ],
        ])  # fmt: skip
        N = np.diag(np.repeat([constants.nu, 1.0], 2))
        worst = np.linalg.eigvals(np.linalg.solve(N, T.T @ N @ T)).real.max()
        broken += worst > constants.contraction * (1 + 1e-12)
        grown += worst > 1
    assert broken > 10
    assert grown > 10


def test_theorem_2_is_tight_in_one_dimension():
    constants = theorem2(system_from_arrays(-1.0, 1.0))
    np.testing.assert_allclose(
        [
            constants.contraction,
            constants.contraction_tight,
            constants.nu,
            constants.beta,
            constants.alpha,
        ],
        [11 / 12, 11 / 12, 2.0, 1.0, 1 / 6],
    )


def test_iterations_and_the_corollary():
    """The promised number of iterations suffices for θ and for ω."""
    system = System.exact(problems.random_mdp(0.5, rng=2, features=2), sb.GES(0.0))
    constants = theorem2(system)
    promised = constants.iterations(1e-3)
    assert promised > 0
    run = iterate(
        system, alpha=constants.alpha, beta=constants.beta, steps=promised, record=promised
    )
    assert np.linalg.norm(run.theta - system.fixed_point) <= 1e-3
    assert np.linalg.norm(run.omega) <= 1e-3
    assert constants.iterations(1e-6) > promised
    assert constants.iterations(1e9) == 0


def test_theorem_2_from_estimates():
    problem, rule = problems.random_mdp(0.5, rng=2, features=2), sb.GES(0.0)
    truth = theorem2(System.exact(problem, rule))
    system = System.estimate(problem, rule, steps=200_000, rng=0, batches=50, keep_batches=True)
    constants = theorem2(system, resamples=200, rng=1)
    for quantity in ("nu", "alpha", "beta", "kappa_a", "kappa_m"):
        low, high = constants.interval(quantity, 0.999)
        assert low < getattr(truth, quantity) < high
        assert low < high
    with pytest.raises(sb.errors.Undefined, match="no resamples"):
        truth.interval("nu")
    with pytest.raises(sb.errors.Undefined, match="no batches to resample"):
        theorem2(System.exact(problem, rule), resamples=10)


def test_theorem_2_steps_are_too_large_for_samples():
    """On random problems at λ = 0 they are unstable in mean square, every one."""
    unstable = 0
    for seed in range(20):
        problem = problems.random_mdp(0.9, rng=seed)
        constants = theorem2(System.exact(problem, sb.GES(0.0)))
        unstable += not mean_square(
            problem, sb.GES(0.0), alpha=constants.alpha, beta=constants.beta
        ).stable
    assert unstable == 20
