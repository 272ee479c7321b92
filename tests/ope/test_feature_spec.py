"""Features from a text: their numbers, the defaults of a log, and texts that are refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import columns
from saddleback import features
from saddleback.errors import InvalidParameter
from saddleback.features import Scaling
from saddleback.features.standardised import median_distance
from saddleback.ope.feature_spec import (
    as_features,
    box_known,
    parse_features,
    positive_int,
    wrap_features,
)

LOW, HIGH = np.array([-1.0, 2.0]), np.array([3.0, 2.5])
BOX = {"low": (-1.0, 2.0), "high": (3.0, 2.5)}


def a_log(dimensions=2, actions=3, are_features=False):
    roles = SimpleNamespace(are_features=are_features)
    return SimpleNamespace(dimensions=dimensions, n_actions=actions, roles=roles)


def a_sample(states):
    states = np.asarray(states, dtype=float)
    return SimpleNamespace(states=states, low=states.min(axis=0), high=states.max(axis=0))


STATES = np.column_stack([np.linspace(-1.0, 3.0, 9), np.linspace(2.0, 2.5, 9) ** 2 / 2.5])


@pytest.mark.parametrize(
    ("text", "kind", "options"),
    [
        ("tiles", "Tiles", {"bins": 8, "tilings": 8}),
        ("tiles:3", "Tiles", {"bins": 3, "tilings": 8}),
        ("tiles:5x1", "Tiles", {"bins": 5, "tilings": 1}),
        ("tiles:x2", "Tiles", {"bins": 8, "tilings": 2}),
        ("hash", "Tiles", {"bins": 8, "tilings": 8, "table": 4096}),
        ("hash:99", "Tiles", {"bins": 8, "tilings": 8, "table": 99}),
        ("rbf", "RBF", {"centres": 10}),
        ("rbf:120", "RBF", {"centres": 10}),
        ("rbf:121", "RBF", {"centres": 11}),
        ("rbf:3", "RBF", {"centres": 2}),
        ("fourier", "Fourier", {"order": 3}),
        ("fourier:1", "Fourier", {"order": 1}),
        ("polynomial", "Polynomial", {"degree": 2}),
        ("polynomial:3", "Polynomial", {"degree": 3}),
    ],
)
def test_texts_name_features_of_a_box(text, kind, options):
    expected = getattr(features, kind)(**BOX, **options)
    assert parse_features(text, a_log(), None, LOW, HIGH) == expected


def test_a_cube_of_centres_is_that_of_its_number():
    box = {"low": (0.0,) * 3, "high": (1.0,) * 3}
    for total, centres in ((125, 5), (124, 4), (27, 3), (1000, 10)):
        actual = parse_features(f"rbf:{total}", a_log(3), None, np.zeros(3), np.ones(3))
        assert actual == features.RBF(**box, centres=centres)


def test_a_line_has_a_hundred_centres():
    assert parse_features("rbf", a_log(1), None, np.zeros(1), np.ones(1)).centres == 100


def test_the_box_is_the_range_of_the_log():
    """A constant column has a box of width 1, unless the box is given."""
    sample = a_sample([[0.0, 5.0], [2.0, 5.0]])
    actual = parse_features("polynomial", a_log(), sample)
    assert (actual.low, actual.high) == ((0.0, 5.0), (2.0, 6.0))
    actual = parse_features("polynomial", a_log(), sample, None, np.array([3.0, 7.0]))
    assert (actual.low, actual.high) == ((0.0, 5.0), (3.0, 7.0))
    actual = parse_features("polynomial", a_log(), sample, np.array([-1.0, 4.0]))
    assert (actual.low, actual.high) == ((-1.0, 4.0), (2.0, 5.0))


def test_monomials_and_waves_scale_robustly():
    sample = a_sample(STATES)
    scaling = Scaling.of(STATES)
    for text, waves in (("random-fourier", 40), ("random-fourier:7", 7)):
        actual = parse_features(text, a_log(), sample)
        width = round(median_distance(scaling(STATES)), 3)
        assert actual == features.RandomFourier(scaling, waves, width)
    sample.high = sample.high + 100.0
    far = scaling.covering(np.stack([sample.low, sample.high]))
    for text, degree in (("monomials", 2), ("monomials:3", 3)):
        assert parse_features(text, a_log(), sample) == features.Monomials(far, degree)


def test_given_features_and_states():
    assert parse_features("given", a_log(), None) == features.Identity(2)
    assert parse_features("states:7", a_log(1), None) == features.OneHot(7)
    assert parse_features("states", a_log(1), a_sample([[0.0], [4.0]])) == features.OneHot(5)
    with pytest.raises(InvalidParameter):
        parse_features("states", a_log(1), None).size  # noqa: B018


@pytest.mark.parametrize(
    ("states", "actions", "expected"),
    [
        ([[0.0], [4.0]], 3, "OneHot"),
        ([[0.0], [1999.0]], 3, "OneHot"),  # 6000 states over all actions
        ([[0.0], [2000.0]], 3, "8x8"),
        ([[0.0], [5999.0]], 1, "OneHot"),
        ([[0.0], [6000.0]], 1, "8x8"),
        ([[-1.0], [4.0]], 3, "8x8"),
        ([[0.0], [0.5], [4.0]], 3, "8x8"),
        ([[0.5], [4.0]], 3, "8x8"),
        ([[0.0], [0.5]], 13, "8x8"),  # 8·9·13 = 936 tiles
        ([[0.0], [0.5]], 14, "8x4"),
        ([[0.0], [0.5]], 27, "8x4"),  # 4·9·27 = 972
        ([[0.0], [0.5]], 28, "RandomFourier"),
        ([[0.0, 1.0], [4.0, 2.0]], 1, "8x8"),  # 8·81
        ([[0.0, 1.0], [4.0, 2.0]], 2, "8x4"),
        ([[0.0, 1.0], [4.0, 2.0]], 4, "RandomFourier"),
        ([[0.0, 1.0, 2.0], [4.0, 2.0, 5.0]], 1, "RandomFourier"),
    ],
)
def test_defaults_have_few_features(states, actions, expected):
    sample = a_sample(states)
    for text in (None, "auto"):
        actual = parse_features(text, a_log(len(states[0]), actions), sample)
        name = type(actual).__name__
        assert (f"{actual.bins}x{actual.tilings}" if name == "Tiles" else name) == expected
    if expected == "RandomFourier":
        assert actual.waves == 40
    given = parse_features(None, a_log(len(states[0]), actions, are_features=True), sample)
    assert given == features.Identity(len(states[0]))


def test_numbers_are_whole_and_positive():
    assert [positive_int("", text, 5) for text in ("", "1", "12")] == [5, 1, 12]
    for text in ("0", "-1", "1.5", "a"):
        with pytest.raises(InvalidParameter, match=f"{text!r} is not an integer >= 1"):
            positive_int(f"tiles:{text}", text, 5)


def test_which_texts_need_the_range_of_the_log():
    corner = np.zeros(2)
    for text, corners, expected in (
        ("states:4", (None, None), True), ("states", (corner, corner), False),
        ("auto", (corner, corner), False), ("monomials:2", (corner, corner), False),
        ("random-fourier", (corner, corner), False), ("a.stats", (None, None), True),
        ("given", (None, None), True), ("a.py:b", (None, None), True),
        ("tiles", (corner, None), False), ("tiles", (None, corner), False),
        ("tiles", (corner, corner), True), ("tiles", (None, None), False),
    ):  # fmt: skip
        assert box_known(text, *corners) == expected


@pytest.fixture(scope="module")
def log():
    return sb.Log(columns([3, 2, 4], "terminated"))


def test_corners_have_a_number_for_each_entry(log):
    for name in ("low", "high"):
        with pytest.raises(InvalidParameter, match=f"{name} has 3 numbers, .* have 2 entries"):
            as_features("tiles", log, None, **{name: [0.0, 1.0, 2.0]})
        with pytest.raises(InvalidParameter, match=f"{name} is the box of features given as"):
            as_features(features.Identity(2), log, None, **{name: [0.0, 1.0]})


def test_functions_return_a_row_for_each_observation(log):
    sample = log.sample()
    actual = wrap_features(lambda x: np.column_stack([x, x, x[:, :1]]), log, "f", sample)
    assert actual.size == 5
    assert wrap_features(lambda x: x[:, :1], log, "f").size == 1
    for function, shape in (
        (lambda x: x[:1], [1, 2]), (lambda x: x[:, 0], [2]), (lambda x: x[:, :, None], [2, 2, 1]),
    ):  # fmt: skip
        words = (
            f"shape \\[2, 2\\] the function must return \\[2, size\\], got \\[{str(shape)[1:-1]}\\]"
        )
        with pytest.raises(InvalidParameter, match=words):
            wrap_features(function, log, "f", sample)
    for given in (3, features.Identity, int):
        with pytest.raises(InvalidParameter, match="must be an object of saddleback"):
            wrap_features(given, log, "f", sample)
    with pytest.raises(InvalidParameter, match="f failed: ZeroDivisionError"):
        wrap_features(lambda x: 1 // 0, log, "f", sample)
