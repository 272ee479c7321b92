"""The exact system against dense matrices, its identities, its operators, and its failures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import saddleback as sb
from helpers import problem_for, rule_named, tables
from saddleback import FiniteMDP, Problem, System, problems
from saddleback.rules import Correction, Expected, Rule, Saddle, SemiGradient
from saddleback.system import bellman, lambda_operator, projection

RULES = list(naive.ALGORITHMS)
TRACES = [
    sb.Importance(0.6),
    sb.Constant(0.6),
    sb.TreeBackup(0.9),
    sb.Retrace(0.9),
    sb.ActionDependent(0.3),
    sb.ActionDependent(0.9),
    sb.NoTrace(),
]


@pytest.mark.parametrize("termination", [0.0, 0.2])
@pytest.mark.parametrize("name", RULES)
def test_exact_equals_dense_matrices(name, termination):
    problem = problem_for(name, seed=21, termination=termination)
    mdp = problem.mdp
    system = System.exact(problem, rule_named(name, 0.6))
    A, b, M = naive.system(
        name, 0.6, *tables(problem), mdp.P, mdp.ends, mdp.R, mdp.gamma, problem.visits
    )
    np.testing.assert_allclose(system.A, A, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(system.b, b, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(system.M, M, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("trace", TRACES, ids=repr)
@pytest.mark.parametrize("values", ["action", "state"])
def test_correction_identity(trace, values):
    """Aᵀ + M = γE[x eᵀ], so saddle and correction forms of one trace share A, b and M."""
    problem = problems.random_mdp(rng=22, values=values)
    bootstrap = Expected() if values == "action" else sb.State()
    saddle, correction = (
        System.exact(problem, Rule(trace, form, bootstrap)) for form in (Saddle(), Correction())
    )
    np.testing.assert_allclose(saddle.A.T + saddle.M, saddle.C, rtol=0, atol=1e-12)
    for name in ("A", "b", "M"):
        assert np.array_equal(getattr(saddle, name), getattr(correction, name))


@pytest.mark.parametrize("trace", TRACES, ids=repr)
@pytest.mark.parametrize("values", ["action", "state"])
@pytest.mark.parametrize("termination", [0.0, 0.2])
def test_operators(trace, values, termination):
    """Both forms of the λ-operator agree; the MSPBE is the projected Bellman error."""
    problem = problems.random_mdp(rng=23, values=values, termination=termination)
    rule = Rule(trace, Saddle(), Expected() if values == "action" else sb.State())
    rng = np.random.default_rng(1)
    y = rng.normal(size=len(problem.Phi))
    closed = lambda_operator(problem, rule, y)
    np.testing.assert_allclose(closed, lambda_operator(problem, rule, y, form="series"), rtol=1e-10)
    np.testing.assert_allclose(bellman(problem, problem.truth), problem.truth, rtol=1e-10)

    system, Pi = System.exact(problem, rule), projection(problem)
    np.testing.assert_allclose(Pi @ Pi, Pi, atol=1e-10)
    theta = rng.normal(size=(5, problem.p))
    for t, quadratic in zip(theta, system.mspbe(theta), strict=True):
        values_of_t = problem.Phi @ t
        error = values_of_t - Pi @ lambda_operator(problem, rule, values_of_t)
        assert quadratic == pytest.approx(0.5 * error**2 @ problem.weights, rel=1e-9)


def test_maximising_the_saddle_function_gives_the_mspbe():
    system = System.exact(problems.random_mdp(rng=24), sb.GES(0.5))
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(50, system.p))
    best = system.saddle(theta, system.best_dual(theta))
    np.testing.assert_allclose(best, system.mspbe(theta), rtol=1e-10)
    others = system.best_dual(theta) + rng.normal(size=(200, 50, system.p))
    assert (system.saddle(theta, others) <= best).all()
    # Ψ(θ, ω) = θᵀAᵀω − g(ω): the paper prints θᵀAω.
    omega = rng.normal(size=system.p)
    g = 0.5 * omega @ system.M @ omega - system.b @ omega
    assert system.saddle(theta[0], omega) == pytest.approx(theta[0] @ system.A.T @ omega - g)


def test_mse_and_its_refusal():
    rewarded = System.exact(problems.two_state(0.9, [[1, -1], [0.5, 2]]), sb.GES(0.3))
    zero = np.zeros(rewarded.p)
    assert rewarded.mse(zero) == pytest.approx(1.0)
    assert rewarded.mse_absolute(zero) == pytest.approx(rewarded.truth**2 @ rewarded.weights)
    unrewarded = System.exact(problems.two_state(), sb.GES(0.3))
    assert unrewarded.mse_absolute([1.0, 1.0]) == pytest.approx(2.5)
    with pytest.raises(sb.errors.Undefined, match="which is 0 on this problem"):
        unrewarded.mse(zero)


def test_objectives_are_vectorised():
    system = System.exact(problems.random_mdp(rng=25), sb.GQ(0.5))
    theta = np.random.default_rng(3).normal(size=(3, 4, system.p))
    for objective in (system.mspbe, system.mse, system.mse_absolute):
        assert objective(theta).shape == (3, 4)
        assert objective(theta)[1, 2] == pytest.approx(float(objective(theta[1, 2])))


def test_tabular_fixed_point_is_the_truth():
    lake = FiniteMDP(
        np.random.default_rng(4).dirichlet(np.ones(4), size=(4, 2)), np.eye(4)[:, :2], gamma=0.9
    )
    pi, mu = [[0.9, 0.1]] * 4, [[0.3, 0.7]] * 4
    problem = Problem(lake, np.eye(8).reshape(4, 2, 8), pi, mu)
    for rule in (sb.GES(0.9), sb.ABQ(1.0), sb.GTB(0.5), sb.GRetrace(1.0)):
        np.testing.assert_allclose(System.exact(problem, rule).fixed_point, lake.q(pi).ravel())


# Stability.


def system_of(A, b=None):
    A = np.asarray(A, dtype=float)
    b = np.zeros(len(A)) if b is None else np.asarray(b, dtype=float)
    eye = np.eye(len(A))
    return System(A, b, eye, A.T + eye, sb.ExpectedSarsa(0.0), eye, np.ones(len(A)), b)


@given(seed=st.integers(0, 10**6), p=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_max_step_size_is_exact(seed, p):
    A = np.random.default_rng(seed).normal(size=(p, p)) - 1.5 * np.sqrt(p) * np.eye(p)
    system = system_of(A)
    assert system.stable == bool((system.spectrum.real < 0).all())
    if system.stable:
        below, above = (
            np.abs(np.linalg.eigvals(np.eye(p) + factor * system.max_step_size * A)).max()
            for factor in (0.999, 1.001)
        )
        assert below < 1 < above


def test_singular_systems_are_judged_on_the_range():
    flat = system_of([[-1.0, 0.0], [0.0, 0.0]], [1.0, 0.0])
    assert flat.stable
    assert flat.max_step_size == pytest.approx(2.0)
    assert "on the range of A (rank 1 of 2)" in flat.stability.reason
    assert "singular A: rank 1 of 2" in flat.outcome
    np.testing.assert_allclose(flat.fixed_point, [1.0, 0.0])

    outside = system_of([[-1.0, 0.0], [0.0, 0.0]], [1.0, 1.0])
    assert not outside.stable
    assert "no fixed point" in outside.stability.reason
    assert "no fixed point" in outside.outcome

    jordan = system_of([[0.0, 1.0], [0.0, 0.0]])
    assert not jordan.stable
    assert "not semisimple" in jordan.stability.reason

    unstable = system_of([[1.0, 0.0], [0.0, 0.0]])
    assert (unstable.stable, unstable.max_step_size) == (False, 0.0)
    assert "real part 1 >= 0" in unstable.stability.reason

    assert system_of([[0.0]]).max_step_size == np.inf
    assert not system_of([[0.0]], [1.0]).stable


def test_reducible_chain_is_a_stated_outcome():
    P = np.zeros((3, 1, 3))
    P[0, 0] = [0.0, 0.25, 0.75]
    P[1, 0, 1] = P[2, 0, 2] = 1.0
    mdp = FiniteMDP(P, [[0.0], [1.0], [2.0]], gamma=0.5, start=[1.0, 0.0, 0.0])
    only = np.ones((3, 1))
    system = System.exact(Problem(mdp, np.eye(3), only, only), sb.TD(0.0))
    np.testing.assert_allclose(system.weights, [0.0, 0.25, 0.75])
    assert "2 sets of states that are never left ([1]; [2])" in system.outcome
    np.testing.assert_allclose(system.fixed_point[1:], [2.0, 4.0])


def test_unknown_form_and_wrong_theta():
    problem = problems.two_state()
    with pytest.raises(sb.errors.UnknownName, match=r"'serie'.*Did you mean 'series'"):
        lambda_operator(problem, sb.GES(0.1), np.zeros(4), form="serie")
    with pytest.raises(sb.errors.InvalidShape, match=r"values must have shape \[4\], got \[3\]"):
        bellman(problem, np.zeros(3))
    with pytest.raises(sb.errors.InvalidShape, match=r"theta must have shape \[7, 2\]"):
        System.exact(problem, sb.GES(0.1)).mspbe(np.zeros((7, 3)))


def test_repr():
    assert repr(System.exact(problems.two_state(), sb.GES(0.5))) == (
        "System(GES(0.5), p=2, rank=2, unstable)"
    )


def test_user_composition_has_a_system():
    rule = Rule(trace=sb.Retrace(0.9), form=Correction(), bootstrap=Expected())
    system = System.exact(problems.two_state(), rule)
    np.testing.assert_allclose(system.A, System.exact(problems.two_state(), sb.GRetrace(0.9)).A)
    semi = Rule(sb.Retrace(0.9), SemiGradient(), Expected())
    assert np.array_equal(System.exact(problems.two_state(), semi).A, system.A)
