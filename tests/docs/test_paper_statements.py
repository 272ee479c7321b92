"""Numbers and counterexamples of docs/paper/theory.md and docs/paper/errata.md."""

import numpy as np
import pytest

import saddleback as sb
from saddleback.theory import primal_dual_gap, projected_descent, small_step_floor

REWARDED = sb.problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
ZERO_REWARD = sb.problems.two_state(gamma=0.5)


def pair_transitions(problem, policy):
    """Return p(s'|s,a)·policy(a'|s') as a matrix on state-action pairs."""
    matrix = np.einsum("sat,tb->satb", problem.mdp.P, policy)
    return matrix.reshape(policy.size, policy.size)


def digits(values, form):
    """Return the values as they are written on the page."""
    return [format(float(value), form) for value in values]


# Preliminaries and Fact 1.


def test_the_transition_matrix_is_on_pairs():
    problem = sb.problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
    P, q = pair_transitions(problem, problem.target), problem.truth
    assert P.shape == (4, 4)
    np.testing.assert_allclose(q, problem.mdp.R.ravel() + 0.9 * P @ q)


def test_the_bootstrap_is_at_the_next_state():
    """At λ = 0, A = E[φ_t(γE_πφ(S_{t+1}, ·) − φ_t)ᵀ]; S_t in its place gives another matrix."""
    problem = sb.problems.two_state(gamma=0.9)
    phi = problem.features
    current = np.einsum("sb,sbp->sp", problem.target, phi)  # E_π φ(s, ·)
    following = np.einsum("sat,tp->sap", problem.mdp.P, current)
    exact = sb.System.exact(problem, sb.GES(0.0)).A

    def matrix(bootstrap):
        return np.einsum("sa,sap,saq->pq", problem.pair_visits, phi, 0.9 * bootstrap - phi)

    np.testing.assert_allclose(matrix(following), exact, atol=1e-12)
    assert not np.allclose(matrix(current[:, None] + 0 * phi), exact)


def test_the_dual_objective_of_fact_1_is_smooth_but_not_lipschitz():
    """The conjugate has the curvatures of M inverted; |g(u) − g(0)|/‖u‖ has no bound."""
    system = sb.System.exact(sb.problems.random_mdp(rng=0), sb.GES(0.3))
    M, b = system.M, system.b
    conjugate = np.linalg.eigvalsh(np.linalg.inv(M))
    np.testing.assert_allclose(conjugate[::-1], 1 / np.linalg.eigvalsh(M))
    ratios = []
    for size in (1, 10, 100):
        u = size * np.ones(4)
        ratios.append(abs(0.5 * u @ M @ u - b @ u) / np.linalg.norm(u))
    assert digits(ratios, ".3g") == ["0.975", "8.13", "79.7"]


# Theorem 1 and Example 1.


def test_a_singular_system_can_be_stable():
    """Baird's star with the paper's features: every start converges, to one prediction."""
    problem = sb.problems.baird(gamma=0.9, rewards=np.ones((7, 2)))
    system = sb.System.exact(problem, sb.ExpectedSarsa(0.0))
    assert system.stability.stable
    assert (system.rank, system.p) == (14, 16)
    one, two = (
        sb.iterate(system, alpha=1.0, steps=20_000, theta0=start).theta
        for start in (np.zeros(16), np.arange(16.0))
    )
    for theta in (one, two):
        np.testing.assert_allclose(system.residual(theta), 0, atol=1e-8)
    assert not np.allclose(one, two)
    np.testing.assert_allclose(problem.Phi @ one, problem.Phi @ two, atol=1e-6)


def test_example_1_is_stable_at_the_setting_of_the_experiments():
    for gamma, lam, a11 in ((0.85, 0.4, -0.0909), (0.999, 0.4, 0.2475), (0.99, 0.99, -0.5038)):
        system = sb.System.exact(sb.problems.two_state(gamma), sb.ExpectedSarsa(lam))
        a21 = 3 * gamma * (1 - lam) * (1 + gamma * lam) / (4 * (1 - gamma * lam))
        np.testing.assert_allclose(system.A, [[a11, 0], [a21, -1.25]], atol=5e-5)
        assert system.stable == (gamma <= 5 / (6 - lam)) == (a11 < 0)


