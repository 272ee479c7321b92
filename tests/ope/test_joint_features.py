"""Features of observation and continuous action: defaults, texts, functions, and their limits."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from saddleback.errors import InvalidParameter
from saddleback.features.standardised import median_distance
from saddleback.features.state_action import JointScaling
from saddleback.ope.joint_features import as_joint_features, describe


def sample_of(d, k=2, n=30):
    rng = np.random.default_rng(d)
    return SimpleNamespace(
        states=rng.normal(size=(n, d)), next_states=rng.normal(size=(n, d)),
        continues=np.arange(n) % 3 > 0, action_values=rng.normal(size=(n, k)),
    )  # fmt: skip


@pytest.mark.parametrize("given", [None, "auto"])
@pytest.mark.parametrize(("d", "degree"), [(2, 2), (31, 2), (32, 1)])
def test_by_default_monomials_are_quadratic_if_at_most_six_hundred(given, d, degree):
    """Of d + 2 columns there are (d + 3)(d + 4)/2: 595 of 33, and 630 of 34."""
    features = as_joint_features(given, sample_of(d))
    assert features.degree == degree
    assert features.size == ((d + 3) * (d + 4) // 2 if degree == 2 else d + 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("monomials", "monomials of observation and action up to degree 2"),
        ("monomials:3", "monomials of observation and action up to degree 3"),
        ("random-fourier", "100 random Fourier features of observation and action, bandwidth "),
        ("random-fourier:7", "7 random Fourier features of observation and action, bandwidth "),
    ],
)
def test_texts_name_features(text, words):
    sample = sample_of(2)
    features = as_joint_features(text, sample)
    if "Fourier" in words:
        scaling = JointScaling.of(sample.states, sample.action_values)
        points = [scaling.states(sample.states), scaling.actions(sample.action_values)]
        words += f"{median_distance(np.column_stack(points)):.3f}".rstrip("0")
    assert describe(features) == words


def test_monomials_by_hand_cover_the_states_that_follow():
    sample = sample_of(1)
    sample.next_states[4] = 50.0
    assert sample.continues[4]
    clipped, covering = (as_joint_features(one, sample) for one in (None, "monomials:2"))
    far, actions = np.array([[40.0], [50.0]]), np.zeros((2, 2))
    assert np.array_equal(*clipped(far, actions))
    assert not np.array_equal(*covering(far, actions))
    sample.continues[4] = False
    assert np.array_equal(*as_joint_features("monomials:2", sample)(far, actions))


def product(seen, actions):
    return np.column_stack([np.ones(len(seen)), seen[:, 0] * actions[:, 0]])


def test_functions_are_features_of_rows():
    features = as_joint_features(product, sample_of(2))
    assert features.size == 2
    assert describe(features).endswith(", 2 features of observation and action")
    for shape in ((2,), (3, 4), (2, 2, 2)):
        message = re.escape(f"the function must return [2, size], got {list(shape)}.")
        with pytest.raises(InvalidParameter, match=message):
            as_joint_features(lambda seen, actions, shape=shape: np.zeros(shape), sample_of(2))
    with pytest.raises(InvalidParameter, match="features failed: ZeroDivisionError"):
        as_joint_features(lambda seen, actions: 1 / 0, sample_of(2))
    with pytest.raises(InvalidParameter, match=r"must be a function of observations .* got int"):
        as_joint_features(3, sample_of(2))
    with pytest.raises(InvalidParameter, match="'tiles:8x8' are for discrete actions"):
        as_joint_features("tiles:8x8", sample_of(2))


@pytest.mark.parametrize(("size", "fits"), [(2000, True), (2001, False)])
def test_at_most_two_thousand_features_are_used(size, fits):
    def broader(seen, actions):
        return np.zeros((len(seen), size))

    if fits:
        assert as_joint_features(broader, sample_of(2)).size == 2000
    else:
        with pytest.raises(InvalidParameter, match=r"at most 2,000 features .* these are 2,001"):
            as_joint_features(broader, sample_of(2))
