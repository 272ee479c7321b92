"""Solutions in the span of the features: ranks, projections and steps against plain algebra."""

import numpy as np
import pytest

from saddleback.errors import InvalidParameter, Undefined
from saddleback.ope.lstd_solve import SINGULAR, FeatureSpan, prediction_distance


def dependent(rng, *, inactive=1, repeated=2, own=3):
    """Return features [n, p] of different sizes, of which some repeat others, and some are 0."""
    free = rng.normal(size=(50, own)) * 10.0 ** np.arange(-3, own - 3)
    combined = free @ rng.normal(size=(own, repeated))
    return np.column_stack([np.zeros((50, inactive)), free, combined])


@pytest.fixture
def system():
    rng = np.random.default_rng(0)
    phi = dependent(rng)
    change = 0.9 * phi[rng.permutation(50)] - phi
    return phi, phi.T @ change / 50, phi.T @ rng.normal(size=50) / 50


def test_the_span_is_that_of_the_features(system):
    phi, _, _ = system
    M = phi.T @ phi / 50
    span = FeatureSpan(M)
    assert (span.rank, span.n_inactive) == (3, 1)
    assert span.active.tolist() == [1, 2, 3, 4, 5]
    size = np.sqrt(np.diag(M)[1:])
    scaled = M[1:, 1:] / np.outer(size, size)
    values, vectors = np.linalg.eigh(scaled)
    assert span.condition == pytest.approx(values[-1] / values[-3], rel=1e-6)
    inverse = np.zeros((6, 6))
    inverse[1:, 1:] = np.linalg.pinv(scaled, rcond=1e-11) / np.outer(size, size)
    np.testing.assert_allclose(span.inverse, inverse, rtol=1e-6, atol=1e-9 * inverse.max())
    outside = np.zeros((6, 6))
    outside[1:, 1:] = vectors[:, :2] @ vectors[:, :2].T / np.outer(size, size)
    np.testing.assert_allclose(span.null_projector, outside, rtol=1e-5, atol=1e-12 * outside.max())
    np.testing.assert_allclose(
        np.einsum("ni,ij,nj->n", phi, span.null_projector, phi), 0, atol=1e-9
    )
    few = span.of_active()
    assert (len(few.M), few.rank, few.n_inactive) == (5, 3, 0)


@pytest.mark.parametrize(
    ("inactive", "repeated", "note"),
    [
        (0, 0, ""),
        (2, 0, "2 of 5 features never active: using the minimum-norm solution"),
        (0, 1, "1 of 4 features collinear: using the minimum-norm solution"),
        (3, 2, "3 of 8 features never active; 2 collinear: using the minimum-norm solution"),
        (2000, 1, "2,000 of 2,004 features never active; 1 collinear: using the minimum-norm "
         "solution"),
    ],
)  # fmt: skip
def test_missing_ranks_are_noted(inactive, repeated, note):
    phi = dependent(np.random.default_rng(1), inactive=inactive, repeated=repeated)
    assert FeatureSpan(phi.T @ phi).note == note


@pytest.mark.parametrize(("share", "rank"), [(0.9e-11, 1), (1.1e-11, 2)])
def test_directions_below_rounding_are_left_out(share, rank):
    """Two features of correlation c have the eigenvalues 1 + c and 1 − c."""
    correlation = (1 - share) / (1 + share)
    assert FeatureSpan(np.array([[1.0, correlation], [correlation, 1.0]])).rank == rank


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_solutions_and_steps_are_those_of_the_equations(system, ridge):
    phi, A, b = system
    M = phi.T @ phi / 50
    D = np.diag(np.diag(M))
    span = FeatureSpan(M)
    factors = span.factor(A, ridge)
    solution = factors.solve(b)
    assert (solution.outcome, solution.ridge, factors.unique) == ("ok", ridge, True)
    directions = phi.T  # equations hold in the span of the features
    size = np.abs(directions.T @ np.linalg.pinv(M, rcond=1e-13) @ b).max()
    residual = span.inverse @ ((A - ridge * D) @ solution.theta + b)
    np.testing.assert_allclose(phi @ residual, 0.0, atol=1e-7 * max(size, 1.0))
    x = phi[:7].mean(axis=0)
    u = factors.adjoint(x)
    np.testing.assert_allclose(
        phi @ span.inverse @ ((A - ridge * D).T @ u - x), 0.0, atol=1e-7 * np.abs(phi @ u).max()
    )
    G, g = span.iteration(A, b, ridge)
    y = np.random.default_rng(2).normal(size=span.rank)
    before, after = span.expand(y), span.expand(G @ y + g)
    wrong = (M + ridge * D) @ after - ((A + M) @ before + b)
    scale = np.abs(phi @ after).max()
    np.testing.assert_allclose(phi @ span.inverse @ wrong, 0.0, atol=1e-7 * scale)
    assert not span.expand(y)[0]


