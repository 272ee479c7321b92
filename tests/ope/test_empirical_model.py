"""The empirical model: labels of its states, and every draw by a plain loop."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import always
from saddleback.features import Custom, OneHot, Tiles
from saddleback.log.target_policies import as_targets
from saddleback.ope.empirical_model import (
    EmpiricalModel,
    OutOfSteps,
    StateLabels,
    active_feature,
    limit_of_steps,
)
from saddleback.ope.episode_sample import sample_episodes

STATES = 3


def sample_of(lengths, seed=0, policy=None, ends="terminated"):
    """Return a sample of random decisions in three states."""
    rng = np.random.default_rng(seed)
    n, last = int(np.sum(lengths)), np.cumsum(lengths) - 1
    is_last = np.isin(np.arange(n), last)
    data = {
        "episode_id": np.repeat(np.arange(len(lengths)), lengths),
        "obs_0": rng.integers(0, STATES, n).astype(float), "action": rng.integers(0, 2, n),
        "reward": rng.normal(size=n), "terminated": is_last & (ends == "terminated"),
        "truncated": is_last & (ends == "truncated"), "behavior_prob": np.full(n, 0.5),
    }  # fmt: skip
    if ends == "truncated":
        data["next_obs_0"] = np.where(is_last, 1.0, np.nan)
    log = sb.Log(data)
    policy = policy or (lambda x: np.column_stack([0.3 + 0.2 * x[:, 0], 0.7 - 0.2 * x[:, 0]]))
    return sample_episodes(log, as_targets({"new": policy}, log), 10_000)[0]


def split_mix(state):
    """Return the next state of SplitMix64, and its number in [0, 1), in integers of Python."""
    mask = 2**64 - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, ((z ^ (z >> 31)) >> 11) / 2**53


def at_share(weights, share):
    """Return the first index whose cumulative weight exceeds a share of all."""
    total = share * math.fsum(weights)
    for k, below in enumerate(itertools.accumulate(weights)):
        if below > total:
            return k
    return len(weights) - 1


def draws_by_loop(sample, labels, draws, gamma, steps, weights, seed=0):
    """Return the return of each draw and how it ended, and its steps and those that are rare."""
    rng = np.random.default_rng(seed)
    firsts = rng.random(draws)
    streams = rng.integers(0, 2**64, draws, dtype=np.uint64).tolist()
    groups = {}
    for row, (s, a) in enumerate(zip(labels.before.tolist(), sample.actions.tolist(), strict=True)):
        groups.setdefault((s, a), []).append(row)
    results, taken, rare = [], 0, 0
    for first, stream in zip(firsts, streams, strict=True):
        e = at_share(weights, first)
        s, pi = labels.start[e], sample.start_pi["new"][e]
        total, end = 0.0, "limit"
        for t in range(steps):
            stream, choice = split_mix(stream)
            stream, share = split_mix(stream)
            rows = groups.get((int(s), at_share(pi, choice)), [])
            if not rows:
                end = "unknown"
                break
            taken, rare = taken + 1, rare + (len(rows) < 5)
            row = rows[at_share([weights[sample.episode[r]] for r in rows], share)]
            total += gamma**t * sample.rewards[row]
            if not sample.continues[row]:
                end = "ended"
                break
            s, pi = labels.after[row], sample.next_pi["new"][row]
        results.append((total, end))
    return results, taken, rare


CASES = [
    # lengths, γ, horizon, limit, whether episodes are weighted
    ([4, 2, 5, 3, 1, 6, 2, 7, 3, 4], 0.9, None, 1000, False),
    ([4, 2, 5, 3, 1, 6, 2, 7, 3, 4], 1.0, None, 3, True),
    ([4, 2, 5, 3, 1, 6, 2, 7, 3, 4], 0.5, 2, 1000, True),
    ([3] * 4, 0.9, 2, 1000, False),  # few rows, so that some pairs are unknown
]


@pytest.mark.kernel
@pytest.mark.parametrize(("lengths", "gamma", "horizon", "limit", "weighted"), CASES)
def test_draws_are_those_of_a_loop(lengths, gamma, horizon, limit, weighted):
    sample = sample_of(lengths)
    labels = label(sample)
    model = EmpiricalModel.of(sample, labels, "new")
    assert model.n_episodes == len(lengths)
    weights = np.random.default_rng(1).uniform(0.1, 3.0, len(lengths)) if weighted else None
    drawn = model.simulate(60, gamma, horizon, limit=limit, weights=weights, seed=5)
    steps = horizon or (limit if gamma == 1.0 else limit_of_steps(gamma, limit))
    weights = np.ones(len(lengths)) if weights is None else weights
    expected, taken, rare = draws_by_loop(sample, labels, 60, gamma, steps, weights, seed=5)
    counted = ("ended",) if gamma == 1.0 and horizon is None else ("ended", "limit")
    kept = [total for total, end in expected if end in counted]
    np.testing.assert_allclose(drawn.returns, kept, rtol=1e-12)
    assert drawn.unknown == pytest.approx(1 - len(kept) / 60)
    assert drawn.steps == pytest.approx(taken / 60)
    assert drawn.rare == pytest.approx(rare / taken)
    if len(lengths) == 4:
        assert {end for _, end in expected} == {"unknown", "ended", "limit"}


def label(sample):
    """Label states by their number, however many rows each has."""
    points = [part[:, 0].astype(int) for part in (sample.states, sample.next_states, sample.starts)]
    return StateLabels(*points, STATES)


@pytest.mark.kernel
def test_the_logged_policy_draws_rows_of_a_state():
    """Without a target all rows of a state are of one group, and nothing is unknown."""
    sample = sample_of([4, 2, 5, 3, 1, 6, 2, 7, 3, 4])
    labels = label(sample)
    drawn = EmpiricalModel.of(sample, labels, None).simulate(60, 0.9, 3, limit=9)
    one = replace(
        sample, actions=0 * sample.actions, next_pi={"new": np.ones((37, 1))},
        start_pi={"new": np.ones((10, 1))},
    )  # fmt: skip
    expected, taken, _ = draws_by_loop(one, labels, 60, 0.9, 3, np.ones(10))
    np.testing.assert_allclose(drawn.returns, [total for total, _ in expected], rtol=1e-12)
    assert (drawn.unknown, drawn.steps) == (0.0, taken / 60)


@pytest.mark.kernel
def test_simulations_stop_beyond_the_most_steps():
    sample = sample_of([4, 2, 5, 3, 1, 6, 2, 7, 3, 4])
    model = EmpiricalModel.of(sample, label(sample), "new")
    needed = round(20 * model.simulate(20, 0.9, 3, limit=9).steps)
    assert model.simulate(20, 0.9, 3, limit=9, max_steps=needed).steps == needed / 20
    with pytest.raises(OutOfSteps):
        model.simulate(20, 0.9, 3, limit=9, max_steps=needed - 1)


def test_states_that_are_not_logged_have_no_steps():
    """Every draw begins with an action that is never taken."""
    sample = sample_of([4, 2, 5, 3, 1, 6, 2, 7, 3, 4], policy=always(0.0, 1.0))
    never = replace(sample, actions=0 * sample.actions)
    drawn = EmpiricalModel.of(never, label(sample), "new").simulate(7, 0.9, 3, limit=9)
    assert (len(drawn.returns), drawn.unknown, drawn.rare, drawn.steps) == (0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize("gamma", [0.1, 0.5, 0.99])
def test_steps_are_followed_until_a_thousandth_is_left(gamma):
    steps = limit_of_steps(gamma, 3)
    assert gamma**steps <= 1e-3 * (1 + 1e-9) < gamma ** (steps - 1)
    assert [limit_of_steps(one, 3) for one in (0.0, 1.0)] == [1, 3]


def test_states_have_ten_rows_on_average():
    """Three states: 30 rows are just enough, 29 are not."""
    for rows, count in ((30, 3), (29, None)):
        sample = sample_of([1] * rows)
        assert len(np.unique(sample.states)) == STATES
        labels = StateLabels.of(sample, None)
        assert (None if labels is None else labels.count) == count
    sample = sample_of([2] * 15, ends="truncated")
    labels = StateLabels.of(sample, None)
    for part, points in (
        (labels.before, sample.states), (labels.after, sample.next_states),
        (labels.start, sample.starts),
    ):  # fmt: skip
        assert part.tolist() == points[:, 0].astype(int).tolist()


def test_states_are_those_of_all_points_not_only_of_the_first_rows():
    """A fourth state comes last, where 39 rows allow for three."""
    sample = sample_of([1] * 39)
    later = sample.states.copy()
    later[-1] = 9.0
    assert StateLabels.of(replace(sample, states=later), None) is None
    assert StateLabels.of(replace(sample, starts=later), None) is None
    more = replace(sample_of([1] * 40), states=np.append(later, [[0.0]], axis=0))
    assert StateLabels.of(more, None).count == 4


def test_one_active_feature_is_a_state():
    """Several, or features of different sizes, are none: then observations are."""
    sample = sample_of([1] * 30)
    halves = Custom(lambda x: np.eye(2)[(x[:, 0] > 0).astype(int)], 2)
    assert StateLabels.of(sample, halves).count == 2 < StateLabels.of(sample, OneHot(3)).count
    points = np.arange(3.0)[:, None]
    assert active_feature(OneHot(3), points).tolist() == [[0.0], [1.0], [2.0]]
    assert active_feature(Tiles((0.0,), (2.0,), bins=2, tilings=2), points) is None
    sized = Custom(lambda x: np.eye(3)[x[:, 0].astype(int)] * (1 + x), 3)
    assert active_feature(sized, points) is None
    assert StateLabels.of(sample, sized).count == 3
    same = Custom(lambda x: 2.0 * np.eye(3)[x[:, 0].astype(int)], 3)
    assert active_feature(same, points).tolist() == [[0.0], [1.0], [2.0]]
    assert StateLabels.of(sample, same).count == 3