# The MSPBE and its saddle point.


def test_the_mspbe_keeps_its_half():
    """½‖Φθ − ΠB_λΦθ‖²_Ξ, with ‖x‖²_Ξ = xᵀΞx, is ½(Aθ + b)ᵀM⁻¹(Aθ + b)."""
    problem = sb.problems.two_state(gamma=0.9, rewards=[[1, -1], [0.5, 2]])
    P = pair_transitions(problem, problem.target)
    Phi, Xi, R = problem.Phi, np.diag(problem.weights), problem.mdp.R.ravel()
    theta = np.array([2.0, -1.0])
    q = Phi @ theta
    step = np.linalg.solve(np.eye(4) - 0.9 * 0.4 * P, R + 0.9 * P @ q - q)  # B_λ q − q
    projected = Phi @ np.linalg.solve(Phi.T @ Xi @ Phi, Phi.T @ Xi @ step)
    mspbe = sb.System.exact(problem, sb.GES(0.4)).mspbe(theta)
    np.testing.assert_allclose(0.5 * projected @ Xi @ projected, mspbe)
    np.testing.assert_allclose(mspbe, 6.8371, atol=5e-5)


def test_the_transpose_in_the_saddle_function_matters():
    """Ψ = θᵀAᵀω − g(ω); an ODE along −Aω instead of −Aᵀω can diverge."""
    A, M = np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2)
    system = sb.System(A, np.zeros(2), M, A.T + M, sb.GES(0.0))
    theta, omega = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    g, psi = 0.5 * omega @ M @ omega, system.saddle(theta, omega)
    np.testing.assert_allclose(theta @ A.T @ omega - g, psi)
    assert not np.isclose(theta @ A @ omega - g, psi)
    growth = []
    for block in (A.T, A):
        G = np.block([[np.zeros((2, 2)), -block], [A, -M]])
        growth.append(np.linalg.eigvals(G).real.max())
    np.testing.assert_allclose(growth, [-0.5, 0.618], atol=5e-4)


def test_the_condition_number_of_a_is_that_of_its_singular_values():
    system = sb.System.exact(sb.problems.two_state(gamma=0.9), sb.GES(0.4))
    np.testing.assert_allclose(np.sort(system.spectrum.real), [-1.25, 0.0156], atol=5e-5)
    singular = np.linalg.svd(system.A, compute_uv=False)
    np.testing.assert_allclose(singular, [1.5176, 0.0129], atol=5e-5)
    np.testing.assert_allclose(sb.theorem2(system).kappa_a, singular[0] / singular[1])


# The estimators and the trace.


def test_the_estimator_of_a_is_unbiased_only_in_the_limit():
    """From a stationary start, E[Â_t] − A falls like (γλ)^t."""
    gamma, lam = 0.9, 0.4
    problem = sb.problems.two_state(gamma)
    system = sb.System.exact(problem, sb.GES(lam))
    P = pair_transitions(problem, problem.target)
    left, right = problem.Phi.T * problem.weights, (gamma * P - np.eye(4)) @ problem.Phi
    mean, bias = np.zeros((2, 2)), []
    for t in range(6):
        mean += left @ np.linalg.matrix_power(gamma * lam * P, t) @ right
        bias.append(np.abs(mean - system.A).max())
    assert digits(bias, ".3g") == ["0.186", "0.0304", "0.0109", "0.00394", "0.00142", "0.00051"]
    assert (np.array(bias) < (gamma * lam) ** np.arange(1, 7)).all()


@pytest.mark.slow
def test_the_mean_of_theta_is_biased_in_proportion_to_beta():
    """A smaller α does not remove it: trace and weights come from the same steps."""
    rule = sb.GES(0.4)
    for beta, written in (
        (0.1, ["1.28e-02", "1.30e-02", "1.30e-02"]),
        (0.05, ["7.09e-03", "7.18e-03", "7.19e-03"]),
        (0.025, ["3.73e-03", "3.78e-03", "3.78e-03"]),
    ):
        bias = [
            np.linalg.norm(sb.mean_square(REWARDED, rule, alpha=alpha, beta=beta, nodes=60).bias)
            for alpha in (0.01, 0.001, 0.0001)
        ]
        assert digits(bias, ".2e") == written


