"""Pendulums with a few torques: one that is to stand upright, and two that are to swing up."""

from __future__ import annotations

import numpy as np

from saddleback.policies import mixture, uniform

from ..situations.setups import softmax
from .family import SHARES, Family, Task


class Acrobot:
    """Two links, with a torque of −1, 0 or 1 at the joint; −1 for every step until the tip is high.

    Lengths, masses and inertias are 1, steps of 0.2 s by Runge–Kutta, as in Gymnasium.
    """

    def begin(self, n, rng):
        """Start almost at rest, hanging down."""
        return rng.uniform(-0.1, 0.1, size=(n, 4))

    def move(self, states, actions, rng):
        """Apply a torque."""
        torque, h = actions - 1.0, 0.2
        k1 = self.slopes(states, torque)
        k2 = self.slopes(states + h / 2 * k1, torque)
        k3 = self.slopes(states + h / 2 * k2, torque)
        k4 = self.slopes(states + h * k3, torque)
        after = states + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        after[:, :2] = (after[:, :2] + np.pi) % (2 * np.pi) - np.pi
        after[:, 2:] = np.clip(after[:, 2:], [-4 * np.pi, -9 * np.pi], [4 * np.pi, 9 * np.pi])
        over = -np.cos(after[:, 0]) - np.cos(after[:, 0] + after[:, 1]) > 1.0
        return after, np.where(over, 0.0, -1.0), over

    def slopes(self, states, torque):
        """Time derivatives of angles and speeds."""
        a, b, u, w = states.T
        sin, cos, g = np.sin(b), np.cos(b), 9.8
        inertia, coupling = 3.5 + cos, 1.25 + 0.5 * cos
        pull = 0.5 * g * np.sin(a + b)
        load = pull - 0.5 * sin * w**2 - sin * w * u + 1.5 * g * np.sin(a)
        turn = torque + coupling / inertia * load - 0.5 * sin * u**2 - pull
        turn /= 1.25 - coupling**2 / inertia
        return np.stack([u, w, -(coupling * turn + load) / inertia, turn], axis=1)

    def see(self, states):
        """Show cosine and sine of both angles, and both speeds."""
        a, b = states[:, 0], states[:, 1]
        return np.column_stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b), states[:, 2:]])


def swing(gain):
    """Push the lower link the way it turns against the upper one."""

    def policy(observations):
        lean = np.tanh(observations[:, 5] - observations[:, 4])
        return softmax(gain * np.outer(lean, [-1.0, 0.0, 1.0]))

    return policy


def acrobot(gain, rng):
    """Swinging up, cut after 300 steps."""
    world = Acrobot()
    return Task(world, swing(1.0), swing(gain), 0.99, limit=300, see=world.see)


class Pendulum:
    """Gymnasium's Pendulum with torques −2, 0 and 2; it never ends."""

    def begin(self, n, rng):
        """Start anywhere."""
        return np.column_stack([rng.uniform(-np.pi, np.pi, n), rng.uniform(-1, 1, n)])

    def move(self, states, actions, rng):
        """Apply a torque."""
        angle, speed = states.T
        torque = 2.0 * (actions - 1)
        cost = ((angle + np.pi) % (2 * np.pi) - np.pi) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * torque), -8, 8)
        after = np.column_stack([angle + 0.05 * speed, speed])
        return after, -cost, np.zeros(len(states), bool)

    def see(self, states):
        """Show cosine and sine of the angle, and the speed."""
        angle, speed = states.T
        return np.column_stack([np.cos(angle), np.sin(angle), speed])


def upright(observations):
    """Gain energy while the pendulum hangs; balance it near the top."""
    cos, sin, speed = observations.T
    lack = 1 - cos - speed**2 / 30
    gain = np.where(cos > 0.8, -8 * sin - 2 * speed, 2 * np.sign(lack) * np.tanh(2 * speed))
    return softmax(1.5 * np.outer(gain, [-1.0, 0.0, 1.0]))


def pendulum(share, rng):
    """Balancing, cut after 100 steps."""
    world, mu = Pendulum(), mixture(uniform(3), upright, 0.3)
    return Task(world, mu, mixture(mu, upright, share), 0.97, limit=100, see=world.see)


FAMILIES = (
    Family("acrobot", acrobot, {"near": 1.5, "mid": 2.5, "far": 5.0}, (50, 150, 500)),
    Family("pendulum", pendulum, SHARES, (50, 200, 500)),
)
