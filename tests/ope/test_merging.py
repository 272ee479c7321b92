"""Merging statistics: parts add up, and incompatible statistics are refused."""

import functools
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.logs import columns, mixed
from saddleback import GES, GTB, errors
from saddleback.features import Custom, Fourier, RandomFourier
from saddleback.log import Log, LogError
from saddleback.log.episode_hashes import overlap
from saddleback.ope.feature_spec import as_features
from saddleback.ope.statistics import Statistics
from saddleback.ope.statistics_io import save_statistics

BOX = ((-3.0, -3.0), (3.0, 3.0))
FOURIER = Fourier(*BOX, order=1)


def target(observations):
    """A policy that depends on the observation and never takes some actions."""
    z = np.column_stack([observations[:, 0], -observations[:, 1], np.zeros(len(observations))])
    pi = np.exp(z) * [1.0, 1.0, 0.5]
    pi[observations[:, 1] > 1.0, 1] = 0.0
    return pi / pi.sum(axis=1, keepdims=True)


def statistics_of(log, rules, targets=target, features=FOURIER, gamma=0.9, **options):
    return Statistics.of(log, rules, targets, features=features, gamma=gamma, **options)


@pytest.fixture(scope="module")
def complete():
    data = mixed(seed=10)
    return data, statistics_of(Log(data), [GES(0.6), GTB(0.9)], blocks=4)


def of_episodes(data, which):
    ids = np.unique(data["episode_id"])
    return {k: v[np.isin(data["episode_id"], ids[which])] for k, v in data.items()}


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(0, 3), min_size=18, max_size=18))
def test_merged_parts_equal_the_complete_log(complete, owner):
    data, expected = complete
    parts = []
    for k in set(owner):
        log = Log(of_episodes(data, np.array(owner) == k))
        try:
            parts.append(statistics_of(log, [GES(0.6), GTB(0.9)], blocks=4))
        except errors.InvalidParameter:  # nothing but one-row episodes that stop
            assert not sum(len(piece) for piece in log.segments())
            return
    merged = functools.reduce(Statistics.merge, parts)
    for name in ("A", "b", "M", "starts", "steps", "episodes", "squares"):
        np.testing.assert_allclose(
            getattr(merged, name), getattr(expected, name), rtol=1e-12, atol=1e-12
        )
    for name in ("ids", "fingerprints"):
        assert sorted(getattr(merged, name)) == sorted(getattr(expected, name))
    assert merged.unfinished.sum() == expected.unfinished.sum()
    np.testing.assert_allclose(merged.ceilings, expected.ceilings)


def split(data, at, **options):
    """Return the statistics of the rows before and after one."""
    return [
        statistics_of(Log({k: v[part] for k, v in data.items()}), GES(0.6), **options)
        for part in (slice(0, at), slice(at, None))
    ]


def refused(one, other, message):
    for first, second in ((one, other), (other, one)):
        with pytest.raises(errors.InvalidParameter, match=re.escape(message)):
            first.merge(second)


def test_statistics_of_different_settings_do_not_merge():
    data = columns([4] * 6, "terminated", seed=11)
    log, rest = (Log(of_episodes(data, part)) for part in (slice(0, 3), slice(3, 6)))
    one = statistics_of(log, GES(0.6))
    for message, options in (
        ("merge: gamma differ: 0.", dict(gamma=0.8)),
        ("merge: rules differ: (GES(0.", dict(rules=GES(0.5))),
        ("merge: rules differ: (G", dict(rules=GTB(0.6))),
        ("merge: rules differ: (GES(0.6)", dict(rules=[GES(0.6), GTB(0.6)])),
        ("merge: targets differ: (", dict(targets="uniform")),
        ("merge: target policies differ: (", dict(targets={"target": "uniform"})),
        ("merge: features differ: Fourier(", dict(features=Fourier(*BOX, order=2))),
        ("merge: shared differ: ", dict(shared=True)),
        ("merge: blocks differ: ", dict(blocks=3)),
    ):
        other = dict(rules=GES(0.6)) | options
        refused(one, statistics_of(rest, **other), message)
    renamed = Log(rest.data, actions=["a", "b", "c"])
    refused(one, statistics_of(renamed, GES(0.6)), "merge: actions differ: (")
    assert (
        "Only statistics with equal settings can be merged; recompute one of them."
        in _error_message(lambda: one.merge(statistics_of(rest, GES(0.6), gamma=0.8)))
    )


def _error_message(act):
    with pytest.raises(errors.SaddlebackError) as caught:
        act()
    return str(caught.value)


