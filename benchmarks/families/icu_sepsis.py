"""ICU-Sepsis: treatments of sepsis in intensive care, estimated from real records.

Choudhary, Gupta & Thomas 2024: 713 states of a patient, 25 doses of fluids and vasopressors, death
and survival; the reward is 1 for survival. The tables belong to the package ``icu-sepsis`` and are
read from where it is installed; without it these families do not exist, and ``LEFT_OUT`` says so.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np

from saddleback.policies import mixture

from ..situations.worlds import Lookup, Table
from .family import Family, Task

SHARES = {"near": 0.2, "mid": 0.5, "far": 0.8}
"""Share of the optimal policy in π; the rest, and μ, is the clinicians' policy."""

DEATH, SURVIVAL = 713, 714
"""Numbers of the two ends; smaller numbers are states."""


def tables_file() -> Path | None:
    """Return the file of the package, which is not imported; None if it is not installed."""
    package = importlib.util.find_spec("icu_sepsis")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).with_name("envs") / "assets" / "dynamics.npz"


def optimal_actions(world, clinicians):
    """Return the best action of each state, by policy iteration without discount.

    Of equally good actions it is the one that clinicians take most often.
    """
    S, _ = world.sizes
    everywhere, chosen = np.arange(S), clinicians.argmax(axis=1)
    mean = (world.P * world.R).sum(axis=2)
    while True:
        on = world.P[everywhere, chosen, :S]
        v = np.linalg.solve(np.eye(S) - on, mean[everywhere, chosen])
        q = (mean + world.P[:, :, :S] @ v).round(9)
        equal = q == q.max(axis=1, keepdims=True)
        before, chosen = chosen, np.where(equal, clinicians, -1.0).argmax(axis=1)
        if np.array_equal(chosen, before):
            return chosen


@cache
def patients():
    """Return the world, the clinicians' policy [S, K], the optimal one, and the centres [S, 47]."""
    with np.load(tables_file()) as tables:
        P = tables["tx_mat"][:DEATH, :, : SURVIVAL + 1]
        clinicians = tables["expert_policy"][:DEATH]
        start, centres = tables["d_0"][:DEATH], tables["state_cluster_centers"][:DEATH]
    world = Table(P, np.eye(SURVIVAL + 1)[SURVIVAL], start / start.sum())
    optimal = np.eye(P.shape[1])[optimal_actions(world, clinicians)]
    return world, clinicians, optimal, centres


def icu_states(share, rng):
    """Treatments in numbered states: V^μ is 0.782, that of the optimal policy 0.875."""
    world, clinicians, optimal, _ = patients()
    mu = Lookup(clinicians)
    return Task(world, mu, mixture(mu, Lookup(optimal), share), 1.0)


def icu_centres(share, rng):
    """The same patients, seen by the 47 measurements at the centre of their state."""
    task, centres = icu_states(share, rng), patients()[-1]
    column = next(j for j, x in enumerate(centres.T) if len(np.unique(x)) == len(x))
    order = np.argsort(centres[:, column])

    def of_state(policy):
        """Return a policy of states as a function of measurements."""
        values = centres[order, column]
        return lambda seen: policy(order[np.searchsorted(values, seen[:, column]), None])

    return Task(
        task.world, of_state(task.mu), of_state(task.pi), 1.0,
        see=lambda states: centres[states[:, 0].astype(int)],
    )  # fmt: skip


def available(file: Path | None) -> tuple[tuple[Family, ...], tuple[str, ...]]:
    """Return the families, or none and the reason if the package is not installed."""
    if file is None:
        return (), ("icu-states and icu-centres left out: icu-sepsis is not installed",)
    sizes = (500, 2000)
    states = Family("icu-states", icu_states, SHARES, sizes, continuous=False)
    return (states, Family("icu-centres", icu_centres, SHARES, sizes)), ()


FAMILIES, LEFT_OUT = available(tables_file())
