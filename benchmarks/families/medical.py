"""Patients: vital signs and doses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saddleback.policies import always, mixture

from ..situations.setups import softmax
from ..situations.worlds import Clinic
from .family import SHARES, Family, Task

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


class Glucose:
    """Half-hours of a patient with diabetes: glucose, two compartments of insulin, gut, meal size.

    Meals of random size arrive at random; the bolus of insulin (0, 1, 2 or 4 units) acts with a
    delay. The reward is minus a risk that is 0 at 110 mg/dl; severe hypoglycaemia ends the episode.
    """

    bolus = np.array([0.0, 1.0, 2.0, 4.0])

    def begin(self, n, rng):
        """Start fasting."""
        glucose = rng.normal(150, 25, n).clip(80, 250)
        return np.column_stack([glucose, np.zeros((n, 3)), self.meal(n, rng)])

    def meal(self, n, rng):
        """Draw the carbohydrates announced for the next half-hour."""
        return (rng.random(n) < 0.15) * rng.uniform(20, 70, n)

    def move(self, states, actions, rng):
        """Wait for half an hour after a bolus."""
        glucose, depot, active, gut, meal = states.T
        risk = np.log(glucose / 110) ** 2 * np.where(glucose < 110, 12.0, 4.0)
        rise = 0.4 * gut
        active, depot = 0.7 * active + 0.4 * depot, 0.6 * depot + self.bolus[actions]
        gut = gut - rise + meal
        glucose = glucose + 2.5 * rise - 12 * active * glucose / (glucose + 60)
        glucose = np.minimum(glucose + 0.06 * (140 - glucose) + 5 * rng.normal(size=len(gut)), 450)
        over = glucose < 45
        after = np.column_stack([np.maximum(glucose, 20), depot, active, gut])
        return np.column_stack([after, self.meal(len(gut), rng)]), -risk - 8.0 * over, over


def bolus_calculator(gain):
    """Dose for the announced meal and high glucose, less the insulin on board."""

    def policy(observations):
        glucose, depot, active, gut, meal = observations.T
        need = (2.5 * (meal + gut) + glucose - 140) / 30 - active - depot
        return softmax(-gain * np.abs(need[:, None] - Glucose.bolus))

    return policy


def glucose(share, rng):
    """A day of boluses, cut after 48 half-hours; μ hardly follows the calculator."""
    mu = mixture(bolus_calculator(0.2), always(0, 4), 0.4)
    return Task(Glucose(), mu, mixture(mu, bolus_calculator(1.5), share), 0.95, limit=48)


def clinic_estimated(share, rng):
    """The clinic without logged propensities; logistic regression is the right model of μ."""
    return replace(clinic(share, rng), estimated="logistic")


FAMILIES = (
    Family("clinic", clinic, SHARES, (100, 500, 2000), instances=3),
    Family("clinic-clock", clinic_with_clock, SHARES, (100, 500, 2000), instances=3),
    Family("clinic-estimated", clinic_estimated, SHARES, (100, 500, 2000), instances=3),
    Family("glucose", glucose, SHARES, (50, 200, 1000)),
)
