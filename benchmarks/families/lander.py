"""A lander above the ground with a main engine and two thrusters."""

from __future__ import annotations

import numpy as np

from saddleback.policies import mixture, uniform

from ..situations.setups import softmax
from .family import SHARES, Family, Task


class Lander:
    """Position, velocity, tilt, spin and fuel; the reward is for landing softly near the middle.

    Actions: coast, turn left, burn, turn right. The main engine pushes along the axis of the
    lander and burns fuel; gusts of wind disturb it.
    """

    def begin(self, n, rng):
        """Start high up, falling slowly."""
        noise = rng.normal(size=(n, 5)) * [0.5, 0.2, 0.15, 0.1, 0.05]
        x, u, w, tilt, spin = noise.T
        return np.column_stack([x, rng.uniform(1.5, 2.5, n), u, w - 0.3, tilt, spin, np.ones(n)])

    def move(self, states, actions, rng):
        """Burn for a moment."""
        x, y, u, w, tilt, spin, fuel = states.T
        burn = 0.12 * ((actions == 2) & (fuel > 0))
        gust = 0.01 * rng.normal(size=(2, len(x)))
        spin = 0.9 * spin + 0.06 * ((actions == 3) * 1.0 - (actions == 1)) + gust[0]
        tilt = tilt + 0.5 * spin
        u, w = u + burn * np.sin(tilt) + gust[1], w + burn * np.cos(tilt) - 0.05
        x, y = x + 0.2 * u, y + 0.2 * w
        fuel = np.maximum(fuel - 0.2 * burn, 0.0)
        down, lost = y <= 0, (np.abs(x) > 3) | (y > 4) | (np.abs(tilt) > 1.5)
        crash = np.abs(w) + 2 * np.abs(u) + 2 * np.abs(tilt)
        rewards = -0.01 * (actions > 0) - 0.1 * burn - 0.02 * np.abs(tilt)
        rewards += np.where(down, 2 - 3 * crash - np.abs(x), 0.0) - 5.0 * (lost & ~down)
        return np.column_stack([x, y, u, w, tilt, spin, fuel]), rewards, down | lost


def descend(gain):
    """Tilt towards the middle and burn when falling too fast."""

    def policy(observations):
        x, y, u, w, tilt, spin, _ = observations.T
        turn = np.clip(-0.2 * x - 0.8 * u, -0.3, 0.3) - tilt - 2.5 * spin
        brake = -0.15 - 0.2 * np.maximum(y, 0) - w
        scores = [np.full(len(x), 0.1), -4 * turn, 3 * brake, 4 * turn]
        return softmax(gain * np.stack(scores, axis=1))

    return policy


def lander(share, rng):
    """Landing; π controls better than μ."""
    mu = mixture(descend(1.5), uniform(4), 0.2)
    return Task(Lander(), mu, mixture(mu, descend(5.0), share), 0.99)


FAMILIES = (Family("lander", lander, SHARES, (50, 200, 500)),)
