"""Parts of streams of logs: policies with unknown entries, next actions, and copies of features."""

from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from saddleback.engine import feature_stream
from saddleback.engine.feature_stream import Trajectory, copies_of
from saddleback.errors import RuleMismatch

PI = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]])
PIECE = SimpleNamespace(states=np.array([0, 2]), actions=np.array([1, 0]))


def test_unknown_probabilities_are_shared_equally():
    """By all actions, or by those that were not taken."""
    third = np.full((3, 3), 1 / 3)
    np.testing.assert_allclose(feature_stream._behaviour(PIECE, PI, None, None), third)
    propensity = np.array([0.6, 0.2])
    known_taken = feature_stream._behaviour(PIECE, PI, propensity, None)
    expected = [[0.2, 0.6, 0.2], [1 / 3] * 3, [0.2, 0.4, 0.4]]
    np.testing.assert_allclose(known_taken, expected)
    mu = np.array([[0.2, 0.5, 0.3], [np.nan] * 3, [0.3, 0.3, 0.4]])
    before = mu.copy()
    full = feature_stream._behaviour(PIECE, PI, None, mu)
    np.testing.assert_allclose(full, [mu[0], [1 / 3] * 3, mu[2]])
    clipped = feature_stream._behaviour(PIECE, PI, propensity, mu)
    np.testing.assert_allclose(clipped, [[0.2, 0.6, 0.3], [1 / 3] * 3, [0.2, 0.3, 0.4]])
    clipped = feature_stream._behaviour(PIECE, PI, propensity, np.nan_to_num(mu, nan=0.25))
    np.testing.assert_allclose(clipped, [[0.2, 0.6, 0.3], [0.25] * 3, [0.2, 0.3, 0.4]])
    np.testing.assert_array_equal(mu, before)
    single = feature_stream._behaviour(
        SimpleNamespace(states=np.array([0]), actions=np.array([0])),
        np.ones((1, 1)),
        np.ones(1),
        None,
    )
    assert single.tolist() == [[1.0]]


def test_next_actions_are_needed_where_episodes_go_on():
    piece = SimpleNamespace(
        continues=np.array([True, False, True, True]), next_states=np.array([1, 2, 0, 3]),
        next_actions=np.array([2, -1, 0, 1]),
    )  # fmt: skip
    rule = sb.Sarsa(0.5)
    assert feature_stream._next_pairs(rule, piece, 3).tolist() == [5, 6, 0, 10]
    piece.next_actions[2] = -1
    with pytest.raises(RuleMismatch, match="has 1 truncated episode without"):
        feature_stream._next_pairs(rule, piece, 3)
    piece.next_actions[3] = -1
    with pytest.raises(RuleMismatch, match="has 2 truncated episodes without"):
        feature_stream._next_pairs(rule, piece, 3)


def test_corrections_need_the_behaviour_in_next_states():
    piece = SimpleNamespace(
        continues=np.array([True, False, True, True]), next_states=np.array([1, 2, 0, 1])
    )
    mu = np.full((3, 2), 0.5)
    feature_stream._check_behaviour(sb.GQ(0.5), piece, mu)
    for states, count in (([2], 0), ([0], 1), ([1], 2), ([0, 1], 3)):
        lacking = mu.copy()
        lacking[states] = np.nan
        if not count:
            feature_stream._check_behaviour(sb.GQ(0.5), piece, lacking)
            continue
        with pytest.raises(RuleMismatch, match=f"lacks it after {count} of its steps"):
            feature_stream._check_behaviour(sb.GQ(0.5), piece, lacking)
    with pytest.raises(RuleMismatch, match="lacks it after 3 of its steps"):
        feature_stream._check_behaviour(sb.GQ(0.5), piece, None)


def test_copies_of_features():
    assert copies_of(3, "state", False).tolist() == [[1.0]] * 3
    assert copies_of(2, "action", False).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert copies_of(2, "action", True).tolist() == [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]


def test_a_part_of_a_trajectory_keeps_the_policies():
    columns = [np.arange(5) + 10 * k for k in range(9)]
    trajectory = Trajectory(*columns, target=PI, behaviour=PI / 2)
    part = trajectory.part(slice(1, 3))
    for column, kept in zip(columns, part[:9], strict=True):
        assert kept.tolist() == column[1:3].tolist()
    assert part.target is trajectory.target
    assert part.behaviour is trajectory.behaviour
