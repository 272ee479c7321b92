"""The paper's statements and ours, each checked against something computed another way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import saddleback as sb
from helpers.problems import problem_for, rule_named
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
    trace_radius,
)
from saddleback.theory.noise_chain import noise_chain

REWARDED = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
FORMS = ["ExpectedSarsa", "GES", "GQ", "GTD", "TDRC"]


def made(A, M, b=None, rule=None):
    """A system made by hand."""
    A, M = np.atleast_2d(A), np.atleast_2d(M)
    b = np.ones(len(A)) if b is None else b
    return System(A, b, M, A.T + M, rule or sb.GES(0.0))


# Mean stability.


@pytest.mark.parametrize("name", FORMS)
def test_the_mean_map_is_what_iterate_does(name):
    problem = problem_for(name, seed=3)
    system = System.exact(problem, rule_named(name, 0.0))
    mean = MeanStability(system)
    rng = np.random.default_rng(0)
    theta, omega = rng.normal(size=(2, problem.p))
    run = iterate(
        system, alpha=0.1, beta=0.3, steps=1, theta0=theta, omega0=omega, metrics={}, bound=1e9
    )
    z = np.concatenate([theta - system.fixed_point, omega])[: mean.dimension]
    after = np.concatenate([run.theta - system.fixed_point, run.omega])[: mean.dimension]
    np.testing.assert_allclose(mean.mean_map(0.1, 0.3) @ z, after, rtol=1e-9, atol=1e-12)
    eigenvalues = np.linalg.eigvals(mean.mean_map(0.1, 0.3))
    np.testing.assert_allclose(mean.radius(0.1, 0.3), np.abs(eigenvalues).max(), rtol=1e-9)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0])
def test_the_limit_is_where_the_radius_is_one(name, ratio):
    mean = MeanStability(System.exact(problem_for(name, seed=5), rule_named(name, 0.0)))
    limit = mean.max_step_size(ratio)
    assert limit > 0
    for factor, stable in ((1 - 1e-6, True), (1 + 1e-6, False)):
        alpha = limit * factor
        assert (mean.radius(alpha, ratio * alpha) < 1) == stable


def test_semi_gradient_limits_agree_with_the_system():
    system = System.exact(problem_for("ExpectedSarsa", seed=5), sb.ExpectedSarsa(0.3))
    np.testing.assert_allclose(MeanStability(system).max_step_size(), system.max_step_size)


@pytest.mark.parametrize("name", FORMS)
def test_the_best_pair_is_no_worse_than_any_on_a_grid(name):
    mean = MeanStability(System.exact(problem_for(name, seed=7), rule_named(name, 0.0)))
    alphas, ratios = np.geomspace(1e-3, 20, 60), np.geomspace(1e-3, 1e3, 60)
    radii = mean.radius(alphas[:, None], alphas[:, None] * ratios)
    best = mean.best()
    assert best.radius <= radii.min() + 1e-9
    np.testing.assert_allclose(mean.radius(best.alpha, best.beta or 1.0), best.radius)


@given(st.integers(0, 10**6), st.floats(-3, 3))
@settings(max_examples=40, deadline=None)
def test_the_saddle_form_is_stable_for_every_ratio(seed, log_ratio):
    rng = np.random.default_rng(seed)
    A, half = rng.normal(size=(2, 3, 3))
    mean = MeanStability(made(A, half @ half.T + 0.1 * np.eye(3)))
    assert mean.max_step_size(10**log_ratio) > 0


def test_the_correction_form_is_not():
    """As β/α goes to 0 it is plain TD, which diverges here."""
    system = System.exact(problems.two_state(gamma=0.999), sb.GQ(0.0))
    mean = MeanStability(system)
    assert mean.max_step_size(1e-4) == 0.0
    assert mean.max_step_size(10.0) > 0.0


def test_singular_systems_are_judged_on_the_range():
    """Doubling the features changes nothing but the null space."""
    problem = problems.random_mdp(0.9, rng=1)
    doubled = sb.Problem(
        problem.mdp,
        np.concatenate([problem.features] * 2, axis=2) / np.sqrt(2),
        problem.target,
        problem.behaviour,
    )
    for name in ("GES", "GQ", "ExpectedSarsa"):
        plain, twice = (
            MeanStability(System.exact(p, rule_named(name, 0.2))) for p in (problem, doubled)
        )
        assert not plain.note
        assert "judged on the range" in twice.note
        assert twice.rank == plain.rank
        np.testing.assert_allclose(twice.max_step_size(2.0), plain.max_step_size(2.0), rtol=1e-8)
        np.testing.assert_allclose(twice.radius(0.1, 0.2), plain.radius(0.1, 0.2), rtol=1e-10)
        one, two = (
            mean_square(p, rule_named(name, 0.0), alpha=0.02, beta=0.03) for p in (problem, doubled)
        )
        np.testing.assert_allclose(one.radius, two.radius, rtol=1e-9)


def test_a_map_of_the_stable_region():
    system = System.exact(problems.random_mdp(0.9, rng=1, states=30, features=20), sb.GES(0.4))
    sizes = np.geomspace(1e-3, 10, 100)
    region = MeanStability(system).radius(sizes[:, None], sizes)
    assert region.shape == (100, 100)
    assert 0.1 < (region < 1).mean() < 0.9
    i, j = 40, 70
    single = np.abs(np.linalg.eigvals(MeanStability(system).mean_map(sizes[i], sizes[j]))).max()
    np.testing.assert_allclose(region[i, j], single, rtol=1e-9)


# Theorem 1 and the example that follows it.


def test_theorem_1_by_iteration():
    """A stable A converges just below its limit and not above; an unstable one never does."""
    system = System.exact(problem_for("ExpectedSarsa", seed=2), sb.ExpectedSarsa(0.5))
    assert system.stable
    for factor, converges in ((0.99, True), (1.01, False)):
        run = iterate(system, alpha=factor * system.max_step_size, steps=40_000, bound=1e6)
        near = np.linalg.norm(run.theta - system.fixed_point) < 1e-6
        assert (bool(run.ok) and near) == converges


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_product_formula_of_example_1(power):
    """θ_t,1 = θ_0,1 Π (1 + α_i (6γ − γλ − 5)/(4(1 − γλ))), with the corrected factor 4."""
    gamma, lam, steps = 0.999, 0.4, 200
    system = System.exact(problems.two_state(gamma=gamma), sb.ExpectedSarsa(lam))
    run = iterate(
        system, alpha=sb.Schedule(0.3, power), steps=steps, theta0=[1.5, -2.0], bound=1e30
    )
    factor = (6 * gamma - gamma * lam - 5) / (4 * (1 - gamma * lam))
    alphas = 0.3 * np.arange(1, steps + 1.0) ** -power
    np.testing.assert_allclose(run.theta[0], 1.5 * np.prod(1 + alphas * factor), rtol=1e-10)


# Fact 1 and Proposition 1.


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_fact_1_on_quadratics(seed):
    """f = ½xᵀHx: ∇f* = H⁻¹ inverts ∇f; f* is 1/α-smooth and 1/β-strongly convex."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(3, 3))
    H = half @ half.T + 0.2 * np.eye(3)
    y = rng.normal(size=3)
    conjugate = -minimize(lambda x: 0.5 * x @ H @ x - y @ x, np.zeros(3), tol=1e-12).fun
    np.testing.assert_allclose(conjugate, 0.5 * y @ np.linalg.solve(H, y), rtol=1e-5)
    curvatures = np.linalg.eigvalsh(H)
    dual = np.linalg.eigvalsh(np.linalg.inv(H))
    np.testing.assert_allclose([dual[-1], dual[0]], [1 / curvatures[0], 1 / curvatures[-1]])


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_proposition_1(seed):
    """max_ω Ψ(θ, ω) = MSPBE(θ), and the saddle point minimises it."""
    system = System.exact(problems.random_mdp(0.9, rng=seed), sb.GES(0.3))
    theta = np.random.default_rng(seed).normal(size=4)
    np.testing.assert_allclose(
        system.saddle(theta, system.best_dual(theta)), system.mspbe(theta), rtol=1e-8
    )
    np.testing.assert_allclose(system.best_dual(system.fixed_point), 0.0, atol=1e-7)
    assert system.mspbe(system.fixed_point) <= system.mspbe(theta)


