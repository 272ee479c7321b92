"""Claims made in passing: their computations against independent ones."""

import numpy as np
import pytest

import saddleback as sb
from saddleback.paper import Options
from saddleback.paper.claims import NO, PART, YES, remarks
from saddleback.paper.claims.comparisons import COMPARED, _easy_problems
from saddleback.paper.table1 import Slope


def test_trajectories_add_up_to_the_lambda_operator():
    """On a random problem, whose trajectories branch, and by a solve with all pairs."""
    problem, lam = sb.problems.random_mdp(0.5, rng=2, states=2, actions=2), 0.3
    mdp, delta = problem.mdp, np.random.default_rng(1).normal(size=(2, 2))
    P = np.einsum("sat,tb->satb", mdp.P, problem.target).reshape(4, 4)
    expected = np.linalg.solve(np.eye(4) - mdp.gamma * lam * P, delta.ravel())
    followed = [
        remarks._by_trajectories(problem, delta, lam, s, a, steps=6) for s, a in np.ndindex(2, 2)
    ]
    np.testing.assert_allclose(followed, expected, atol=2 * (mdp.gamma * lam) ** 7)
    assert remarks._lambda_operator().verdict == YES


def test_the_mspbe_is_the_distance_to_a_weighted_least_squares_fit():
    problem, rule = sb.problems.random_mdp(0.9, rng=0), sb.GES(0.3)
    theta = np.random.default_rng(0).normal(size=(100, problem.p))[7]
    values, root = problem.Phi @ theta, np.sqrt(problem.weights)
    moved = sb.system.lambda_operator(problem, rule, values, form="series")
    fit = np.linalg.lstsq(root[:, None] * problem.Phi, root * moved, rcond=None)[0]
    gap = root * (values - problem.Phi @ fit)
    np.testing.assert_allclose(sb.System.exact(problem, rule).mspbe(theta), gap @ gap / 2)
    assert remarks._mspbe().verdict == YES


def test_active_features_are_those_of_dense_rows():
    car = sb.problems.mountain_car(0.99)
    path = car.sampler(np.random.default_rng(0)).take(3000)
    active = int(car.phi(path.observations, path.actions).any(axis=0).sum())
    claim = remarks._assumptions(steps=3000)
    assert f"{active} of 972 features were active in 3,000 steps" in claim.result
    assert "14 of 16 (Baird)" in claim.result
    assert claim.verdict == PART


def test_norms_of_features_are_within_the_bound():
    claim = remarks._bounded_features()
    assert "4 ≤ 11 (two-state), 5 ≤ 260 (Baird), 4 ≤ 3·10⁴ (MountainCar)" in claim.result
    rows = sb.problems.baird(0.99).Phi
    assert max(np.linalg.norm(np.outer(row, row), 2) for row in rows) == pytest.approx(5)
    assert claim.verdict == YES


def test_solutions_of_the_lyapunov_equations_by_a_linear_solve():
    """vec(HᵀQ + QH) = (I⊗Hᵀ + Hᵀ⊗I) vec Q."""
    system = sb.System.exact(sb.problems.two_state(0.5, [[1, -1], [0.5, 2]]), sb.GES(0.4))
    A, M, unit = system.A, system.M, np.eye(2)
    H = -A.T @ np.linalg.inv(M) @ A
    lowest = []
    for matrix, right in ((H.T, -unit), (M.T, unit)):
        Q = np.linalg.solve(np.kron(unit, matrix) + np.kron(matrix, unit), right.ravel())
        lowest.append(np.linalg.eigvalsh(Q.reshape(2, 2))[0])
    claim = remarks._lyapunov()
    assert f"eigenvalues {lowest[0]:.2f} and {lowest[1]:.2f})" in claim.result
    assert claim.verdict == PART
    assert (np.linalg.eigvalsh(H) < 0).all()  # H is Hurwitz, and not −H