def test_singular_systems_have_the_smallest_least_squares_solution():
    """θ_2 is free: the smallest is 0. The reciprocal condition number counts from 1e-13."""
    span = FeatureSpan(np.eye(3))
    solution = span.solve(np.diag([-2.0, -1.0, 0.0]), np.array([1.0, 3.0, 0.0]))
    np.testing.assert_allclose(solution.theta, [0.5, 3.0, 0.0], atol=1e-12)
    assert solution.outcome.startswith("singular: rank 2 of 3; neither θ nor its predictions")
    for small, unique in ((0.9e-13, False), (1.2e-13, True)):
        factors = span.factor(np.diag([-1.0, -1.0, -small]))
        assert factors.unique == unique
    broader = span.factor(np.diag([-1.0, -1.0, -1e-12]) + 0.0)
    np.testing.assert_allclose(broader.adjoint(np.array([1.0, 2.0, 0.0])), [-1.0, -2.0, 0.0])
    singular = span.factor(np.array([[-1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -1.0]]))
    u = singular.adjoint(np.array([2.0, -2.0, 1.0]))
    np.testing.assert_allclose(u, [-2.0, 0.0, -1.0], atol=1e-12)


def test_without_features_or_with_a_negative_ridge_there_is_nothing_to_solve():
    with pytest.raises(Undefined, match="no feature is ever active on this log"):
        FeatureSpan(np.zeros((2, 2))).solve(np.eye(2), np.ones(2))
    for solve in (FeatureSpan(np.eye(2)).solve, FeatureSpan(np.eye(2)).iteration):
        with pytest.raises(InvalidParameter, match="ridge must be"):
            solve(-np.eye(2), np.ones(2), -1.0)


def test_distances_are_relative_to_the_size_of_predictions():
    rng = np.random.default_rng(3)
    phi, theta, other = rng.normal(size=(20, 3)), rng.normal(size=3), rng.normal(size=3)
    M = phi.T @ phi
    expected = np.linalg.norm(phi @ (theta - other)) / np.linalg.norm(phi @ other)
    assert prediction_distance(theta, other, M) == pytest.approx(expected)
    by_itself = prediction_distance(theta, np.zeros(3), M)
    assert by_itself == pytest.approx(np.linalg.norm(phi @ theta))
    assert prediction_distance(np.zeros(3), np.zeros(3), M) == 0.0
    assert prediction_distance(0.5 * theta, 0.0 * theta, -1e-20 * np.eye(3)) == 0.0


@pytest.mark.parametrize(("share", "regular"), [(20.0, True), (2.0, False)])
def test_singular_is_judged_by_the_largest_column_sum(share, regular):
    """1/(‖A‖₁‖A⁻¹‖₁) is a quarter of the smallest pivot here, with 50 entries in the first row.

    By row sums it would be a hundredth.
    """
    A = np.eye(50)
    A[0], A[-1, -1] = 1.0, share * SINGULAR
    condition = 1.0 / (np.linalg.norm(A, 1) * np.linalg.norm(np.linalg.inv(A), 1))
    assert condition == pytest.approx(share / 4 * SINGULAR, rel=0.5)
    assert (condition > SINGULAR) == regular
    factors = FeatureSpan(np.eye(50)).factor_reduced(A, 0.0)
    assert factors.unique == regular
