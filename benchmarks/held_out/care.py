"""Care: HIV drugs, a ventilator, chemotherapy, and a short sequence of therapies."""

from __future__ import annotations

import numpy as np

from saddleback.policies import mixture, uniform

from ..families.family import SHARES, Family, Task
from ..situations.setups import softmax


class HIV:
    """Infection dynamics of Adams et al. (2004): six numbers of cells, viruses and effectors.

    Every five days none, one or both of two drugs are given.
    """

    sick = np.array([163573.0, 5.0, 11945.0, 46.0, 63919.0, 24.0])

    def begin(self, n, rng):
        """Start in the unhealthy state."""
        return self.sick * np.exp(0.2 * rng.normal(size=(n, 6)))

    def move(self, states, actions, rng):
        """Give drugs for five days."""
        drugs = 0.7 * (actions % 2), 0.3 * (actions // 2)
        x = states.T
        for _ in range(20):
            x = self.advance(x, *drugs, 0.25)
        x = np.column_stack(x)
        x = x * np.exp(0.03 * rng.normal(size=x.shape))
        rewards = -0.1 * x[:, 4] - 2e4 * drugs[0] ** 2 - 2e3 * drugs[1] ** 2 + 1e3 * x[:, 5]
        return x, rewards, np.zeros(len(x), bool)

    def advance(self, x, first, second, h):
        """Let h days pass; losses are implicit."""
        T1, T2, I1, I2, V, E = x
        ill1, ill2 = (1 - first) * 8e-7 * V, (1 - 0.34 * first) * 1e-4 * V
        T1, T2 = (
            (T1 + h * 1e4) / (1 + h * (0.01 + ill1)),
            (T2 + h * 31.98) / (1 + h * (0.01 + ill2)),
        )
        ill1, ill2, die = ill1 * T1, ill2 * T2, 0.7 + 1e-5 * E
        I1, I2 = (I1 + h * ill1) / (1 + h * die), (I2 + h * ill2) / (1 + h * die)
        sick = I1 + I2
        V = (V + h * (1 - second) * 70 * sick) / (1 + h * (13 + 8e-7 * T1 + 1e-4 * T2))
        E = (E + h * (1 + 0.3 * sick / (sick + 100) * E)) / (
            1 + h * (0.1 + 0.25 * sick / (sick + 500))
        )
        return T1, T2, I1, I2, V, E


def treat(gain):
    """Give both drugs while there are many viruses, none when there are effectors enough."""

    def policy(observations):
        need = np.log10(observations[:, 4] + 1) - np.log10(observations[:, 5] + 1) - 2
        return softmax(gain * np.outer(np.tanh(need), [-1.0, 0.4, -0.2, 1.0]))

    return policy


def hiv(share, rng):
    """Two hundred days of treatment, cut."""
    mu = mixture(treat(0.5), uniform(4), 0.3)
    return Task(HIV(), mu, mixture(mu, treat(3.0), share), 0.98, limit=40)


class Ventilator:
    """Saturation, carbon dioxide, injury, oxygen and pressure settings; ±1 at the end alone.

    Actions: nothing, oxygen up, oxygen down, pressure up, pressure down.
    """

    def begin(self, n, rng):
        """Start with moderate settings."""
        return np.column_stack([
            rng.normal(90, 3, n), rng.normal(48, 6, n), rng.gamma(4, 0.1, n),
            rng.integers(2, 6, n), rng.integers(1, 5, n),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Ventilate for some hours."""
        sat, co2, injury, oxygen, pressure = states.T
        oxygen = np.clip(oxygen + (actions == 1) - (actions == 2), 0, 7)
        pressure = np.clip(pressure + (actions == 3) - (actions == 4), 0, 5)
        harm = 0.02 * np.maximum(oxygen - 4, 0) + 0.03 * np.maximum(pressure - 3, 0)
        injury = np.clip(0.95 * injury + harm + 0.03 * rng.normal(size=len(sat)), 0, 2)
        level = 80 + 3 * oxygen * np.exp(-injury) + 1.5 * pressure
        sat = np.clip(sat + 0.4 * (level - sat) + 1.2 * rng.normal(size=len(sat)), 50, 100)
        co2 = co2 + 0.2 * (40 + 12 * injury + pressure - co2) + 2 * rng.normal(size=len(sat))
        bad = np.maximum(88 - sat, 0) / 6 + np.maximum(co2 - 60, 0) / 12 + injury
        u = rng.random(len(sat))
        dies = u < 0.03 * bad**1.5
        leaves = ~dies & (u > 1 - 0.12 * np.exp(-2 * injury) * (sat > 90) * (oxygen < 4))
        after = np.column_stack([sat, co2, injury, oxygen, pressure])
        return after, leaves - 1.0 * dies, leaves | dies


def set_ventilator(gain):
    """Raise oxygen and pressure when saturation is low, else wean."""

    def policy(observations):
        sat, _, _, oxygen, pressure = observations.T
        low = (91 - sat) / 2
        scores = [
            np.full(len(sat), 0.5), low - 0.3 * (oxygen - 3), 0.3 * (oxygen - 2) - low,
            0.7 * low - 0.5 * (pressure - 2), 0.5 * (pressure - 2) - 0.5 * low,
        ]  # fmt: skip
        return softmax(gain * np.clip(np.stack(scores, axis=1), -3, 3))

    return policy


def ventilator(share, rng):
    """Weaning."""
    mu = mixture(set_ventilator(0.4), uniform(5), 0.2)
    return Task(Ventilator(), mu, mixture(mu, set_ventilator(1.5), share), 1.0)


class Chemotherapy:
    """Log tumour size, healthy and immune cells, drug, and the week of 24; all at the end.

    The reward is minus the tumour and the damage in the last week, −6 for a death before.
    """

    def begin(self, n, rng):
        """Start with a small tumour."""
        return np.column_stack([
            rng.normal(0.0, 0.4, n), np.ones(n), rng.uniform(0.2, 0.6, n), np.zeros(n), np.zeros(n),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Treat for a week."""
        tumour, healthy, immune, drug, week = states.T
        drug = 0.6 * drug + 0.4 * actions
        size = np.exp(tumour)
        tumour = tumour + 0.25 * (1 - size / 8) - 0.35 * drug - 0.3 * immune / (1 + size)
        tumour += 0.1 * rng.normal(size=len(size))
        healthy = np.clip(healthy + 0.25 * healthy * (1 - healthy) - 0.08 * drug, 0.01, 1)
        immune = np.clip(
            immune + 0.05 + 0.1 * immune * size / (1 + size) - 0.1 * immune - 0.06 * drug, 0, 2
        )
        week = week + 1
        u = rng.random(len(size))
        dies = u < 0.01 * np.exp(1.2 * (tumour - 1)) + 0.06 * np.maximum(0.5 - healthy, 0) * 2
        done = ~dies & (week >= 24)
        rewards = np.where(done, -np.maximum(tumour, -2) - 2 * (1 - healthy), 0.0) - 6.0 * dies
        after = np.column_stack([np.clip(tumour, -4, 3), healthy, immune, drug, week])
        return after, rewards, dies | done


def chemotherapy_by_size(gain):
    """Treat large tumours of strong patients."""

    def policy(observations):
        tumour, healthy, _, drug, _ = observations.T
        need = 1.0 + 0.8 * tumour + 2 * (healthy - 0.8) - 0.5 * drug
        return softmax(-gain * np.abs(need[:, None] - [0.0, 1.0, 2.0]))

    return policy


def chemotherapy(share, rng):
    """Half a year of chemotherapy."""
    mu = mixture(chemotherapy_by_size(0.3), uniform(3), 0.3)
    return Task(Chemotherapy(), mu, mixture(mu, chemotherapy_by_size(3.0), share), 1.0)


class Therapies:
    """Three stages of therapy; age, weight, two scores, sex, smoker, last response, stage.

    Only the outcome after the last stage counts.
    """

    def begin(self, n, rng):
        """Enrol patients."""
        return np.column_stack([
            rng.uniform(20, 80, n), rng.normal(75, 12, n), rng.normal(size=(n, 2)),
            rng.random((n, 2)) < 0.4, np.zeros((n, 2)),
        ])  # fmt: skip

    def move(self, states, actions, rng):
        """Apply a stage."""
        age, weight, mood, pain, sex, smoker, answer, stage = states.T
        best = np.where(age > 55, 0, np.where(mood > pain, 1, 2))
        works = 1 / (1 + np.exp(-(-0.8 + 1.2 * (actions == best) + 0.5 * answer - 0.6 * smoker)))
        answer = 1.0 * (rng.random(len(age)) < works)
        mood = 0.7 * mood + 0.5 * answer + 0.5 * rng.normal(size=len(age))
        pain = 0.8 * pain - 0.6 * answer + 0.5 * rng.normal(size=len(age))
        stage = stage + 1
        over = stage >= 3
        rewards = np.where(over, mood - pain + 0.01 * (75 - weight), 0.0)
        rewards += over * rng.standard_t(3, len(age))
        after = np.column_stack([age, weight, mood, pain, sex, smoker, answer, stage])
        return after, rewards, over


def choose_therapy(gain):
    """Prefer a therapy by age and scores, a logistic function of both."""

    def policy(observations):
        age, _, mood, pain, *_ = observations.T
        scores = [(age - 55) / 10, 0.7 * (mood - pain), 0.7 * (pain - mood)]
        return softmax(gain * np.stack(scores, axis=1))

    return policy


def therapies(gain, rng):
    """A sequential trial without logged propensities."""
    return Task(Therapies(), choose_therapy(0.3), choose_therapy(gain), 1.0, estimated="logistic")


FAMILIES = (
    Family("hiv", hiv, SHARES, (100, 300, 1000)),
    Family("ventilator", ventilator, SHARES, (100, 500, 2000)),
    Family("chemotherapy", chemotherapy, SHARES, (100, 400, 1500)),
    Family("therapies", therapies, {"near": 0.6, "mid": 1.0, "far": 2.5}, (100, 500, 2000)),
)
