"""Claims of the page: small versions of their computations against independent ones."""

import numpy as np
import pytest
from scipy.optimize import minimize

import saddleback as sb
from saddleback.paper import Options, return_estimators, table1
from saddleback.paper.averaged_iterates import averaged_td
from saddleback.paper.claims import NO, PART, YES, statements
from saddleback.paper.claims.comparisons import Level, _claim, _far_below, level
from saddleback.sweep import RuleResults

PROBLEM = sb.problems.random_mdp(0.8, rng=2, states=2, actions=2)


def results_of(final, diverged_at=None):
    """Return results with the given final values [run, setting] at a single point."""
    values = np.asarray(final, dtype=float)[:, None, :, None]
    if diverged_at is None:
        diverged_at = np.full(values[:, 0].shape, -1)
    steps = np.ones(values.shape[2])
    return RuleResults(
        "p", "GES", "GES", 0.5, steps, steps[:, None], np.ones(1), "β/α", np.array([9]),
        np.arange(len(values)), {"m": values}, diverged_at,
    )  # fmt: skip


def test_levels_are_those_of_numpy():
    final = np.array([[1.0, 4.0], [3.0, 4.0], [8.0, 4.1], [2.0, 4.2]])
    result = level(results_of(final), "m")
    assert result.mean == 3.5  # of the first setting
    assert result.quartiles == tuple(np.quantile(final[:, 0], (0.25, 0.5, 0.75)))
    assert result.spread == np.subtract(*result.quartiles[::-2])


def test_a_diverged_run_makes_the_mean_infinite_but_not_the_median():
    diverged = np.full((4, 1, 1), -1)
    diverged[3] = 7
    result = level(results_of([[1.0], [2.0], [3.0], [0.0]], diverged), "m")
    assert (result.mean, result.quartiles[1]) == (np.inf, 2.5)
    diverged[:] = 7
    result = level(results_of([[1.0], [2.0], [3.0], [0.0]], diverged), "m")
    assert (result.quartiles, result.spread) == ((np.inf,) * 3, np.inf)


def test_ahead_means_in_mean_and_median():
    low, high = Level(1.0, (0.5, 1.0, 1.5)), Level(2.0, (1.5, 2.0, 2.5))
    mixed = Level(3.0, (0.1, 0.9, 1.0))
    assert low.ahead_of(high)
    assert not high.ahead_of(low)
    assert not low.ahead_of(mixed)
    assert not mixed.ahead_of(low)
    assert not _far_below(low, high)  # exactly half is not less
    assert _far_below(Level(0.9, (0.5, 0.9, 1.5)), high)


@pytest.mark.parametrize(
    ("ahead", "verdict", "text"),
    [((True, True, True), YES, "GQ, ABQ, GTB"), ((False, True, False), PART, "ABQ"),
     ((False, False, False), NO, "none")],
)  # fmt: skip
def test_a_claim_against_three_rules_names_those_that_ges_beats(ahead, verdict, text):
    values = {"GES": "1", "GQ": "2", "ABQ": "3", "GTB": "4"}
    names = dict(zip(("GQ", "ABQ", "GTB"), ahead, strict=True))
    place = ("two-state, rewards, λ = 0.99", "two-state, rewards")
    claim = _claim(place, "spread", "GES varies least", values, names, "")
    assert claim.verdict == verdict
    assert claim.cells == ("two-state, rewards", "spread", "1", "2", "3", "4", text, "")


# Appendix A.


def test_values_over_a_long_horizon_are_those_of_the_bellman_equation():
    mdp = PROBLEM.mdp
    kernel = np.einsum("sat,tb->satb", mdp.P, PROBLEM.target).reshape(4, 4)
    q = np.linalg.solve(np.eye(4) - mdp.gamma * kernel, mdp.R.ravel()).reshape(2, 2)
    np.testing.assert_allclose(return_estimators.values(PROBLEM, 200), q, rtol=1e-9)