def test_functions_are_distinguished_by_their_contents():
    data = columns([4] * 6, "terminated", seed=11)
    log, rest = (Log(of_episodes(data, part)) for part in (slice(0, 3), slice(3, 6)))

    def mixing(weights):
        return lambda o: np.tile(weights, (len(o), 1))

    def one(weights, given=log):
        return statistics_of(given, GES(0.6), {"π": mixing(weights)})

    half, other = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])
    assert one(half).merge(one(half.copy(), rest)).steps.sum() == 24
    refused(one(half), one(other, rest), "merge: target policies differ")

    def power(o, k):
        return o**k

    def with_power(k, given):
        custom = Custom(functools.partial(power, k=k), 2)
        return statistics_of(given, GES(0.6), features=custom)

    assert with_power(2, log).merge(with_power(2, rest)).p == 6
    refused(with_power(2, log), with_power(3, rest), "merge: features differ: Custom(partial ")

    class Bold:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, o):
            return np.tile([self.scale, 1 - self.scale, 0.0], (len(o), 1))

    def bold(scale, given):
        return statistics_of(given, GES(0.6), {"π": Bold(scale)})

    assert bold(0.5, log).merge(bold(0.5, rest)).steps.sum() == 24
    refused(bold(0.5, log), bold(0.4, rest), "merge: target policies differ")


def test_overlapping_files_are_refused():
    data = columns([4] * 9, "terminated", seed=12)
    one, two, three = (
        statistics_of(Log(of_episodes(data, part)), GES(0.6))
        for part in (slice(0, 6), slice(5, 9), slice(6, 9))
    )
    refused(
        one,
        two,
        "merge: 1 episode is in both, with identical rows: the same file twice, or overlapping "
        "files. "
        "Leave one of them out.",
    )
    refused(one, one, "merge: 6 episodes are in both, with identical rows")
    both = one.merge(three)
    refused(both, three, "merge: 3 episodes are in both")
    # Numbered alike, but other episodes.
    disjoint = statistics_of(Log(columns([4] * 9, "terminated", seed=13)), GES(0.6))
    assert one.merge(disjoint).episodes.sum() == 15


def test_short_episodes_that_are_alike_by_chance_are_not_overlap():
    rng = np.random.default_rng(0)
    prints = np.array([3, 5, 7, 11], dtype=np.uint64)
    ids = np.arange(1000, dtype=np.uint64)
    one, other = ((ids, rng.choice(prints, 1000, p=[0.7, 0.1, 0.1, 0.1])) for _ in range(2))
    assert overlap(one, other) == 0
    assert overlap(one, one) == 1000
    assert overlap((ids[:5], one[1][:5]), one) == 5
    later = ids + np.uint64(500)
    shifted = (later, np.append(one[1][500:], other[1][:500]))
    assert overlap(one, shifted) == 500
    assert overlap(one, (ids + np.uint64(1000), one[1])) == 0


@pytest.mark.parametrize("step", [True, False])
def test_an_episode_split_between_files_does_not_merge(step):
    data = columns([4, 5, 4], "terminated", seed=14, step=step)
    if step:
        with pytest.raises(LogError, match="E134 episode 11 starts at step 2"):
            split(data, 6)
        return
    one, other = split(data, 6)
    refused(
        one, other,
        "merge: 1 episode without an end flag in one continues in the other: split between files? "
        "Compute the statistics of both files together. If they are "
        "different episodes, give them different ids.",
    )  # fmt: skip
    together = split(data, 4)
    assert together[0].merge(together[1]).steps.sum() == 13


def test_numbered_steps_show_that_no_episode_was_split():
    """Files that number their episodes alike, each with a last one that simply stops."""
    one, other = (
        statistics_of(Log(columns([4, 5], ["terminated", "stops"], seed=seed)), GES(0.6))
        for seed in (14, 15)
    )
    assert one.merge(other).episodes.sum() == 4


def test_estimated_and_logged_propensities_do_not_merge():
    data = columns([4] * 6, "terminated", seed=15)
    one, other = (Log(of_episodes(data, part)) for part in (slice(0, 3), slice(3, 6)))
    guessed = other.with_options(
        behaviour=lambda o: np.full((len(o), 3), 1 / 3), estimated="a guess"
    )
    refused(
        statistics_of(one, GES(0.6)), statistics_of(guessed, GES(0.6)),
        "merge: options for reading the log differ",
    )  # fmt: skip


def test_statistics_with_automatic_features_merge_with_those_of_another_log(tmp_path):
    """The features are scaled to the first log, and read from its statistics for the second."""
    first, second = (Log(columns([9] * 30, "terminated", d=3, seed=seed)) for seed in (1, 2))
    chosen = as_features("auto", first, first.sample())
    assert isinstance(chosen, RandomFourier)
    sums = statistics_of(first, GES(0.0), features=chosen)
    save_statistics(sums, tmp_path / "first.stats")
    reused = as_features(str(tmp_path / "first.stats"), second, None)
    assert reused == chosen
    merged = sums.merge(statistics_of(second, GES(0.0), features=reused))
    assert merged.episodes.sum() == 60
