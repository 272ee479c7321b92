"""Second moments of a chain, against the plain map T S Tᵀ of every event."""

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import REWARDED, problem_for, rule_named
from saddleback import System, problems
from saddleback.theory import moment_model
from saddleback.theory.mean_square import MeanSquare, largest_stable
from saddleback.theory.moment_model import of_batches, of_chain, of_independent
from saddleback.theory.noise_chain import noise_chain

ALPHA, BETA = 0.05, 0.2


def maps(noise, alpha, beta):
    """Return T of each event, column by column: the step of each unit vector (θ − θ*, ω, 1)."""
    c, k, n = noise.coefficients, noise.k, noise.n
    T = np.zeros((len(noise.delta), n + 1, n + 1))
    for event in range(len(T)):
        e, d, y, phi = (part[event] for part in (noise.e, noise.d, noise.y, noise.phi))
        for column, z in enumerate(np.eye(n + 1)):
            x, w, one = z[:k], z[k:n], z[n]
            error = d @ x + noise.delta[event] * one
            x = x + alpha * c.td * error * e
            if n > k:
                x = x - alpha * (w @ e) * y + alpha * c.gram_theta * (w @ phi) * phi
                w = w + beta * (c.dual * error * e - c.gram * (w @ phi) * phi - c.shrink * w)
            T[event, :, column] = np.concatenate([x, w, [one]])
    return T


def advance(noise, T, S):
    """Return the moments at each node after one step."""
    after = np.zeros_like(S)
    for i, j, q, t in zip(noise.source, noise.target, noise.probability, T, strict=True):
        after[j] += q * t @ S[i] @ t.T
    return after


def full_map(noise, T):
    """Return the matrix of `advance` on all entries of S, without the constant."""
    nodes, n = len(noise.weight), noise.n
    K = np.zeros((nodes, n * n, nodes, n * n))
    for i, j, q, t in zip(noise.source, noise.target, noise.probability, T, strict=True):
        K[j, :, i, :] += q * np.kron(t[:n, :n], t[:n, :n])
    return K.reshape(nodes * n * n, nodes * n * n)


CASES = [
    ("GES", REWARDED, 0.0),
    ("TDRC", problem_for("TDRC", 7, states=3, features=2), 0.0),
    ("TD", problem_for("TD", 3, states=3, features=2, termination=0.2), 0.0),
    ("GQ", problem_for("GQ", 5, states=3, features=2), 0.0),
]


@pytest.mark.parametrize(("name", "problem", "lam"), CASES)
def test_a_chain_has_the_moments_of_its_events(name, problem, lam):
    noise = noise_chain(problem, rule_named(name, lam))
    model, T = of_chain(noise), maps(noise, ALPHA, BETA)
    result = MeanSquare(noise, ALPHA, BETA)
    k, n = noise.k, noise.n
    z = np.zeros(n + 1)
    z[:k], z[n] = -noise.system.fixed_point @ noise.basis, 1.0
    S, errors = noise.start[:, None, None] * np.outer(z, z), []
    for _ in range(9):
        errors.append(np.einsum("iaa->", S[:, :k, :k]))
        S = advance(noise, T, S)
    assert [model.error(ALPHA, BETA, t) for t in range(9)] == pytest.approx(errors, rel=1e-9)
    np.testing.assert_allclose(result.curve(np.arange(9)), errors, rtol=1e-9)
    counts, doubled = model.doubling(ALPHA, BETA, 8)
    assert counts.tolist() == [1, 2, 4, 8]
    np.testing.assert_allclose(doubled, np.array(errors)[counts], rtol=1e-9)
    assert model.moments == len(noise.weight) * (n + 1) * (n + 2) // 2
    radius = np.abs(np.linalg.eigvals(full_map(noise, T))).max()
    assert model.radius(ALPHA, BETA) == pytest.approx(radius, rel=1e-9)
    assert result.radius == pytest.approx(radius, rel=1e-9)
    assert result.stable == (radius < 1)


@pytest.mark.parametrize(("name", "problem", "lam"), [*CASES[:2], ("GES", REWARDED, 0.2)])
def test_the_floor_and_the_bias_stay_as_they_are(name, problem, lam):
    """The long run is a fixed point of the map: first the means, and with them the squares."""
    noise = noise_chain(problem, rule_named(name, lam), nodes=6 if lam else 400)
    alpha, beta = 0.02, 0.03
    T, result = maps(noise, alpha, beta), MeanSquare(noise, alpha, beta)
    nodes, k, n = len(noise.weight), noise.k, noise.n
    drift, constant = np.zeros((nodes, n, nodes, n)), np.zeros((nodes, n))
    for i, j, q, t in zip(noise.source, noise.target, noise.probability, T, strict=True):
        drift[j, :, i, :] += q * t[:n, :n]
        constant[j] += q * noise.weight[i] * t[:n, n]
    drift = np.eye(nodes * n) - drift.reshape(nodes * n, nodes * n)
    means = np.linalg.solve(drift, constant.ravel()).reshape(nodes, n)
    S = np.zeros((nodes, n + 1, n + 1))
    S[:, :n, n] = S[:, n, :n] = means
    S[:, n, n] = noise.weight
    pushed = advance(noise, T, S)[:, :n, :n].ravel()
    squares = np.linalg.solve(np.eye(nodes * n * n) - full_map(noise, T), pushed)
    floor = np.einsum("iaa->", squares.reshape(nodes, n, n)[:, :k, :k])
    assert result.floor == pytest.approx(floor, rel=1e-6)
    np.testing.assert_allclose(
        result.bias, noise.basis @ means.sum(axis=0)[:k], rtol=1e-7, atol=1e-14
    )


