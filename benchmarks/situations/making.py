"""From decisions to a log, and to a situation in which a verdict is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import saddleback as sb

from .sound import Setup
from .worlds import Lookup


@dataclass(frozen=True, eq=False)
class Situation:
    """A log, a question, and the answer.

    Attributes
    ----------
    kind
        What it is an example of.
    good
        Whether data, coverage and features are sound, so that a verdict should not refuse it.
    log, target, features, gamma, rule, allow_uncovered
        What `saddleback.evaluate` is given; the default rule if None.
    truth, baseline
        V^π and V^μ over the distribution of first states.
    costs
        Whether rewards are costs, so that less is better.
    detail
        Which variant of its kind it is.
    """

    kind: str
    good: bool
    log: sb.Log
    target: Any
    features: Any
    gamma: float
    truth: float
    baseline: float
    rule: Any = None
    costs: bool = False
    allow_uncovered: bool = False
    detail: str = ""


def columns_of(setup: Setup, rows, *, mu="all", see=None):
    """Return decisions as columns of a log.

    ``mu``: whether they hold "all" of μ, that of the action "taken", or "none"; ``see`` turns
    states into what is observed.
    """
    names = observed(setup)
    see = see or (lambda states: states)
    seen, after = see(rows.states), see(rows.following)
    names = names[: seen.shape[1]]
    doses = getattr(setup.world, "doses", None)
    found = {"episode_id": rows.episode, "step": rows.step}
    found |= {name: seen[:, j] for j, name in enumerate(names)}
    found["action"] = rows.actions if doses is None else np.array(doses)[rows.actions]
    found |= {"reward": rows.rewards}
    found |= {"terminated": rows.terminated, "truncated": rows.truncated}
    if rows.truncated.any():
        for j, name in enumerate(names):
            found[f"next_{name}"] = np.where(rows.truncated, after[:, j], np.nan)
    if mu != "none":
        found["behavior_prob"] = rows.mu[np.arange(len(rows)), rows.actions]
    if mu == "all":
        found |= probabilities("mu", setup.mu, rows)
    return found


def probabilities(name, policy, rows):
    """Return columns of what a policy does in each row, and after those that were cut."""
    found = {f"{name}_{a}": each for a, each in enumerate(policy(rows.states).T)}
    if rows.truncated.any():
        for a, each in enumerate(policy(rows.following).T):
            found[f"next_{name}_{a}"] = np.where(rows.truncated, each, np.nan)
    return found


def either(rng):
    """All of μ is logged, or that of the action taken only."""
    return rng.choice(["all", "taken"])


def observed(setup: Setup):
    """Return the names of the columns that are observed."""
    return getattr(setup.world, "columns", ("obs_0",))


def log_of(setup: Setup, columns) -> sb.Log:
    """Return columns as a log; those of a clinic have names of their own."""
    if not hasattr(setup.world, "columns"):
        K = setup.world.sizes[1]  # the last of them may never have been taken
        return sb.Log(columns, actions=[str(a) for a in range(K)])
    names = [name for name in setup.world.columns if name in columns]
    return sb.Log(columns, observations=names, actions=setup.world.doses)


def asked(setup: Setup, rows, columns, rng):
    """Return the target as a table, as a function, or as columns, which are added."""
    form = rng.choice(["table", "function", "columns"])
    if form == "columns":
        columns |= probabilities("pi", setup.pi, rows)
        return "columns"
    return setup.pi.table if form == "table" and isinstance(setup.pi, Lookup) else setup.pi


def made(kind, good, setup: Setup, rng, *, mu="all", change=None, see=None, **options) -> Situation:
    """Make the log of a setup and ask about π.

    ``change`` does something to the columns, given them, the rows and the generator. Other options
    are those of `Situation`, or take the place of what the setup says.
    """
    rows = setup.rows(rng)
    columns = columns_of(setup, rows, mu=mu, see=see)
    target = setup.pi if see is not None else asked(setup, rows, columns, rng)
    if change is not None:
        change(columns, rows, rng)
    truth, baseline = setup.values
    given = {
        "target": target, "features": setup.features, "gamma": setup.gamma, "truth": truth,
        "baseline": baseline,
    }  # fmt: skip
    log = options.pop("log", log_of)(setup, columns)
    return Situation(kind, good, log, **(given | options))
