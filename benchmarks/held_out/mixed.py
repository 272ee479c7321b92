"""Mixed columns: traffic lights, a motorway, prey among noise, maintenance, and a game of dice."""

from __future__ import annotations

import itertools

import numpy as np

from saddleback.policies import mixture, uniform

from ..families.family import SHARES, Family, Task
from ..situations.setups import softmax
from ..situations.worlds import Table


class Lights:
    """Two queues of cars, which has green, and for how long; actions are to keep and to switch."""

    def begin(self, n, rng):
        """Start with short queues."""
        return np.column_stack([rng.poisson(3, (n, 2)), rng.integers(2, size=n), np.zeros(n)])

    def move(self, states, actions, rng):
        """Let cars pass for a few seconds; none pass while the light switches."""
        first, second, green, since = states.T.astype(int)
        green = np.where(actions == 1, 1 - green, green)
        since = np.where(actions == 1, 0, np.minimum(since + 1, 12))
        passing = np.where(actions == 1, 0, rng.binomial(4, 0.9, len(green)))
        platoon = 6 * (rng.random(len(green)) < 0.06)
        first = np.maximum(first + rng.poisson(1.0, len(green)) - passing * (green == 0), 0)
        second = second + rng.poisson(0.6, len(green)) + platoon
        second = np.maximum(second - passing * (green == 1), 0)
        queues = np.minimum(np.column_stack([first, second]), 40)
        rewards = -0.1 * queues.sum(axis=1) - 0.2 * (actions == 1)
        after = np.column_stack([queues, green, since]).astype(float)
        return after, rewards, np.zeros(len(green), bool)


def switch(gain):
    """Switch when the other queue is longer, not at once."""

    def policy(observations):
        first, second, green, since = observations.T
        longer = np.where(green > 0, first - second, second - first)
        score = gain * np.clip(0.4 * longer + 0.15 * since - 1.5, -3, 3)
        return softmax(np.column_stack([np.zeros(len(score)), score]))

    return policy


def lights(share, rng):
    """Traffic, cut after 100 steps."""
    mu = mixture(switch(0.4), uniform(2), 0.1)
    return Task(Lights(), mu, mixture(mu, switch(2.5), share), 0.97, limit=100)


