"""Situations whose rule or features are unsuitable."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import saddleback as sb
from saddleback.features import Custom, Identity, OneHot, Polynomial, Tiles

from .builder import Situation, build_situation, choose_logged_mu
from .good import one_step
from .setups import (
    MOST_ROWS,
    aggregated_features,
    clinic,
    lake,
    random_table,
    softmax,
    table,
    tilted,
    walk,
)
from .worlds import LONGEST, Lookup


def over_the_ceiling(kind, rng):
    """An importance trace whose second moment grows without bound."""
    setup = table(rng, gammas=(0.95, 0.98, 0.99))
    mu, aim = setup.mu.table, rng.uniform(0.35, 0.7)
    seen, scores = setup.world.visits(mu), rng.uniform(-1, 1, size=mu.shape)
    for strength in np.linspace(0.5, 8.0, 60):
        pi = tilted(mu, strength * scores)
        square = float((seen * (pi / mu) ** 2).sum() / seen.sum())
        ceiling = 1 / (setup.gamma * np.sqrt(square))
        if ceiling < aim:
            break
    if ceiling > 0.75:
        return over_the_ceiling(kind, rng)
    lam = float(min(1.0, ceiling * rng.uniform(1.3, 2.0)))
    rule = [sb.GES, sb.GQ, sb.ExpectedSarsa][rng.integers(3)](round(lam, 3))
    setup = setup.with_changes(pi=Lookup(pi))
    if rng.random() < 0.4:
        setup = setup.with_changes(features=aggregated_features(setup, rng))
    return build_situation(
        kind,
        False,
        setup,
        rng,
        mu=choose_logged_mu(rng),
        rule=rule,
        detail=f"ceiling {ceiling:.2f}",
    )


def rank_deficient(kind, rng):
    """Duplicated features, or an added constant: harmless. Aggregated states: not."""
    if rng.random() < 0.3:
        return duplicated_features(kind, rng)
    setup = table(rng)
    S = len(setup.world.P)
    how = rng.choice(["twice", "constant", "sums", "lumped"])
    eye = np.eye(S)
    if how == "lumped":
        some = np.eye(max(2, S // 2))[rng.permutation(np.arange(S) % max(2, S // 2))]
        X = np.column_stack([some, some, np.ones(S)])
    else:
        more = {"twice": eye, "constant": np.ones((S, 1)), "sums": eye @ rng.normal(size=(S, 3))}
        X = np.column_stack([eye, more[how]])
    features = Custom(lambda seen: X[seen[:, 0].astype(int)], X.shape[1])
    return build_situation(
        kind,
        how != "lumped",
        setup.with_changes(features=features),
        rng,
        mu=choose_logged_mu(rng),
        detail=how,
    )


def duplicated_features(kind, rng):
    """A clinic with duplicated features and their sums: of all signs, or of one sign only."""
    setup, good = clinic(rng), bool(rng.random() < 0.6)
    base = setup.features if good else Polynomial((40.0,), (130.0,), degree=1)
    mix = rng.normal(size=(base.size, 3))

    def function(seen):
        x = base.encode(seen if good else seen[:, :1]).dense(base.size)
        return np.column_stack([x, x, x @ mix])

    features = Custom(function, 2 * base.size + 3)
    detail = "clinic" if good else "one sign"
    return build_situation(
        kind,
        good,
        setup.with_changes(features=features),
        rng,
        mu=choose_logged_mu(rng),
        detail=detail,
    )


def poor_features(kind, rng):
    """A few random features per state, linear features for a curved value, or too few groups."""
    how = rng.choice(["random", "line", "lumped", "bandit", "clinic"])
    if how == "bandit":
        return nonlinear_bandit(kind, rng)
    if how == "clinic":
        return nonlinear_clinic(kind, rng)
    setup = table(
        rng, makers=(random_table, lake, walk) if how == "lumped" else (random_table, walk)
    )
    S = len(setup.world.P)
    if how == "random":
        X = rng.normal(size=(S, 2))
        features = Custom(lambda seen: X[seen[:, 0].astype(int)], 2)
    elif how == "line":
        features = Polynomial((0.0,), (S - 1.0,), degree=1)
    else:
        features = aggregated_features(setup, rng)
    return build_situation(
        kind,
        False,
        setup.with_changes(features=features),
        rng,
        mu=choose_logged_mu(rng),
        detail=how,
    )


def nonlinear_bandit(kind, rng):
    """One decision, rewards that are nonlinear in the context, linear features."""
    K, n, c = int(rng.integers(2, 5)), int(rng.integers(500, 3001)), rng.uniform(0.5, 1.0)
    W, habit = rng.normal(scale=2.0, size=(2, K)), rng.normal(size=(2, K))
    mean = lambda x: np.cos(x @ W) + (x[:, :1] * x[:, 1:]) * W[0]  # noqa: E731
    mu = lambda x: 0.3 / K + 0.7 * softmax(x @ habit)  # noqa: E731
    pi = lambda x: tilted(mu(x), c * np.tanh(mean(x)))  # noqa: E731
    everyone, x = rng.normal(size=(400_000, 2)), rng.normal(size=(n, 2))
    truth, baseline = (float((p(everyone) * mean(everyone)).sum(axis=1).mean()) for p in (pi, mu))

    def outcome(x, a):
        return mean(x)[np.arange(n), a] + 0.3 * rng.normal(size=n)

    log = one_step(np.column_stack([x, np.ones(n)]), mu(x), outcome, pi(x), rng)
    return Situation(
        kind, False, log, "columns", Identity(3), 0.0, truth, baseline, detail="bandit"
    )


def nonlinear_clinic(kind, rng):
    """A clinic where any sign far from its middle is bad; features are linear or coarse."""
    setup = clinic(rng)
    low, high = setup.features.low, setup.features.high
    features = [Polynomial(low, high, degree=1), Tiles(low, high, bins=1, tilings=1)]
    world = replace(setup.world, bend=float(rng.uniform(0.5, 1.0)))
    setup = setup.with_changes(world=world, features=features[rng.integers(2)])
    return build_situation(kind, False, setup, rng, mu=choose_logged_mu(rng), detail="clinic")


def hidden_state(kind, rng):
    """Partial observability: a sign is missing, or two states are indistinguishable."""
    confounded = rng.random() < 0.5
    detail = "mu sees it" if confounded else "mu does not see it"
    if rng.random() < 0.5:
        return hidden_sign(kind, rng, confounded, detail)
    setup = table(rng, makers=(random_table, walk))
    S = len(setup.world.P)
    groups = (S + 1) // 2
    look = rng.permutation(np.arange(S) % groups)
    mu = setup.mu.table if confounded else setup.mu.table[:groups][look]
    seen_pi = tilted(setup.mu.table[:groups], 0.7 * rng.uniform(-1, 1, (groups, mu.shape[1])))
    pi = seen_pi[look]
    length = setup.world.visits(mu, limit=500).sum()
    if length > 150:
        return hidden_state(kind, rng)
    episodes = min(setup.episodes, int(MOST_ROWS / length))
    setup = setup.with_changes(
        mu=Lookup(mu), pi=Lookup(pi), features=OneHot(groups), episodes=episodes
    )
    return build_situation(
        kind, False, setup, rng, mu=choose_logged_mu(rng), detail=detail,
        see=lambda states: look[states[:, :1].astype(int)].astype(float), target=seen_pi,
    )  # fmt: skip


def hidden_sign(kind, rng, confounded, detail):
    """A clinic whose log lacks the last sign, which the behaviour policy may have used."""
    while True:
        setup = clinic(rng)
        if len(setup.world.columns) == 3:
            break
    world, usual = setup.world, setup.mu
    tilt = rng.normal(size=(2, 3))

    def blind(states):
        return usual(np.column_stack([states[:, :2], np.full(len(states), world.middle[2])]))

    def pi(states):
        signs = (states[:, :2] - world.middle[:2]) / world.unit[:2]
        return tilted(blind(states), 0.7 * np.tanh(signs @ tilt))

    corners = (world.middle + k * np.abs(world.unit) for k in (-2, 2))
    features = Polynomial(*(tuple(corner[:2]) for corner in corners), degree=3)
    setup = setup.with_changes(
        mu=usual if confounded else blind, pi=pi, features=features, limit=LONGEST
    )
    see = lambda states: states[:, :2]  # noqa: E731
    return build_situation(
        kind, False, setup, rng, mu=choose_logged_mu(rng), see=see, detail=detail
    )
