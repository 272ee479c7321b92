"""Commerce: a portfolio, paced advertising, collections, tutoring and a call centre."""

from __future__ import annotations

import numpy as np

from saddleback.policies import mixture, uniform

from ..families.family import SHARES, Family, Task
from ..situations.setups import softmax


class Portfolio:
    """Momentum, volatility, last return and holding; whether the market rises is not observed.

    Returns have Student's t distribution with three degrees of freedom.
    """

    def begin(self, n, rng):
        """Start without a holding."""
        return np.column_stack([np.zeros(n), np.ones(n), np.zeros((n, 2)), rng.random(n) < 0.6])

    def move(self, states, actions, rng):
        """Hold nothing, half or everything for a day."""
        momentum, volatility, _, position, rises = states.T
        weight = 0.5 * actions
        gain = np.where(rises > 0, 0.15, -0.2) + np.where(rises > 0, 0.5, 1.0) * rng.standard_t(
            3, len(weight)
        )
        rewards = weight * gain - 0.1 * np.abs(weight - position) - 0.02 * weight * volatility
        momentum = 0.85 * momentum + 0.15 * gain
        volatility = 0.9 * volatility + 0.1 * np.abs(gain)
        switch = rng.random(len(weight)) < 0.03
        rises = np.where(switch, 1 - rises, rises)
        after = np.column_stack([momentum, volatility, gain, weight, rises])
        return after, rewards, np.zeros(len(weight), bool)

    def see(self, states):
        """Hide the market."""
        return states[:, :4]


def follow_trend(gain):
    """Hold what rises, avoid what is volatile."""

    def policy(observations):
        momentum, volatility, _, position = observations.T
        score = np.clip(4 * momentum + 0.8 - volatility, -2, 2)
        return softmax(gain * (np.outer(score, [-1.0, 0.0, 1.0]) - np.abs(
            position[:, None] - [0.0, 0.5, 1.0])))  # fmt: skip

    return policy


def portfolio(share, rng):
    """Half a year, cut after 120 days."""
    world, mu = Portfolio(), mixture(follow_trend(0.4), uniform(3), 0.3)
    return Task(world, mu, mixture(mu, follow_trend(2.5), share), 0.98, limit=120, see=world.see)


