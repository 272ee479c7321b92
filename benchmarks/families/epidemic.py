"""An epidemic and the restrictions against it."""

from __future__ import annotations

import numpy as np

from saddleback.policies import mixture

from ..situations.setups import softmax
from .family import SHARES, Family, Task


class Epidemic:
    """Weeks of an epidemic: shares that are susceptible, exposed, infected, recovered; and fatigue.

    Restrictions (none, distancing, lockdown) reduce contacts, the less the more fatigue they have
    caused. The reward is minus new infections, patients over the capacity, and the price of
    restrictions; the episode ends when almost nobody is infected.
    """

    contacts, price = np.array([1.0, 0.5, 0.2]), np.array([0.0, 0.04, 0.2])

    def begin(self, n, rng):
        """Start with a few infected."""
        exposed, infected = rng.uniform(0.001, 0.02, (2, n))
        recovered = rng.uniform(0.0, 0.2, n)
        susceptible = 1 - exposed - infected - recovered
        return np.column_stack([susceptible, exposed, infected, recovered, np.zeros(n)])

    def move(self, states, actions, rng):
        """Let a week pass under a restriction."""
        susceptible, exposed, infected, recovered, fatigue = states.T
        contacts = 1 - (1 - self.contacts[actions]) * (1 - 0.5 * fatigue)
        rate = 2.4 * contacts * np.exp(0.25 * rng.normal(size=len(actions)) - 0.03)
        new = susceptible * (1 - np.exp(-rate * infected))
        ill, well, waned = 0.6 * exposed, 0.7 * infected, 0.01 * recovered
        susceptible, exposed = susceptible - new + waned, exposed + new - ill
        infected, recovered = infected + ill - well, recovered + well - waned
        fatigue = 0.9 * fatigue + 0.1 * (actions / 2)
        rewards = -8 * new - 40 * np.maximum(infected - 0.06, 0) - self.price[actions]
        over = exposed + infected < 0.002
        after = np.column_stack([susceptible, exposed, infected, recovered, fatigue])
        return after, rewards, over


def restrict(gain, threshold):
    """Restrict more, the more are infected."""

    def policy(observations):
        active = observations[:, 1] + observations[:, 2]
        need = gain * np.log(np.maximum(active, 1e-6) / threshold)
        return softmax(np.outer(need, [-1.0, 0.0, 1.0]) + np.array([0.0, 0.3, -0.3]))

    return policy


def epidemic(share, rng):
    """A year of restrictions, cut after 52 weeks; π reacts, μ hardly does."""
    mu = restrict(0.3, 0.08)
    return Task(Epidemic(), mu, mixture(mu, restrict(2.5, 0.06), share), 0.97, limit=52)


FAMILIES = (Family("epidemic", epidemic, SHARES, (50, 200, 1000)),)
