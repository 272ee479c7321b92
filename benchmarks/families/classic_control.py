"""Mechanical systems: a cart with a pole, a car in a valley, a point mass with thrusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saddleback.policies import mixture, pump, uniform
from saddleback.problems.mountain_car import FORCE, GOAL, GRAVITY, HIGH, LOW, START

from ..situations.setups import softmax
from .family import SHARES, Family, Task


class CartPole:
    """Gymnasium's CartPole: position, velocity, angle, angular velocity; 1 for every step."""

    def begin(self, n, rng):
        """Start near the middle, upright."""
        return rng.uniform(-0.05, 0.05, size=(n, 4))

    def move(self, states, actions, rng):
        """Push left or right."""
        _, v, angle, spin = states.T
        cos, sin = np.cos(angle), np.sin(angle)
        force = (20.0 * actions - 10.0 + 0.05 * spin**2 * sin) / 1.1
        turn = (9.8 * sin - cos * force) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        push = force - 0.05 * turn * cos / 1.1
        change = np.stack([v, push, spin, turn], axis=1)
        after = states + 0.02 * change
        over = (np.abs(after[:, 0]) > 2.4) | (np.abs(after[:, 2]) > np.deg2rad(12))
        return after, np.ones(len(states)), over


def towards_fall(probability, column=2):
    """Push right with this probability if the pole leans right, else with one minus it."""

    def policy(observations):
        right = np.where(observations[:, column] > 0, probability, 1 - probability)
        return np.column_stack([1 - right, right])

    return policy


def balance(gain):
    """Push by the angle and the spin: a logistic function of gain·(4 angle + spin)."""

    def policy(observations):
        lean = gain * (4 * observations[:, 2] + observations[:, 3])
        return softmax(np.column_stack([np.zeros(len(lean)), lean]))

    return policy


def cart_pole_50(probability, rng):
    """CartPole of 50 steps without discount: V^π is 39.3 with probability 0.9, V^μ is 21.8."""
    return Task(CartPole(), uniform(2), towards_fall(probability), 1.0, horizon=50)


def cart_pole_positions(probability, rng):
    """The same seen without velocities: position and angle only."""
    pi = towards_fall(probability, column=1)
    return Task(CartPole(), uniform(2), pi, 1.0, horizon=50, see=lambda states: states[:, ::2])


def cart_pole_200(gain, rng):
    """CartPole cut after 200 steps, with discount."""
    return Task(CartPole(), balance(0.6), balance(gain), 0.98, limit=200)


class MountainCar:
    """Gymnasium's MountainCar without a time limit: position and velocity; −1 for every step."""

    def begin(self, n, rng):
        """Start at rest in the valley."""
        return np.column_stack([rng.uniform(*START, size=n), np.zeros(n)])

    def move(self, states, actions, rng):
        """Push left, coast or push right."""
        x, v = states.T
        v = v + (actions - 1) * FORCE - GRAVITY * np.cos(3 * x)
        v = np.clip(v, LOW[1], HIGH[1])
        x = np.clip(x + v, LOW[0], HIGH[0])
        v = np.where((x == LOW[0]) & (v < 0), 0.0, v)
        over = (x >= GOAL) & (v >= 0)
        return np.column_stack([x, v]), np.full(len(x), -1.0), over


def paper_car(probability, rng):
    """MountainCar of the paper: V^π is −79.83 with probability 0.8."""
    return Task(MountainCar(), pump(0.98), pump(probability), 0.99)


def car_without_propensities(probability, rng):
    """The same with propensities estimated by counts, whose cells do not divide at velocity 0."""
    return replace(paper_car(probability, rng), estimated="counts")


class DoubleIntegrator:
    """A point mass in the plane with noise: position and velocity; −10 for leaving the arena."""

    thrust = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])

    def begin(self, n, rng):
        """Start at random, slowly."""
        return np.column_stack([rng.uniform(-2, 2, (n, 2)), 0.2 * rng.normal(size=(n, 2))])

    def move(self, states, actions, rng):
        """Coast, or push along an axis."""
        x, v = states[:, :2], states[:, 2:]
        v = 0.98 * v + 0.2 * self.thrust[actions] + 0.05 * rng.normal(size=v.shape)
        x = x + 0.3 * v
        over = np.abs(x).max(axis=1) > 3.0
        rewards = -0.2 * (x**2).sum(axis=1) - 0.05 * (actions > 0) - 10.0 * over
        return np.column_stack([x, v]), rewards, over


def steer(gain):
    """Push against position and velocity, the harder the larger the gain."""

    def policy(observations):
        pull = -observations[:, :2] - 2 * observations[:, 2:]
        return softmax(gain * pull @ DoubleIntegrator.thrust.T)

    return policy


def double_integrator(share, rng):
    """A point mass, cut after 50 steps; π steers better than μ."""
    mu = mixture(steer(0.5), uniform(5), 0.2)
    return Task(DoubleIntegrator(), mu, mixture(mu, steer(3.0), share), 0.95, limit=50)


LEANS, PUMPS = {"near": 0.65, "mid": 0.8, "far": 0.9}, {"near": 0.95, "mid": 0.9, "far": 0.8}

FAMILIES = (
    Family("cartpole-50", cart_pole_50, LEANS, (50, 200, 1000)),
    Family("cartpole-positions", cart_pole_positions, LEANS, (50, 200, 1000)),
    Family("cartpole-200", cart_pole_200, {"near": 0.8, "mid": 1.1, "far": 1.6}, (50, 200, 1000)),
    Family("mountain-car", paper_car, PUMPS, (50, 200, 500)),
    Family("mountain-car-estimated", car_without_propensities, PUMPS, (50, 200, 500)),
    Family("double-integrator", double_integrator, SHARES, (50, 200, 1000)),
)
