"""Recommendations to users whose interests drift with what they are shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback.policies import mixture, uniform

from ..situations.setups import softmax
from .family import SHARES, Family, Task


@dataclass(frozen=True, eq=False)
class Users:
    """Interests in six topics, and five kinds of items; a click is worth 1.

    An item that is clicked raises the interest in its topics, then satiates; users leave, the
    sooner the less they click. With ``tired`` the last column of the state is how tired a user is:
    it reduces clicks, and grows with every item of the first kind, which attracts most clicks.
    """

    items: np.ndarray
    tired: bool = False

    def begin(self, n, rng):
        """Let users arrive."""
        return np.column_stack([0.7 * rng.normal(size=(n, 6)), np.zeros((n, int(self.tired)))])

    def move(self, states, actions, rng):
        """Show an item."""
        interest, shown = states[:, :6], self.items[actions]
        tired = states[:, 6] if self.tired else 0.0
        lure = 0.8 * (actions == 0)
        click = expit((interest * shown).sum(axis=1) + lure - 0.5 - tired)
        clicked = rng.random(len(click)) < click
        pull = np.where(clicked, 0.15, -0.1)[:, None] * shown - 0.05 * interest**3
        interest = 0.95 * interest + pull + 0.1 * rng.normal(size=interest.shape)
        over = rng.random(len(click)) < np.where(clicked, 0.02, 0.1)
        after = [interest]
        if self.tired:
            after.append(0.9 * tired + 0.5 * (actions == 0))
        return np.column_stack(after), clicked * 1.0, over

    def see(self, states):
        """Show interests only."""
        return states[:, :6]


def expit(x):
    """Logistic function."""
    return 1 / (1 + np.exp(-x))


def recommend(items, gain, lure):
    """Prefer items that match the interests, and the first kind by ``lure``."""

    def policy(observations):
        return softmax(gain * observations @ items.T + lure * np.eye(len(items))[0])

    return policy


def users(share, rng, tired=False):
    """Users; π follows their interests more than μ does."""
    items = rng.normal(size=(5, 6))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    world = Users(1.2 * items, tired)
    mu = mixture(recommend(items, 0.5, 0.3), uniform(5), 0.2)
    pi = mixture(mu, recommend(items, 3.0, 2.0 if tired else 0.0), share)
    return Task(world, mu, pi, 0.95, see=world.see)


def tired_users(share, rng):
    """Users who tire of the items that attract clicks, which is not observed."""
    return users(share, rng, tired=True)


FAMILIES = (
    Family("recommendation", users, SHARES, (100, 300, 1000), instances=3),
    Family("recommendation-tired", tired_users, SHARES, (100, 300, 1000), instances=3),
)