def test_no_experiment_of_the_paper_meets_the_condition_on_the_trace():
    """γλρ_max < 1 is needed; at γ = λ = .99 it is 1.96, 6.86 and 9.80."""
    car = sb.problems.mountain_car()
    ratios = (sb.problems.two_state().rho, sb.problems.baird().rho, car.target / car.behaviour)
    assert digits([0.99 * 0.99 * rho.max() for rho in ratios], ".2f") == ["1.96", "6.86", "9.80"]


def test_the_bound_on_the_trace_holds_below_one():
    problem = sb.problems.two_state(gamma=0.9)
    steps = sb.sample(problem, 20_000, rng=0)
    rho = problem.rho[steps.states, steps.actions]
    phi = problem.features[steps.states, steps.actions]
    largest = {0.4: 0.0, 0.99: 0.0}
    for lam in largest:
        e = np.zeros(2)
        for t in range(len(rho)):
            e = 0.9 * lam * rho[t] * e + phi[t]
            largest[lam] = max(largest[lam], np.linalg.norm(e))
    assert digits(largest.values(), ".4g") == ["7.024", "5162"]
    assert largest[0.4] < 2 / (1 - 0.9 * 0.4 * 2)  # φ_max = ρ_max = 2


# Theorem 2.


def test_one_state_refutes_theorem_2_as_printed():
    """Nothing is random there; the first step of Algorithm 1 breaks the bound on squared norms."""
    mdp = sb.FiniteMDP([[[1.0]]], [[1.0]], gamma=0.9)
    problem = sb.Problem(mdp, [[[1.0]]], target=[[1.0]], behaviour=[[1.0]])
    system = sb.System.exact(problem, sb.GES(0.0))
    bound = sb.theorem2(system)
    run = sb.learn(sb.GES(0.0), problem, alpha=bound.alpha, beta=bound.beta, steps=1, rng=0)
    theta, omega = np.stack([np.zeros(1), run.theta]), np.stack([np.zeros(1), run.omega])
    x, y = (theta - system.fixed_point)[:, 0], (omega - system.best_dual(theta))[:, 0]
    squares, norms = bound.nu * x**2 + y**2, bound.distance(theta, omega)
    factors = [bound.contraction, squares[1] / squares[0], norms[1] / norms[0]]
    assert digits(factors, ".4f") == ["0.9167", "0.9524", "0.6667"]
    assert x[1] ** 2 > bound.contraction * squares[0] / bound.nu


def test_theorem_2_is_loose_on_two_states():
    system = sb.System.exact(sb.problems.two_state(gamma=0.9), sb.GES(0.4))
    constants, mean = sb.theorem2(system), sb.MeanStability(system)
    rates = [
        constants.rate,
        1 - mean.radius(constants.alpha, constants.beta),
        1 - mean.best().radius,
    ]
    assert digits(rates, ".1e") == ["4.3e-10", "1.3e-09", "7.2e-05"]


def test_the_printed_cost_of_theorem_2_is_far_too_small():
    system = sb.System.exact(REWARDED, sb.GES(0.4))
    constants = sb.theorem2(system)
    error = {"error": lambda theta: np.linalg.norm(theta - system.fixed_point, axis=-1)}
    sizes = {"alpha": constants.alpha, "beta": constants.beta}
    own = sb.iterate(system, **sizes, steps=4000, record=1, metrics=error).curves["error"]
    best = sb.iterate(system, steps=400, record=1, metrics=error).curves["error"]
    for delta, promised, printed, counted, with_best in (
        (1e-2, 1357, 5, 336, 20),
        (1e-4, 2241, 9, 662, 38),
        (1e-8, 4008, 18, 1312, 74),
    ):
        assert constants.iterations(delta) == promised
        assert round(constants.contraction * np.log(1 / delta)) == printed
        assert int((own > delta).sum()) == counted
        assert int((best > delta).sum()) == with_best


