"""Random problems, and problems where the observation does not determine what follows."""

from __future__ import annotations

import numpy as np

from saddleback.policies import always, mixture

from ..situations.setups import behaviour_table
from ..situations.worlds import Lookup, Table
from .family import SHARES, Family, Task


def garnet_table(rng, states=30, actions=3, branches=4):
    """A garnet: from each state and action, a few random successors; noisy rewards of states."""
    P = np.zeros((states, actions, states + 1))
    for row in P.reshape(-1, states + 1):
        row[rng.permutation(states)[:branches]] = 0.95 * rng.dirichlet(np.ones(branches))
        row[states] = 0.05
    R = rng.normal(size=(states, 1, 1)) + 0.5 * rng.normal(size=(states, actions, 1))
    return Table(P, R, rng.dirichlet(np.ones(states)), 0.5)


def nearly_greedy(world, gamma):
    """Take the best action with probability 0.8 at least."""
    best = world.best(gamma)
    return Lookup(0.2 / best.shape[1] + 0.8 * np.eye(best.shape[1])[best.argmax(axis=1)])


def garnet(share, rng):
    """A random problem; π is nearly greedy."""
    world = garnet_table(rng)
    mu = Lookup(behaviour_table(world, rng, 0.95))
    return Task(world, mu, mixture(mu, nearly_greedy(world, 0.95), share), 0.95)


def aliased_garnet(share, rng):
    """A random problem of 24 states seen as 8; policies depend on what is seen."""
    world, seen = garnet_table(rng, states=24), np.arange(24) // 3
    table = behaviour_table(world, rng, 0.95).reshape(8, 3, 3).mean(axis=1)
    best = nearly_greedy(world, 0.95).table.reshape(8, 3, 3).mean(axis=1)
    mu, better = Lookup(table), Lookup(best)
    see = lambda states: seen[states.astype(int)].astype(float)  # noqa: E731
    return Task(world, mu, mixture(mu, better, share), 0.95, see=see)


def corridor(length=8):
    """A corridor with a key at the left and a door at the right; whether one has it is not seen.

    State 2·position + key; actions left and right, 10% slip. The door pays 1 with the key and −0.3
    without, and ends the episode, as does giving up, with probability 0.02 at every step.
    """
    S = 2 * length
    P, R = np.zeros((S, 2, S + 2)), np.zeros((S, 2, S + 2))
    P[:, :, S + 1] = 0.02
    for s in range(S):
        place, key = divmod(s, 2)
        R[s, :, S] = 1.0 if key else -0.3
        for a in range(2):
            for step, p in ((2 * a - 1, 0.9), (1 - 2 * a, 0.1)):
                to = max(place + step, 0)
                P[s, a, S if to == length else 2 * to + int(key or to == 0)] += 0.98 * p
    return Table(P, R, np.eye(S)[length // 2 * 2])


def key_and_door(share, rng):
    """Both policies walk at random; π goes to the door more directly, often without the key."""
    mu, other = (mixture(always(0, 2), always(1, 2), right) for right in (0.5, 0.8))
    see = lambda states: states // 2  # noqa: E731
    return Task(corridor(), mu, mixture(mu, other, share), 0.98, see=see)


def hidden_type(share, rng):
    """Five levels of health; a treatment helps one type of patients and harms the other a little.

    The type is not observed, but rises or falls of the level reveal it. Leaving at the top pays 1
    and at the bottom −1.
    """
    P = np.zeros((10, 2, 12))
    for s in range(10):
        level, kind = divmod(s, 2)
        for a in range(2):
            up = 0.5 if a == 0 else (0.8, 0.45)[kind]
            P[s, a, s + 2 if level < 4 else 10] += up
            P[s, a, s - 2 if level > 0 else 11] += 1 - up
    R = np.zeros((10, 2, 12))
    R[:, :, 10], R[:, :, 11] = 1.0, -1.0
    start = np.zeros(10)
    start[4:6] = 0.5
    mu = mixture(always(0, 2), always(1, 2), 0.3)
    return Task(
        Table(P, R, start), mu, mixture(mu, always(1, 2), share), 0.98, see=lambda s: s // 2
    )


LATER = {"near": 0.2, "mid": 0.5, "far": 0.8}

FAMILIES = tuple(
    Family(name, build, variants, sizes, continuous=False, instances=instances)
    for name, build, variants, sizes, instances in [
        ("garnet", garnet, SHARES, (50, 200, 1000), 10),
        ("garnet-aliased", aliased_garnet, SHARES, (50, 200, 1000), 10),
        ("key-and-door", key_and_door, SHARES, (100, 500, 2000), 1),
        ("hidden-type", hidden_type, LATER, (100, 500, 2000), 1),
    ]
)
