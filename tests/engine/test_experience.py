"""Experience: drawn step by step, checked against its problem, cut into chunks and recorded."""

import dataclasses

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import problem_for
from saddleback.engine import Chunker, TransitionSampler, record_points
from saddleback.engine.schedule import as_schedule
from saddleback.errors import InvalidParameter, InvalidShape, UndefinedRatio


@pytest.mark.kernel
@pytest.mark.parametrize("sizes", [(50,), (20, 1, 29)])
def test_each_step_is_drawn_from_four_numbers(sizes):
    """Next state, end, first state of the next episode, and next action, by their sums."""
    problem = problem_for("TD", 3, termination=0.2, states=4, features=3)
    mdp, rng = problem.mdp, np.random.default_rng(7)
    sampler = TransitionSampler(problem, np.random.default_rng(7))
    seen = [sampler.take(size) for size in sizes]

    def draw(probabilities, u):
        return int(np.flatnonzero(np.cumsum(probabilities) > u)[0])

    first = rng.random(2)
    s = draw(mdp.start, first[0])
    a, begins, steps = draw(problem.behaviour[s], first[1]), True, []
    for u in rng.random((50, 4)):
        after = draw(mdp.P[s, a], u[0])
        over = u[1] < mdp.ends[s, a, after]
        step = [s, a, mdp.rewards[s, a, after], after, 0.0 if over else mdp.gamma, begins]
        s = draw(mdp.start, u[2]) if over else after
        a, begins = draw(problem.behaviour[s], u[3]), over
        steps.append([*step[:4], 0 if over else a, *step[4:]])
    columns = [np.concatenate(parts) for parts in zip(*map(columns_of, seen), strict=True)]
    for column, expected in zip(columns, zip(*steps, strict=True), strict=True):
        np.testing.assert_array_equal(column, expected)
    assert 5 < columns[-1].sum() < 20


def columns_of(experience):
    """Return the columns of experience, in order."""
    return [getattr(experience, field.name) for field in dataclasses.fields(experience)]


def walked():
    """A problem with terminal states and an action that is never taken, and steps of it."""
    P = np.zeros((4, 2, 4))
    P[0, :, 1] = P[1, :, 2] = P[2, 0, 3] = P[2, 1, 0] = P[3, :, 3] = 1.0
    mdp = sb.FiniteMDP(P, np.ones((4, 2)), 0.9, start=[1, 0, 0, 0], terminal=[3])
    mu = np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    problem = sb.Problem(mdp, np.eye(4), mu, mu)
    steps = sb.Experience(
        states=[0, 1, 2, 0, 1, 2], actions=[1, 0, 1, 0, 0, 0], rewards=[1.0] * 6,
        next_states=[1, 2, 0, 1, 2, 3], next_actions=[0, 1, 0, 0, 0, 0],
        discounts=[0.9, 0.9, 0.9, 0.9, 0.9, 0.0], starts=[True] + [False] * 5,
    )  # fmt: skip
    return problem, steps


CHANGES = [
    (InvalidParameter, r"states\[2\] is 4, but states run from 0 to 3", "states", 2, 4),
    (InvalidParameter, r"states\[2\] is -1, but states run", "states", 2, -1),
    (InvalidParameter, r"next_states\[1\] is 4, but next_states run", "next_states", 1, 4),
    (InvalidParameter, r"actions\[0\] is 2, but actions run from 0 to 1", "actions", 0, 2),
    (InvalidParameter, r"next_actions\[3\] is -1, but next_actions", "next_actions", 3, -1),
    (InvalidParameter, r"discounts\[4\] is 1.01, outside \[0, 1\]", "discounts", 4, 1.01),
    (InvalidParameter, r"discounts\[4\] is -0.1, outside \[0, 1\]", "discounts", 4, -0.1),
    (InvalidParameter, r"discounts\[4\] is nan, outside", "discounts", 4, np.nan),
    (InvalidParameter, r"discounts\[5\] is 0.5, but state 3 is terminal", "discounts", 5, 0.5),
    (UndefinedRatio, r"step 1: ρ is undefined, action 1 .* in state 1 .*1 such", "actions", 1, 1),
    (InvalidParameter, r"step 2: action 0 in state 2 cannot lead to state 0", "actions", 2, 0),
    (InvalidParameter, r"step 3 does not continue from where step 2", "next_actions", 2, 1),
    (InvalidParameter, r"step 3: action 0 in state 3 cannot lead", "states", 3, 3),
]