class Motorway:
    """Lane, speed, the gaps ahead in three lanes, and how fast each closes; a crash costs 10.

    Actions: keep, accelerate, brake, left, right.
    """

    def begin(self, n, rng):
        """Enter the middle lane."""
        return np.column_stack([
            np.ones(n), rng.normal(28, 2, n), rng.exponential(40, (n, 3)) + 15,
            rng.normal([2.0, 0.0, -2.0], 2, (n, 3)),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Drive for a second."""
        n, own = len(states), np.arange(len(states))
        lane, speed, gaps = states[:, 0].astype(int), states[:, 1], states[:, 2:5]
        offset = states[:, 5:8]
        speed = np.clip(speed + 2.0 * (actions == 1) - 3.0 * (actions == 2), 15, 40)
        lane = np.clip(lane - (actions == 3) + (actions == 4), 0, 2)
        gaps = gaps - (speed[:, None] - 28 + offset) + rng.normal(size=(n, 3))
        offset = offset + 0.5 * rng.normal(size=(n, 3))
        crash = gaps[own, lane] < 2
        new = (gaps > 150) | (gaps < 2) | (rng.random((n, 3)) < 0.03)
        gaps = np.where(new, rng.exponential(40, (n, 3)) + 15, gaps)
        offset = np.where(new, rng.normal([2.0, 0.0, -2.0], 2, (n, 3)), offset)
        rewards = (speed - 28) / 10 - 0.1 * (actions >= 3) - 10.0 * crash
        return np.column_stack([lane, speed, gaps, offset]), rewards, crash


def drive(gain):
    """Brake behind slow cars, or change to a lane with more room."""

    def policy(observations):
        lane, speed = observations[:, 0].astype(int), observations[:, 1]
        closing = speed[:, None] - 28 + observations[:, 5:8]
        room = np.clip((observations[:, 2:5] - 2 * closing - 15) / 15, -2, 2)
        own = np.arange(len(lane))
        ahead = room[own, lane]
        left = np.where(lane > 0, room[own, np.maximum(lane - 1, 0)], -2.0)
        right = np.where(lane < 2, room[own, np.minimum(lane + 1, 2)], -2.0)
        fast = (speed - 30) / 4
        scores = [np.full(len(lane), 0.5), ahead - fast, fast - 2 * ahead, left - ahead - 0.3,
                  right - ahead - 0.3]  # fmt: skip
        return softmax(gain * np.stack(scores, axis=1))

    return policy


def motorway(share, rng):
    """Driving, cut after 80 seconds."""
    mu = mixture(drive(0.7), uniform(5), 0.15)
    return Task(Motorway(), mu, mixture(mu, drive(2.0), share), 0.97, limit=80)


class Prey:
    """Prey and predators, the season, and four columns that mean nothing or repeat another.

    Quotas of hunting are none, some prey, much prey, or predators.
    """

    def begin(self, n, rng):
        """Start with both."""
        season = rng.uniform(0, 2 * np.pi, n)
        return self.observed(rng.lognormal(6, 0.3, n), rng.lognormal(3.5, 0.3, n), season,
                             rng.normal(size=n), rng)  # fmt: skip

    def observed(self, prey, predators, season, walk, rng):
        """Append the other columns."""
        cauchy = rng.standard_t(1.5, len(prey))
        return np.column_stack([
            prey, predators, np.cos(season), np.sin(season), 32 + 1.8 * prey, walk,
            1000 * rng.normal(size=len(prey)), cauchy,
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Hunt for a month."""
        prey, predators, cos, sin, _, walk = states.T[:6]
        season = np.arctan2(sin, cos) + 2 * np.pi / 12
        shot = np.array([0.0, 0.06, 0.2, 0.0])[actions] * prey
        culled = np.array([0.0, 0.0, 0.0, 0.25])[actions] * predators
        prey, predators = prey - shot, predators - culled
        eaten = 0.25 * prey * predators / (40 + predators)
        births = (0.2 + 0.2 * np.cos(season)) * prey * (1 - prey / 1500)
        noise = np.exp(0.1 * rng.normal(size=(2, len(prey))))
        prey = np.maximum(prey + births - eaten, 0) * noise[0]
        predators = (0.88 * predators + 0.06 * eaten) * noise[1]
        over = (prey < 20) | (predators < 1)
        rewards = shot / 50 + 0.1 * np.log(np.maximum(predators, 1)) - 0.3 * (actions == 3)
        rewards -= 10.0 * over
        walk = walk + rng.normal(size=len(walk))
        return self.observed(np.maximum(prey, 1), predators, season, walk, rng), rewards, over


def hunt(gain):
    """Hunt what is abundant."""

    def policy(observations):
        prey, predators = np.log(observations[:, 0] / 400), np.log(observations[:, 1] / 35)
        scores = [-prey, np.zeros(len(prey)) + 0.5, 1.5 * prey, 1.5 * predators - 0.5]
        return softmax(gain * np.clip(np.stack(scores, axis=1), -3, 3))

    return policy


def prey(share, rng):
    """Hunting, cut after 200 months."""
    mu = mixture(hunt(0.4), uniform(4), 0.2)
    return Task(Prey(), mu, mixture(mu, hunt(2.0), share), 0.99, limit=200)


WEAR = list(itertools.product(range(4), range(4), range(3)))
"""Wear of two machines, 3 is broken, and the load."""


def maintenance(share, rng):
    """Two machines; broken ones are always repaired, so that part of μ is deterministic.

    Observed are the wear of both and the load. Actions: none, first, second.
    """
    S = len(WEAR)
    number = {state: k for k, state in enumerate(WEAR)}
    P, R = np.zeros((S, 3, S)), np.zeros((S, 3, S))
    for s, (a, b, load) in enumerate(WEAR):
        for action in range(3):
            wear = [0 if action == 1 else a, 0 if action == 2 else b]
            lost = (a == 3) + (b == 3)
            R[s, action] = (1 + load) * (2 - lost) / 2 - (0.0, 1.0, 1.5)[action] - 0.5 * lost
            for up in itertools.product((0, 1), (0, 1)):
                after = [min(w + u, 3) for w, u in zip(wear, up, strict=True)]
                worse = 0.1 + 0.12 * load
                probability = np.prod([worse if u else 1 - worse for u in up])
                for other in range(3):
                    stay = 0.7 if other == load else 0.15
                    P[s, action, number[(*after, other)]] += probability * stay
    states = np.array(WEAR, float)
    world = Table(P, R, np.full(S, 1 / S), noise=0.5)

    def see(points):
        return states[points[:, 0].astype(int)]

    def repair(gain):
        def policy(observations):
            a, b, load = observations.T
            scores = np.column_stack([0.8 + 0.5 * load, a, b])
            broken = np.column_stack([np.zeros(len(a)), a == 3, (b == 3) & (a < 3)])
            forced = broken.any(axis=1, keepdims=True)
            return np.where(forced, broken, softmax(gain * scores))

        return policy

    mu = repair(0.3)
    return Task(world, mu, mixture(mu, repair(3.0), share), 0.95, limit=60, see=see)


class Dice:
    """Pig: own points, points of this turn, points of the other player; 30 points win.

    Actions: roll, which loses the points of the turn with a 1, and hold. Only ±1 at the end. The
    other player holds at 10.
    """

    def begin(self, n, rng):
        """Begin the game."""
        return np.zeros((n, 3))

    def move(self, states, actions, rng):
        """Roll or hold; then the other player may have a turn."""
        own, turn, other = states.T
        die = rng.integers(1, 7, len(own))
        rolled = actions == 0
        bust = rolled & (die == 1)
        own = np.where(rolled, own, own + turn)
        turn = np.where(rolled & ~bust, turn + die, 0.0)
        wins = own + turn >= 30
        plays = (bust | ~rolled) & ~wins
        rolls = rng.integers(1, 7, (len(own), 10))
        sums = np.cumsum(rolls, axis=1)
        stop = np.argmax((rolls == 1) | (sums >= 10), axis=1)
        at = np.arange(len(own))
        scored = np.where(rolls[at, stop] == 1, 0, sums[at, stop])
        other = other + plays * scored
        loses = other >= 30
        return np.column_stack([own, turn, other]), wins - 1.0 * loses, wins | loses


def hold_at(points, gain):
    """Hold from a number of points in a turn."""

    def policy(observations):
        score = gain * (observations[:, 1] - points)
        return softmax(np.column_stack([np.zeros(len(score)), score]))

    return policy


def dice(share, rng):
    """Pig; μ holds at random."""
    mu = mixture(hold_at(8, 0.1), uniform(2), 0.3)
    return Task(Dice(), mu, mixture(mu, hold_at(12, 1.0), share), 1.0)


FAMILIES = (
    Family("lights", lights, SHARES, (100, 300, 1000), continuous=False),
    Family("motorway", motorway, SHARES, (100, 300, 1000)),
    Family("prey", prey, SHARES, (50, 150, 500)),
    Family("maintenance", maintenance, SHARES, (100, 300, 1000), continuous=False),
    Family("dice", dice, SHARES, (100, 500, 2000), continuous=False),
)
