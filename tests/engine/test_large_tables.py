"""Tables larger than the cache, whose rows are fetched early, give the same bits as small ones."""

import numpy as np
import pytest

import saddleback as sb
from saddleback.engine import Learners, Schedule, Workers
from saddleback.engine.update_kernel import IN_CACHE
from saddleback.features import Tiles
from saddleback.problems.mountain_car import HIGH, LOW


@pytest.mark.kernel
@pytest.mark.parametrize("rule", [sb.GES(0.9), sb.ExpectedSarsa(0.9)], ids=str)
@pytest.mark.parametrize("learners", [1, 5])
def test_the_size_of_a_table_changes_no_bit(rule, learners):
    car = sb.problems.mountain_car(features=Tiles(LOW, HIGH, bins=110, tilings=4))
    assert car.p > IN_CACHE
    (stream,) = car.streamer([rule])(car.sampler(np.random.default_rng(0)).take(60))
    used, places = np.unique(
        np.concatenate([stream.phi_index, stream.next_index]), return_inverse=True
    )
    phi_index, next_index = np.split(places.astype(np.uint32), [len(stream.phi_index)])
    compact = stream._replace(phi_index=phi_index, next_index=next_index)
    sizes = Schedule(np.geomspace(1e-3, 1e-2, learners))

    def weights(stream, p):
        start = np.zeros((learners, p))
        group = Learners(rule.form, sizes, sizes, start, start, 1e6)
        Workers([group], 1).advance([[stream]])
        return group.weights()

    for large, small in zip(weights(stream, car.p), weights(compact, len(used)), strict=True):
        np.testing.assert_array_equal(large[:, used], small)
        assert np.count_nonzero(large) == np.count_nonzero(small)
