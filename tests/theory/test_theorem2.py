"""Theorem 2 of the paper, as printed and as corrected."""

import dataclasses

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


def test_the_constants_of_a_diagonal_system():
    """s = 4, σ = 2, L = 3, m = 1, so that κ(A) = 2 and κ(M) = 3."""
    constants = theorem2(system_from_arrays(np.diag([-4.0, 2.0]), np.diag([1.0, 3.0])))
    assert (constants.kappa_a, constants.kappa_m) == (2.0, 3.0)
    assert constants.nu == pytest.approx(96.0)  # 2 · 2² · 3 · 4/1
    assert constants.beta == 0.5
    assert constants.alpha == pytest.approx(1 / 1600)  # 1/(4 (16 + 96 · 4))
    assert constants.rate == pytest.approx(1 / (12 * 27 * 16))
    assert constants.contraction_tight == pytest.approx(1 - 4 / (1600 * 6))
    assert constants.contraction == 1 - constants.rate
    assert repr(constants) == ("Theorem2(alpha=0.000625, beta=0.5, nu=96, contraction=1-0.000193)")


def test_distances_and_iterations():
    """D = ν‖θ − θ*‖ + ‖ω − M⁻¹(Aθ + b)‖, and the least n with (1 − rate)ⁿ D/min(ν, 1) ≤ error."""
    system = system_from_arrays(-0.1, 2.0, b=np.array([0.3]))
    constants = theorem2(system)  # θ* = 3, ν = 2 · 0.1/2
    assert constants.nu == pytest.approx(0.1)
    distance = 0.1 * 2 + abs(0.5 - (-0.1 * 5 + 0.3) / 2)
    assert constants.distance([5.0], [0.5]) == pytest.approx(distance)
    for error in (1e-3, 0.1, 1.0):
        n = constants.iterations(error, theta0=5.0, omega0=0.5)
        assert n > 0
        shrunk = [distance / 0.1 * constants.contraction**k for k in (n - 1, n)]
        assert shrunk[1] <= error < shrunk[0]
    assert constants.iterations(10.0, theta0=5.0, omega0=0.5) == 0
    assert constants.iterations(1e-9, theta0=3.0, omega0=0.0) == 0
    large = theorem2(system_from_arrays(-1.0, 1.0, b=np.array([1.0])))  # ν = 2: D bounds ω
    n = large.iterations(1e-3, theta0=2.0)
    bounds = [(2 + 1) * (11 / 12) ** k for k in (n - 1, n)]
    assert bounds[1] <= 1e-3 < bounds[0]


def test_intervals_leave_equal_tails():
    constants = dataclasses.replace(
        theorem2(system_from_arrays(-1.0, 1.0)), spread={"nu": np.arange(101.0)[::-1]}
    )
    assert constants.interval("nu", 0.9) == pytest.approx((5.0, 95.0))
    assert constants.interval("nu") == pytest.approx((2.5, 97.5))
    with pytest.raises(sb.errors.Undefined, match="there are no resamples of 'beta'"):
        constants.interval("beta")


def test_a_nearly_singular_m_is_refused():
    for smallest, regular in ((2e-13, True), (1e-13, False), (5e-14, False)):
        system = system_from_arrays(-np.diag([1.0, smallest]), np.diag([1.0, smallest]))
        if regular:
            assert theorem2(system).kappa_m == pytest.approx(1 / smallest)
        else:
            with pytest.raises(sb.errors.InvalidParameter, match="M is singular"):
                theorem2(system)