# Theorem 2.


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
    return made(A, (M + M.T) / 2, b=rng.normal(size=p)), rng


@given(saddle_problems())
@settings(max_examples=60, deadline=None)
def test_theorem_2_never_fails(case):
    system, rng = case
    found = theorem2(system)
    assert found.contraction_tight <= found.contraction * (1 + 1e-12)
    theta = system.fixed_point + rng.normal(size=system.p)
    omega = system.best_dual(theta) + rng.normal(size=system.p) * found.nu
    distance = found.distance(theta, omega)
    for _ in range(50):
        g = system.residual(theta)
        theta, omega = (
            theta - found.alpha * system.A.T @ omega,
            omega + found.beta * (g - system.M @ omega),
        )
        after = found.distance(theta, omega)
        assert after <= found.contraction_tight * distance * (1 + 1e-7)
        distance = after
        if distance < 1e-9 * found.nu * np.linalg.norm(system.fixed_point):
            break


def test_theorem_2_as_printed_is_false():
    """With squared norms, ν‖x‖² + ‖y‖² may shrink by less than promised, and even grow.

    The worst direction is an eigenvector of TᵀNT against N = diag(ν, 1), T the step of (x, y).
    """
    rng, broken, grown = np.random.default_rng(0), 0, 0
    for _ in range(400):
        A, half = rng.normal(size=(2, 2, 2))
        M = half @ half.T + 0.2 * np.eye(2)
        found = theorem2(made(A, M))
        back = np.linalg.solve(M, A)
        T = np.block([
            [np.eye(2) - found.alpha * A.T @ back, -found.alpha * A.T],
            [
                found.alpha * back @ A.T @ back,
                np.eye(2) - found.beta * M + found.alpha * back @ A.T,
            ],
        ])  # fmt: skip
        N = np.diag(np.repeat([found.nu, 1.0], 2))
        worst = np.linalg.eigvals(np.linalg.solve(N, T.T @ N @ T)).real.max()
        broken += worst > found.contraction * (1 + 1e-12)
        grown += worst > 1
    assert broken > 10
    assert grown > 10