def test_the_equation_as_printed_leaves_the_ring_and_the_transposed_does_not():
    """By small steps from the same start; A is that of a ring of three states at γ = 0.9."""
    A, M = (0.9 * np.eye(3)[[1, 2, 0]] - np.eye(3)) / 3, np.eye(3) / 3
    sizes = []
    for block in (A, A.T):
        theta, omega = np.array([1.0, 0.0, 0.0]), np.zeros(3)
        for _ in range(20_000):
            theta, omega = theta - 0.005 * block @ omega, omega + 0.005 * (A @ theta - M @ omega)
        sizes.append(np.linalg.norm(theta))
    assert sizes[0] > 1000
    assert sizes[1] < 1
    growth = np.log(sizes[0]) / (20_000 * 0.005)
    claim = remarks._ordinary_differential_equation()
    assert float(claim.result.partition("real part is ")[2].split(",")[0]) == pytest.approx(
        growth, abs=0.015
    )
    assert claim.verdict == PART


def test_floors_of_other_algorithms_are_near_those_of_first_order():
    problem = sb.problems.two_state(0.5, [[1, -1], [0.5, 2]])
    claim = remarks._other_algorithms()
    for rule in (sb.GQ(0.4), sb.GTB(0.4), sb.GRetrace(0.4)):
        exact = sb.mean_square(problem, rule, alpha=0.01, beta=0.01).floor
        first = sb.theory.small_step_floor(problem, rule, alpha=0.01, beta=0.01)
        assert exact == pytest.approx(float(first), rel=0.1)
        assert f"({rule})" in claim.result


@pytest.mark.parametrize(("others", "verdict"), [((-0.5, -1.0), NO), ((0.1, 0.2), YES)])
def test_ges_is_fastest_only_if_nothing_falls_faster(monkeypatch, others, verdict):
    slopes = {"TD": (Slope(others[0], 1.0, 0.0), Slope(others[1], 1.0, 0.0))}
    own = {"GES(λ)": (Slope(0.0, 1.0, 0.0), Slope(0.0, 1.0, 0.0))}
    monkeypatch.setattr(remarks, "row_slopes", lambda options: slopes | own)
    assert remarks._fastest_of_table_1(Options(None)).verdict == verdict


def test_the_constant_of_the_gap_bounds_sampled_gradients():
    """C² = 4(2R_ω)²C₁² + (2R_θ)²C₂², with C₁ and C₂ at least those of gradients in the balls."""
    radius, rng = 2.0, np.random.default_rng(3)
    constant = float(remarks._step_sizes_of_the_gap().result.partition("C = ")[2].split(";")[0])
    Phi = np.array([[1.0, 0], [0, 1], [2, 0], [0, 2]])  # (s₁, right), (s₁, left), (s₂, …
    ahead = np.array([[2.0, 0], [1, 0], [2, 0], [1, 0]])
    rewards = np.array([1.0, -1.0, 0.5, 2.0])
    change = 0.5 * ahead - Phi
    largest = np.zeros(2)
    for theta, omega in rng.normal(size=(2000, 2, 2)):
        theta, omega = (radius * x / np.linalg.norm(x) for x in (theta, omega))
        delta = rewards + change @ theta
        up = Phi * (delta - Phi @ omega)[:, None]
        down = change * (Phi @ omega)[:, None]
        squares = [np.mean(np.sum(g**2, axis=1)) for g in (up, down)]
        largest = np.maximum(largest, squares)
    needed = np.sqrt(4 * (2 * radius) ** 2 * largest[0] + (2 * radius) ** 2 * largest[1])
    assert needed <= constant < 2 * needed


def test_the_four_rules_share_their_bootstrap():
    assert remarks._same_errors().verdict == YES
    assert sb.GTB(0.9).bootstrap != sb.Sarsa(0.9).bootstrap


def test_states_of_bairds_star_by_simulation():
    problem = sb.problems.baird(0.99)
    states = sb.sample(problem, 7000, rng=0).states
    counts = np.bincount(np.asarray(states), minlength=7)
    assert (np.abs(counts - 1000) < 4 * np.sqrt(1000)).all()
    assert remarks._uniform_states().verdict == YES


def test_easy_problems_have_settings_that_stay_bounded():
    class Case:
        def __init__(self, diverged):
            self._results = {
                name: type("R", (), {"diverged": np.array(diverged)}) for name in COMPARED
            }

        def __getitem__(self, name):
            return self._results[name]

        def on_grid(self, values):
            return values

    easy, hard = Case([0, 0, 0, 2]), Case([1, 1, 0, 3])
    claim = _easy_problems({"two-state": easy, "MountainCar": hard})
    assert "75% (two-state), 25% (MountainCar)" in claim.result
    assert claim.verdict == YES
    assert _easy_problems({"two-state": hard, "MountainCar": easy}).verdict == NO
