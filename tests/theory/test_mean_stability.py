"""Stability of the expected update, and Theorem 1 of the paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saddleback as sb
from helpers.problems import problem_for, rule_named, system_from_arrays
from saddleback import System, iterate, mean_square, problems, step_sizes
from saddleback.theory import MeanStability, mean_stability

FORMS = ["ExpectedSarsa", "GES", "GQ", "GTD", "TDRC"]


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
    mean = MeanStability(system_from_arrays(A, half @ half.T + 0.1 * np.eye(3)))
    assert mean.max_step_size(10**log_ratio) > 0


def test_the_correction_form_can_be_unstable():
    """As β/α goes to 0 it is plain TD, which diverges here."""
    system = System.exact(problems.two_state(gamma=0.999), sb.GQ(0.0))
    mean = MeanStability(system)
    assert mean.max_step_size(1e-4) == 0.0
    assert mean.max_step_size(10.0) > 0.0


def test_verdicts_on_singular_systems_apply_to_the_range():
    """Doubling the features changes nothing but the null space."""
    problem = problems.random_mdp(0.9, rng=1)
    doubled = sb.Problem(
        problem.mdp,
        np.concatenate([problem.features] * 2, axis=2) / np.sqrt(2),
        problem.target,
        problem.behaviour,
    )
    for name in ("GES", "GQ", "ExpectedSarsa"):
        plain, duplicated = (
            MeanStability(System.exact(p, rule_named(name, 0.2))) for p in (problem, doubled)
        )
        assert not plain.note
        assert "verdicts apply to the range" in duplicated.note
        assert duplicated.rank == plain.rank
        np.testing.assert_allclose(
            duplicated.max_step_size(2.0), plain.max_step_size(2.0), rtol=1e-8
        )
        np.testing.assert_allclose(duplicated.radius(0.1, 0.2), plain.radius(0.1, 0.2), rtol=1e-10)
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


def test_mean_verdicts_agree_with_the_system():
    """Not semisimple, and without a fixed point: no step converges."""
    for A, b in (([[0, 1], [0, 0]], [1.0, 0.0]), (np.diag([-1.0, 0.0]), [1.0, 1.0])):
        system = system_from_arrays(
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


def test_what_is_singular_is_noted():
    """Features twice: half of the range; without a fixed point this is said as well."""
    A = np.array([[-1.0, 0.0], [0.0, 0.0]])
    notes = []
    for b in ([1.0, 0.0], [1.0, 1.0]):
        system = system_from_arrays(A, np.eye(2), b=np.array(b), rule=sb.ExpectedSarsa(0.0))
        notes.append(MeanStability(system).note)
    assert notes[0] == (
        "singular: verdicts apply to the range of the update (1 of 2 dimensions); the limit "
        "depends on the initial weights."
    )
    assert notes[1] == f"{notes[0]} There is no fixed point: b is out of range."


def test_limits_of_known_eigenvalues():
    """−2 Re g/|g|², the least of all eigenvalues; eigenvalues of 0 grow, or are out of range."""
    mean = MeanStability(system_from_arrays(-np.diag([0.5, 2.0]), np.eye(2), rule=sb.TD(0.0)))
    assert mean.max_step_size() == pytest.approx(1.0)
    best = mean.best()
    assert best.alpha == pytest.approx(0.8)  # 1 − 0.5α = 2α − 1
    assert best.radius == pytest.approx(0.6)
    assert best.beta == 0.0
    turning = np.array([[-1.0, 2.0], [-2.0, -1.0]])  # eigenvalues −1 ± 2i
    mean = MeanStability(system_from_arrays(turning, np.eye(2), rule=sb.TD(0.0)))
    assert mean.max_step_size() == pytest.approx(0.4)
    best = mean.best()
    assert best.alpha == pytest.approx(0.2)
    assert best.radius == pytest.approx(np.sqrt(0.8))
    zero = MeanStability(
        system_from_arrays(np.zeros((2, 2)), np.eye(2), b=np.zeros(2), rule=sb.TD(0.0))
    )
    assert zero.max_step_size() == np.inf
    assert (zero.best().alpha, zero.best().radius) == (pytest.approx(0.5, abs=0.5), 0.0)


def test_the_best_ratio_of_one_dimension():
    """G = [[0, a], [−a, −m]]: the double eigenvalue at β/α = (2a/m)², where αβ a² → 1."""
    for a, m in ((1.0, 1.0), (1.0, 100.0), (30.0, 0.01)):
        mean = MeanStability(system_from_arrays(-a, m))
        best = mean.best()
        assert best.radius < 0.01
        assert best.beta / best.alpha == pytest.approx((2 * a / m) ** 2, rel=0.01)
        assert best.beta == pytest.approx(2 / m, rel=0.01)
        given = mean.best(ratio=best.beta / best.alpha)
        assert given.alpha == pytest.approx(best.alpha, rel=1e-3)


def test_radii_in_parts_are_those_at_once(monkeypatch):
    mean = MeanStability(System.exact(problems.random_mdp(0.9, rng=1), sb.GES(0.4)))
    sizes = np.geomspace(1e-3, 10, 7)
    radii = mean.radius(sizes[:, None], sizes)
    monkeypatch.setattr(mean_stability, "BATCH", 1)
    np.testing.assert_array_equal(mean.radius(sizes[:, None], sizes), radii)


def test_large_systems_are_searched_up_to_a_limit(monkeypatch):
    mean = MeanStability(system_from_arrays(-1.0, 1.0))
    monkeypatch.setattr(mean_stability, "LARGEST", 2)
    assert mean.best().radius < 1
    monkeypatch.setattr(mean_stability, "LARGEST", 1)
    with pytest.raises(sb.errors.InvalidParameter, match=r"of 2×2 matrices .* limit is 1\."):
        mean.best()


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
