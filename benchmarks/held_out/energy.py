"""Energy: heating a building, and trading with a battery."""

from __future__ import annotations

import numpy as np

from saddleback.policies import mixture, uniform

from ..families.family import SHARES, Family, Task
from ..situations.setups import softmax


class Building:
    """Air, walls, weather, cosine and sine of the hour, occupancy, price; 4 levels of heating."""

    def begin(self, n, rng):
        """Start at a random hour."""
        hour = rng.integers(48, size=n) / 48 * 2 * np.pi
        room, out = rng.normal(17, 2, n), rng.normal(3, 4, n)
        return np.column_stack([
            room, room - 1, out, np.cos(hour), np.sin(hour), rng.random(n) < 0.4,
            rng.lognormal(-1.5, 0.4, n),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Heat for half an hour."""
        room, wall, out, cos, sin, busy, price = states.T
        power = np.array([0.0, 1.0, 2.0, 4.0])[actions]
        warmer = room + 0.5 * power + 0.15 * (wall - room) + 0.04 * (out - room) + 0.3 * busy
        warmer += 0.15 * rng.normal(size=len(room))
        wall = wall + 0.05 * (room - wall) + 0.01 * (out - wall)
        cold = np.maximum(20 - room, 0) + np.maximum(room - 24, 0)
        rewards = -price * power - np.where(busy > 0, 0.1, 0.01) * cold**2
        hour = np.arctan2(sin, cos) + 2 * np.pi / 48
        cos, sin = np.cos(hour), np.sin(hour)
        normal = 5 - 5 * np.cos(hour - 0.6)
        out = out + 0.1 * (normal - out) + 0.4 * rng.normal(size=len(out))
        change = np.where(cos < 0, 0.6, 0.1)  # by day
        busy = np.where(rng.random(len(room)) < 0.3, rng.random(len(room)) < change, busy)
        price = np.exp(-1.5 + 0.8 * (np.log(price) + 1.5) + 0.2 * rng.normal(size=len(room)))
        after = np.column_stack([warmer, wall, out, cos, sin, busy, price])
        return after, rewards, np.zeros(len(room), bool)


def heat(gain, thrift):
    """Heat towards 21 degrees, less when energy is dear or nobody is there."""

    def policy(observations):
        room, _, out, _, _, busy, price = observations.T
        setpoint = 21 - thrift * (2 * (1 - busy) + 2 * price)
        need = 1.5 * (setpoint - room) + 0.08 * (room - out)
        return softmax(-gain * np.abs(need[:, None] - [0.0, 1.0, 2.0, 4.0]))

    return policy


def heating(share, rng):
    """Two days of heating, cut."""
    mu = mixture(heat(0.4, 0.0), uniform(4), 0.25)
    return Task(Building(), mu, mixture(mu, heat(2.0, 1.0), share), 0.99, limit=96)


class Battery:
    """Charge, price, a noisy forecast, cosine and sine of the hour, load; prices have spikes."""

    def begin(self, n, rng):
        """Start at a random hour with some charge."""
        hour = rng.integers(24, size=n) / 24 * 2 * np.pi
        price = 40 + 10 * rng.normal(size=n)
        return np.column_stack([
            rng.random(n), price, price, np.cos(hour), np.sin(hour), rng.normal(1, 0.2, n),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Sell, wait or buy a fifth of the capacity."""
        charge, price, _, cos, sin, load = states.T
        moved = np.clip(charge + 0.2 * (actions - 1.0), 0, 1) - charge
        rewards = -price * (moved + 0.05 * np.abs(moved)) / 10 - 0.02 * load
        hour = np.arctan2(sin, cos) + 2 * np.pi / 24
        cos, sin = np.cos(hour), np.sin(hour)
        spike = rng.pareto(2.5, len(price)) * (rng.random(len(price)) < 0.05)
        usual = 40 - 12 * np.cos(hour) - 8 * np.sin(2 * hour)
        price = usual + 0.6 * (price - usual).clip(-60, 200) + 4 * rng.normal(size=len(price))
        price += 30 * spike
        forecast = price + 6 * rng.normal(size=len(price))
        load = 1 + 0.8 * (load - 1) + 0.1 * rng.normal(size=len(load))
        after = np.column_stack([charge + moved, price, forecast, cos, sin, load])
        return after, rewards, np.zeros(len(price), bool)


def trade(gain):
    """Sell when the price is high for the hour, buy when it is low."""

    def policy(observations):
        charge, price, *_ = observations.T
        dear = (price - 42) / 12 + 1.5 * (charge - 0.5)
        return softmax(gain * np.outer(np.clip(dear, -2, 2), [1.0, 0.0, -1.0]))

    return policy


def storage(share, rng):
    """A week of trading, cut."""
    mu = mixture(trade(0.2), uniform(3), 0.2)
    return Task(Battery(), mu, mixture(mu, trade(1.5), share), 0.99, limit=168)


FAMILIES = (
    Family("heating", heating, SHARES, (50, 200, 800)),
    Family("storage", storage, SHARES, (50, 150, 500)),
)
