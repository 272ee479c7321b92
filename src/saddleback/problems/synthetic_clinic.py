"""A synthetic clinic for examples: patients' signs, an hourly dose, discharge or intensive care.

Lactate rises without treatment and falls with a dose; a high dose strains the heart. A patient is
discharged when lactate is low (a positive reward), or moved to intensive care when it is very high
(a negative one). This is not a medical model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._typing import RNG, FloatArray, IntArray

__all__ = ["DOSES", "SIGNS", "clinic", "earlier", "usual"]

SIGNS = ("hr", "bp", "lactate")
"""Observations: heart rate, blood pressure and lactate, in this order."""

DOSES = ("none", "low", "high")
"""Actions, in this order."""

LONGEST = 48
"""Hours after which an episode is truncated."""


def usual(signs: FloatArray) -> FloatArray:
    """The behaviour policy of the clinic: cautious, with more doses at higher lactate, [n, 3].

    With h = 1/(1 + exp(5 − lactate)),

        μ(none) = 0.6 − 0.4h        μ(low) = 0.3        μ(high) = 0.1 + 0.4h

    Examples
    --------
    >>> usual(np.array([[90.0, 100.0, 5.0]])).round(3)
    array([[0.4, 0.3, 0.3]])
    """
    high = 1.0 / (1.0 + np.exp(-(signs[:, 2] - 5.0)))
    return np.column_stack([0.6 - 0.4 * high, np.full(len(signs), 0.3), 0.1 + 0.4 * high])


def earlier(signs: FloatArray) -> FloatArray:
    """A candidate policy that treats earlier, with low doses, [n, 3].

        π = (0.15, 0.6, 0.25) if lactate > 3, else (0.4, 0.5, 0.1)

    Examples
    --------
    >>> earlier(np.array([[90.0, 100.0, 5.0], [80.0, 110.0, 2.0]]))
    array([[0.15, 0.6 , 0.25],
           [0.4 , 0.5 , 0.1 ]])
    """
    sick = (signs[:, 2] > 3.0)[:, None]
    return np.where(sick, [0.15, 0.6, 0.25], [0.4, 0.5, 0.1])


def clinic(patients: int = 2000, *, rng: RNG = None, policy: Any = usual) -> dict[str, Any]:
    """Simulate patients under a policy; return the columns of a log.

    Every hour, with normal noise ε of standard deviation 0.35,

        lactate' = lactate + 0.12(lactate − 3) − (0, 0.45, 0.7)[dose] + 0.1 + ε
        reward = −0.1 − 0.1·[dose is high] + 2·[lactate' < 1.5] − 4·[lactate' > 9]

    Either of the last two events ends the episode; after 48 hours it is truncated. Heart rate and
    blood pressure follow lactate, with noise.

    Parameters
    ----------
    patients
        Number of patients.
    rng
        Seed or generator.
    policy
        Function from signs [n, 3] to probabilities of the doses [n, 3].

    Examples
    --------
    >>> rows = clinic(100, rng=0)
    >>> list(rows)[:7]
    ['episode_id', 'step', 'hr', 'bp', 'lactate', 'action', 'reward']
    >>> from saddleback import Log
    >>> Log(rows, observations=SIGNS, actions=DOSES).summary().episodes
    100
    """
    generator = _validate.generator(rng)[0]
    count = _validate.count("clinic", "patients", patients)
    lactate = generator.uniform(2.0, 6.0, count)
    signs = np.column_stack(
        [generator.normal(80 + 5 * lactate, 5), generator.normal(110 - 4 * lactate, 5), lactate]
    )
    active: IntArray = np.arange(count)
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for hour in range(LONGEST):
        probability = policy(signs)
        draw = generator.random((len(active), 1))
        dose = (probability.cumsum(axis=1) < draw).sum(axis=1).clip(0, 2)
        after = _hour(signs, dose, generator)
        well, ill = after[:, 2] < 1.5, after[:, 2] > 9.0
        reward = -0.1 - 0.1 * (dose == 2) + 2.0 * well - 4.0 * ill
        over = well | ill
        last = ~over & (hour == LONGEST - 1)
        next_signs = np.where(last[:, None], after, np.nan)
        parts = (
            active, np.full(len(active), hour), *signs.T, np.array(DOSES)[dose], reward, over, last,
            probability[np.arange(len(active)), dose], *next_signs.T,
        )  # fmt: skip
        for name, part in zip(COLUMNS, parts, strict=True):
            rows[name].append(part)
        signs, active = after[~over], active[~over]
        if not len(active):
            break
    columns = {name: np.concatenate(parts) for name, parts in rows.items()}
    order = np.lexsort((columns["step"], columns["episode_id"]))
    return {name: column[order] for name, column in columns.items()}


COLUMNS = (
    "episode_id", "step", *SIGNS, "action", "reward", "terminated", "truncated", "behavior_prob",
    *(f"next_{name}" for name in SIGNS),
)  # fmt: skip


def _hour(signs: FloatArray, dose: IntArray, generator: np.random.Generator) -> FloatArray:
    """Return the signs one hour later, [n, 3]."""
    n = len(signs)
    drift = 0.12 * (signs[:, 2] - 3.0) - np.array([0.0, 0.45, 0.7])[dose]
    lactate = np.clip(signs[:, 2] + drift + generator.normal(0.1, 0.35, n), 0.5, 12.0)
    hr = 0.7 * signs[:, 0] + 0.3 * (80 + 5 * lactate) + np.array([0.0, 1.0, 6.0])[dose]
    bp = 0.7 * signs[:, 1] + 0.3 * (110 - 4 * lactate) + np.array([0.0, 1.0, 2.0])[dose]
    noise = generator.normal(0.0, 2.0, (n, 2))
    return np.column_stack([hr + noise[:, 0], bp + noise[:, 1], lactate])