@pytest.mark.parametrize(("kind", "message", "name", "t", "value"), CHANGES)
def test_steps_that_a_problem_cannot_produce_are_named(kind, message, name, t, value):
    problem, steps = walked()
    steps.check(problem)
    column = getattr(steps, name).copy()
    column[t] = value
    with pytest.raises(kind, match=message):
        dataclasses.replace(steps, **{name: column}).check(problem)


def test_episodes_may_be_cut_and_discounts_may_vary():
    problem, steps = walked()
    discounts = np.array([0.0, 1.0, 0.3, 0.9, 0.0, 0.0])
    dataclasses.replace(steps, discounts=discounts).check(problem)
    # Behind an end, or a start, the next step may be anywhere, with any action.
    actions = np.array([1, 1, 0, 0, 1, 0])
    for changes in (
        {"discounts": discounts, "next_actions": actions},
        {"starts": np.array([True, True, False, False, True, True]), "next_actions": actions},
    ):
        dataclasses.replace(steps, **changes).check(problem)
    with pytest.raises(InvalidShape, match="experience is empty"):
        steps[:0].check(problem)


def test_columns_are_of_one_length_and_of_their_kind():
    _, steps = walked()
    assert repr(steps + steps) == "Experience(steps=12, episodes=2)"
    with pytest.raises(InvalidShape, match="columns must have one length"):
        dataclasses.replace(steps, rewards=[1.0] * 5)
    with pytest.raises(InvalidShape, match=r"rewards must be a column of .*got shape \[6, 1\]"):
        dataclasses.replace(steps, rewards=np.ones((6, 1)))
    with pytest.raises(InvalidShape, match=r"states must be a column of .* of float64"):
        dataclasses.replace(steps, states=np.zeros(6))
    with pytest.raises(InvalidShape, match=r"starts must be a column of .* of int64"):
        dataclasses.replace(steps, starts=[0] * 6)
    integers = dataclasses.replace(steps, rewards=[1] * 6, discounts=[0] * 6)
    assert integers.rewards.dtype == integers.discounts.dtype == np.float64


class Counter:
    """A sampler whose steps are numbered, and begin an episode at given ones."""

    def __init__(self, starts):
        self.starts, self.done, self.sizes = starts, 0, []

    def take(self, count):
        self.sizes.append(count)
        self.done += count
        return Numbered(np.arange(self.done - count, self.done), self.starts)


class Numbered:
    """Consecutive steps of a `Counter`."""

    def __init__(self, numbers, begins):
        self.numbers, self.begins = numbers, begins
        self.starts = np.isin(numbers, begins)

    def part(self, steps):
        return Numbered(self.numbers[steps], self.begins)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 50])
def test_chunks_end_with_the_last_of_some_episodes(size):
    chunker = Chunker(Counter([0, 4, 5, 9, 17, 20]), size)
    begin = 0
    for count, end in ((1, 4), (2, 9), (1, 17), (1, 20)):
        chunks = [chunk.numbers for chunk in chunker.episodes(count)]
        assert all(0 < len(numbers) <= size for numbers in chunks)
        assert np.concatenate(chunks).tolist() == list(range(begin, end))
        begin = end


def test_chunks_of_steps_are_of_one_size_but_the_last():
    counter = Counter([0])
    assert sum(len(chunk.numbers) for chunk in Chunker(counter, 4).steps(11)) == 11
    assert counter.sizes == [4, 4, 3]


def test_a_hundred_points_are_recorded():
    assert record_points(1000, None).tolist() == list(range(0, 1001, 10))
    assert record_points(3, None).tolist() == [0, 1, 2, 3]
    assert record_points(8, 4).tolist() == [0, 4, 8]
    assert record_points(8, [0, 8]).tolist() == [0, 8]
    for record in ([-1], [9]):
        with pytest.raises(InvalidParameter, match="counts run from 0 to 8"):
            record_points(8, record)
    with pytest.raises(InvalidParameter, match="must list whole update counts"):
        record_points(8, np.zeros((0,), int))


def test_schedules_fall_with_a_power_of_the_time():
    schedule = sb.Schedule([2.0, 3.0], 0.5, 4.0)
    np.testing.assert_allclose(schedule.at(5), [2 / 3, 1.0])
    assert sb.Schedule(0.2).at(7) == 0.2
    assert as_schedule("alpha", 0.0).scale == 0.0
    for bad, shown in ((-0.1, "-0.1"), ([0.1, np.inf], "inf"), ([np.nan], "nan")):
        with pytest.raises(InvalidParameter, match=f"finite step sizes >= 0, got {shown}"):
            as_schedule("alpha", bad)
    with pytest.raises(InvalidParameter, match="alpha is empty"):
        as_schedule("alpha", [])