def test_theorem_2_is_tight_in_one_dimension():
    found = theorem2(made(-1.0, 1.0))
    np.testing.assert_allclose(
        [found.contraction, found.contraction_tight, found.nu, found.beta, found.alpha],
        [11 / 12, 11 / 12, 2.0, 1.0, 1 / 6],
    )


def test_iterations_and_the_corollary():
    """So many iterations suffice for θ and for ω; measured, far fewer do."""
    system = System.exact(problems.random_mdp(0.5, rng=2, features=2), sb.GES(0.0))
    found = theorem2(system)
    promised = found.iterations(1e-3)
    assert promised > 0
    run = iterate(system, alpha=found.alpha, beta=found.beta, steps=promised, record=promised)
    assert np.linalg.norm(run.theta - system.fixed_point) <= 1e-3
    assert np.linalg.norm(run.omega) <= 1e-3
    assert found.iterations(1e-6) > promised
    assert found.iterations(1e9) == 0


def test_theorem_2_from_estimates():
    problem, rule = problems.random_mdp(0.5, rng=2, features=2), sb.GES(0.0)
    truth = theorem2(System.exact(problem, rule))
    system = System.estimate(problem, rule, steps=200_000, rng=0, batches=50, keep_batches=True)
    found = theorem2(system, resamples=200, rng=1)
    for quantity in ("nu", "alpha", "beta", "kappa_a", "kappa_m"):
        low, high = found.interval(quantity, 0.999)
        assert low < getattr(truth, quantity) < high
        assert low < high
    with pytest.raises(sb.errors.Undefined, match="no resamples"):
        truth.interval("nu")
    with pytest.raises(sb.errors.Undefined, match="no batches to draw from"):
        theorem2(System.exact(problem, rule), resamples=10)


# Second moments.


CASES = [
    ("GES", 0.0, {}),
    ("GQ", 0.0, {}),
    ("ExpectedSarsa", 0.0, {}),
    ("TDRC", 0.0, {}),
    ("GTD", None, {}),
    ("Sarsa", 0.0, {}),
    ("GES", 0.0, {"termination": 0.2}),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "lam", "kind"), CASES)