@pytest.mark.parametrize("per_decision", [False, True])
def test_moments_of_importance_sampling_are_those_of_simulation(per_decision):
    """Both as printed, with the first ratio, and without it, where the mean is q^π."""
    mdp, horizon, n, rng = PROBLEM.mdp, 4, 20_000, np.random.default_rng(0)
    rho, first = PROBLEM.target / PROBLEM.behaviour, (1, 0)
    s, a = np.full(n, first[0]), np.full(n, first[1])
    product, value = np.ones(n), np.zeros(n)
    for k in range(horizon):
        product = product * (rho[s, a] if k else 1.0)
        value += mdp.gamma**k * mdp.R[s, a] * (product if per_decision else 1.0)
        s = (rng.random(n) > mdp.P[s, a, 0]).astype(int)
        a = (rng.random(n) > PROBLEM.behaviour[s, 0]).astype(int)
    value = value if per_decision else value * product
    exact = return_estimators.estimator_moments(
        PROBLEM, horizon, per_decision=per_decision, first_ratio=False
    )
    assert abs(value.mean() - exact.mean[first]) < 5 * value.std() / np.sqrt(n)
    assert value.var() == pytest.approx(exact.variance[first], rel=0.15)
    np.testing.assert_allclose(exact.mean, return_estimators.values(PROBLEM, horizon), rtol=1e-9)
    printed = return_estimators.estimator_moments(
        PROBLEM, horizon, per_decision=per_decision, first_ratio=True
    )
    np.testing.assert_allclose(printed.mean, rho * exact.mean, rtol=1e-9)


def test_lemma_a1_needs_the_ratios_up_to_the_reward():
    """The lemma holds; without the ratio of the last action before the reward it would not."""
    assert return_estimators.lemma_error(PROBLEM, 4) < 1e-12
    gap = 0.0
    for path in return_estimators.paths(PROBLEM, 0, 0, 3):
        shorter = np.concatenate([[1.0], np.cumprod(path.ratios)[:-1]])
        gap += path.probability * (np.prod(path.ratios) - shorter[2]) * path.rewards[2]
    assert abs(gap) > 1e-3


# Table 1.


def test_the_mean_of_iterates_is_that_of_a_plain_loop():
    row = next(row for row in table1.table_rows() if row.averaged)
    problem = table1.problem_of(row, table1.config_from(Options(None)))
    star, mdp = sb.System.exact(problem, row.rule).fixed_point, problem.mdp
    alphas, points = np.array([0.02, 0.1]), np.array([5, 40])
    measured = averaged_td(problem, alphas, points, 3, np.random.SeedSequence(4), star)
    uniforms = np.random.default_rng(np.random.SeedSequence(4).spawn(1)[0])
    draws = np.concatenate([uniforms.random((5, 3)), uniforms.random((35, 3))])
    expected = np.zeros((2, 2))
    for run in range(3):
        for k, alpha in enumerate(alphas):
            s, theta, iterates = 0, np.zeros(problem.p), []
            for u in draws[:, run]:
                joint = (problem.behaviour[s][:, None] * mdp.P[s]).ravel()
                move = int(np.searchsorted(np.cumsum(joint), u * joint.sum(), side="right"))
                a, following = divmod(move, mdp.n_states)
                target = mdp.R[s, a] + mdp.gamma * problem.Phi[following] @ theta
                theta = theta + alpha * (target - problem.Phi[s] @ theta) * problem.Phi[s]
                iterates.append(theta)
                s = following
            for i, point in enumerate(points):
                gap = np.mean(iterates[:point], axis=0) - star
                expected[i, k] += gap @ gap / 3
    np.testing.assert_allclose(measured, expected, rtol=1e-9)


