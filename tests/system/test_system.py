"""The exact system against dense matrices, its identities, its operators, and its failures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saddleback as sb
from helpers.problems import problem_for, rule_named, tables
from oracles import naive
from saddleback import FiniteMDP, Problem, System, problems
from saddleback.rules import Correction, Expected, Rule, Saddle, SemiGradient
from saddleback.system import bellman, lambda_operator, linear_stability, projection

RULES = [name for name in naive.ALGORITHMS if name != "capped importance"]
TRACES = [
    sb.Importance(0.6),
    sb.Constant(0.6),
    sb.TreeBackup(0.9),
    sb.Retrace(0.9),
    sb.Sigma(0.6, 0.3),
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
    if name == "VTrace":
        return  # E[w | s] is not 1, and no correction x is defined
    weight = None
    if "ETD" in name:
        beta = naive.FOLLOW_BETA if "own" in name else mdp.gamma
        P_pi = beta * np.einsum("sa,sat->st", problem.target, mdp.staying)
        f = np.linalg.solve(np.eye(len(P_pi)) - P_pi.T, problem.visits)
        weight = 0.6 + 0.4 * f / problem.visits
    C = naive.correction_matrix(
        name, 0.6, *tables(problem), mdp.P, mdp.ends, mdp.gamma, problem.visits, weight
    )
    np.testing.assert_allclose(system.C, C, rtol=1e-9, atol=1e-12)
    if "ETD" in name:  # weights disturb the identity that holds for all the others
        assert np.abs(C - A.T - M).max() > 0.1


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
    problem = rewarded.problem
    assert rewarded.mse_absolute(zero) == pytest.approx(problem.truth**2 @ problem.weights)
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
    return System(A, b, eye, A.T + eye, sb.ExpectedSarsa(0.0))


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


def test_verdicts_on_singular_systems_apply_to_the_range():
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
    assert "with real part 1." in unstable.stability.reason

    # b a little outside the range is outside.
    assert not system_of([[-1.0, 0.0], [0.0, 0.0]], [1.0, 1e-6]).stable

    assert system_of([[0.0]]).max_step_size == np.inf
    assert not system_of([[0.0]], [1.0]).stable


def test_a_reducible_chain_is_reported_in_the_outcome():
    P = np.zeros((3, 1, 3))
    P[0, 0] = [0.0, 0.25, 0.75]
    P[1, 0, 1] = P[2, 0, 2] = 1.0
    mdp = FiniteMDP(P, [[0.0], [1.0], [2.0]], gamma=0.5, start=[1.0, 0.0, 0.0])
    only = np.ones((3, 1))
    system = System.exact(Problem(mdp, np.eye(3), only, only), sb.TD(0.0))
    np.testing.assert_allclose(system.problem.weights, [0.0, 0.25, 0.75])
    assert "2 sets of states that are never left ([1]; [2])" in system.outcome
    np.testing.assert_allclose(system.fixed_point[1:], [2.0, 4.0])


def test_units_of_features_do_not_matter():
    """Rank, stability and predictions are those of the same features in other units."""
    given = problems.random_mdp(rng=26, states=8, features=4)
    units = np.array([1.0, 1e-6, 1e4, 1e-3])
    rescaled = Problem(given.mdp, given.features * units, given.target, given.behaviour)
    for rule in (sb.GES(0.4), sb.GTB(0.9)):
        plain, other = (System.exact(p, rule) for p in (given, rescaled))
        assert (other.rank, other.outcome, other.stable) == (4, "ok", plain.stable)
        np.testing.assert_allclose(other.fixed_point * units, plain.fixed_point, rtol=1e-8)
        theta = np.random.default_rng(4).normal(size=4)
        assert other.mspbe(theta / units) == pytest.approx(float(plain.mspbe(theta)), rel=1e-8)
    np.testing.assert_allclose(projection(rescaled), projection(given), atol=1e-9)


def test_polynomial_features_keep_their_rank():
    x = np.linspace(0, 100, 20)
    P = np.random.default_rng(5).dirichlet(np.ones(20), size=(20, 1))
    mdp = FiniteMDP(P, x[:, None] / 100, gamma=0.9)
    only = np.ones((20, 1))
    raw, scaled = (
        System.exact(Problem(mdp, (x[:, None] / unit) ** np.arange(4), only, only), sb.TD(0.0))
        for unit in (1.0, 100.0)
    )
    assert raw.outcome == scaled.outcome == "ok"
    np.testing.assert_allclose(
        raw.problem.Phi @ raw.fixed_point, scaled.problem.Phi @ scaled.fixed_point, rtol=1e-6
    )


def test_minimum_norm_solution_of_a_singular_system():
    """Twice the same feature shares the weight, in whatever units."""
    given = problems.random_mdp(rng=27, features=3)
    doubled = np.concatenate([given.features, 1e-3 * given.features[..., :1]], axis=-1)
    system = System.exact(Problem(given.mdp, doubled, given.target, given.behaviour), sb.GES(0.3))
    plain = System.exact(given, sb.GES(0.3))
    assert (system.rank, system.deficient) == (3, True)
    assert "θ* is not unique (minimum norm used), but its predictions under μ are" in system.outcome
    np.testing.assert_allclose(
        system.problem.Phi @ system.fixed_point, given.Phi @ plain.fixed_point, rtol=1e-8
    )
    np.testing.assert_allclose(
        system.fixed_point, np.linalg.lstsq(system.A, -system.b, rcond=1e-13)[0], rtol=1e-6
    )


def test_non_unique_predictions_are_reported():
    boundary = System.exact(problems.two_state(5 / 6), sb.ExpectedSarsa(0.0))
    assert "neither θ* nor its predictions are unique" in boundary.outcome


def test_features_that_are_never_active_are_counted():
    problem = problems.random_walk()
    padded = np.hstack([problem.features, np.zeros((7, 2))])
    system = System.exact(Problem(problem.mdp, padded, problem.target, problem.behaviour), sb.TD(0))
    assert "rank 5 of 7 (2 features are never active)" in system.outcome


def test_infinite_expectations_are_refused():
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[1, 0, 0] = P[0, 1, 2] = P[1, 1, 2] = 1.0
    mdp = FiniteMDP(P, np.ones((3, 2)), 1.0, start=[1, 0, 0], terminal=[2])
    problem = Problem(mdp, np.eye(3)[:, :2], target=[[1, 0]] * 3, behaviour=[[0.5, 0.5]] * 3)
    with pytest.raises(sb.errors.Undefined, match="the expected emphasis is infinite"):
        System.exact(problem, sb.ETD(0.0))
    with pytest.raises(sb.errors.Undefined, match="the expected trace is infinite"):
        System.exact(problem, sb.TD(1.0))
    # With λ = 0 all is finite but the true value.
    system = System.exact(problem, sb.TD(0.0))
    assert list(system.objectives) == ["mspbe"]
    with pytest.raises(sb.errors.NeverEnds, match="under the policy to evaluate an episode"):
        system.mse_absolute([0.0, 0.0])
    with pytest.raises(sb.errors.Undefined, match="this system has no problem"):
        system_of([[-1.0]]).mse([0.0])


def test_unknown_forms_and_misshapen_weights_are_refused():
    problem = problems.two_state()
    with pytest.raises(sb.errors.UnknownName, match=r"'serie'.*Did you mean 'series'"):
        lambda_operator(problem, sb.GES(0.1), np.zeros(4), form="serie")
    with pytest.raises(sb.errors.InvalidShape, match=r"values must have shape \[4\], got \[3\]"):
        bellman(problem, np.zeros(3))
    system = System.exact(problem, sb.GES(0.1))
    with pytest.raises(sb.errors.InvalidShape, match=r"theta must have shape \[7, 2\]"):
        system.mspbe(np.zeros((7, 3)))
    with pytest.raises(sb.errors.InvalidShape, match=r"omega must have shape \[2\], got \[3\]"):
        system.saddle(np.zeros(2), np.zeros(3))
    with pytest.raises(sb.errors.InvalidShape, match="do not broadcast together"):
        system.saddle(np.zeros((2, 2)), np.zeros((3, 2)))
    with pytest.raises(sb.errors.InvalidNumbers, match=r"values\[0\] is nan"):
        bellman(problem, [np.nan, 0, 0, 0])


def test_user_composition_has_a_system():
    rule = Rule(trace=sb.Retrace(0.9), form=Correction(), bootstrap=Expected())
    system = System.exact(problems.two_state(), rule)
    np.testing.assert_allclose(system.A, System.exact(problems.two_state(), sb.GRetrace(0.9)).A)
    semi = Rule(sb.Retrace(0.9), SemiGradient(), Expected())
    assert np.array_equal(System.exact(problems.two_state(), semi).A, system.A)


def test_a_failed_svd_falls_back_to_another_driver(monkeypatch):
    """LAPACK's fast routine fails on some sound matrices, e.g. one of MountainCar's."""
    problem = problems.two_state(0.9, [[1, -1], [0.5, 2]])
    plain = System.exact(problem, sb.GES(0.4))
    expected = plain.rank, plain.fixed_point

    def give_up(*arguments, **options):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(np.linalg, "svd", give_up)
    recomputed = System.exact(problem, sb.GES(0.4))
    assert recomputed.rank == expected[0]
    np.testing.assert_allclose(recomputed.fixed_point, expected[1])


def test_an_update_that_only_rotates_is_not_stable():
    """Eigenvalues ±i: θ neither grows nor shrinks in the limit of small α, and grows for any."""
    rotation = linear_stability.stability(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.zeros(2))
    assert (rotation.stable, rotation.max_step_size) == (False, 0.0)
    assert "an eigenvalue with real part 0." in rotation.reason


def test_singular_values_below_a_hundred_billionth_count_as_zero():
    for smallest, rank in ((2e-11, 2), (0.5e-11, 1)):
        parts = linear_stability.Decomposition(np.diag([1.0, smallest]), np.ones(2))
        assert (parts.rank, parts.deficient) == (rank, rank == 1)
        assert linear_stability.spectral_rank(np.diag([1.0, smallest])) == rank


def test_objectives_are_quadratic_forms():
    problem = sb.problems.random_walk()
    system, theta = System.exact(problem, sb.TD(0.5)), np.random.default_rng(0).normal(size=(3, 5))
    for name in ("mspbe", "mse_absolute", "mse"):
        form = system.quadratic_form(name)
        r = theta @ form.H.T + form.h
        G = np.diag(form.G) if form.G.ndim == 1 else form.G
        value = form.factor * np.einsum("ki,ij,kj->k", r, G, r) + form.constant
        np.testing.assert_allclose(value, getattr(system, name)(theta), rtol=1e-12)
    assert system.quadratic_form("residual") is None


def test_the_text_of_a_system_leaves_out_what_is_slow(monkeypatch):
    system = System.exact(problems.two_state(0.9), sb.GES(0.4))
    monkeypatch.setattr("saddleback.system.system.SHOWN", 2)
    assert repr(system) == f"System(GES(0.4), p=2, rank=2)\n  {system.stability.reason}"
    monkeypatch.setattr("saddleback.system.system.SHOWN", 1)
    assert repr(system) == "System(GES(0.4), p=2, rank=2)"


@pytest.mark.parametrize(("options", "message"), [
    (dict(batches=1, steps=10), "batches must be at least 2, got 1"),
    (dict(batches=2, steps=21), "steps must be a number up to 20, got 21"),
    (dict(batches=21), "steps in a batch must be a whole number"),
])  # fmt: skip
def test_an_estimate_needs_two_batches_of_a_step(options, message):
    problem = problems.random_walk()
    source = sb.engine.FiniteSource(problem, sb.sample(problem, 20, rng=0))
    with pytest.raises(sb.errors.InvalidParameter, match=message):
        System.estimate(source, sb.TD(0.0), **options)
    assert System.estimate(source, sb.TD(0.0), steps=20, batches=20).batch_steps == 1
    assert System.estimate(source, sb.TD(0.0), batches=2).batch_steps == 10


def test_the_largest_number_of_features_is_estimated(monkeypatch):
    problem = problems.random_walk()
    monkeypatch.setattr("saddleback.system.system.LARGEST", 5)
    assert System.estimate(problem, sb.TD(0.0), steps=10, batches=2).p == 5
    monkeypatch.setattr("saddleback.system.system.LARGEST", 4)
    with pytest.raises(sb.errors.InvalidParameter, match=r"5 features need matrices .* is 4 feat"):
        System.estimate(problem, sb.TD(0.0), steps=10, batches=2)


def test_couplings_of_the_forms():
    """T = saddle·Aᵀ + correction·C − gram_theta·M − hybrid·A_μᵀ, and W likewise."""
    rng = np.random.default_rng(0)
    A, M, C, A_mu = rng.normal(size=(4, 2, 2))
    Z, eye = np.zeros((2, 2)), np.eye(2)
    for rule, T, W in (
        (sb.GES(0.0), A.T, M), (sb.GQ(0.0), C, M), (sb.TDRC(0.0, 0.5), C, M + 0.5 * eye),
        (sb.GTD(), A.T, eye), (rule_named("GTD2Split", 0.0), C - M, M),
        (sb.HTD(0.0), A.T - A_mu.T, -A_mu.T), (sb.TD(0.0), Z, Z),
    ):  # fmt: skip
        coupling = System(A, np.ones(2), M, C, rule, A_mu=A_mu).coupling()
        np.testing.assert_allclose(coupling, (T, W), atol=1e-15)
    with pytest.raises(sb.errors.Undefined, match="needs A_mu, and this system has none"):
        System(A, np.ones(2), M, C, sb.HTD(0.0)).coupling()
