"""Machines: a bicycle, a planar quadrotor, a cart on ice or asphalt, two tanks, a reactor."""

from __future__ import annotations

import numpy as np

from saddleback.policies import mixture, uniform

from ..families.family import SHARES, Family, Task
from ..situations.setups import softmax


class Bicycle:
    """Lean, its rate, steering angle and speed; 1 for every upright step, −5 for a fall."""

    def begin(self, n, rng):
        """Start nearly upright."""
        lean, rate, steer = 0.05 * rng.normal(size=(3, n))
        return np.column_stack([lean, rate, steer, rng.uniform(2.5, 4.0, n)])

    def move(self, states, actions, rng):
        """Steer left, not at all, or right, in twentieths of a second."""
        lean, rate, steer, speed = states.T
        steer = np.clip(steer + 0.1 * (actions - 1), -0.8, 0.8)
        rate = rate + 0.05 * (9.8 * np.sin(lean) - speed**2 / 1.1 * np.tan(steer))
        rate += 0.08 * rng.normal(size=len(rate))
        lean = lean + 0.05 * rate
        speed = np.clip(speed + 0.05 * rng.normal(size=len(speed)), 2.0, 4.5)
        over = np.abs(lean) > 0.6
        after = np.column_stack([lean, rate, steer, speed])
        return after, 1 - np.abs(steer) - np.abs(lean) - 5.0 * over, over


def steer_under(gain):
    """Steer into the fall."""

    def policy(observations):
        lean, rate, steer, speed = observations.T
        error = (14 * lean + 4 * rate) / speed**2 * 1.1 - steer
        return softmax(gain * np.outer(np.tanh(4 * error), [-1.0, 0.0, 1.0]))

    return policy


def bicycle(gain, rng):
    """Riding, cut after 150 steps."""
    return Task(Bicycle(), steer_under(1.0), steer_under(gain), 0.98, limit=150)


class Quadrotor:
    """Position, velocity, pitch and its rate in a plane, and the wind; −5 for leaving the box.

    Actions: less thrust, more thrust, pitch left, pitch right.
    """

    def begin(self, n, rng):
        """Start away from the middle."""
        x, z = rng.uniform(-1, 1, (2, n))
        u, w, pitch, rate, wind = 0.1 * rng.normal(size=(5, n))
        return np.column_stack([x, z, u, w, pitch, rate, wind])

    def move(self, states, actions, rng):
        """Fly for a tenth of a second."""
        x, z, u, w, pitch, rate, wind = states.T
        thrust = 9.8 + np.array([-2.5, 2.5, 0.2, 0.2])[actions]
        rate = 0.8 * rate + np.array([0.0, 0.0, -0.25, 0.25])[actions]
        rate += 0.03 * rng.normal(size=len(rate))
        pitch = pitch + 0.1 * rate
        u = u + 0.1 * (thrust * np.sin(pitch) + wind - 0.2 * u)
        w = w + 0.1 * (thrust * np.cos(pitch) - 9.8 - 0.2 * w)
        x, z = x + 0.1 * u, z + 0.1 * w
        wind = 0.9 * wind + 0.2 * rng.normal(size=len(wind))
        over = (np.abs(x) > 3) | (np.abs(z) > 2) | (np.abs(pitch) > 1)
        rewards = -0.2 * x**2 - 0.4 * z**2 - 0.1 * np.abs(pitch) - 5.0 * over
        return np.column_stack([x, z, u, w, pitch, rate, wind]), rewards, over


def fly(gain):
    """Correct the height, or pitch towards the middle."""

    def policy(observations):
        x, z, u, w, pitch, rate, _ = observations.T
        rise = -1.5 * z - 2 * w
        turn = np.clip(-0.3 * x - 0.5 * u, -0.4, 0.4) - pitch - 0.4 * rate
        return softmax(gain * np.stack([-rise, rise, -5 * turn, 5 * turn], axis=1))

    return policy


def quadrotor(share, rng):
    """Hovering, cut after 80 steps."""
    mu = mixture(fly(0.6), uniform(4), 0.2)
    return Task(Quadrotor(), mu, mixture(mu, fly(2.0), share), 0.97, limit=80)


class Cart:
    """Position, velocity, the place to be, and whether the ground is ice, which is not observed."""

    def begin(self, n, rng):
        """Start at rest; the ground is ice in four of ten episodes."""
        x, place = rng.uniform(-1, 1, (2, n))
        return np.column_stack([x, np.zeros(n), place, rng.random(n) < 0.4])

    def move(self, states, actions, rng):
        """Push."""
        x, v, place, ice = states.T
        grip = np.where(ice > 0, 0.35, 1.0)
        v = v * (1 - 0.25 * grip) + 0.2 * grip * (actions - 1) + 0.02 * rng.normal(size=len(x))
        x = x + 0.5 * v
        jump = rng.random(len(x)) < 0.03
        place = np.where(jump, rng.uniform(-1, 1, len(x)), place)
        rewards = -np.abs(x - place) - 0.05 * (actions != 1)
        return np.column_stack([x, v, place, ice]), rewards, np.zeros(len(x), bool)

    def see(self, states):
        """Hide the ground."""
        return states[:, :3]


