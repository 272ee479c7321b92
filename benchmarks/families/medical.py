"""Patients: vital signs and doses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback.policies import mixture

from ..situations.setups import softmax
from ..situations.worlds import Clinic
from .family import Family, Task

SIGNS = ("hr", "bp", "lactate", "temp", "resp", "spo2")
DOSES = ("none", "low", "medium", "high")


def six_signs(rng):
    """A clinic with six vital signs and four doses; the high dose harms two signs."""
    d = len(SIGNS)
    effect = rng.uniform(0.1, 0.3, size=(4, d)) * np.array([[1.5], [-0.5], [-1.5], [-2.5]])
    effect[3, rng.permutation(d)[:2]] += 0.6
    weight = rng.dirichlet(np.full(d, 5.0))
    decay = np.diag(rng.uniform(0.75, 0.9, d)) + 0.03 * rng.normal(size=(d, d))
    return Clinic(
        decay=decay, pull=rng.uniform(0.0, 0.1, d), effect=effect,
        price=np.array([0.0, 0.05, 0.1, 0.25]), weight=weight, sick=rng.uniform(0.5, 1.5, d),
        ease=-2.5, slope=2.0, bend=0.03, spread=0.35, noise=0.2,
        middle=np.array([85.0, 110.0, 2.5, 37.0, 18.0, 96.0]),
        unit=np.array([15.0, -14.0, 0.8, 0.7, 4.0, -2.5]), columns=SIGNS, doses=DOSES,
    )  # fmt: skip


def dose_by_severity(world, gain, habit):
    """Prescribe more to the sicker: a softmax of gain·severity·dose plus a habit for each dose."""
    strength = np.array([-1.0, -0.3, 0.3, 1.0])

    def policy(observations):
        severity = world.signs(observations[:, : len(SIGNS)]) @ world.weight
        return softmax(gain * (severity - 0.4)[:, None] * strength + habit)

    return policy


def doses(world):
    """Return μ, which doses nearly at random, and a policy that follows severity."""
    mu = dose_by_severity(world, 0.5, np.array([0.6, 0.3, 0.0, -0.3]))
    return mu, dose_by_severity(world, 4.0, np.array([-0.5, 0.3, 0.3, -0.3]))


def clinic(share, rng):
    """Patients are discharged when they are well."""
    world = six_signs(rng)
    mu, better = doses(world)
    return Task(world, mu, mixture(mu, better, share), 0.95)


@dataclass(frozen=True, eq=False)
class HiddenClock:
    """A clinic where patients leave after a number of days fixed at admission and not observed.

    The state has the days left as its last column; on the last day the reward is larger the
    healthier the patient is.
    """

    clinic: Clinic
    days: tuple[int, int] = (4, 20)

    def begin(self, n, rng):
        """Admit patients."""
        return np.column_stack([self.clinic.begin(n, rng), rng.integers(*self.days, size=n)])

    def move(self, states, actions, rng):
        """Treat them once."""
        signs, rewards, _ = self.clinic.move(states[:, :-1], actions, rng)
        left = states[:, -1] - 1
        health = -self.clinic.signs(signs) @ self.clinic.weight
        return np.column_stack([signs, left]), rewards + 5 * health * (left == 0), left == 0

    def see(self, states):
        """Hide the days left."""
        return states[:, :-1]


def clinic_with_clock(share, rng):
    """Patients leave on a date that is not observed."""
    world = HiddenClock(six_signs(rng))
    mu, better = doses(world.clinic)
    return Task(world, mu, mixture(mu, better, share), 1.0, see=world.see)


SHARES = {"near": 0.3, "mid": 0.6, "far": 1.0}

FAMILIES = (
    Family("clinic", clinic, SHARES, (100, 500, 2000), instances=3),
    Family("clinic-clock", clinic_with_clock, SHARES, (100, 500, 2000), instances=3),
)
