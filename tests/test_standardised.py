"""Features of standardised observations."""

import numpy as np
import pytest

from saddleback.errors import InvalidParameter
from saddleback.features import Monomials, RandomFourier, Scaling
from saddleback.features.standardised import median_distance, repeated_columns

pytestmark = pytest.mark.kernel


def test_random_fourier_features_approximate_a_gaussian_kernel():
    features = RandomFourier(Scaling((0.0, 0.0), (1.0, 1.0)), 40_000, 1.5, seed=3)
    points = np.array([[0.0, 0.0], [1.0, -0.5]])
    assert features.size == 40_003
    waves = features(points)[:, 3:]
    kernel = np.exp(-0.5 * 1.25 / 1.5**2)
    assert waves[0] @ waves[1] / 40_000 == pytest.approx(kernel, abs=0.02)


def test_scaling_ignores_units_and_drops_constant_columns():
    rng = np.random.default_rng(0)
    points = np.column_stack(
        [rng.normal(size=500), np.full(500, 3.0), np.exp(3 * rng.normal(size=500))]
    )
    scaling = Scaling.of(points)
    assert scaling.size == 2
    assert scaling.logarithm == (False, False, True)
    scaled = scaling(points)
    assert abs(np.median(scaled, axis=0)).max() < 1e-12
    units = points * [1000.0, 7.0, 0.01] + [5.0, 0.0, 0.0]
    assert np.allclose(Scaling.of(units)(units), scaled, atol=1e-9)


def test_scaling_drops_columns_that_repeat_an_earlier_one():
    points = np.random.default_rng(0).normal(size=(500, 3))
    same, nearly = -2.0 * points[:, 0], points[:, 1] + 1e-3 * points[:, 2]
    scaling = Scaling.of(np.column_stack([points, same, same + 1.0, nearly]))
    assert [scale > 0 for scale in scaling.scale] == [True, True, True, False, False, True]


def test_columns_that_differ_in_some_rows_only_are_kept():
    rng = np.random.default_rng(0)
    baseline = np.repeat(rng.normal(size=3000), 2)  # equal in every second row
    current = baseline + np.tile([0.0, 1.0], 3000) * rng.normal(size=6000)
    one, other = rng.normal(size=(2, 6000))
    one[7] = other[7] = -1e6  # an outlier in common
    almost = one.copy()
    one[1], almost[1] = 10.0, 60.0  # beyond both quantiles
    scaling = Scaling.of(np.column_stack([baseline, current, one, other, almost]))
    assert all(scale > 0 for scale in scaling.scale)
    assert repeated_columns(np.full((50, 2), [0.1, 0.3])) == {}


def test_monomials_are_those_up_to_a_total_degree():
    scaling = Scaling((0.0, 0.0, 0.0), (1.0, 0.0, 2.0))  # the second column is constant
    x, y = 1.5, 3.0 / 2.0
    expected = [1.0, x, y, x * x, x * y, y * y]
    monomials = Monomials(scaling, 2)
    assert monomials.size == 6
    assert np.allclose(monomials([[1.5, 9.0, 3.0]]), [expected])
    assert np.allclose(monomials.encode(np.array([[1.5, 9.0, 3.0]])).dense(6), [expected])
    assert Monomials(scaling, 0)([[1.5, 9.0, 3.0]]).tolist() == [[1.0]]


def test_a_covering_scaling_clips_no_observation():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=500), np.full(500, 3.0), rng.lognormal(0, 3, 500)])
    points[7] = [-80.0, 3.0, 1e9]  # outliers
    scaling = Scaling.of(points)
    covering, farther, nearer = scaling.covering(points), points[[7]], 0.9 * points[[7]]
    assert (scaling(farther) == scaling(nearer)).all()  # both are clipped
    assert (np.abs(covering(farther)) > np.abs(covering(nearer))).all()
    assert covering.size == scaling.size == 2
    near = scaling(points[8:9]) / covering(points[8:9])
    assert near == pytest.approx(scaling(points[9:10]) / covering(points[9:10]))  # units only


def test_scalings_of_different_lengths_are_refused():
    with pytest.raises(InvalidParameter, match="differ in length"):
        Scaling((0.0, 0.0), (1.0,))


def test_median_distance_of_a_few_points():
    points = np.random.default_rng(0).normal(size=(31, 3))
    pairs = [np.linalg.norm(points[i] - points[j]) for i in range(31) for j in range(i)]
    assert median_distance(points) == pytest.approx(np.median(pairs))
    assert median_distance(points[:1]) == 1.0