def towards(gain):
    """Push towards the place, and brake in time."""

    def policy(observations):
        x, v, place = observations.T
        return softmax(gain * np.outer(np.tanh(3 * (place - x) - 3 * v), [-1.0, 0.0, 1.0]))

    return policy


def hidden_ice(share, rng):
    """A cart, cut after 60 steps."""
    world, mu = Cart(), mixture(towards(0.5), uniform(3), 0.2)
    return Task(world, mu, mixture(mu, towards(4.0), share), 0.95, limit=60, see=world.see)


class Tanks:
    """Levels of two tanks in centimetres, inflow, and the setpoint; −2 for overflows.

    Actions are four speeds of the pump from the first tank to the second. Bursts of inflow have a
    heavy tail.
    """

    def begin(self, n, rng):
        """Start half full."""
        return np.column_stack([
            rng.uniform(20, 80, (n, 2)).T[0], rng.uniform(20, 80, n), np.full(n, 5.0),
            rng.choice([30.0, 50.0, 70.0], n),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Pump for a minute."""
        a, b, inflow, setpoint = states.T
        pumped = np.minimum(a, np.array([0.0, 3.0, 6.0, 10.0])[actions])
        drained = 0.7 * np.sqrt(b)
        a = a + inflow - pumped
        b = b + pumped - drained
        spilt = np.maximum(a - 100, 0) + np.maximum(b - 100, 0)
        a, b = np.clip(a, 0, 100), np.clip(b, 0, 100)
        burst = rng.pareto(2.2, len(a)) * (rng.random(len(a)) < 0.15)
        inflow = np.clip(3.0 + 0.7 * (inflow - 3.0) + 3.0 * burst, 0, 60)
        rewards = -np.abs(b - setpoint) / 20 - 2.0 * (spilt > 0) - 0.02 * actions
        move = rng.random(len(a)) < 0.04
        setpoint = np.where(move, rng.choice([30.0, 50.0, 70.0], len(a)), setpoint)
        return np.column_stack([a, b, inflow, setpoint]), rewards, np.zeros(len(a), bool)


def level(gain):
    """Pump by the lack of the second tank and the fullness of the first."""

    def policy(observations):
        a, b, _, setpoint = observations.T
        need = 0.7 * np.sqrt(b) + 0.25 * (setpoint - b) + 0.1 * np.maximum(a - 70, 0)
        return softmax(-gain * np.abs(need[:, None] - [0.0, 3.0, 6.0, 10.0]))

    return policy


def tanks(share, rng):
    """Level control, cut after 80 minutes."""
    mu = mixture(level(0.15), uniform(4), 0.3)
    return Task(Tanks(), mu, mixture(mu, level(1.0), share), 0.95, limit=80)


class Reactor:
    """Concentration, temperature, coolant, and the last two temperatures; the sensor is late.

    Too hot a reactor runs away, which ends the episode.
    """

    def begin(self, n, rng):
        """Start cold."""
        hot = rng.normal(345, 4, n)
        return np.column_stack([rng.uniform(0.5, 0.9, n), hot, rng.normal(300, 3, n), hot, hot])

    def move(self, states, actions, rng):
        """Change the coolant by −3, 0 or 3 K, and wait."""
        c, hot, cool, before, _ = states.T
        cool = np.clip(cool + 3.0 * (actions - 1), 280, 320)
        speed = 0.12 * np.exp((hot - 350) / 12)
        burnt = c * (1 - np.exp(-speed))
        c = np.clip(c - burnt + 0.1 * (1 - c) + 0.01 * rng.normal(size=len(c)), 0, 1)
        after = hot + 90 * burnt - 0.2 * (hot - cool) + 0.8 * rng.normal(size=len(c))
        over = after > 385
        rewards = 10 * burnt - 0.02 * np.abs(actions - 1) - 15.0 * over
        return np.column_stack([c, after, cool, hot, before]), rewards, over

    def see(self, states):
        """Show concentration, coolant, and the temperature of two steps ago."""
        return states[:, [0, 2, 4]]


def thermostat(gain):
    """Cool above 350 K."""

    def policy(observations):
        _, cool, hot = observations.T
        need = (352 - hot) / 6 - (cool - 300) / 8
        return softmax(gain * np.outer(np.tanh(need), [-1.0, 0.0, 1.0]))

    return policy


def reactor(share, rng):
    """A reactor, cut after 100 steps."""
    world, mu = Reactor(), mixture(thermostat(0.6), uniform(3), 0.2)
    return Task(world, mu, mixture(mu, thermostat(3.0), share), 0.97, limit=100, see=world.see)


GAINS = {"near": 1.3, "mid": 1.8, "far": 3.0}

FAMILIES = (
    Family("bicycle", bicycle, GAINS, (100, 300, 1000)),
    Family("quadrotor", quadrotor, SHARES, (100, 300, 1000)),
    Family("ice", hidden_ice, SHARES, (100, 300, 1000)),
    Family("tanks", tanks, SHARES, (100, 300, 1000)),
    Family("late-sensor", reactor, SHARES, (100, 300, 1000)),
)