# Lemma 1, Theorem 3 and the remarks.


def test_the_matrix_l_of_lemma_1_is_zero():
    """Read off the mean update in the coordinates (θ − θ*, ϱ − ϱ*) of the proof."""
    system = sb.System.exact(sb.problems.two_state(gamma=0.9), sb.GES(0.4))
    A, M, r = system.A, system.M, 2.0
    back, unit, zero = np.linalg.solve(M, A), np.eye(2), np.zeros((2, 2))
    G = sb.MeanStability(system).mean_map(1.0, r) - np.eye(4)  # of (θ − θ*, ω), α = 1, β = r
    T = np.block([[unit, zero], [-back, unit]])
    mean = T @ G @ np.linalg.inv(T)
    L = (mean[2:, :2] - back @ A.T @ back) / r  # the block is −M⁻¹AH + rL, with H = −AᵀM⁻¹A
    np.testing.assert_allclose(L, 0, atol=1e-10)
    np.testing.assert_allclose(mean[:2, 2:], -A.T, atol=1e-10)


def test_the_error_at_a_fixed_time_does_not_fall_with_alpha_squared():
    errors = []
    for alpha in (1e-2, 1e-3, 1e-4):
        result = sb.mean_square(ZERO_REWARD, sb.GES(0.4), alpha=alpha, beta=alpha)
        errors.append(result.curve(10, theta0=1.0))
    assert digits(errors, ".3f") == ["1.989", "2.000", "2.000"]


@pytest.mark.slow
def test_the_error_decays_to_a_floor_in_proportion_to_alpha():
    for alpha, written in (
        (0.04, ["1.68", "0.124", "0.0354", "0.0355", "0.0355"]),
        (0.02, ["1.68", "0.524", "0.0153", "0.0164", "0.0164"]),
        (0.01, ["1.68", "1.06", "0.0887", "0.00792", "0.00793"]),
    ):
        result = sb.mean_square(REWARDED, sb.GES(0.4), alpha=alpha, beta=alpha)
        assert digits(result.curve([0, 100, 400, 1600, 6400]), ".3g") == written


def test_without_rewards_convergence_is_linear():
    result = sb.mean_square(ZERO_REWARD, sb.GES(0.4), alpha=0.02, beta=0.02)
    curve = result.curve([0, 400, 800, 1200], theta0=1.0)
    assert digits(curve, ".1e") == ["2.0e+00", "2.2e-03", "4.3e-07", "8.8e-11"]


@pytest.mark.slow
def test_the_error_with_the_best_constant_steps_falls_like_one_over_n():
    for steps, written in ((1_000, "7.4e-03"), (10_000, "7.4e-04"), (100_000, "9.6e-05")):
        advice = sb.step_sizes(REWARDED, sb.GES(0.0), steps=steps)
        result = sb.mean_square(REWARDED, sb.GES(0.0), alpha=advice.alpha, beta=advice.beta)
        assert format(float(result.curve(steps)), ".1e") == written


# Theorem 4 and Table 1.


@pytest.mark.slow
def test_the_gap_with_the_printed_steps_stays_far_below_the_bound():
    system = sb.System.exact(REWARDED, sb.GES(0.0))
    assert primal_dual_gap(system, [1.0, 1.0], [0.1, 0.0]) == np.inf
    run = projected_descent(
        REWARDED, sb.GES(0.0), theta_radius=2.0, omega_radius=2.0, steps=100_000, runs=50, rng=0,
        record=[1000, 10_000, 100_000],
    )  # fmt: skip
    assert digits(run.gap.mean(axis=1), ".2f") == ["0.46", "0.18", "0.05"]
    assert digits(run.bound, ".2f") == ["6.12", "1.94", "0.61"]


