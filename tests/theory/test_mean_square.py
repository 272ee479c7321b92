"""Exact second moments of learners, against simulation."""

import itertools
import sys

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import REWARDED, problem_for, rule_named
from saddleback import System, learn, mean_square, problems, step_sizes
from saddleback.theory import MeanStability, noise_covariance
from saddleback.theory.moment_model import of_batches, of_independent
from saddleback.theory.noise_chain import noise_chain

module = sys.modules["saddleback.theory.mean_square"]

CASES = [
    ("GES", 0.0, {}),
    ("GQ", 0.0, {}),
    ("ExpectedSarsa", 0.0, {}),
    ("TDRC", 0.0, {}),
    ("GTD", None, {}),
    ("Sarsa", 0.0, {}),
    ("GTD2Split", 0.0, {}),
    ("VTrace", 0.0, {}),
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
    assert result.truncation_loss < 1e-9
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
def test_expected_learning_curves_with_an_emphasis():
    problem = problem_for("ETD", seed=4, gamma=0.5, off_policy=0.3)
    result = mean_square(problem, sb.ETD(0.0), alpha=0.01, nodes=200)
    star = result.noise.system.fixed_point
    run = learn(
        sb.ETD(0.0), problem, alpha=0.01, steps=100, runs=1000, rng=0, record=50,
        metrics={"error": lambda theta: np.sum((theta - star) ** 2, axis=-1)},
    )  # fmt: skip
    errors = run.curves["error"]
    spread = errors.std(axis=1) / np.sqrt(1000)
    tolerance = 4.5 * spread + result.truncation_loss * errors.mean(axis=1)
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
def test_mean_square_limits_are_stricter_than_limits_of_the_mean():
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


@pytest.mark.slow
def test_truncated_chains_report_their_loss():
    problem = problems.random_mdp(0.9, rng=3)
    losses = [noise_chain(problem, sb.GES(0.2), nodes=n).truncation_loss for n in (10, 50, 250)]
    assert losses[0] > losses[1] > losses[2] > 0
    assert noise_chain(problem, sb.GES(0.0)).truncation_loss == 0.0
    coarse, fine = (
        mean_square(problem, sb.GES(0.2), alpha=0.02, beta=0.02, nodes=n) for n in (20, 160)
    )
    assert 0 < fine.floor_error < coarse.floor_error
    assert mean_square(problem, sb.GES(0.0), alpha=0.02, beta=0.02).floor_error == 0.0


def test_diverging_curves_are_infinite():
    result = mean_square(problems.two_state(), sb.GES(0.0), alpha=50, beta=50)
    curve = result.curve([1, 100_000], theta0=1.0)
    assert np.isfinite(curve[0])
    assert curve[1] == np.inf


# Unusual chains.


def chain_of(links, rewards, *, start=None, gamma=0.5, features=None):
    """A problem with one action, tabular by default."""
    P = np.array(links, dtype=float)[:, None, :]
    only = np.ones((len(P), 1))
    mdp = sb.FiniteMDP(P, np.array(rewards, dtype=float)[:, None], gamma=gamma, start=start)
    return sb.Problem(mdp, np.eye(len(P)) if features is None else features, only, only)


def test_transient_states_do_not_count():
    with_transient = chain_of([[0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]], [1, 0, 1], start=[1, 0, 0])
    rest = chain_of([[0, 1], [0.5, 0.5]], [0, 1])
    for rule in (sb.TD(0.0), sb.TD(0.5), sb.GTD2(0.0)):
        one, two = (
            mean_square(p, rule, alpha=0.1, beta=0.1 if "GTD" in str(rule) else None)
            for p in (with_transient, rest)
        )
        np.testing.assert_allclose(one.radius, two.radius, rtol=1e-6)
        np.testing.assert_allclose(one.floor, two.floor, rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(one.max_step_size(), two.max_step_size(), rtol=1e-4)
    long = chain_of(
        [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5], [0, 0, 1, 0]], [0] * 4, start=[1, 0, 0, 0]
    )
    assert mean_square(long, sb.TD(0.5), alpha=0.1, nodes=2).radius < 1


def test_chains_with_several_closed_classes_are_refused():
    split = chain_of([[0, 0.5, 0.5], [0, 1, 0], [0, 0, 1]], [0, 1, 2], start=[1, 0, 0])
    for act in (noise_covariance, step_sizes, lambda p, r: mean_square(p, r, alpha=0.1)):
        with pytest.raises(sb.errors.Undefined, match="long-run distribution is not unique"):
            act(split, sb.TD(0.0))


def test_all_zero_features_are_refused():
    zero = chain_of([[1.0]], [1], features=np.zeros((1, 1)))
    with pytest.raises(sb.errors.Undefined, match="never changes θ"):
        mean_square(zero, sb.TD(0.0), alpha=0.1)


def updates(coefficients, e, d, y, phi, delta):
    """Return the maps of (θ − θ*, ω, 1) by α and by β for one event, from `Coefficients`."""
    c, k = coefficients, len(e)
    theta, omega = np.s_[:k], np.s_[k : 2 * k]
    P, Q = np.zeros((2, 2 * k + 1, 2 * k + 1))
    P[theta, theta], P[theta, -1] = c.td * np.outer(e, d), c.td * delta * e
    P[theta, omega] = c.gram_theta * np.outer(phi, phi) - np.outer(y, e)
    Q[omega, theta], Q[omega, -1] = c.dual * np.outer(e, d), c.dual * delta * e
    Q[omega, omega] = -c.gram * np.outer(phi, phi) - c.shrink * np.eye(k)
    return P, Q


@pytest.mark.parametrize("rule", [sb.GES(0.0), sb.TDRC(0.0), sb.ExpectedSarsa(0.0)])
def test_the_independent_model_has_the_given_covariance(rule):
    """Against S ↦ Σ w B S Bᵀ + D, where D makes up for the covariance that events lack."""
    problem = problems.random_mdp(0.9, rng=3, states=4, features=3, values=rule.values)
    noise = noise_chain(problem, rule).recurrent
    k, c, rng = noise.k, noise.coefficients, np.random.default_rng(0)
    weight = noise.weight[noise.source] * noise.probability
    half = rng.normal(size=(len(noise.basis), len(noise.basis)))
    model = of_independent(noise, half @ half.T)
    parts = noise.e, noise.d, noise.y, noise.phi, noise.delta
    maps = [updates(c, *event) for event in zip(*parts, strict=True)]
    h = noise.e * noise.delta[:, None]
    lacks = noise.basis.T @ half @ half.T @ noise.basis - np.einsum("e,ei,ej->ij", weight, h, h)
    alpha, beta = 0.05, 0.2
    gain = np.array([c.td * alpha, c.dual * beta])
    S = np.zeros((2 * k + 1, 2 * k + 1))
    z = np.append(-noise.basis.T @ noise.system.fixed_point, np.zeros(k + 1))
    z[-1] = 1.0
    S, errors = np.outer(z, z), []
    for _ in range(4):
        moved = np.zeros_like(S)
        for w, (P, Q) in zip(weight, maps, strict=True):
            B = np.eye(2 * k + 1) + alpha * P + beta * Q
            moved += w * B @ S @ B.T
        moved[:-1, :-1] += np.kron(np.outer(gain, gain), lacks)
        S = moved
        errors.append(np.trace(S[:k, :k]))
    actual = [model.error(alpha, beta, n + 1) for n in range(4)]
    np.testing.assert_allclose(actual, errors, rtol=1e-9)
    counts, doubled = model.doubling(alpha, beta, 4)
    assert counts.tolist() == [1, 2, 4]
    np.testing.assert_allclose(doubled, np.array(errors)[[0, 1, 3]], rtol=1e-9)


@pytest.mark.parametrize("rule", [sb.GES(0.2), sb.GTD2(0.2), sb.ExpectedSarsa(0.2)])
def test_the_model_of_batches_averages_over_all_their_sequences(rule):
    """Batches are as noisy as single steps would be: deviations times the root of their steps."""
    problem = problems.random_mdp(0.9, rng=1, states=4, features=3, values=rule.values)
    system = System.estimate(problem, rule, steps=600, rng=0, batches=5, keep_batches=True)
    c, star, p = rule.form.coefficients, system.fixed_point, len(system.b)
    scale = np.sqrt(system.batch_steps * 5 / 4)

    def noisy(name):
        values = np.array([getattr(batch, name) for batch in system.batches])
        return values.mean(axis=0) + scale * (values - values.mean(axis=0))

    A, b, M = noisy("A"), noisy("b"), noisy("M")
    alpha, beta, steps, errors = 1e-3, 2e-3, 3, np.zeros(3)
    for sequence in itertools.product(range(5), repeat=steps):
        theta, omega = np.zeros((2, p))
        for n, i in enumerate(sequence):
            delta = A[i] @ theta + b[i]
            change = c.td * delta - c.saddle * A[i].T @ omega + c.gram_theta * M[i] @ omega
            change -= c.correction * (A[i].T + M[i]) @ omega
            omega = omega + beta * (c.dual * delta - c.gram * M[i] @ omega - c.shrink * omega)
            theta = theta + alpha * change
            errors[n] += np.sum((theta - star) ** 2) / 5**steps
    model = of_batches(system)
    actual = [model.error(alpha, beta, n + 1) for n in range(steps)]
    np.testing.assert_allclose(actual, errors, rtol=1e-9)


def test_the_largest_step_of_one_state():
    """θ ← θ + α(R − θ/2) shrinks (1 − α/2)² per step, which is less than 1 up to α = 4."""
    result = mean_square(chain_of([[1.0]], [1]), sb.TD(0.0), alpha=0.1)
    assert result.radius == pytest.approx(0.95**2)
    assert result.max_step_size() == pytest.approx(4.0, rel=1e-6)
    assert result.max_step_size(accuracy=0.1) == pytest.approx(4.0, rel=0.1)
    assert result.stable
    assert not mean_square(chain_of([[1.0]], [1]), sb.TD(0.0), alpha=4.0).stable
    result = mean_square(REWARDED, sb.GES(0.0), alpha=0.1, beta=0.3)
    for ratio in (None, 0.5):
        limit, r = result.max_step_size(ratio, accuracy=1e-3), ratio or 3.0
        for factor, stable in ((0.998, True), (1.002, False)):
            alpha = limit * factor
            assert mean_square(REWARDED, sb.GES(0.0), alpha=alpha, beta=r * alpha).stable == stable


@pytest.mark.parametrize("size", [0.001, 0.05, 2.0])
def test_large_maps_have_the_radius_of_their_matrix(monkeypatch, size):
    noise = noise_chain(REWARDED, sb.GES(0.3), nodes=8)
    radius = module.MeanSquare(noise, size, 2 * size).radius
    monkeypatch.setattr(module, "DENSE", 0)
    assert module.MeanSquare(noise, size, 2 * size).radius == pytest.approx(radius, rel=1e-9)
    monkeypatch.setattr(module, "DENSE", len(noise.weight) * 16)
    monkeypatch.setattr(module, "eigs", None)  # of a matrix of exactly this size all are computed
    assert module.MeanSquare(noise, size, 2 * size).radius == radius


def test_floors_near_instability_are_refused():
    for radius, message in (
        (1.0, "the second moments grow by 1 per step"), (1 - 1e-12, "is lost in rounding"),
        (1 - 2e-11, None),
    ):  # fmt: skip
        result = mean_square(REWARDED, sb.GES(0.0), alpha=0.02, beta=0.02)
        floor = result.floor
        result = mean_square(REWARDED, sb.GES(0.0), alpha=0.02, beta=0.02)
        vars(result)["radius"] = radius
        if message is None:
            assert result.floor == floor
            continue
        with pytest.raises(sb.errors.Undefined, match=message):
            _ = result.floor


def test_truncation_is_judged_by_half_of_the_nodes():
    floors = [
        mean_square(REWARDED, sb.GES(0.2), alpha=0.02, beta=0.02, nodes=n).floor for n in (7, 3)
    ]
    result = mean_square(REWARDED, sb.GES(0.2), alpha=0.02, beta=0.02, nodes=7)
    assert result.floor_error == pytest.approx(abs(floors[0] - floors[1])) != 0
    assert mean_square(REWARDED, sb.GES(0.0), alpha=0.02, beta=0.02).floor_error == 0.0