def test_initial_weights_of_a_curve():
    """Weights outside the span of the features keep their part of the error."""
    problem = sb.Problem(
        REWARDED.mdp, np.concatenate([REWARDED.features, 0 * REWARDED.features[..., :1]], axis=-1),
        REWARDED.target, REWARDED.behaviour,
    )  # fmt: skip
    noise = noise_chain(problem, sb.GES(0.0))
    theta, omega = np.array([0.5, -1.0, 3.0]), np.array([0.25, 2.0, -7.0])
    T = maps(noise, ALPHA, BETA)
    gap = theta - noise.system.fixed_point
    z = np.concatenate([gap @ noise.basis, omega @ noise.basis, [1.0]])
    S = noise.start[:, None, None] * np.outer(z, z)
    for _ in range(3):
        S = advance(noise, T, S)
    error = np.einsum("iaa->", S[:, :2, :2]) + 9.0
    curve = MeanSquare(noise, ALPHA, BETA).curve([3, 0], theta0=theta, omega0=omega)
    np.testing.assert_allclose(curve, [error, gap @ gap])


@pytest.mark.parametrize("name", ["TD", "GES", "TDRC"])
def test_the_model_of_two_batches_averages_over_their_four_sequences(name):
    problem = problem_for(name, 1, states=4, features=3)
    rule = rule_named(name, 0.0)
    system = System.estimate(problem, rule, steps=400, rng=0, batches=2, keep_batches=True)
    c, star = rule.form.coefficients, system.fixed_point
    first, second = system.batches
    scale = np.sqrt(system.batch_steps * 2)

    def both(name):
        one, two = getattr(first, name), getattr(second, name)
        return [(one + two) / 2 + sign * scale * (one - two) / 2 for sign in (1, -1)]

    A, b, M = both("A"), both("b"), both("M")
    errors = []
    for i in range(2):
        theta = ALPHA * c.td * b[i]
        omega = BETA * c.dual * b[i]
        for j in range(2):
            error = A[j] @ theta + b[j]
            change = c.td * error - c.saddle * A[j].T @ omega + c.gram_theta * M[j] @ omega
            change -= c.correction * (A[j].T + M[j]) @ omega
            errors.append(np.sum((theta + ALPHA * change - star) ** 2))
    assert of_batches(system).error(ALPHA, BETA, 2) == pytest.approx(np.mean(errors))


def test_models_too_large_to_square_are_refused(monkeypatch):
    noise = noise_chain(REWARDED, sb.GES(0.0))
    monkeypatch.setattr(moment_model, "LARGEST", 30)
    assert of_chain(noise).moments == 30
    monkeypatch.setattr(moment_model, "LARGEST", 29)
    with pytest.raises(sb.errors.InvalidParameter, match="needs 2 × 15 moments, more than 29"):
        of_chain(noise)


def test_diverged_moments_are_infinite():
    noise = noise_chain(REWARDED, sb.GES(0.0))
    model = of_chain(noise)
    assert model.error(100.0, 100.0, 10**6) == np.inf
    counts, errors = model.doubling(100.0, 100.0, 10**6)
    assert len(counts) == len(errors) < 15
    assert np.isfinite(errors).all()
    assert model.radius(100.0, 100.0) > 1


def test_without_rewards_all_weights_start_at_one():
    silent = noise_chain(problems.two_state(gamma=0.5), sb.GES(0.0))
    assert of_chain(silent).error(ALPHA, BETA, 0) == pytest.approx(2.0)
    rewarded = noise_chain(REWARDED, sb.GES(0.0))
    star = rewarded.system.fixed_point
    for model in (of_chain(rewarded), of_independent(rewarded, np.eye(2))):
        assert model.error(ALPHA, BETA, 0) == pytest.approx(star @ star)


@pytest.mark.parametrize("limit", [0.3, 0.003])
def test_bisection_for_the_largest_stable_step(limit):
    tried = []

    def stable(alpha):
        tried.append(alpha)
        return alpha < limit

    low = largest_stable(stable, 0.5, 1e-3)
    assert limit / (1 + 1e-3) <= low < limit
    quarters = [0.5 / 4**n for n in range(5)]
    descent = quarters[: quarters.index(max(q for q in quarters if q < limit)) + 1]
    assert tried[: len(descent)] == descent
    assert tried[len(descent)] == pytest.approx(np.sqrt(descent[-1] * descent[-2]))


def test_no_step_is_stable():
    assert largest_stable(lambda _: False, 1.0, 1e-3) == 0.0
    assert largest_stable(lambda alpha: alpha < 4e-12, 1.0, 1e-3) > 0
    assert largest_stable(lambda alpha: alpha < 2e-12, 1.0, 1e-3) == 0.0
    assert largest_stable(lambda _: True, 0.7, 1e-3) == 0.7
    assert largest_stable(lambda _: True, 0.0, 1e-3) == 0.0


def test_a_chain_is_described():
    result = MeanSquare(noise_chain(REWARDED, sb.GES(0.0)), 0.05, 0.1)
    assert repr(result) == (
        f"MeanSquare({sb.GES(0.0).display_name}, alpha=0.05, beta=0.1, nodes=2, "
        f"radius={result.radius:.6g})"
    )
    truncated = MeanSquare(noise_chain(REWARDED, sb.GES(0.2), nodes=6), 0.05, 0.1)
    assert f", truncation_loss={truncated.truncation_loss:.2g})" in repr(truncated)
