"""MountainCar, compiled: Gymnasium's dynamics step for step, with the paper's two policies.

Position x in [−1.2, 0.6] and velocity v in [−0.07, 0.07]; actions push left, coast, push right:

    v ← clip(v + 0.001(a − 1) − 0.0025 cos 3x)        x ← clip(x + v),  v = 0 at the left wall

The reward is −1 per step; an episode begins at rest, x uniform in [−0.6, −0.4], and ends at x ≥ 0.5
with v ≥ 0. There is no time limit.

Monte Carlo rollouts start from any state and first action. Every rollout has its own generator,
seeded by one number, so it can be run twice: once to count its steps, once to record them.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled, inlined, subroutine
from saddleback._typing import RNG, ArrayLike, FloatArray, IntArray, OffsetArray
from saddleback.engine import Simulation, Trajectory
from saddleback.features import Features, Tiles
from saddleback.policies import check_coverage, table

LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)
GOAL = 0.5
FORCE, GRAVITY = 0.001, 0.0025
START = (-0.6, -0.4)


def mountain_car(
    gamma: float = 0.99,
    *,
    features: Features | None = None,
    target: ArrayLike = ((0.8, 0.1, 0.1), (0.1, 0.1, 0.8)),
    behaviour: ArrayLike = ((0.98, 0.01, 0.01), (0.01, 0.01, 0.98)),
    values: Literal["action", "state"] = "action",
    shared: bool = False,
) -> Simulation:
    """MountainCar under policies that push in the direction of motion.

    Parameters
    ----------
    gamma
        Discount.
    features
        Features of (position, velocity), such as ``Tiles(LOW, HIGH, …)``; 4 tilings of 8×8 tiles
        (9×9 with displacement) by default, so p = 972 for action values.
    target, behaviour
        π and μ as two rows over (left, coast, right): for velocity ≤ 0, and for velocity > 0; by
        default those of the paper.
    values, shared
        Learn action values or state values. For action values there is a copy of each feature per
        action, and with ``shared`` one more that all actions share.

    Examples
    --------
    >>> mountain_car()
    Simulation(mountain_car, gamma=0.99, action values, p=972)
    """
    both = np.ones(2, dtype=bool)
    pi = table("target", target, both, 3)
    mu = table("behaviour", behaviour, both, 3)
    check_coverage(pi, mu, both)
    discount = _validate.unit("mountain_car", "gamma", gamma)
    return Simulation(
        name="mountain_car",
        simulator=lambda rng: MountainCar(mu, discount, rng),
        features=features or Tiles(LOW, HIGH, bins=8, tilings=4),
        target=pi,
        behaviour=mu,
        gamma=discount,
        dimensions=2,
        values=values,
        shared=shared,
    )


class MountainCar:
    """Unlimited experience of MountainCar; every step uses two uniform numbers, in order."""

    def __init__(self, policy: FloatArray, gamma: float, rng: np.random.Generator) -> None:
        self._rng, self._gamma = rng, gamma
        self._cumulative = _cumulative(policy)
        position, choice = rng.random(2)
        x = START[0] + (START[1] - START[0]) * position
        action = int(np.searchsorted(self._cumulative[0], choice, side="right"))
        self._state = np.array([x, 0.0, action, 1.0])

    def take(self, steps: int) -> Trajectory:
        """Return the next ``steps`` steps."""
        trajectory = _blank(steps)
        uniforms = self._rng.random((steps, 2))
        _drive(uniforms, self._cumulative, self._gamma, self._state, trajectory)
        return trajectory


def _cumulative(policy: FloatArray) -> FloatArray:
    sums = np.cumsum(policy, axis=1)
    return np.asarray(sums / sums[:, -1:])


def _blank(steps: int) -> Trajectory:
    """Return a trajectory to be filled in; every reward is −1."""
    integers = np.empty((4, steps), dtype=np.int64)
    return Trajectory(
        observations=np.empty((steps, 2)),
        next_observations=np.empty((steps, 2)),
        kinds=integers[0],
        next_kinds=integers[1],
        actions=integers[2],
        next_actions=integers[3],
        rewards=np.full(steps, -1.0),
        discounts=np.empty(steps),
        starts=np.empty(steps, dtype=np.bool_),
    )


@subroutine
def move(x: float, v: float, action: int) -> tuple[float, float]:
    """One step of the dynamics: (position, velocity) after an action."""
    v += (action - 1) * FORCE + math.cos(3 * x) * (-GRAVITY)
    v = min(max(v, -0.07), 0.07)
    x += v
    x = min(max(x, -1.2), 0.6)
    if x == -1.2 and v < 0:
        v = 0.0
    return x, v


@subroutine
def _choose(cumulative: FloatArray, v: float, u: float) -> int:
    kind = 1 if v > 0 else 0
    a = 0
    while cumulative[kind, a] <= u:
        a += 1
    return a


@inlined
def _step(
    steps: Trajectory, t: int, x: float, v: float, action: int, first: bool, gamma: float
) -> tuple[float, float, bool]:
    """Record step t, except for the action after it; return where it leads, and if it is over."""
    steps.observations[t, 0], steps.observations[t, 1] = x, v
    steps.kinds[t], steps.actions[t], steps.starts[t] = 1 if v > 0 else 0, action, first
    x, v = move(x, v, action)
    over = x >= GOAL and v >= 0
    steps.next_observations[t, 0], steps.next_observations[t, 1] = x, v
    steps.next_kinds[t] = 1 if v > 0 else 0
    steps.discounts[t] = 0.0 if over else gamma
    return x, v, over


@compiled
def _drive(
    uniforms: FloatArray, cumulative: FloatArray, gamma: float, state: FloatArray, steps: Trajectory
) -> None:
    """Follow the policy from ``state`` = (x, v, action, starts an episode), filling the steps."""
    x, v, a, first = state[0], state[1], int(state[2]), state[3] == 1.0
    for t in range(len(uniforms)):
        x, v, over = _step(steps, t, x, v, a, first, gamma)
        if over:
            x, v = START[0] + (START[1] - START[0]) * uniforms[t, 0], 0.0
        a = _choose(cumulative, v, uniforms[t, 1])
        steps.next_actions[t] = a
        first = over
    state[0], state[1], state[2], state[3] = x, v, a, first


def rollouts(
    policy: FloatArray, states: FloatArray, actions: IntArray, gamma: float, rng: RNG
) -> Trajectory:
    """Return complete episodes of a policy from given states [n, 2] and first actions [n]."""
    cumulative, seeds, lengths, _ = _play(policy, states, actions, gamma, rng)
    trajectory = _blank(int(lengths.sum()))
    _follow(states, actions, cumulative, gamma, seeds, trajectory)
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
    return _play(policy, states, actions, gamma, rng)[3]


def _play(
    policy: FloatArray, states: FloatArray, actions: IntArray, gamma: float, rng: RNG
) -> tuple[FloatArray, OffsetArray, IntArray, FloatArray]:
    """Run one rollout from each state; return what repeats them, their lengths and returns."""
    cumulative = _cumulative(policy)
    seeds = _validate.generator(rng)[0].integers(1, 2**63, size=len(states), dtype=np.uint64)
    lengths, gains = np.zeros(len(states), dtype=np.int64), np.zeros(len(states))
    _returns(states, actions, cumulative, gamma, seeds, lengths, gains)
    return cumulative, seeds, lengths, gains


@subroutine
def _uniform(state: np.uint64) -> tuple[np.uint64, float]:
    """Next state of a xorshift64* generator (Vigna 2016), and a number in [0, 1)."""
    state ^= state >> np.uint64(12)
    state ^= state << np.uint64(25)
    state ^= state >> np.uint64(27)
    mixed = (state * np.uint64(2685821657736338717)) >> np.uint64(11)
    return state, mixed * (1.0 / 9007199254740992.0)


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
    steps: Trajectory,
) -> None:
    t = 0
    for i in range(len(states)):
        x, v, a, state = states[i, 0], states[i, 1], actions[i], seeds[i]
        first, over = True, False
        while not over:
            x, v, over = _step(steps, t, x, v, a, first, gamma)
            state, u = _uniform(state)
            a = _choose(cumulative, v, u)
            steps.next_actions[t] = a
            first = False
            t += 1
