"""The checks of features, policies and logs pass what saddleback ships, and can fail."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import mixed
from saddleback import Log
from saddleback.checks import CheckFailed, check_features, check_log, check_policy
from saddleback.features import Active

POINTS = np.random.default_rng(0).uniform(0.0, 1.0, (9, 2))


@pytest.mark.parametrize(
    "features",
    [
        sb.features.Tiles((0, 0), (1, 1), bins=4, tilings=3),
        sb.features.Fourier((0, 0), (1, 1), order=2),
        sb.features.Polynomial((0, 0), (1, 1), degree=2),
        sb.features.Custom(lambda x: x > 0.5, size=2),
    ],
    ids=lambda features: type(features).__name__,
)
def test_features_of_the_library_pass(features):
    check_features(features, POINTS)
    check_features(features, POINTS[:1])
    check_features(features, POINTS[:0])


@dataclass
class Broken:
    """Features whose indices and values are given, as functions of the observations."""

    indices: object = lambda x: np.zeros((len(x), 1), dtype=np.uint32)
    value: object = lambda x: None
    size: int = 3
    dimensions: int | None = None

    def encode(self, observations):
        return Active(self.indices(observations), self.value(observations))


@dataclass
class Counting(Broken):
    calls: list = field(default_factory=list)

    def encode(self, observations):
        self.calls.append(1)
        return Active(np.full((len(observations), 1), len(self.calls) % 3, dtype=np.uint32), None)


def meddle(x):
    x *= 2.0
    return np.ones((len(x), 1))


@pytest.mark.parametrize(
    ("features", "failure"),
    [
        (object(), "have no size"),
        (Broken(size=0), "size must be a whole number above 0"),
        (Broken(size=2.5), "size must be a whole number above 0"),
        (Broken(dimensions=3), "expect 3 entries per observation, got 2"),
        (Broken(indices=lambda x: np.zeros(len(x), dtype=int)), r"indices must be whole numbers"),
        (Broken(indices=lambda x: np.zeros((1, 1), dtype=int)), r"indices must be whole numbers"),
        (Broken(indices=lambda x: np.zeros((len(x), 1))), r"indices must be whole numbers"),
        (Broken(indices=lambda x: np.full((len(x), 1), 3)), r"indices must be 0 … 2, got 3 … 3"),
        (Broken(indices=lambda x: np.full((len(x), 1), -1)), r"indices must be 0 … 2, got -1"),
        (Broken(value=lambda x: np.ones((len(x), 2))), r"values must be \[9, 1\] like indices"),
        (Broken(value=lambda x: np.full((len(x), 1), np.nan)), "a value is NaN or infinite"),
        (Broken(indices=lambda x: np.ones((len(x), 2), dtype=int)), "has an index with a value"),
        (Broken(value=meddle), "writes into the observations"),
        (Counting(), "must be deterministic"),
        (Broken(value=lambda x: (x / x.max())[:, :1]), "another result in another batch"),
        (Broken(value=lambda x: np.arange(len(x))[:, None]), "another result in another batch"),
    ],
)  # fmt: skip
def test_broken_features_are_found(features, failure):
    with pytest.raises(CheckFailed, match=failure):
        check_features(features, POINTS)


def test_an_index_may_be_repeated_without_a_value():
    check_features(
        Broken(
            indices=lambda x: np.ones((len(x), 2), dtype=int),
            value=lambda x: np.tile([1.0, 0.0], (len(x), 1)),
        ),
        POINTS,
    )


def half(x):
    return np.full((len(x), 2), 0.5)


def random(x):
    left = np.random.default_rng().random(len(x))
    return np.column_stack([left, 1 - left])


def ranked(x):
    """Depends on the batch: the largest observation gets another action."""
    left = (x[:, 0] == x[:, 0].max()).astype(float)
    return np.column_stack([left, 1 - left])


def writing(x):
    x[:, 0] = 0.0
    return half(x)


@pytest.mark.parametrize(
    ("policy", "failure"),
    [
        (0.5, "must be a function of observations"),
        (lambda x: 0.5 * half(x), "probabilities sum to 0.5, not 1"),
        (lambda x: half(x)[:, :1], r"returned shape \(n, 1\); expected \(n, 2\)"),
        (lambda x: half(x)[:1], r"returned shape \(1, 2\); expected \(n, 2\)"),
        (lambda x: half(x) * [-1.0, 3.0], "a negative probability"),
        (lambda x: half(x) * np.nan, "NaN"),
        (lambda x: 1 / 0, "failed: ZeroDivisionError"),
        (random, "must be deterministic"),
        (ranked, "another result in another batch"),
        (writing, "writes into the observations"),
    ],
)
def test_broken_policies_are_found(policy, failure):
    check_policy(half, POINTS, 2)
    with pytest.raises(CheckFailed, match=failure):
        check_policy(policy, POINTS, 2)


class Restless(Log):
    """A log that gives other propensities each time it is read."""

    def segments(self, tables=(), progress=None, warnings=None):
        for segment in super().segments(tables, progress, warnings):
            yield replace(segment, propensity=np.random.default_rng().random(len(segment)))


def test_logs():
    data = mixed(seed=3)
    check_log(Log(data))
    without = {k: v for k, v in data.items() if not k.startswith(("mu", "next_mu", "behavior"))}
    check_log(Log(without))

    def behaviour(x):
        return np.full((len(x), 3), 1 / 3)

    check_log(Log(without, behaviour=behaviour))
    with pytest.raises(CheckFailed, match=r"sum to 0.5, not 1"):
        check_log(Log(without, behaviour=lambda x: behaviour(x) / 2))

    def by_size(x):
        return np.tile([0.5, 0.5 - 0.001 * len(x), 0.001 * len(x)], (len(x), 1))

    with pytest.raises(CheckFailed, match="gives an observation another result in another batch"):
        check_log(Log(without, behaviour=by_size))
    broken = data | {"reward": np.where(np.arange(len(data["reward"])) == 4, np.nan, 1.0)}
    with pytest.raises(CheckFailed, match="reward"):
        check_log(Log(broken))
    with pytest.raises(CheckFailed, match="a second reading, in other segments, gives other prop"):
        check_log(Restless(data))
    with pytest.raises(sb.errors.InvalidParameter, match="log"):
        check_log(data)
