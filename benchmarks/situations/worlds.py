"""Simulated worlds, and the values of policies in them.

A world starts episodes and advances all of them by a step; states are rows of numbers [n, d],
and a policy is a function from them to probabilities [n, K]. `Table` has finitely many states and
is solved exactly; `Clinic` is continuous and its values are simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

Policy = Callable[[np.ndarray], np.ndarray]

LONGEST = 5000
"""Longest episode, in steps; episodes of these worlds end long before."""

VALUE_EPISODES = 60_000
"""Simulated episodes for the value of a policy."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Decisions, sorted by episode and step."""

    episode: np.ndarray
    step: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    following: np.ndarray
    mu: np.ndarray

    def __len__(self):
        return len(self.actions)


def draw(probabilities, rng):
    """Draw one index for each row of probabilities."""
    edges = np.cumsum(probabilities, axis=1)
    u = rng.random(len(edges)) * edges[:, -1]
    return np.minimum((edges <= u[:, None]).sum(axis=1), edges.shape[1] - 1)


def follow(world, policy: Policy, episodes, rng, limit=LONGEST) -> Rows:
    """Follow a policy through some episodes, cut after ``limit`` steps."""
    states, who, parts = world.begin(episodes, rng), np.arange(episodes), []
    for step in range(limit):
        mu = policy(states)
        actions = draw(mu, rng)
        after, rewards, over = world.move(states, actions, rng)
        cut = ~over & (step == limit - 1)
        at = np.full(len(who), step)
        parts.append((who, at, states, actions, rewards, over, cut, after, mu))
        states, who = after[~over], who[~over]
        if not len(who):
            break
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return Rows(*(column[order] for column in columns))


def simulated_returns(world, policy: Policy, gamma, rng, episodes, limit=LONGEST):
    """Discounted returns of a policy in some episodes, without recording them."""
    states, weight = world.begin(episodes, rng), 1.0
    gains, who = np.zeros(episodes), np.arange(episodes)
    for _ in range(limit):
        after, rewards, over = world.move(states, draw(policy(states), rng), rng)
        gains[who] += weight * rewards
        states, who, weight = after[~over], who[~over], weight * gamma
        if not len(who) or weight < 1e-5:
            break
    return gains


def simulated_value(world, policy: Policy, gamma, rng, episodes=VALUE_EPISODES):
    """Mean discounted return of a policy, and its standard error."""
    gains = simulated_returns(world, policy, gamma, rng, episodes)
    return float(gains.mean()), float(gains.std() / np.sqrt(episodes))


@dataclass(frozen=True, eq=False)
class Lookup:
    """A table of probabilities [S, K] as a function of states."""

    table: np.ndarray

    def __call__(self, states):
        return self.table[states[:, 0].astype(int)]


@dataclass(frozen=True, eq=False)
class Table:
    """Finitely many states, observed as numbers.

    Attributes
    ----------
    P
        Probabilities [S, K, S + E] of the next state, or of one of E ends.
    R
        Rewards of the same shape, or of a shape that can be broadcast to it.
    start
        Distribution of the first state.
    noise
        Standard deviation of the noise added to every reward.
    """

    P: np.ndarray
    R: np.ndarray
    start: np.ndarray
    noise: float = 0.0

    @property
    def sizes(self):
        """Numbers of states and of actions."""
        return self.P.shape[:2]

    def begin(self, n, rng):
        """Draw first states."""
        return rng.choice(len(self.start), size=n, p=self.start)[:, None].astype(float)

    def move(self, states, actions, rng):
        """Draw next states, rewards and ends."""
        s = states[:, 0].astype(int)
        after = draw(self.P[s, actions], rng)
        rewards = np.broadcast_to(self.R, self.P.shape)[s, actions, after]
        over = after >= len(self.P)
        noise = self.noise * rng.normal(size=len(s))
        return np.where(over, s, after)[:, None].astype(float), rewards + noise, over

    def q(self, policy, gamma):
        """Action values [S, K] of a policy given as a table, by solving for them."""
        S, K = self.sizes
        on = np.einsum("sat,tb->satb", self.P[:, :, :S], policy).reshape(S * K, S * K)
        mean = (self.P * self.R).sum(axis=2).ravel()
        return np.linalg.solve(np.eye(S * K) - gamma * on, mean).reshape(S, K)

    def best(self, gamma):
        """Optimal action values [S, K]."""
        q, mean = np.zeros(self.sizes), (self.P * self.R).sum(axis=2)
        for _ in range(1000):
            before, q = q, mean + gamma * self.P[:, :, : len(q)] @ q.max(axis=1)
            if np.abs(q - before).max() < 1e-9:
                break
        return q

    def value(self, policy: Lookup, gamma):
        """Value of a policy where episodes begin."""
        return float(self.start @ (policy.table * self.q(policy.table, gamma)).sum(axis=1))

    def visits(self, policy, gamma=1.0, limit=LONGEST):
        """Expected (discounted) visits of each state and action [S, K] in one episode."""
        on = np.einsum("sa,sat->st", policy, self.P[:, :, : len(self.P)]) * gamma
        if limit >= LONGEST:
            seen = np.linalg.solve((np.eye(len(on)) - on).T, self.start)
        else:
            now, seen = self.start, np.zeros(len(on))
            for _ in range(limit):
                seen, now = seen + now, now @ on
        return seen[:, None] * policy


@dataclass(frozen=True, eq=False)
class Clinic:
    """Patients with a few vital signs and three doses; healthier ones are more likely discharged.

    Signs z are measured in standard deviations, 0 being well:

        z' = decay z + pull tanh(z) + effect[dose] + noise,   |z'| ≤ 3
        reward = 0.5 − weight·z − bend |z|² − price[dose] + noise
        discharge with probability 1 / (1 + exp(−ease + slope weight·z'))

    and are shown in units: middle + unit z.
    """

    decay: np.ndarray
    pull: np.ndarray
    effect: np.ndarray
    price: np.ndarray
    weight: np.ndarray
    sick: np.ndarray
    ease: float
    slope: float
    bend: float
    spread: float
    noise: float
    middle: np.ndarray
    unit: np.ndarray
    columns: tuple[str, ...]
    doses: tuple[str, ...]

    def signs(self, states):
        """Return z of an observation."""
        return (states - self.middle) / self.unit

    def begin(self, n, rng):
        """Admit patients."""
        z = self.sick + 0.7 * rng.normal(size=(n, len(self.sick)))
        return self.middle + self.unit * np.clip(z, -3.0, 3.0)

    def move(self, states, actions, rng):
        """Treat them once."""
        z = self.signs(states)
        ill = z @ self.weight
        rewards = 0.5 - ill - self.bend * (z**2).sum(axis=1) - self.price[actions]
        rewards += self.noise * rng.normal(size=len(z))
        z = z @ self.decay + np.tanh(z) * self.pull + self.effect[actions]
        z = np.clip(z + self.spread * rng.normal(size=z.shape), -3.0, 3.0)
        well = 1.0 / (1.0 + np.exp(-self.ease + self.slope * (z @ self.weight)))
        return self.middle + self.unit * z, rewards, rng.random(len(z)) < well

    def value(self, policy: Policy, gamma):
        """Value of a policy for the patients admitted, by simulation without noise of rewards."""
        quiet = replace(self, noise=0.0)
        return simulated_value(quiet, policy, gamma, np.random.default_rng(7))[0]
