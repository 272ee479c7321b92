"""Blocks and folds depend on what episodes contain, not on their ids or their order."""

import functools

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import FOURIER, target
from helpers.intervals import interval_from_blocks
from helpers.logs import columns
from helpers.verdicts import TARGET, walk_log
from saddleback.log.episode_hashes import BlockNumbers

pytestmark = pytest.mark.usefixtures("few_candidates")

DATA = columns([7] * 50 + [3] * 50, "terminated", seed=4)
THREE_COLUMNS = columns(
    [7] * 50 + [3] * 50, "terminated", d=3, seed=4
)  # too many columns for tiles
LOGS = {"continuous": (DATA, target, FOURIER), "repeated": (walk_log().data, TARGET, "states")}


def renamed(data, ids):
    """Return the same rows with other episode ids, from those in order."""
    number = np.cumsum(np.append(True, np.diff(data["episode_id"]) != 0)) - 1
    return data | {"episode_id": np.asarray(ids)[number]}


def shuffled(data, seed):
    """Return the same episodes in another order."""
    rows = np.split(np.arange(len(data["reward"])), np.flatnonzero(np.diff(data["episode_id"])) + 1)
    order = np.random.default_rng(seed).permutation(len(rows))
    index = np.concatenate([rows[k] for k in order])
    return {name: column[index] for name, column in data.items()}


def evaluated(data, policy, features):
    """Return a result, without the id that it names."""
    result = sb.evaluate(sb.Log(data), policy, features=features, gamma=0.9).as_dict()
    assert result["verdicts"][0]["evidence"].pop("most_influential").startswith("episode ")
    return result


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*LOGS, "automatic features"])
def test_ids_change_nothing(kind):
    data, policy, features = LOGS.get(kind, (THREE_COLUMNS, target, None))
    expected = evaluated(data, policy, features)
    count = len(np.unique(data["episode_id"]))
    for ids in (np.random.default_rng(1).permutation(count), [f"visit {k}" for k in range(count)]):
        assert evaluated(renamed(data, ids), policy, features) == expected


@pytest.mark.parametrize("kind", LOGS)
def test_ids_change_no_statistics(kind):
    data, policy, _ = LOGS[kind]
    count = len(np.unique(data["episode_id"]))
    one, other = (
        sb.Statistics.of(
            sb.Log(version), sb.GES(0.0), policy, features=FOURIER if kind != "repeated" else
            sb.features.OneHot(5), gamma=0.9,
        )
        for version in (data, renamed(data, np.arange(count) + 1000))
    )  # fmt: skip
    np.testing.assert_array_equal(one.A, other.A)
    np.testing.assert_array_equal(one.episodes, other.episodes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOGS)
def test_the_order_of_episodes_changes_only_rounding(kind):
    data, policy, features = LOGS[kind]
    one, other = (evaluated(version, policy, features) for version in (data, shuffled(data, 2)))
    for before, after in zip(one["estimates"], other["estimates"], strict=True):
        assert before["method"] == after["method"]
        assert after["value"] == pytest.approx(before["value"], rel=1e-8)
        assert after["low"] == pytest.approx(before["low"], rel=1e-8)


def test_equal_episodes_are_spread_over_blocks():
    numbers = BlockNumbers(mergeable=False)
    parts = [numbers.of(np.full(n, 7, dtype=np.uint64)) for n in (1, 0, 300, 2000, 1, 1698)]
    counts = np.bincount((np.concatenate(parts) % 20).astype(int), minlength=20)
    assert counts.sum() == 4000
    assert counts.min() > 140
    assert counts.max() < 260


def test_numbers_do_not_depend_on_how_episodes_arrive():
    contents = np.random.default_rng(3).integers(0, 50, 1000).astype(np.uint64)
    together = BlockNumbers(mergeable=True).of(contents)
    numbers = BlockNumbers(mergeable=True)
    cuts = np.sort(np.random.default_rng(4).integers(0, 1000, 30))
    apart = np.concatenate([numbers.of(part) for part in np.split(contents, cuts)])
    np.testing.assert_array_equal(together, apart)
    assert len(np.unique(together)) == 1000
    other = BlockNumbers(mergeable=False).of(np.random.default_rng(5).permutation(contents))
    assert sorted(other) == sorted(BlockNumbers(mergeable=False).of(contents))


def test_repeated_episodes_of_merged_logs_do_not_widen_the_interval():
    """If they all met in the same blocks, the interval of 16 logs would be 4 times too wide."""
    features = sb.features.OneHot(5)

    def one(seed):
        log = walk_log(seed, episodes=200)
        rng = np.random.default_rng(seed)
        noisy = log.data["reward"] * rng.normal(1, 1, len(log.data["reward"])).round()
        data = log.data | {"reward": noisy, "episode_id": log.data["episode_id"] + 1000 * seed}
        log = sb.Log(data, actions=["left", "right"])
        return sb.Statistics.of(log, sb.GES(0.0), TARGET, features=features, gamma=0.9)

    parts = [one(seed) for seed in range(16)]
    merged = interval_from_blocks(functools.reduce(sb.Statistics.merge, parts)).error
    apart = np.sqrt(np.mean([interval_from_blocks(part).error ** 2 for part in parts]) / 16)
    assert merged == pytest.approx(apart, rel=0.5)