@pytest.mark.slow
def test_table_1_compares_an_expected_iteration_with_sampled_learners():
    rule = sb.GES(0.0)
    system = sb.System.exact(REWARDED, rule)
    constants = sb.theorem2(system)
    sizes = {"alpha": constants.alpha, "beta": constants.beta}
    assert not sb.mean_square(REWARDED, rule, **sizes).stable
    for steps, expected, sampled in (
        (1000, "5e-04", "7.4e-03"),
        (2000, "1e-07", "3.7e-03"),
        (4000, "1e-14", "1.8e-03"),
    ):
        run = sb.iterate(system, **sizes, steps=steps)
        assert format(np.sum((run.theta - system.fixed_point) ** 2), ".0e") == expected
        assert format(sb.step_sizes(REWARDED, rule, steps=steps).error, ".1e") == sampled


def test_the_resolvent_of_gtb_has_both_policies_in_its_kernel():
    gamma, lam = 0.9, 0.5
    problem = sb.problems.two_state(gamma)
    pi, mu, unit = problem.target, problem.behaviour, np.eye(4)
    exact = sb.System.exact(problem, sb.GTB(lam)).A
    jump = (gamma * pair_transitions(problem, pi) - unit) @ problem.Phi

    def matrix(kernel):
        resolvent = np.linalg.solve(unit - gamma * lam * kernel, jump)
        return (problem.Phi.T * problem.weights) @ resolvent

    np.testing.assert_allclose(matrix(pair_transitions(problem, pi * mu)), exact, atol=1e-12)
    assert not np.allclose(matrix(pair_transitions(problem, mu)), exact)


# Baird's star and the relative MSE.


def test_only_the_classic_features_of_bairds_star_are_a_counterexample():
    problem = sb.problems.baird()
    assert problem.Phi.shape == (14, 16)
    assert np.linalg.matrix_rank(problem.Phi) == 14
    assert not problem.mdp.episodic
    assert sb.System.exact(problem, sb.ExpectedSarsa(0.0)).stable
    classic = sb.problems.baird(features="classic")
    assert not sb.System.exact(classic, sb.TD(0.0)).stable


def test_the_relative_mse_is_undefined_without_rewards():
    system = sb.System.exact(sb.problems.two_state(), sb.GES(0.0))
    with pytest.raises(sb.errors.Undefined):
        system.mse([1.0, 1.0])
    np.testing.assert_allclose(system.mse_absolute([1.0, 1.0]), 2.5)


# Exact replacements.


def test_the_first_order_floor_comes_near_the_exact_one():
    for alpha, exact, first_order in (
        (0.02, "0.0164", "0.0153"),
        (0.01, "0.00793", "0.00766"),
        (0.001, "0.000769", "0.000766"),
    ):
        sizes = {"alpha": alpha, "beta": alpha}
        floor = sb.mean_square(REWARDED, sb.GES(0.4), **sizes).floor
        assert format(floor, ".3g") == exact
        assert format(small_step_floor(REWARDED, sb.GES(0.4), **sizes), ".3g") == first_order


def test_the_correction_form_has_no_stable_step_at_a_small_ratio():
    problem = sb.problems.two_state(gamma=0.999)
    limits = {
        name: [sb.MeanStability(sb.System.exact(problem, rule)).max_step_size(r) for r in (1e-4, 1)]
        for name, rule in (("GES", sb.GES(0.0)), ("GQ", sb.GQ(0.0)))
    }
    assert digits(limits["GES"], ".3g") == ["0.584", "0.584"]
    assert digits(limits["GQ"], ".3g") == ["0", "1.24"]


@pytest.mark.slow
def test_samples_need_smaller_steps_than_the_mean():
    problem = sb.problems.two_state(gamma=0.9)
    for lam, written in ((0.0, ["0.619", "0.237"]), (0.4, ["0.543", "0.0013"])):
        result = sb.mean_square(problem, sb.GES(lam), alpha=0.01, beta=0.01)
        mean = sb.MeanStability(result.noise.system).max_step_size()
        assert digits([mean, result.max_step_size()], ".3g") == written
        assert result.truncation_loss < 1e-6


def test_bounded_traces_have_ceilings_above_one():
    for problem, ceiling in ((sb.problems.two_state(), 1.428), (sb.problems.baird(), 2.672)):
        for rule in (sb.GRetrace(0.5), sb.GTB(0.5)):
            np.testing.assert_allclose(sb.lambda_ceiling(problem, rule), ceiling, atol=5e-4)
