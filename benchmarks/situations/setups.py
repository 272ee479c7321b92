"""Setups where evaluation should work: two policies, suitable features, and enough episodes.

Tables have one feature per state and action, and enough episodes for μ to visit each pair about 30
times, except the rarest pairs with together 1% of π's discounted visits. Clinics have smooth values
of two or three signs, about fifty rows or more per feature, and every dose has probability at least
0.1 everywhere. Ratios π/μ never exceed exp(1.5) ≈ 4.5. π is better than μ, worse, different, or
almost the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddleback.features import RBF, Custom, Fourier, OneHot, Polynomial, Tiles

from .worlds import LONGEST, Clinic, Lookup, Policy, Table, follow

MOST_ROWS = 60_000
LEAST_VISITS = 30
DIRECTIONS = ("better", "worse", "other", "same")


@dataclass(frozen=True, eq=False)
class Setup:
    """The parts of a log, and the policy to evaluate."""

    world: Any
    mu: Policy
    pi: Policy
    features: Any
    gamma: float
    episodes: int
    limit: int = LONGEST

    def with_changes(self, **changes):
        """Return a copy with other parts."""
        return replace(self, **changes)

    def rows(self, rng):
        """Follow μ."""
        return follow(self.world, self.mu, self.episodes, rng, self.limit)

    @property
    def values(self):
        """Values of π and of μ."""
        return (self.world.value(self.pi, self.gamma), self.world.value(self.mu, self.gamma))


def softmax(scores):
    """Turn scores into probabilities, row by row."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def tilted(probabilities, scores):
    """Return probabilities times exp(scores), normalised: ratios are at most exp(their range)."""
    weights = probabilities * np.exp(scores)
    return weights / weights.sum(axis=1, keepdims=True)


# Tables.


def random_table(rng, ends=(0.05, 0.2)):
    """Random transitions between all states, random rewards, and termination at any step."""
    S, K = int(rng.integers(4, 13)), int(rng.integers(2, 5))
    P = rng.dirichlet(np.full(S, 0.5), size=(S, K))
    end = rng.uniform(*ends, size=(S, K, 1))
    R = rng.normal(size=(S, K, 1)) + rng.choice([0.0, 1.0, -1.0])
    start = rng.dirichlet(np.ones(S))
    return Table(
        np.concatenate([P * (1 - end), end], axis=2), R, start, rng.choice([0.1, 0.5, 1.0])
    )