def test_the_mean_of_iterates_converges_only_with_independent_samples():
    """In one chain it keeps a bias in proportion to α, which is large here."""
    row = next(row for row in table1.table_rows() if row.averaged)
    problem = table1.problem_of(row, table1.config_from(Options(None)))
    star = sb.System.exact(problem, row.rule).fixed_point
    far, near = (
        averaged_td(
            problem,
            np.array([0.3]),
            np.array([400, 4000]),
            40,
            np.random.SeedSequence(1),
            star,
            own,
        )[:, 0]
        for own in (False, True)
    )
    assert near[1] < 0.25 * near[0]
    assert near[1] < 0.5 * far[1]


def test_a_power_law_has_its_exponent_as_slope():
    step = np.array([100, 1000, 2000, 5000, 10_000])
    columns = {
        "scale": np.repeat([0.5, 2.0], 5), "step": np.tile(step, 2),
        "error": np.concatenate([9.0 * step**-0.5, 3.0 / step]),
    }  # fmt: skip
    fit = table1._slope(columns, 7.0)
    assert (round(fit.slope, 9), fit.error, fit.offset) == (-1.0, 3e-4, 7.0)


# Beside the theorems.


def test_the_lemma_of_gupta_by_eigenvalues():
    worst, rng = 0.0, np.random.default_rng(0)
    for a1, a2, y in rng.uniform(0.1, 3.0, size=(200, 3))[:20]:
        for x in np.geomspace(1e-6, 1.0, 60):
            off = -a1 * a2
            matrix = np.array([[a2, off], [off, a1 / x - x * y * a1]]) / (a1 + a2)
            worst = max(worst, (a2 / (a1 + a2) - np.linalg.eigvalsh(matrix)[0]) / x)
    printed = float(statements._gupta().result.partition("κ₂ = ")[2].split()[0])
    assert 0 < worst <= 1.02 * printed


def test_two_fixed_points_where_a_is_singular():
    """At γ = 5/6, φ(s₂,right) = 2φ(s₁,right) makes every multiple of (2, 1) a fixed point."""
    system = sb.System.exact(sb.problems.two_state(5 / 6), sb.GES(0.0))
    np.testing.assert_allclose(system.A @ [2.0, 1.0], 0, atol=1e-12)
    assert statements._unique_fixed_point().verdict == PART


def test_bounds_on_the_trace_need_small_ratios():
    claim = statements._bounded_trace()
    assert claim.verdict == NO
    for factor in (0.99**2 * 2, 0.99**2 * 7, 0.99**2 * 10):
        assert f"{factor:.2f}" in claim.result


def number_after(text, start):
    """Return the number that follows ``start`` in a text."""
    return float(text.partition(start)[2].split()[0].rstrip(",;").replace("·β‖u‖", ""))