class Pacing:
    """Budget and time left, usual price, quality of the traffic; a click is worth 1.

    A day has 48 slots, and ends early without budget. Actions are four bids.
    """

    def begin(self, n, rng):
        """Start the day."""
        return np.column_stack([
            rng.lognormal(4.0, 0.3, n), np.full(n, 48.0), rng.lognormal(0, 0.3, n), rng.random(n),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Bid in a slot."""
        budget, left, price, quality = states.T
        bid = np.array([0.3, 0.8, 1.4, 2.5])[actions]
        rate = 6 / (1 + (price / bid) ** 3)
        won = rng.poisson(rate)
        cost = np.minimum(won * price * 0.8, budget)
        share = np.where(won > 0, cost / np.maximum(won * price * 0.8, 1e-9), 0.0)
        clicks = rng.binomial(won, 0.05 + 0.25 * quality) * share
        price = np.exp(0.9 * np.log(price) + 0.15 * rng.normal(size=len(price)))
        quality = np.clip(0.8 * quality + 0.2 * rng.random(len(price)), 0, 1)
        budget, left = budget - cost, left - 1
        over = (budget < 0.01) | (left <= 0)
        return np.column_stack([budget, left, price, quality]), clicks, over


def pace(gain):
    """Spend evenly, more on good and cheap traffic."""

    def policy(observations):
        budget, left, price, quality = observations.T
        rate = np.log(np.maximum(budget, 0.01) / np.maximum(left, 1.0) / price)
        bid = 1.5 + 1.5 * rate + 2 * (quality - 0.5)
        return softmax(-gain * np.abs(np.clip(bid, 0, 3)[:, None] - np.arange(4)))

    return policy


def pacing(share, rng):
    """A day of bids; π paces better."""
    mu = mixture(pace(0.3), uniform(4), 0.3)
    return Task(Pacing(), mu, mixture(mu, pace(2.5), share), 1.0)


class Collections:
    """Balance, days overdue, contacts, and a promise to pay; payments have a heavy tail.

    Actions: wait, write, call, sue. Episodes end when the debt is paid, or written off.
    """

    def begin(self, n, rng):
        """Open cases."""
        return np.column_stack([rng.lognormal(6.5, 1.0, n), 30 + rng.exponential(30, n),
                                np.zeros((n, 2))])  # fmt: skip

    def move(self, states, actions, rng):
        """Wait for a month."""
        balance, days, contacts, promise = states.T
        effort = np.array([0.0, 0.4, 0.9, 1.5])[actions] / (1 + 0.15 * contacts)
        logit = -2.2 + effort + 1.5 * promise - days / 200 - 0.1 * np.log(balance / 600)
        pays = rng.random(len(days)) < 1 / (1 + np.exp(-logit))
        paid = pays * balance * rng.beta(0.7, 0.7, len(days))
        promise = 1.0 * (rng.random(len(days)) < np.where(actions == 2, 0.3, 0.05) * ~pays)
        rewards = paid - np.array([0.0, 2.0, 12.0, 90.0])[actions]
        balance, days, contacts = balance - paid, days + 30, 0.8 * contacts + (actions > 0)
        over = (balance < 20) | (rng.random(len(days)) < 0.01 + 0.0004 * np.minimum(days, 600))
        return np.column_stack([np.maximum(balance, 1), days, contacts, promise]), rewards, over


def collect(gain):
    """Call about large balances, sue for the largest."""

    def policy(observations):
        balance, _, contacts, promise = observations.T
        size = np.log(balance / 500)
        scores = [0.6 * promise + 0.3 * contacts - size, np.zeros(len(size)) + 0.3,
                  size - 0.2 * contacts - promise, 1.5 * (size - 1.5)]  # fmt: skip
        return softmax(gain * np.clip(np.stack(scores, axis=1), -3, 3))

    return policy


def collections(share, rng):
    """Overdue debts; π chooses by size."""
    mu = mixture(collect(0.2), uniform(4), 0.2)
    return Task(Collections(), mu, mixture(mu, collect(1.5), share), 0.98)


class Tutoring:
    """Answers in three skills, right and wrong so far; which skills are known is not observed.

    Practice may teach a skill; a right answer is worth 1, in an unlikely skill 2. Twenty tasks.
    """

    worth = np.array([0.5, 1.0, 2.0])

    def begin(self, n, rng):
        """Begin with some skills."""
        return np.column_stack([np.zeros((n, 6)), rng.random((n, 3)) < [0.5, 0.3, 0.1]])

    def move(self, states, actions, rng):
        """Give a task in a skill."""
        n, own = len(states), np.arange(len(states))
        after = states.copy()
        skilled = states[own, 6 + actions] > 0
        right = rng.random(n) < np.where(skilled, 0.9, 0.2)
        after[own, 2 * actions + np.where(right, 0, 1)] += 1
        base = states[:, 6] * (actions == 2) * 0.15  # the first skill helps with the last
        learns = rng.random(n) < np.array([0.25, 0.15, 0.05])[actions] + base
        after[own, 6 + actions] = skilled | learns
        return after, self.worth[actions] * right, np.zeros(n, bool)

    def see(self, states):
        """Hide the skills."""
        return states[:, :6]


def teach(gain):
    """Practise what was right most often and is worth most."""

    def policy(observations):
        right, wrong = observations[:, ::2], observations[:, 1::2]
        rate = (right + 0.5) / (right + wrong + 1.5)
        return softmax(gain * rate * Tutoring.worth)

    return policy


def tutoring(share, rng):
    """Twenty tasks, which the task limits."""
    world, mu = Tutoring(), mixture(teach(0.5), uniform(3), 0.3)
    return Task(world, mu, mixture(mu, teach(4.0), share), 1.0, horizon=20, see=world.see)


class Calls:
    """Waiting callers, those who gave up, the usual number of calls; the hour is not observed.

    Actions are numbers of agents. A day has 60 periods, of which the middle are busy; callers who
    still wait at the end cost more.
    """

    def begin(self, n, rng):
        """Open in the morning."""
        return np.column_stack([rng.poisson(2, n), np.zeros(n), np.full(n, 4.0), np.zeros(n)])

    def move(self, states, actions, rng):
        """Answer for a period."""
        waiting, lost, usual, hour = states.T
        calls = rng.poisson(2 + 8 * np.exp(-0.5 * ((hour - 35) / 10) ** 2))
        agents = np.array([2, 5, 9])[actions]
        served = rng.binomial(agents, 0.9)
        waiting = np.maximum(waiting + calls - served, 0)
        left = rng.binomial(waiting.astype(int), 0.15)
        waiting, hour = waiting - left, hour + 1
        over = hour >= 60
        rewards = -0.15 * agents - 0.1 * waiting - 0.5 * left - 1.0 * waiting * over
        usual = 0.8 * usual + 0.2 * calls
        after = np.column_stack([waiting, 0.7 * lost + left, usual, hour])
        return after, rewards, over

    def see(self, states):
        """Hide the hour."""
        return states[:, :3]


def staff(gain):
    """Take as many agents as callers are expected."""

    def policy(observations):
        waiting, _, usual = observations.T
        need = usual + 0.3 * waiting
        return softmax(-gain * np.abs(need[:, None] - [2.0, 5.0, 9.0]))

    return policy


def calls(share, rng):
    """A day of calls."""
    world, mu = Calls(), mixture(staff(0.1), uniform(3), 0.3)
    return Task(world, mu, mixture(mu, staff(1.0), share), 1.0, see=world.see)


FAMILIES = (
    Family("portfolio", portfolio, SHARES, (100, 300, 1000)),
    Family("pacing", pacing, SHARES, (100, 300, 1000)),
    Family("collections", collections, SHARES, (100, 500, 2000)),
    Family("tutoring", tutoring, SHARES, (100, 500, 2000), continuous=False),
    Family("calls", calls, SHARES, (100, 300, 1000)),
)
