"""The reference on MountainCar against other ways to the same numbers."""

import numpy as np
import pytest

import saddleback as sb
from saddleback.features import Tiles
from saddleback.paper.estimated_system import with_noise
from saddleback.paper.mountain_car_reference import Effort, reference_values
from saddleback.paper.rollout_systems import errors_of, pieces, rollout_systems
from saddleback.problems.mountain_car import HIGH, LOW, mountain_car

TILES = Tiles(LOW, HIGH, bins=2, tilings=2)
PI = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
CAR = mountain_car(
    0.95, features=TILES, target=PI, behaviour=[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]
)


def seed(*numbers):
    return np.random.SeedSequence([41, *numbers])


def replicated(lam, starts=1000, count=12):
    """Return A and b of independent sets of rollouts."""
    systems = [rollout_systems(CAR, (lam,), starts, seed(1, k))[lam].system for k in range(count)]
    return np.array([system.A for system in systems]), np.array([system.b for system in systems])


def mean_and_error(samples):
    return samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(len(samples))


def direct_means(lam, starts, rng):
    """A and b as plain means over rollouts of π, in NumPy: no shared code but the tiles."""
    steps = CAR.sampler(rng).take(20 * starts)
    (x, v), a = steps.observations[::20].T.copy(), steps.actions[::20].copy()

    def one_hot(weights):
        table = np.zeros((starts, TILES.size, 3))
        active = TILES(np.column_stack([x, v]))
        for tiling in active.T:
            table[np.arange(starts), tiling] += weights
        return table.reshape(starts, -1)

    first = one_hot(np.eye(3)[a])
    A, b, weight = np.zeros((54, 54)), np.zeros(54), np.ones(starts)
    while weight.any():
        features = one_hot(np.eye(3)[a])
        v = np.clip(v + 0.001 * (a - 1) - 0.0025 * np.cos(3 * x), -0.07, 0.07)
        x = np.clip(x + v, -1.2, 0.6)
        v[(x == -1.2) & (v < 0)] = 0.0
        going = ~((x >= 0.5) & (v >= 0))
        policy = PI[(v > 0).astype(int)]
        ahead = 0.95 * going[:, None] * one_hot(policy)
        A += (first * weight[:, None]).T @ (ahead - features) / starts
        b -= (first * weight[:, None]).mean(axis=0)
        weight = np.where(going & (weight > 1e-5), 0.95 * lam * weight, 0.0)
        a = (rng.random(starts)[:, None] > np.cumsum(policy, axis=1)).sum(axis=1)
    return A, b


def projections(A, b):
    """Return uᵀ(Aw + b) for 30 pairs of directions u, w: sums, so that they are nearly normal."""
    u, w = np.random.default_rng(0).uniform(0.5, 1.5, size=(2, 30, CAR.p))
    w *= 100 * np.sign(np.arange(30) % 2 - 0.5)[:, None]  # of either sign, as large as values
    return np.einsum("ki,...ij,kj->...k", u, A, w) + np.einsum("ki,...i->...k", u, b)


def agree(by_pi, other, noise):
    one, error = mean_and_error(by_pi)
    spread = np.hypot(error, noise)
    assert np.median(spread / np.abs(other)) < 0.03  # precise enough to see a difference
    assert np.abs((one - other) / spread).max() < 4.5


@pytest.mark.statistical
def test_systems_by_rollouts_are_those_of_plain_means():
    """λ = 0.95 is above the ceiling."""
    assert sb.theory.trace_radius(CAR, sb.GES(0.95)) > 1
    plain = [direct_means(0.95, 300, np.random.default_rng(k)) for k in range(10)]
    A, b = (np.array(part) for part in zip(*plain, strict=True))
    by_pi = replicated(0.95, starts=300, count=10)
    agree(projections(*by_pi), *mean_and_error(projections(A, b)))
    # What the expected features are good for: as many rollouts, but less noise.
    noise = [np.linalg.norm(mean_and_error(samples)[1]) for samples in (by_pi[0], A)]
    assert noise[0] < 0.7 * noise[1]


@pytest.mark.statistical
def test_systems_by_rollouts_are_those_of_importance_traces_below_the_ceiling():
    assert sb.theory.trace_radius(CAR, sb.GES(0.3)) < 1
    by_mu = sb.System.estimate(CAR, sb.GES(0.3), steps=600_000, rng=3, keep_batches=True)
    A, b = (np.array([batch[part] for batch in by_mu.batches]) for part in range(2))
    agree(projections(*replicated(0.3)), *mean_and_error(projections(A, b)))


def test_errors_of_rollouts_add_up_to_the_residual_of_the_system():
    lambdas = (0.4, 0.99)
    theta = np.random.default_rng(0).normal(size=CAR.p)
    for lam, estimates in rollout_systems(CAR, lambdas, 300, seed(2)).items():
        total = np.zeros(CAR.p)
        for piece in pieces(CAR, 300, seed(2)):
            np.add.at(total, piece.pairs, errors_of(piece, CAR, lam, theta)[:, None])
        np.testing.assert_allclose(
            total / 300, estimates.system.A @ theta + estimates.system.b, rtol=1e-9, atol=1e-9
        )
        # At the fixed point they cancel, where the pairs reach.
        visited = np.diag(estimates.system.M) > 0
        np.testing.assert_allclose(estimates.noise.sum(axis=0)[visited], 0, atol=1e-6)


def test_a_lambda_has_the_same_system_with_and_without_others():
    single = rollout_systems(CAR, (0.7,), 60, seed(3))[0.7]
    together = rollout_systems(CAR, (0.5, 0.7), 60, seed(3))[0.7]
    assert np.array_equal(single.system.A, together.system.A)
    assert np.array_equal(single.system.b, together.system.b)


@pytest.mark.statistical
@pytest.mark.parametrize("rule", [sb.GES(0.9), sb.GTB(0.9)])
def test_the_standard_error_of_a_fixed_point_is_its_spread(rule):
    """Its square is the variance, to first order; GTB's comes from batches of experience."""
    effort = Effort(starts=0, steps=0, pairs=300, returns=40, sample=0)
    values = reference_values(CAR, effort, seed(4))
    estimates = [
        rollout_systems(CAR, (0.9,), 1500, seed(5, k))[0.9].mse(values)
        if rule == sb.GES(0.9)
        else with_noise(CAR, rule, 30_000, seed(6, k)).mse(values)
        for k in range(24)
    ]
    claimed = np.sqrt(np.mean([one.error**2 for one in estimates]))
    spread = np.std([one.value for one in estimates], ddof=1)
    assert 0.65 < spread / claimed < 1.5
    assert all(0 < one.added < 0.5 * one.value for one in estimates)
