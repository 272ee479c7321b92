"""The sample of episodes: what it keeps, where it is cut, and what is known of each row."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import target
from helpers.logs import columns, mixed
from saddleback.errors import InvalidParameter
from saddleback.log import LogSample
from saddleback.log.target_policies import as_targets
from saddleback.ope import episode_sample
from saddleback.ope.episode_sample import EpisodeSampler, sample_episodes
from saddleback.ope.log_pass import read_log


def sampled(log, rows=10_000, *arguments, **options):
    return sample_episodes(log, as_targets({"new": target}, log), rows, *arguments, **options)


@pytest.fixture(scope="module")
def sample():
    return sampled(sb.Log(mixed(3)))[0]


def test_probabilities_of_actions_taken_are_those_of_the_state_before(sample):
    """Of a first row in the first state, of others in what the row before led to."""
    expected = []
    for row, (t, e) in enumerate(zip(sample.step, sample.episode, strict=True)):
        pi = sample.start_pi["new"][e] if t == 0 else sample.next_pi["new"][row - 1]
        expected.append(pi[sample.actions[row]])
    assert sample.taken_pi("new").tolist() == expected
    own = target(sample.states)[np.arange(len(expected)), sample.actions]
    np.testing.assert_allclose(expected, own)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_returns_are_sums_of_discounted_rewards(sample, gamma):
    expected = [
        sum(gamma**t * r for t, r in enumerate(sample.rewards[sample.episode == e]))
        for e in range(len(sample.starts))
    ]
    assert sample.returns(gamma) == pytest.approx(expected)


def test_folds_and_ends_of_episodes(sample):
    assert sample.folds.tolist() == [e % 5 for e in range(len(sample.starts))]
    following = np.append(sample.episode[1:], -1)
    assert sample.last.tolist() == (sample.episode != following).tolist()
    assert sample.n_actions == 3


@pytest.mark.parametrize(
    ("lengths", "truncated", "horizon"),
    [([3, 5, 5], [0, 1, 1], 5), ([3, 5, 5], [1, 1, 1], None), ([3, 5, 5], [1, 0, 0], None),
     ([3, 5, 5], [0, 0, 0], None), ([4, 2, 1], [1, 0, 0], 4), ([5, 2, 4], [0, 0, 1], None)],
)  # fmt: skip
def test_the_horizon_of_a_task_is_the_common_length_of_truncated_episodes(
    lengths, truncated, horizon
):
    step = np.concatenate([np.arange(n) for n in lengths])
    continues = np.ones(len(step), bool)
    continues[np.cumsum(lengths) - 1] = np.array(truncated, dtype=bool)
    last = np.append(step[1:] == 0, True)
    one = SimpleNamespace(step=step, continues=continues, last=last)
    assert episode_sample.EpisodeSample.task_horizon.fget(one) == horizon


@pytest.mark.parametrize(("most", "episodes"), [(0, 10), (30, 10), (39, 12), (38, 11), (99, 14)])
def test_a_thinned_sample_has_the_first_episodes(most, episodes):
    """At least two in each of five folds."""
    lengths = [3, 1, 4, 2, 5, 3, 2, 6, 3, 1, 2, 3, 4, 5]
    full = sampled(sb.Log(columns(lengths, "terminated")))[0]
    in_order = np.cumsum(np.bincount(full.episode))
    most = (
        most
        if most in (0, 99)
        else int(in_order[episodes - 1])
        if most != 38
        else int(in_order[11]) - 1
    )
    few = full.thinned(most)
    assert len(few.starts) == episodes
    n = int(in_order[episodes - 1])
    for name in ("states", "next_states", "actions", "rewards", "continues", "episode", "step",
                 "propensities"):  # fmt: skip
        assert np.array_equal(getattr(few, name), getattr(full, name)[:n])
    for name in ("starts", "numbers", "priorities"):
        assert np.array_equal(getattr(few, name), getattr(full, name)[:episodes])
    assert np.array_equal(few.next_pi["new"], full.next_pi["new"][:n])
    assert np.array_equal(few.start_pi["new"], full.start_pi["new"][:episodes])
    assert (few.total, few.action_values, few.estimated) == (14, None, False)
    valued = replace(full, action_values=np.arange(len(full.rewards))[:, None], estimated=True)
    assert valued.thinned(most).action_values[:, 0].tolist() == list(range(n))
    assert valued.thinned(most).estimated


def by_hand(data, order):
    """Return the columns of a log by episodes in some order."""
    ids = list(dict.fromkeys(data["episode_id"].tolist()))
    rows = [np.flatnonzero(data["episode_id"] == ids[number]) for number in order]
    return np.concatenate(rows), [len(own) for own in rows]


@pytest.mark.parametrize("segment", [1 << 16, 7, 1])
def test_a_sample_holds_rows_as_logged_however_they_are_segmented(segment):
    data = columns([3, 1, 9, 2, 5, 3, 2, 6, 3, 1, 2, 3], "truncated")
    full, _ = sampled(sb.Log(data, segment=segment))
    rows, lengths = by_hand(data, full.numbers)
    assert full.rewards.tolist() == data["reward"][rows].tolist()
    assert full.actions.tolist() == data["action"][rows].tolist()
    assert full.propensities.tolist() == data["behavior_prob"][rows].tolist()
    states = np.column_stack([data["obs_0"], data["obs_1"]])
    assert np.array_equal(full.states, states[rows])
    assert full.episode.tolist() == np.repeat(np.arange(12), lengths).tolist()
    assert full.step.tolist() == [t for n in lengths for t in range(n)]
    assert full.continues.all()
    assert np.array_equal(full.starts, full.states[full.step == 0])
    after = np.column_stack([data["next_obs_0"], data["next_obs_1"]])[rows]
    after[~full.last] = full.states[1:][~full.last[:-1]]
    assert np.array_equal(full.next_states, after)
    np.testing.assert_allclose(full.next_pi["new"], target(after))
    np.testing.assert_allclose(full.start_pi["new"], target(full.starts))
    assert (np.diff(full.priorities.astype(float)) > 0).all()
    assert (full.total, full.estimated, full.action_values) == (12, False, None)


@pytest.mark.parametrize("segment", [1 << 16, 7, 2])
def test_larger_logs_keep_the_episodes_of_smallest_number(segment):
    """Episodes are cut at a sixteenth of the rows: here at 3 of 48."""
    data = columns([4, 1, 9, 2, 5, 3, 2, 6, 3, 1, 2, 3] * 4, "terminated")
    log = sb.Log(data, segment=segment)
    full = sampled(log)[0]
    sampler = EpisodeSampler(as_targets({"new": target}, log), 48)
    read_log(log, [sampler], as_targets({"new": target}, log), mergeable=False)
    few = sampler.sample
    cut = np.minimum(np.bincount(full.episode), 3)
    kept = int(np.searchsorted(np.cumsum(cut), 48, "right"))
    assert few.numbers.tolist() == full.numbers[:kept].tolist()
    first = full.step < 3
    n = int(cut[:kept].sum())
    assert few.rewards.tolist() == full.rewards[first][:n].tolist()
    assert np.bincount(few.episode).tolist() == cut[:kept].tolist()
    assert few.total == 48
    assert sampler.longest_episode == (9 if segment > 9 else sampler.longest_episode)


def test_a_horizon_is_not_shorter_than_the_episodes():
    data = columns([4, 2, 4, 4, 3] * 3, "terminated")
    log = sb.Log(data)
    assert sampled(log, 10_000, 4)[1] == 4
    words = "the horizon is 3, but episodes have up to 4 steps"
    with pytest.raises(InvalidParameter, match=words):
        sampled(log, 10_000, 3)


@pytest.mark.parametrize(("horizon", "episodes"), [(4, 25), (31, 12), (32, 12), (900, 12)])
def test_long_tasks_have_fewer_rows(monkeypatch, horizon, episodes):
    """The product of steps, at most 32 of them, and rows is limited."""
    monkeypatch.setattr(episode_sample, "MAX_CELLS", 400)
    log = sb.Log(columns([4] * 30, "terminated"))
    few, _ = sampled(log, 10_000, horizon)
    rows = 400 // min(horizon, 32)
    assert len(few.starts) == max(rows // 4, 10)


def test_limits_of_steps_and_cells():
    assert (episode_sample.MIN_STEPS, episode_sample.MAX_CELLS) == (32, 500_000)


@pytest.mark.parametrize(
    ("ends", "following", "horizon"),
    [("truncated", True, 4), ("truncated", False, None), ("terminated", True, None)],
)
def test_a_time_limit_of_the_task_is_its_horizon(ends, following, horizon):
    """If next observations are known: otherwise the last value is 0."""
    data = columns([4] * 12, ends, following=following)
    one, common_length = sampled(sb.Log(data, time_limit="task"))
    assert common_length == horizon
    assert one.continues[one.last].all() == (horizon is not None)
    assert one.continues[~one.last].all()
    other, none = sampled(sb.Log(data))
    assert none is None
    assert one.continues[one.last].any() == (horizon is not None)
    assert len(other.starts) == 12


def test_states_of_all_rows_are_sampled_in_the_same_pass():
    log = sb.Log(columns([4] * 12, "terminated"))
    states = LogSample(log.n_actions, log.dimensions)
    sampled(log, 16, None, states)
    assert states.action_counts.sum() == 48
    assert len(states.states) == 48


def test_a_log_without_transitions_has_no_sample():
    log = sb.Log(columns([1, 1], "truncated", following=False))
    with pytest.raises(InvalidParameter, match="no transitions"):
        sampled(log)


@pytest.mark.parametrize("segment", [1 << 16, 3])
def test_tiny_samples_keep_an_episode_of_one_row(segment):
    """Fewer than 32 rows: episodes are cut to one, and the last is kept whatever its size."""
    log = sb.Log(columns([4, 3, 5, 2], "terminated"), segment=segment)
    full = sampled(log)[0]
    first = full.step == 0
    for most, episodes in ((31, 4), (3, 3), (1, 1), (0, 1)):
        few = sampled(log, most)[0]
        assert few.rewards.tolist() == full.rewards[first][:episodes].tolist()
