"""Monte Carlo rollouts of a policy on MountainCar from any state and first action.

Every rollout has its own generator, seeded by one number, so it can be run twice: once to count
its steps, once to record them.
"""

from __future__ import annotations

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled, subroutine
from saddleback._typing import RNG, BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.engine import Trajectory
from saddleback.problems.mountain_car import GOAL, move


def rollouts(
    policy: FloatArray, states: FloatArray, actions: IntArray, gamma: float, rng: RNG
) -> Trajectory:
    """Return complete episodes of a policy from given states [n, 2] and first actions [n]."""
    generator = _validate.generator(rng)[0]
    cumulative = np.cumsum(policy, axis=1)
    cumulative /= cumulative[:, -1:]
    seeds = generator.integers(1, 2**63, size=len(states), dtype=np.uint64)
    lengths = np.zeros(len(states), dtype=np.int64)
    _returns(states, actions, cumulative, gamma, seeds, lengths, np.zeros(len(states)))
    steps = int(lengths.sum())
    integers = np.empty((4, steps), dtype=np.int64)
    trajectory = Trajectory(
        observations=np.empty((steps, 2)), next_observations=np.empty((steps, 2)),
        kinds=integers[0], next_kinds=integers[1], actions=integers[2], next_actions=integers[3],
        rewards=np.full(steps, -1.0), discounts=np.empty(steps),
        starts=np.empty(steps, dtype=np.bool_),
    )  # fmt: skip
    _follow(states, actions, cumulative, gamma, seeds, *trajectory[:9])
    return trajectory


def returns(
    policy: FloatArray, states: FloatArray, actions: IntArray, gamma: float, rng: RNG
) -> FloatArray:
    """Return the discounted return of one rollout from each state [n, 2] and first action [n].

    Examples
    --------
    >>> policy = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> returns(policy, np.array([[0.49, 0.07]]), np.array([2]), 0.99, rng=0)
    array([-1.])
    """
    generator = _validate.generator(rng)[0]
    cumulative = np.cumsum(policy, axis=1)
    cumulative /= cumulative[:, -1:]
    seeds = generator.integers(1, 2**63, size=len(states), dtype=np.uint64)
    gains = np.zeros(len(states))
    lengths = np.zeros(len(states), dtype=np.int64)
    _returns(states, actions, cumulative, gamma, seeds, lengths, gains)
    return gains


@subroutine
def _uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """Next state of a xorshift64* generator (Vigna 2016), and a number in [0, 1)."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    mixed = (state * np.uint64(2685821657736338717)) >> np.uint64(11)
    return state, mixed * (1.0 / 9007199254740992.0)


@subroutine
def _choose(cumulative: FloatArray, v: float, u: float) -> int:
    kind = 1 if v > 0 else 0
    a = 0
    while cumulative[kind, a] <= u:
        a += 1
    return a


@compiled
def _returns(
    states: FloatArray,
    actions: IntArray,
    cumulative: FloatArray,
    gamma: float,
    seeds: OffsetArray,
    lengths: IntArray,
    gains: FloatArray,
) -> None:
    for i in range(len(states)):
        x, v, a, state = states[i, 0], states[i, 1], actions[i], seeds[i]
        weight = 1.0
        while True:
            gains[i] -= weight
            lengths[i] += 1
            x, v = move(x, v, a)
            if x >= GOAL and v >= 0:
                break
            weight *= gamma
            state, u = _uniform(state)
            a = _choose(cumulative, v, u)


@compiled
def _follow(
    states: FloatArray,
    actions: IntArray,
    cumulative: FloatArray,
    gamma: float,
    seeds: OffsetArray,
    observations: FloatArray,
    next_observations: FloatArray,
    kinds: IntArray,
    next_kinds: IntArray,
    taken: IntArray,
    next_actions: IntArray,
    rewards: FloatArray,
    discounts: FloatArray,
    starts: BoolArray,
) -> None:
    t = 0
    for i in range(len(states)):
        x, v, a, state = states[i, 0], states[i, 1], actions[i], seeds[i]
        first = True
        while True:
            observations[t, 0], observations[t, 1] = x, v
            kinds[t], taken[t], starts[t] = 1 if v > 0 else 0, a, first
            x, v = move(x, v, a)
            next_observations[t, 0], next_observations[t, 1] = x, v
            next_kinds[t] = 1 if v > 0 else 0
            over = x >= GOAL and v >= 0
            state, u = _uniform(state)
            a = _choose(cumulative, v, u)
            next_actions[t] = a
            discounts[t] = 0.0 if over else gamma
            first = False
            t += 1
            if over:
                break
