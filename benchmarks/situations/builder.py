"""From decisions to a log, and to a situation with a known truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import saddleback as sb

from .setups import Setup
from .worlds import Lookup


@dataclass(frozen=True, eq=False)
class Situation:
    """A log, a target policy, and its true value.

    Attributes
    ----------
    kind
        Name of the kind of situation.
    good
        Whether data, coverage and features are sound, so that a verdict should not refuse it.
    log, target, features, gamma, rule, allow_uncovered
        Arguments of `saddleback.evaluate`; the default rule if None.
    truth, baseline
        V^π and V^μ over the distribution of first states.
    costs
        Whether rewards are costs, so that lower is better.
    detail
        Variant of its kind.
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
    states into observations.
    """
    names = observed(setup)
    see = see or (lambda states: states)
    seen, after = see(rows.states), see(rows.following)
    names = names[: seen.shape[1]]
    doses = getattr(setup.world, "doses", None)
    columns = {"episode_id": rows.episode, "step": rows.step}
    columns |= {name: seen[:, j] for j, name in enumerate(names)}
    columns["action"] = rows.actions if doses is None else np.array(doses)[rows.actions]
    columns |= {"reward": rows.rewards}
    columns |= {"terminated": rows.terminated, "truncated": rows.truncated}
    if rows.truncated.any():
        for j, name in enumerate(names):
            columns[f"next_{name}"] = np.where(rows.truncated, after[:, j], np.nan)
    if mu != "none":
        columns["behavior_prob"] = rows.mu[np.arange(len(rows)), rows.actions]
    if mu == "all":
        columns |= probabilities("mu", setup.mu, rows)
    return columns


def probabilities(name, policy, rows):
    """Return the probabilities of a policy in each row, and after truncated ones."""
    columns = {f"{name}_{a}": column for a, column in enumerate(policy(rows.states).T)}
    if rows.truncated.any():
        for a, column in enumerate(policy(rows.following).T):
            columns[f"next_{name}_{a}"] = np.where(rows.truncated, column, np.nan)
    return columns


def choose_logged_mu(rng):
    """Choose whether all of μ is logged, or the propensity of the logged action only."""
    return rng.choice(["all", "taken"])


def observed(setup: Setup):
    """Return the names of the columns that are observed."""
    return getattr(setup.world, "columns", ("obs_0",))


def log_of(setup: Setup, columns) -> sb.Log:
    """Return columns as a log; those of a clinic have descriptive names."""
    if not hasattr(setup.world, "columns"):
        K = setup.world.sizes[1]  # the last of them may never have been taken
        return sb.Log(columns, actions=[str(a) for a in range(K)])
    names = [name for name in setup.world.columns if name in columns]
    return sb.Log(columns, observations=names, actions=setup.world.doses)


def choose_target(setup: Setup, rows, columns, rng):
    """Return the target as a table, as a function, or as columns, which are added."""
    form = rng.choice(["table", "function", "columns"])
    if form == "columns":
        columns |= probabilities("pi", setup.pi, rows)
        return "columns"
    return setup.pi.table if form == "table" and isinstance(setup.pi, Lookup) else setup.pi


def build_situation(
    kind, good, setup: Setup, rng, *, mu="all", change=None, see=None, **options
) -> Situation:
    """Build a situation from a setup: its log, and π as the target.

    ``change`` modifies the columns, given them, the rows and the generator. Other options are those
    of `Situation` and replace the values of the setup.
    """
    rows = setup.rows(rng)
    columns = columns_of(setup, rows, mu=mu, see=see)
    target = setup.pi if see is not None else choose_target(setup, rows, columns, rng)
    if change is not None:
        change(columns, rows, rng)
    truth, baseline = setup.values
    defaults = {
        "target": target, "features": setup.features, "gamma": setup.gamma, "truth": truth,
        "baseline": baseline,
    }  # fmt: skip
    log = options.pop("log", log_of)(setup, columns)
    return Situation(kind, good, log, **(defaults | options))