def test_expected_learning_curves_are_those_of_simulation(name, lam, kind):
    problem = problem_for(name, seed=11, **kind)
    rule = rule_named(name, lam)
    star = System.exact(problem, rule).fixed_point
    steps, runs = 300, 1000
    run = learn(
        rule, problem, alpha=0.05, beta=0.1, steps=steps, runs=runs, rng=0, theta0=0.5, record=100,
        metrics={"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)}, bound=1e12,
    )  # fmt: skip
    errors = run.curves["error"]
    exact = mean_square(problem, rule, alpha=0.05, beta=0.1).curve(run.recorded, theta0=0.5)
    spread = errors.std(axis=1) / np.sqrt(runs)
    assert (np.abs(errors.mean(axis=1) - exact) <= 4.5 * spread + 1e-9).all()
    assert np.ptp(exact) > 10 * spread.max()


@pytest.mark.statistical
@pytest.mark.parametrize("rule", [sb.GES(0.4), sb.GQ(0.3), sb.GTB(0.8)], ids=str)
def test_expected_learning_curves_with_a_trace(rule):
    """On the two-state problem ρ = 0 resets the trace, so the chain is finite but for long runs."""
    result = mean_square(REWARDED, rule, alpha=0.05, beta=0.05)
    assert result.lost < 1e-9
    star = System.exact(REWARDED, rule).fixed_point
    run = learn(
        rule, REWARDED, alpha=0.05, beta=0.05, steps=200, runs=1000, rng=0, record=50,
        metrics={"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)}, bound=1e12,
    )  # fmt: skip
    errors = run.curves["error"]
    spread = errors.std(axis=1) / np.sqrt(1000)
    gaps = np.abs(errors.mean(axis=1) - result.curve(run.recorded))
    assert (gaps <= 4.5 * spread + 1e-9).all()


@pytest.mark.statistical
def test_emphatic_noise_is_followed_too():
    problem = problem_for("ETD", seed=4, gamma=0.5, off_policy=0.3)
    result = mean_square(problem, sb.ETD(0.0), alpha=0.01, nodes=200)
    star = result.noise.system.fixed_point
    run = learn(
        sb.ETD(0.0), problem, alpha=0.01, steps=100, runs=1000, rng=0, record=50,
        metrics={"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)},
    )  # fmt: skip
    errors = run.curves["error"]
    spread = errors.std(axis=1) / np.sqrt(1000)
    tolerance = 4.5 * spread + result.lost * errors.mean(axis=1)
    assert (np.abs(errors.mean(axis=1) - result.curve(run.recorded)) <= tolerance).all()


def test_floors_of_the_two_state_problem():
    """E‖θ − θ*‖² = .0355, .0164, .0079 at α = β = .04, .02, .01: proportional to α, not 0."""
    floors = [mean_square(REWARDED, sb.GES(0.4), alpha=a, beta=a).floor for a in (0.04, 0.02, 0.01)]
    np.testing.assert_allclose(floors, [0.0355, 0.0164, 0.0079], atol=5e-5)
    silent = mean_square(problems.two_state(gamma=0.5), sb.GES(0.4), alpha=0.02, beta=0.02)
    assert silent.floor < 1e-12
    assert silent.stable


@pytest.mark.slow
def test_the_floor_and_the_bias_are_where_the_curve_ends():
    problem = problems.random_mdp(0.9, rng=3)
    result = mean_square(problem, sb.GES(0.0), alpha=0.05, beta=0.1)
    np.testing.assert_allclose(result.curve(40_000), result.floor, rtol=1e-6)
    run = learn(
        sb.GES(0.0), problem, alpha=0.05, beta=0.1, steps=400_000, runs=8, rng=0, record=2000,
        metrics={"theta": lambda theta: theta},
    )  # fmt: skip
    late = run.curves["theta"][20:].mean(axis=0) - result.noise.system.fixed_point
    error = late.std(axis=0) / np.sqrt(8)
    assert (np.abs(late.mean(axis=0) - result.bias) < 5 * error).all()


@pytest.mark.slow
def test_the_mean_misleads():
    """Mean-square limits are 2.6 times stricter at λ = 0, and 42, 420, 1260 times at λ = .4."""
    problem = problems.two_state(gamma=0.9)
    for lam, ratio, factor in ((0.0, 1.0, 2.6), (0.4, 0.1, 42), (0.4, 1.0, 420), (0.4, 10.0, 1240)):
        # More nodes change no digit of the limits.
        result = mean_square(problem, sb.GES(lam), alpha=0.01, beta=0.01 * ratio, nodes=80)
        mean = MeanStability(result.noise.system).max_step_size(ratio)
        np.testing.assert_allclose(mean / result.max_step_size(), factor, rtol=0.02)
    limit = mean_square(REWARDED, sb.GES(0.0), alpha=0.1, beta=0.1).max_step_size()
    for size, stable in ((0.999, True), (1.001, False)):
        alpha = limit * size
        assert mean_square(REWARDED, sb.GES(0.0), alpha=alpha, beta=alpha).stable == stable


def test_theorem_2_steps_are_too_large_for_samples():
    """On random problems at λ = 0 they are unstable in mean square, every one."""
    unstable = 0
    for seed in range(20):
        problem = problems.random_mdp(0.9, rng=seed)
        found = theorem2(System.exact(problem, sb.GES(0.0)))
        unstable += not mean_square(problem, sb.GES(0.0), alpha=found.alpha, beta=found.beta).stable
    assert unstable == 20


@pytest.mark.slow
def test_truncated_chains_say_what_they_lose():
    problem = problems.random_mdp(0.9, rng=3)
    losses = [noise_chain(problem, sb.GES(0.2), nodes=n).lost for n in (10, 50, 250)]
    assert losses[0] > losses[1] > losses[2] > 0
    assert noise_chain(problem, sb.GES(0.0)).lost == 0.0
    coarse, fine = (
        mean_square(problem, sb.GES(0.2), alpha=0.02, beta=0.02, nodes=n) for n in (20, 160)
    )
    assert 0 < fine.floor_error < coarse.floor_error
    assert mean_square(problem, sb.GES(0.0), alpha=0.02, beta=0.02).floor_error == 0.0


# The small-step floor.


@pytest.mark.parametrize("rule", [sb.GES(0.4), sb.GQ(0.2), sb.ExpectedSarsa(0.0)], ids=str)
def test_the_small_step_floor_is_the_limit_of_the_exact_one(rule):
    gaps = []
    for alpha in (1e-2, 1e-3):
        exact = mean_square(REWARDED, rule, alpha=alpha, beta=2 * alpha).floor
        gaps.append(abs(small_step_floor(REWARDED, rule, alpha=alpha, beta=2 * alpha) / exact - 1))
    assert gaps[1] < gaps[0] < 0.1
    assert gaps[1] < 0.01


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "lam", "kind"),
    [("GES", 0.0, {}), ("GES", 0.3, {}), ("TD", 0.3, {"termination": 0.3}), ("Sarsa", 0.5, {})],
)
def test_the_noise_covariance_is_that_of_samples(name, lam, kind):
    problem, rule = problem_for(name, seed=11, off_policy=0.4, **kind), rule_named(name, lam)
    exact = noise_covariance(problem, rule)
    system = System.estimate(problem, rule, steps=1_000_000, rng=0, batches=1000, keep_batches=True)
    np.testing.assert_allclose(
        noise_covariance(system), exact, atol=0.15 * np.diag(exact).max(), rtol=0
    )
    assert abs(np.trace(noise_covariance(system)) / np.trace(exact) - 1) < 0.1


def test_ignoring_correlation_is_off():
    noise = noise_chain(REWARDED, sb.GES(0.4))
    h = noise.delta[:, None] * noise.e
    plain = (h * (noise.weight[noise.source] * noise.probability)[:, None]).T @ h
    ratio = np.trace(noise_covariance(REWARDED, sb.GES(0.4))) / np.trace(plain)
    assert abs(ratio - 1) > 0.1


def test_newey_west_sums_the_lags():
    steps = np.random.default_rng(0).normal(size=200_001)
    series = np.stack([steps[1:] + steps[:-1], steps[1:] - steps[:-1]], axis=1)
    np.testing.assert_allclose(newey_west(series, lags=100), [[4, 0], [0, 0]], atol=0.3)
    np.testing.assert_allclose(newey_west(series[:, :1]), [[4]], atol=0.5)


def test_the_floor_from_samples():
    problem, rule = problems.random_mdp(0.9, rng=3), sb.GES(0.0)
    system = System.estimate(problem, rule, steps=400_000, rng=0, batches=400, keep_batches=True)
    exact = small_step_floor(problem, rule, alpha=0.001, beta=0.001)
    np.testing.assert_allclose(small_step_floor(system, alpha=0.001, beta=0.001), exact, rtol=0.15)


# The λ ceiling.


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


# The primal-dual gap.


def test_the_gap_is_what_an_optimiser_finds():
    system = System.exact(problems.random_mdp(0.9, rng=5, features=2), sb.GES(0.2))
    rng = np.random.default_rng(0)
    angles = np.linspace(0, 2 * np.pi, 2001)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    disc = (np.linspace(0, 1, 400)[:, None, None] * circle).reshape(-1, 2)
    for _ in range(5):
        theta, omega = rng.normal(size=(2, 2))
        for radius in (0.05, 3.0):
            most = system.saddle(theta, radius * disc).max()
            least = system.saddle(2.0 * disc, omega).min()
            gap = primal_dual_gap(system, theta, omega, theta_radius=2.0, omega_radius=radius)
            np.testing.assert_allclose(gap, most - least, rtol=2e-3)
    assert primal_dual_gap(system, theta, omega) == np.inf
    np.testing.assert_allclose(primal_dual_gap(system, theta, np.zeros(2)), system.mspbe(theta))
    star = primal_dual_gap(
        system, system.fixed_point, np.zeros(2), theta_radius=50.0, omega_radius=50.0
    )
    np.testing.assert_allclose(star, 0.0, atol=1e-12)


@pytest.mark.slow
def test_the_gap_falls_like_the_root_of_time():
    """Independent samples, projection, averages: E ε ≤ C√(5/T), a line of slope −½."""
    run = projected_descent(
        REWARDED, sb.GES(0.0), theta_radius=2.0, omega_radius=2.0, steps=300_000, runs=100, rng=0,
        record=[3000, 30_000, 300_000],
    )  # fmt: skip
    mean = run.gap.mean(axis=1)
    assert (mean <= run.bound).all()
    assert (np.quantile(run.gap, 0.95, axis=1) <= run.high_probability_bound(0.05)).all()
    slope = np.polyfit(np.log(run.steps), np.log(mean), 1)[0]
    assert -0.65 < slope < -0.35


# Advice.


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
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
def test_other_advice():
    problem = problems.random_mdp(0.9, rng=1)
    system = System.exact(problem, sb.GES(0.0))
    assert step_sizes(system, method="mean").radius == MeanStability(system).best().radius
    found = theorem2(system)
    assert step_sizes(system, method="theorem2").alpha == found.alpha
    estimated = System.estimate(
        problem, sb.GES(0.0), steps=200_000, rng=0, batches=200, keep_batches=True
    )
    one, two = step_sizes(estimated, steps=10_000), step_sizes(problem, sb.GES(0.0), steps=10_000)
    exact = mean_square(problem, sb.GES(0.0), alpha=one.alpha, beta=one.beta).curve(10_000)
    assert exact <= 1.3 * two.error


@pytest.mark.slow
def test_step_sizes_that_are_not_given():
    problem = problems.random_mdp(0.9, rng=1)
    advice = step_sizes(problem, sb.GES(0.0), steps=500)
    run = learn(sb.GES(0.0), problem, steps=500, rng=0)
    assert run.alpha == advice.alpha
    assert run.beta == advice.beta
    system = System.exact(problem, sb.GES(0.0))
    fast = iterate(system, steps=400)
    np.testing.assert_allclose(fast.theta, system.fixed_point, atol=1e-6)


# Bad input, and systems on disk.


SINGULAR = made([[1.0, 0.0], [0.0, 0.0]], np.eye(2), b=np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("message", "act"),
    [
        ("A is singular, and the theorem needs it regular", lambda: theorem2(SINGULAR)),
        ("M is singular", lambda: theorem2(made(np.eye(2), np.diag([1.0, 0.0])))),
        ("is not of the saddle form", lambda: theorem2(made(-1.0, 1.0, rule=sb.GQ(0.0)))),
        ("A[0, 1] is nan", lambda: made([[1.0, np.nan], [0.0, 1.0]], np.eye(2))),
        ("M must have shape [2, 2], got [3, 3]", lambda: System(np.eye(2), np.ones(2), np.eye(3), np.eye(2), sb.GES(0.0))),
        ("alpha must be a finite number > 0, got 0", lambda: MeanStability(SINGULAR).mean_map(0, 1)),
        ("step sizes must be > 0, got -1", lambda: MeanStability(SINGULAR).radius([-1.0], 1.0)),
        ("do not broadcast", lambda: MeanStability(SINGULAR).radius([1.0] * 2, [1.0] * 3)),
        ("moves a dual variable ω: give beta", lambda: MeanStability(SINGULAR).mean_map(1.0)),
        ("moves a dual variable", lambda: mean_square(REWARDED, sb.GES(0.0), alpha=0.1)),
        ("alpha must be", lambda: mean_square(REWARDED, sb.GES(0.0), alpha=-1.0, beta=1.0)),
        ("whole numbers >= 0", lambda: mean_square(REWARDED, sb.GQ(0), alpha=1, beta=1).curve(0.5)),
        ("theta0 must be", lambda: mean_square(REWARDED, sb.GQ(0), alpha=1, beta=1).curve(1, [1] * 3)),
        ("second moments grow by", lambda: mean_square(REWARDED, sb.GES(0), alpha=9, beta=9).floor),
        ("above the λ ceiling", lambda: mean_square(problems.two_state(), sb.GES(0.9), alpha=1, beta=1)),
        (
            "more than 400,000. Use fewer nodes, or small_step_floor",
            lambda: noise_chain(problems.random_mdp(rng=0, states=300, features=30), sb.GES(0.0)),
        ),
        ("the system is that of GES(0)", lambda: step_sizes(made(-1.0, 1.0), sb.GQ(0.0))),
        ("needs to know the noise", lambda: step_sizes(made(-1.0, 1.0))),
        ("unknown method 'mean-sq'", lambda: step_sizes(REWARDED, sb.GES(0.0), "mean-sq")),
        ("steps must be a whole number", lambda: step_sizes(REWARDED, sb.GES(0.0), steps=0)),
        (
            "no step size is stable",
            lambda: step_sizes(problems.two_state(gamma=0.999), sb.ExpectedSarsa(0.0)),
        ),
        ("the noise is not known from A, b and M", lambda: noise_covariance(made(-1.0, 1.0))),
        ("rule must be a Rule, got None", lambda: noise_covariance(REWARDED)),
        ("above the λ ceiling", lambda: noise_covariance(problems.two_state(), sb.GES(0.9))),
        ("memory of their own", lambda: noise_covariance(problems.random_walk(), sb.ETD(0.0))),
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
        ("a series of 1 has no covariance", lambda: newey_west([[1.0]])),
        ("give alpha as well", lambda: learn(sb.GES(0.0), REWARDED, beta=0.1, steps=5)),
        ("GES(0) needs a step size", lambda: learn(sb.GES(0.0), problems.mountain_car(), steps=5)),
        ("give alpha as well", lambda: iterate(made(-1.0, 1.0), beta=0.1, steps=5)),
        ("at many ratios take too long", lambda: MeanStability(made(-np.eye(300), np.eye(300))).best()),
    ],
)  # fmt: skip
def test_bad_input(message, act):
    with pytest.raises(sb.errors.SaddlebackError) as caught:
        act()
    assert message in str(caught.value)


def test_systems_on_disk(tmp_path):
    problem = problems.random_mdp(0.9, rng=1)
    rules = [sb.GES(0.3), sb.ABQ(0.4), sb.GQ(0.1)]
    for rule, system in zip(
        rules,
        System.estimate(problem, rules, steps=1000, rng=0, batches=10, keep_batches=True),
        strict=True,
    ):
        back = sb.system.load(sb.system.save(system, tmp_path / "one.npz"))
        assert back.rule == rule
        assert all(np.array_equal(getattr(back, n), getattr(system, n)) for n in "AbMC")
        assert np.array_equal(back.errors.A, system.errors.A)
        assert np.array_equal(noise_covariance(back), noise_covariance(system))
    (tmp_path / "half.npz").write_bytes((tmp_path / "one.npz").read_bytes()[:500])
    (tmp_path / "other.npz").write_bytes(b"")
    np.savez(tmp_path / "bare.npz", A=np.eye(2))
    for name in ("half.npz", "other.npz", "bare.npz"):
        with pytest.raises(sb.errors.InvalidParameter, match="is not a system saved by saddleback"):
            sb.system.load(tmp_path / name)
    with pytest.raises(sb.errors.InvalidParameter, match="cannot read"):
        sb.system.load(tmp_path / "none.npz")
    with pytest.raises(sb.errors.InvalidParameter, match="is saved as an"):
        sb.system.save(system, tmp_path / "one.pkl")
    with pytest.raises(sb.errors.InvalidParameter, match="cannot write"):
        sb.system.save(system, tmp_path / "missing" / "one.npz")


# Odd problems: what a review tried.


def chain_of(links, rewards, *, start=None, gamma=0.5, features=None):
    """A problem with one action, tabular unless told otherwise."""
    P = np.array(links, dtype=float)[:, None, :]
    only = np.ones((len(P), 1))
    mdp = sb.FiniteMDP(P, np.array(rewards, dtype=float)[:, None], gamma=gamma, start=start)
    return sb.Problem(mdp, np.eye(len(P)) if features is None else features, only, only)


def test_states_that_are_left_for_good_do_not_count():
    whole = chain_of([[0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]], [1, 0, 1], start=[1, 0, 0])
    rest = chain_of([[0, 1], [0.5, 0.5]], [0, 1])
    for rule in (sb.TD(0.0), sb.TD(0.5), sb.GTD2(0.0)):
        one, two = (
            mean_square(p, rule, alpha=0.1, beta=0.1 if "GTD" in str(rule) else None)
            for p in (whole, rest)
        )
        np.testing.assert_allclose(one.radius, two.radius, rtol=1e-6)
        np.testing.assert_allclose(one.floor, two.floor, rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(one.max_step_size(), two.max_step_size(), rtol=1e-4)
    long = chain_of(
        [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5], [0, 0, 1, 0]], [0] * 4, start=[1, 0, 0, 0]
    )
    assert mean_square(long, sb.TD(0.5), alpha=0.1, nodes=2).radius < 1


def test_chains_with_several_ends_are_refused():
    split = chain_of([[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]], [0, 1, 2], start=[1, 0, 0])
    for act in (noise_covariance, step_sizes, lambda p, r: mean_square(p, r, alpha=0.1)):
        with pytest.raises(sb.errors.Undefined, match="no one long run to speak of"):
            act(split, sb.TD(0.0))


def test_zero_rewards_begin_at_one():
    problem = problems.two_state(gamma=0.9)
    advice = step_sizes(problem, sb.GES(0.0), steps=1000)
    result = mean_square(problem, sb.GES(0.0), alpha=advice.alpha, beta=advice.beta)
    np.testing.assert_allclose(result.curve(1000, theta0=1.0), advice.error, rtol=1e-8)


@pytest.mark.slow
def test_emphasis_has_a_ceiling_of_its_own():
    P = np.zeros((2, 2, 2))
    P[:, 0, 0] = P[:, 1, 1] = 1
    mdp = sb.FiniteMDP(P, np.zeros((2, 2)), gamma=0.95)
    problem = sb.Problem(mdp, [[1.0], [2.0]], [[0, 1]] * 2, [[0.5, 0.5]] * 2)
    assert trace_radius(problem, sb.ETD(0.0)) > 1
    assert lambda_ceiling(problem, sb.ETD(0.0)) == 0.0
    with pytest.raises(sb.errors.Undefined, match="above the λ ceiling"):
        mean_square(problem, sb.ETD(0.0), alpha=1e-4)
    assert (
        step_sizes(problem_for("ETD", 4, gamma=0.5, off_policy=0.2), sb.ETD(0.0), steps=100).alpha
        > 0
    )


def test_mean_verdicts_agree_with_the_systems_own():
    """Not semisimple, and without a fixed point: no step converges."""
    for A, b in (([[0, 1], [0, 0]], [1.0, 0.0]), (np.diag([-1.0, 0.0]), [1.0, 1.0])):
        system = made(
            np.array(A, dtype=float), np.eye(2), b=np.array(b), rule=sb.ExpectedSarsa(0.0)
        )
        assert not system.stable
        assert MeanStability(system).max_step_size() == 0.0
        for act in (lambda s: MeanStability(s).best(), lambda s: step_sizes(s, method="mean")):
            with pytest.raises(sb.errors.Undefined, match="no step size is stable"):
                act(system)
    unstable = System.exact(problems.two_state(gamma=0.99), sb.ExpectedSarsa(0.0))
    with pytest.raises(sb.errors.Undefined, match="no step size is stable"):
        iterate(unstable, steps=10)


def test_diverging_curves_are_infinite():
    result = mean_square(problems.two_state(), sb.GES(0.0), alpha=50, beta=50)
    curve = result.curve([1, 100_000], theta0=1.0)
    assert np.isfinite(curve[0])
    assert curve[1] == np.inf


def test_features_that_are_all_zero():
    zero = chain_of([[1.0]], [1], features=np.zeros((1, 1)))
    with pytest.raises(sb.errors.Undefined, match="never moves here"):
        mean_square(zero, sb.TD(0.0), alpha=0.1)


@pytest.mark.slow
def test_advice_for_given_streams():
    """From the batches of the stream itself; near what the problem would advise."""
    problem, rule = problems.random_mdp(0.9, rng=1), sb.GES(0.0)
    t, seen = sb.rules.terms(rule, problem), sb.sample(problem, 50_000, rng=0)
    here = seen.states * problem.mdp.n_actions + seen.actions
    there = seen.next_states * problem.mdp.n_actions + seen.next_actions
    stream = sb.Stream.of(
        phi=t.phi[here], bootstrap=t.bootstrap[there], rewards=seen.rewards,
        discounts=seen.discounts, decay=0.0,
    )  # fmt: skip
    run = learn(rule, stream)
    exact = mean_square(problem, rule, alpha=float(run.alpha), beta=float(run.beta)).curve(50_000)
    assert exact <= 1.5 * step_sizes(problem, rule, steps=50_000).error


def test_advice_for_episodes():
    walk = problems.random_walk()
    run = learn(sb.TD(0.0), walk, episodes=50, rng=0)
    assert run.alpha == step_sizes(walk, sb.TD(0.0), steps=450).alpha  # nine steps to an episode