def walk(rng, sizes=(5, 12)):
    """A random walk between two ends; actions push left, right, and sometimes not at all."""
    S, K = int(rng.integers(*sizes)), int(rng.integers(2, 4))
    slip, push = rng.uniform(0.05, 0.3), np.array([-1, 1, 0])[:K]
    P = np.zeros((S, K, S + 2))
    place = np.r_[S, np.arange(S), S + 1]  # the left end, the states, the right end
    for s in range(S):
        for a in range(K):
            P[s, a, place[s + 1 + push[a]]] += 1 - slip
            P[s, a, place[s]] += slip / 2
            P[s, a, place[s + 2]] += slip / 2
    R = np.full((S, K, S + 2), rng.choice([0.0, -0.02, -0.1]))
    R[:, :, S] += rng.choice([0.0, -1.0])
    R[:, :, S + 1] += 1.0
    start = np.zeros(S)
    start[S // 2 - 1 : S // 2 + 2] = 1 / 3
    return Table(P, R, start, rng.choice([0.0, 0.2]))


def lake(rng, size=None):
    """A frozen lake: a grid with holes, slippery, 1 for reaching the far corner."""
    n = int(size or rng.choice([4, 4, 5, 8]))
    hole = rng.random((n, n)) < rng.uniform(0.05, 0.2)
    hole[0, 0] = hole[-1, -1] = False
    S, slip = n * n, rng.choice([0.1, 0.2, 1 / 3])
    P, R = np.zeros((S, 4, S + 2)), np.zeros((S, 4, S + 2))
    steps = [(0, -1), (1, 0), (0, 1), (-1, 0)]
    for s in range(S):
        for a in range(4):
            for turn, probability in ((-1, slip), (0, 1 - 2 * slip), (1, slip)):
                y, x = np.clip(np.array(divmod(s, n)) + steps[(a + turn) % 4], 0, n - 1)
                end = S + 1 if (y, x) == (n - 1, n - 1) else S
                P[s, a, end if hole[y, x] or end > S else y * n + x] += probability
    R[:, :, S + 1] = 1.0
    return Table(P, R, np.eye(S)[0])


def behaviour_table(world, rng, gamma):
    """μ: partly good, partly random; every action has probability at least 0.4/K."""
    q = world.best(gamma)
    good = (q - q.mean(axis=1, keepdims=True)) / (1e-9 + np.abs(q - q.mean()).max())
    scores = rng.uniform(0.5, 3.0) * good + rng.normal(scale=0.7, size=q.shape)
    return 0.4 / q.shape[1] + 0.6 * softmax(scores)


def target_table(world, mu, rng, gamma, direction=None, strength=None):
    """π: μ tilted towards or away from the better actions, at random, or hardly at all."""
    direction = direction or rng.choice(DIRECTIONS, p=[0.4, 0.2, 0.25, 0.15])
    c = strength or rng.uniform(0.3, 0.75)
    if direction in ("other", "same"):
        scores = rng.uniform(-1, 1, size=mu.shape) * (c if direction == "other" else 0.03)
        return tilted(mu, scores)
    q = world.q(mu, gamma)
    ahead = q - (mu * q).sum(axis=1, keepdims=True)
    ahead /= 1e-9 + np.abs(ahead).max(axis=1, keepdims=True)
    return tilted(mu, (c if direction == "better" else -c) * ahead)


def episodes_needed(world, mu, pi, gamma, limit, least=LEAST_VISITS):
    """Number of episodes in which μ visits each pair often, except 1% of π's discounted visits."""
    share = world.visits(pi, gamma).ravel()
    order = np.argsort(share)
    counted = order[np.cumsum(share[order]) > 0.01 * share.sum()]
    return int(np.ceil(least / (1e-9 + world.visits(mu, limit=limit).ravel()[counted].min())))


def table(rng, makers=(random_table, lake, walk), gammas=(0.9, 0.95, 0.98, 0.99), limits=None):
    """A finite problem with enough episodes; drawn again until it meets the conditions."""
    while True:
        world = makers[rng.integers(len(makers))](rng)
        gamma = float(rng.choice(gammas))
        mu = behaviour_table(world, rng, gamma)
        pi = target_table(world, mu, rng, gamma)
        length = world.visits(mu).sum()
        limit = LONGEST if limits is None else max(2, int(rng.uniform(*limits) * length))
        rows = world.visits(mu, limit=limit).sum()
        needed = episodes_needed(world, mu, pi, gamma, limit)
        episodes = max(needed, int(rng.choice([200, 300, 500, 1000, 2000])))
        episodes = max(needed, min(episodes, int(MOST_ROWS / rows)))
        reached = world.visits(mu, gamma).ravel() @ world.P[:, :, -1].ravel()
        if episodes <= 3000 and episodes * rows <= MOST_ROWS and reached > 0.02:
            S = len(world.P)
            return Setup(world, Lookup(mu), Lookup(pi), OneHot(S), gamma, episodes, limit)


def aggregated_features(setup, rng, groups=None):
    """Features that do not distinguish the states of a group."""
    S = len(setup.world.P)
    groups = groups or max(2, S // 3)
    which = rng.permutation(np.arange(S) % groups)
    return Custom(lambda seen: np.eye(groups)[which[seen[:, 0].astype(int)]], groups)


# Clinics.


def clinic_world(rng, signs=None):
    """A clinic with two or three signs and random effects."""
    d = int(signs or rng.choice([2, 3, 3]))
    effect = rng.uniform(0.1, 0.3, size=(3, d)) * np.array([[0.4], [-1.0], [-2.0]])
    effect[2, rng.integers(d)] += rng.uniform(0.2, 0.5)  # the high dose does harm somewhere
    decay = np.diag(rng.uniform(0.7, 0.85, d)) + 0.04 * rng.normal(size=(d, d))
    weight = rng.dirichlet(np.full(d, 5.0)) * rng.uniform(0.5, 1.0)
    return Clinic(
        decay=decay, pull=rng.uniform(0.0, 0.12, d), effect=effect,
        price=np.array([0.0, 0.1, 0.25]) * rng.uniform(0.5, 1.5), weight=weight,
        sick=rng.uniform(0.4, 1.2, d), ease=rng.uniform(-3.0, -1.7), slope=rng.uniform(1.0, 2.5),
        bend=rng.uniform(0.0, 0.1), spread=rng.uniform(0.25, 0.45), noise=rng.uniform(0.1, 0.5),
        middle=np.array([85.0, 110.0, 2.5])[:d], unit=np.array([15.0, -14.0, 0.8])[:d],
        columns=("hr", "bp", "lactate")[:d], doses=("none", "low", "high"),
    )  # fmt: skip


def behaviour_dose(world, rng):
    """μ: higher doses for sicker patients, with random habits; each dose at least 0.1."""
    d = len(world.weight)
    slope, habit = rng.normal(scale=0.4, size=(d, 3)), rng.normal(scale=0.3, size=3)
    slope += np.outer(world.weight, [-1.0, 0.0, 1.0]) * rng.uniform(0.0, 1.5)
    return lambda states: 0.1 + 0.7 * softmax(world.signs(states) @ slope + habit)


def target_dose(world, mu, rng, strength=None):
    """π: μ tilted to higher or lower doses for the sick, at random, or hardly at all."""
    direction = rng.choice(DIRECTIONS)
    c = strength or rng.uniform(0.3, 0.75)
    slope = np.outer(world.weight, [-1.0, 0.3, 1.0]) * (-3 if direction == "worse" else 3)
    habit = np.array([-0.3, 0.3, 0.0])
    if direction in ("other", "same"):
        slope = rng.normal(size=slope.shape)
        c = c if direction == "other" else 0.03
    return lambda states: tilted(mu(states), c * np.tanh(world.signs(states) @ slope + habit))


def suitable_features(seen, rng):
    """Features that represent a smooth value almost exactly, on a box around the observations."""
    low, high = map(tuple, np.quantile(seen, [0.005, 0.995], axis=0))
    three = len(low) == 3
    kinds = [
        RBF(low, high, centres=3 if three else 4),
        Fourier(low, high, order=2 if three else 4),
        Polynomial(low, high, degree=2 if three else 3),
    ]
    if not three:  # in three dimensions tiles would be too coarse, or too many to be visited
        kinds.append(Tiles(low, high, bins=4, tilings=4))
    return kinds[rng.integers(len(kinds))]


def clinic(rng, limits=None):
    """A clinic with enough patients."""
    while True:
        world = clinic_world(rng)
        mu = behaviour_dose(world, rng)
        pi = target_dose(world, mu, rng)
        pilot = follow(world, mu, 400, rng)
        lengths = np.bincount(pilot.episode)
        limit = LONGEST if limits is None else max(3, int(rng.uniform(*limits) * lengths.mean()))
        length = np.minimum(lengths, limit).mean()
        episodes = int(rng.choice([800, 1200, 2000, 3000]))
        if 5000 <= episodes * length <= MOST_ROWS and lengths.max() < 300:
            gamma = float(rng.choice([0.9, 0.95, 0.98]))
            return Setup(
                world, mu, pi, suitable_features(pilot.states, rng), gamma, episodes, limit
            )
