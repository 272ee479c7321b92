"""Situations with a fault in the data or in the logging.

The estimate is not wrong in all of them: propensities, for example, hardly matter to a closed form
whose features are exact.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import saddleback as sb
from saddleback.problems.mountain_car import returns

from .builder import Situation, build_situation, choose_logged_mu, log_of
from .good import any_setup, long_table, long_walk
from .setups import MOST_ROWS, aggregated_features, clinic, table
from .worlds import Lookup

# Data.


def few_episodes(kind, rng):
    """Ten to forty episodes of a setup that works with more episodes."""
    setup = any_setup(rng).with_changes(episodes=int(rng.integers(10, 41)))
    return build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng))


def poor_coverage(kind, rng):
    """μ rarely takes the actions π prefers: 0.1% to 1% of the time, or never in some states."""
    if rng.random() < 0.3:
        return rare_dose(kind, rng)
    setup = table(rng)
    mu, S = setup.mu.table.copy(), len(setup.world.P)
    liked = setup.world.q(mu, setup.gamma) if rng.random() < 0.7 else rng.random(mu.shape)
    favourite = liked.argmax(axis=1)
    pi = 0.2 * mu
    pi[np.arange(S), favourite] += 0.8
    where = np.flatnonzero(rng.random(S) < rng.choice([0.5, 1.0]))
    never = rng.random() < 0.35
    rest = mu[where]
    rest[np.arange(len(where)), favourite[where]] = 0.0
    rare = 0.0 if never else rng.uniform(0.001, 0.01)
    mu[where] = (1 - rare) * rest / rest.sum(axis=1, keepdims=True)
    mu[where, favourite[where]] = rare
    setup = setup.with_changes(mu=Lookup(mu), pi=Lookup(pi))
    length = setup.world.visits(mu, limit=500).sum()
    if length > 150:  # otherwise episodes would hardly ever end
        return poor_coverage(kind, rng)
    setup = setup.with_changes(episodes=min(setup.episodes, int(MOST_ROWS / length)))
    detail = "never" if never else "rarely"
    return allow_uncovered(
        build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng), detail=detail)
    )


def allow_uncovered(situation: Situation) -> Situation:
    """Allow the evaluation of target actions that are never logged."""
    columns, K = situation.log.data, situation.log.n_actions
    zero = "mu_0" in columns and any((columns[f"mu_{a}"] == 0).any() for a in range(K))
    missing = "mu_0" not in columns and len(np.unique(columns["action"])) < K
    return replace(situation, allow_uncovered=zero or missing)


def rare_dose(kind, rng):
    """A clinic where μ hardly ever gives the high dose to sick patients, but π does."""
    setup = clinic(rng)
    world, rare, usual = setup.world, rng.uniform(0.001, 0.01), setup.mu

    def mu(states):
        probabilities = usual(states).copy()
        ill = world.signs(states) @ world.weight > 0
        probabilities[ill, 2] = rare
        rest = probabilities[ill, :2]
        probabilities[ill, :2] = rest * ((1 - rare) / rest.sum(axis=1))[:, None]
        return probabilities

    def pi(states):
        ill = world.signs(states) @ world.weight > 0
        return np.where(ill[:, None], [0.1, 0.1, 0.8], usual(states))

    return build_situation(
        kind,
        False,
        setup.with_changes(mu=mu, pi=pi),
        rng,
        mu=choose_logged_mu(rng),
        detail="rare dose",
    )


def long_horizon(kind, rng):
    """A hundred steps, products of many ratios; features aggregate states, or coverage is poor."""
    setup = table(rng, makers=(long_table, long_table, long_walk), gammas=(0.98, 0.99, 0.995))
    if rng.random() < 0.5:
        setup = setup.with_changes(
            features=aggregated_features(setup, rng), episodes=min(setup.episodes, 300)
        )
        return build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng), detail="lumped")
    mu = 0.03 * setup.mu.table
    mu[np.arange(len(mu)), rng.integers(mu.shape[1], size=len(mu))] += 0.97
    length = setup.world.visits(mu, limit=500).sum()
    if not 50 < length < 300:
        return long_horizon(kind, rng)
    setup = setup.with_changes(mu=Lookup(mu), episodes=int(np.clip(20_000 / length, 50, 300)))
    return build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng), detail="thin")


def deterministic(kind, rng):
    """μ is deterministic and π is not; every propensity is 1."""
    if rng.random() < 0.3:
        setup = clinic(rng)
        usual = setup.mu
        setup = setup.with_changes(
            mu=lambda states: np.eye(3)[usual(states).argmax(axis=1)], limit=300
        )
        return allow_uncovered(
            build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng), detail="clinic")
        )
    setup = table(rng)
    K = setup.mu.table.shape[1]
    mu = np.eye(K)[setup.mu.table.argmax(axis=1)]
    if rng.random() < 0.5:
        mu = np.eye(K)[rng.integers(K, size=len(mu))]
    length = setup.world.visits(mu, limit=500).sum()
    if length > 100:
        return deterministic(kind, rng)
    setup = setup.with_changes(mu=Lookup(mu), episodes=min(setup.episodes, int(MOST_ROWS / length)))
    return allow_uncovered(
        build_situation(kind, False, setup.with_changes(limit=1000), rng, mu=choose_logged_mu(rng))
    )


def mountain_car(kind, rng):
    """The paper's problem: hardly any rows in the states that π visits."""
    sure, p = rng.choice([0.98, 0.98, 0.95]), rng.choice([0.8, 0.8, 0.7])
    policies = [
        np.array([[q, (1 - q) / 2, (1 - q) / 2], [(1 - q) / 2, (1 - q) / 2, q]]) for q in (p, sure)
    ]
    car = sb.problems.mountain_car(target=policies[0], behaviour=policies[1])
    log = sb.collect(car, episodes=int(rng.choice([200, 300, 500, 1000, 1500])), rng=rng)
    start = np.column_stack([rng.uniform(-0.6, -0.4, 50_000), np.zeros(50_000)])
    truth, baseline = (
        float(returns(policy, start, rng.choice(3, p=policy[0], size=50_000), 0.99, rng).mean())
        for policy in policies
    )
    return Situation(kind, False, log, f"pump:{p}", car.features, 0.99, truth, baseline)


