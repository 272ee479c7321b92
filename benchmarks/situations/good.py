"""Good situations: a verdict should not refuse them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

import saddleback as sb
from saddleback.features import Identity

from .builder import Situation, build_situation
from .setups import (
    clinic,
    random_table,
    softmax,
    table,
    tilted,
    walk,
)


def tabular(kind, rng):
    """Finite problems with one feature per state."""
    return build_situation(kind, True, table(rng), rng)


def continuous(kind, rng):
    """Clinics with suitable features."""
    setup = clinic(rng, limits=(1.5, 2.5) if rng.random() < 0.3 else None)
    return build_situation(kind, True, setup, rng, detail=type(setup.features).__name__)


def any_setup(rng, **options):
    """A finite problem, or one time in three a clinic."""
    return clinic(rng, **options) if rng.random() < 1 / 3 else table(rng, **options)


def propensities_only(kind, rng):
    """Only the propensity of the action taken is logged."""
    return build_situation(kind, True, any_setup(rng), rng, mu="taken")


def truncated(kind, rng):
    """Truncated at a limit that many episodes reach; the next observation is logged."""
    setup = any_setup(rng, limits=(0.6, 1.5))
    return build_situation(kind, True, setup, rng, mu=rng.choice(["all", "taken"]))


def long_table(rng):
    """A table whose episodes last for about a hundred steps."""
    return random_table(rng, ends=(0.004, 0.02))


def long_walk(rng):
    """A walk with distant ends."""
    return walk(rng, sizes=(12, 20))


def long(kind, rng):
    """50 to 200 steps: importance weighting fails, one feature per state does not."""
    while True:
        setup = table(
            rng, makers=(long_table, long_table, long_walk), gammas=(0.95, 0.98, 0.99, 0.995)
        )
        if 50 <= setup.world.visits(setup.mu.table).sum() <= 200:
            return build_situation(kind, True, setup, rng, mu=rng.choice(["all", "taken"]))


def costs(kind, rng):
    """The log holds costs: signs are reversed, and lower is better."""
    setup = clinic(rng) if rng.random() < 1 / 3 else table(rng, makers=(random_table, walk))
    return as_costs(build_situation(kind, True, setup, rng))


def as_costs(situation: Situation) -> Situation:
    """Return a situation with costs in place of rewards."""
    columns = dict(situation.log.data)
    columns["reward"] = -columns["reward"]
    log, signs = (
        situation.log.with_options(data=columns),
        {"truth": -situation.truth, "baseline": -situation.baseline},
    )
    return replace(situation, log=log, costs=True, **signs)


def bandit(kind, rng):
    """One decision per episode: linear rewards, real or binary; or digit classification."""
    if rng.random() < 0.3:
        return digits(kind, rng)
    d, K, n = int(rng.integers(2, 7)), int(rng.integers(2, 7)), int(rng.integers(500, 3001))
    W, habit = rng.normal(scale=0.5, size=(d, K)), rng.normal(scale=0.5, size=(d, K))
    binary = rng.random() < 0.5
    level = rng.uniform(0.3, 0.7, size=K)
    mean = (lambda x: np.clip(level + 0.1 * x @ W, 0.02, 0.98)) if binary else (lambda x: x @ W)
    mu = lambda x: 0.3 / K + 0.7 * softmax(x @ habit)  # noqa: E731
    sign, c = rng.choice([1.0, 1.0, -1.0]), rng.uniform(0.3, 0.75)
    pi = lambda x: tilted(mu(x), sign * c * np.tanh(2 * x @ W))  # noqa: E731
    everyone = rng.normal(size=(400_000, d))
    truth, baseline = ((p(everyone) * mean(everyone)).sum(axis=1).mean() for p in (pi, mu))
    x = rng.normal(size=(n, d))
    noise = rng.uniform(0.2, 1.0)

    def outcome(x, a):
        chosen = mean(x)[np.arange(n), a]
        return (rng.random(n) < chosen) * 1.0 if binary else chosen + noise * rng.normal(size=n)

    log = one_step(np.column_stack([x, np.ones(n)]), mu(x), outcome, pi(x), rng)
    return Situation(
        kind, True, log, "columns", Identity(d + 1), 0.0, float(truth), float(baseline),
        detail="binary" if binary else "linear",
    )  # fmt: skip


def one_step(x, mu, outcome, pi, rng):
    """Log one decision for each row of x."""
    n, K = mu.shape
    action = (mu.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
    columns = {"episode_id": np.arange(n), "action": action}
    columns |= {"reward": outcome(x[:, :-1], action)}
    columns |= {f"obs_{j}": column for j, column in enumerate(x.T)}
    columns |= {"terminated": np.ones(n, dtype=bool), "truncated": np.zeros(n, dtype=bool)}
    columns["behavior_prob"] = mu[np.arange(n), action]
    columns |= {f"mu_{a}": column for a, column in enumerate(mu.T)}
    columns |= {f"pi_{a}": column for a, column in enumerate(pi.T)}
    return sb.Log(columns)


@cache
def images():
    """scikit-learn's digits: scores of a good classifier, of a weak one, and the labels."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, labels = load_digits(return_X_y=True)
    X = X / 16.0
    model = LogisticRegression(C=0.05, max_iter=500).fit(X, labels)
    weak = LogisticRegression(C=0.001, max_iter=500).fit(X[:200], labels[:200])
    return model.predict_proba(X), weak.decision_function(X), labels


def digits(kind, rng):
    """Digit classification; the features are classifier scores, in which the reward is linear."""
    scores, weak, labels = images()
    n = int(rng.integers(1000, 3001))
    mu = 0.3 / 10 + 0.7 * softmax(weak * rng.uniform(1.0, 3.0))
    if rng.random() < 0.5:
        pi = tilted(mu, rng.uniform(0.5, 1.5) * scores)
    else:
        pi = tilted(mu, rng.uniform(-1, 1) * 1.5 * rng.random((1, 10)))
    right = np.eye(10)[labels]
    row = rng.integers(len(labels), size=n)
    x = np.column_stack([scores[row], np.ones(n)])[:, 1:]  # they sum to one: leave one out
    log = one_step(x, mu[row], lambda _, a: right[row, a], pi[row], rng)
    truth, baseline = (float((p * right).sum(axis=1).mean()) for p in (pi, mu))
    return Situation(
        kind, True, log, "columns", Identity(x.shape[1]), 0.0, truth, baseline, detail="digits"
    )