def test_fact_1_by_maximising_numerically():
    """f* by an optimiser, its Hessian by differences, and its gradient by the maximiser."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        half = rng.normal(size=(3, 3))
        H, x = half @ half.T + 0.2 * np.eye(3), rng.normal(size=3)

        def maximiser(y, H=H):
            start = np.zeros(3)
            result = minimize(lambda u: u @ H @ u / 2 - y @ u, start, method="BFGS", tol=1e-10)
            return result.x

        np.testing.assert_allclose(maximiser(H @ x), x, atol=1e-5)  # ∇f* inverts ∇f
        beta, alpha = np.linalg.norm(H, 2), 1 / np.linalg.norm(np.linalg.inv(H), 2)
        for y, z in rng.normal(size=(20, 2, 3)):
            change = maximiser(y) - maximiser(z)  # of ∇f*
            assert np.linalg.norm(change) <= (1 + 1e-4) / alpha * np.linalg.norm(y - z)
            assert change @ (y - z) >= (1 - 1e-4) / beta * np.sum((y - z) ** 2)


def test_fact_1_as_printed_fails_by_the_factor_shown():
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(100):
        half = rng.normal(size=(3, 3))
        u = 100 * rng.normal(size=3)
        f = (np.sum((half.T @ u) ** 2) + 0.2 * np.sum(u**2)) / 2
        beta = np.linalg.norm(half, 2) ** 2 + 0.2
        largest = max(largest, f / (beta * np.linalg.norm(u)))
    claim = statements._fact_1()
    assert claim.verdict == PART
    assert number_after(claim.result, "f(u) − f(0) reaches ") == pytest.approx(largest, rel=0.05)


def test_the_corollary_by_a_plain_loop():
    """Matrices from the closed form of Example 1, constants from its formulas."""
    gamma, lam, delta = 0.5, 0.4, 1e-4
    decay = gamma * lam
    A = np.array(
        [
            [(6 * gamma - decay - 5) / (4 * (1 - decay)), 0],
            [3 * gamma * (1 - lam) * (1 + decay) / (4 * (1 - decay)), -5 / 4],
        ]
    )
    # Pairs (s₁, right), (s₂, right), (s₁, left), (s₂, left); π always goes right, to s₂.
    Phi = np.array([[1.0, 0], [2, 0], [0, 1], [0, 2]])
    P = np.array([[0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    rewards = np.array([1.0, 0.5, -1.0, 2.0])
    b = Phi.T @ np.linalg.solve(np.eye(4) - decay * P, rewards) / 4
    M = 1.25
    s, sigma = np.linalg.svd(A)[1]
    nu = 2 * (s / sigma) ** 2 * s / M
    alpha, beta = 1 / (2 * (s**2 / M + nu * s)), 1 / M
    star, theta, omega = -np.linalg.solve(A, b), np.zeros(2), np.zeros(2)
    bound = nu * np.linalg.norm(star) + np.linalg.norm(b) / M  # D_0
    counted = 0
    while np.linalg.norm(theta - star) > delta:
        theta, omega = theta - alpha * A.T @ omega, omega + beta * (A @ theta + b - M * omega)
        counted += 1
    factor = 1 - 1 / (12 * (s / sigma) ** 4)
    claim = statements._corollary(delta)
    assert f": {factor * np.log(1 / delta):.0f} as printed, {counted} counted" in claim.result
    promised = np.ceil(np.log(bound / delta) / -np.log(factor))
    assert number_after(claim.result, "with its constants, gives ").is_integer()
    assert f"gives {promised:.0f}." in claim.result
    assert claim.verdict == PART


@pytest.mark.slow
def test_the_remark_of_theorem_3_by_simulation():
    """Algorithm 1 at λ = 0 on 4000 chains side by side, with the steps of the claim."""
    Phi = np.array([[[1.0, 0], [0, 1]], [[2, 0], [0, 2]]])  # of (state, right or left)
    rewards = np.array([[1.0, -1.0], [0.5, 2.0]])
    problem, rule = sb.problems.two_state(0.5, rewards), sb.GES(0.0)
    np.testing.assert_array_equal(problem.Phi.reshape(2, 2, 2), Phi)
    advice, runs, rng = sb.step_sizes(problem, rule, steps=1000), 4000, np.random.default_rng(5)
    theta, omega = np.zeros((2, runs, 2))
    state = rng.integers(2, size=runs)
    for action in rng.integers(2, size=(1000, runs)):
        following = 1 - action  # right is 0, and leads to the second state
        phi, ahead = Phi[state, action], Phi[following, 0]
        change = 0.5 * ahead - phi
        delta = rewards[state, action] + np.sum(theta * change, axis=1)
        dual = np.sum(phi * omega, axis=1)
        theta = theta - advice.alpha * dual[:, None] * change
        omega = omega + advice.beta * (delta - dual)[:, None] * phi
        state = following
    kernel = np.einsum("sai,saj->ij", Phi, 0.5 * Phi[[1, 0], 0][None] - Phi) / 4
    star = -np.linalg.solve(kernel, np.einsum("sai,sa->i", Phi, rewards) / 4)
    errors = np.sum((theta - star) ** 2, axis=1)
    printed = number_after(statements._remark_of_theorem_3().result, "the error is ")
    assert abs(errors.mean() - printed) < 4 * errors.std() / np.sqrt(runs) + 0.00005