# Logging.


def wrong_propensities(kind, rng):
    """Propensities of another policy, too extreme, too flat, rounded, or noise."""
    how = rng.choice(["other", "sharper", "flatter", "rounded", "noise"])
    setup = any_setup(rng)
    if isinstance(setup.mu, Lookup) and rng.random() < 0.6:
        setup = setup.with_changes(
            features=aggregated_features(setup, rng, max(2, len(setup.world.P) // 2))
        )
    power = rng.uniform(2.0, 3.0) if how == "sharper" else rng.uniform(0.0, 0.4)

    def wrong_mu(states):
        true = setup.mu(states)
        if how == "other":
            return 0.7 * np.roll(true, 1, axis=1) + 0.3 * setup.pi(states)
        return true**power / (true**power).sum(axis=1, keepdims=True)

    complete = how in ("other", "sharper", "flatter") and rng.random() < 0.5

    def change(columns, rows, rng):
        if how == "rounded":
            columns["behavior_prob"] = np.maximum(columns["behavior_prob"].round(1), 0.05)
        elif how == "noise":
            columns["behavior_prob"] = rng.uniform(0.05, 1.0, size=len(rows))
        else:
            wrong = wrong_mu(rows.states)
            columns["behavior_prob"] = wrong[np.arange(len(rows)), rows.actions]
            if complete:
                columns |= {f"mu_{a}": column for a, column in enumerate(wrong.T)}

    rule = sb.GES(0.5) if rng.random() < 0.3 else None
    detail = how + (", all of mu" if complete else "")
    return build_situation(
        kind, False, setup, rng, mu="all" if complete else "taken", change=change, rule=rule,
        detail=detail,
    )  # fmt: skip


def shifted_propensities(kind, rng):
    """Each row has the propensity of the previous row."""

    def change(columns, rows, rng):
        columns["behavior_prob"] = np.roll(columns["behavior_prob"], 1)

    setup = any_setup(rng)
    if isinstance(setup.mu, Lookup) and rng.random() < 0.5:
        setup = setup.with_changes(
            features=aggregated_features(setup, rng, max(2, len(setup.world.P) // 2))
        )
    return build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng), change=change)


def truncation_as_termination(kind, rng):
    """Truncated at a limit that many episodes reach, but flagged as terminated."""
    setup = any_setup(rng, limits=(0.4, 1.2))

    def change(columns, rows, rng):
        columns["terminated"] = rows.terminated | rows.truncated
        columns["truncated"] = np.zeros(len(rows), dtype=bool)
        for name in [name for name in columns if name.startswith("next_")]:
            del columns[name]

    return build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng), change=change)


def estimated_behaviour(kind, rng):
    """No propensities: they are estimated, in suitable cells or in far too coarse ones."""
    good = rng.random() < 0.7
    setup = table(rng) if good and rng.random() < 0.7 else clinic(rng)
    bins = 100 if isinstance(setup.mu, Lookup) else (5 if good else 1)

    def log(setup, columns):
        return sb.estimate_behaviour(log_of(setup, columns), "counts", bins=bins).log

    return build_situation(kind, good, setup, rng, mu="none", log=log, detail=f"bins {bins}")
