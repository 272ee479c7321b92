"""Games on small boards: a grid with obstacles, a frozen lake, a taxi, and a game of cards.

States are shown as several whole numbers, such as row and column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback.policies import mixture, uniform

from ..situations.setups import behaviour_table, lake, softmax
from ..situations.worlds import Lookup, Table
from .family import SHARES, Family, Task

STEPS = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)])
"""Moves left, right, up and down, as changes of row and column."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Whole numbers from 0 to each of ``shape`` as an index of states, and back."""

    shape: tuple[int, ...]

    def see(self, states):
        """Show the numbers of a state."""
        return np.column_stack(np.unravel_index(states[:, 0].astype(int), self.shape)).astype(float)

    def lookup(self, table):
        """Return a table of probabilities by state as a function of the numbers shown."""
        return lambda seen: table[np.ravel_multi_index(tuple(seen.astype(int).T), self.shape)]


def gridworld_table():
    """Gridworld of COBS: 8 × 8 cells, with small and large penalties and a goal in the corner."""
    reward = np.full((8, 8), -0.01)
    for row, columns in enumerate(["", "4", "3", "5", "3", "126", "146", "3"]):
        reward[row, [int(c) for c in columns]] = -0.5
    for row, column in [(1, 2), (2, 6), (3, 1), (3, 7), (4, 6), (5, 4), (7, 5)]:
        reward[row, column] = -0.005
    reward[7, 7] = 1.0
    P, R = np.zeros((63, 4, 64)), np.zeros((63, 4, 64))
    for s in range(63):
        for a, step in enumerate(STEPS):
            y, x = np.clip(np.array(divmod(s, 8)) + step, 0, 7)
            P[s, a, 8 * y + x] = 1.0
            R[s, a, 8 * y + x] = reward[y, x]
    first = np.zeros((8, 8))
    first[0] = first[:, 0] = 1.0
    return Table(P, R, first.ravel()[:63] / first.sum())


def gridworld(epsilon, rng):
    """Gridworld with 25 steps; propensities are estimated by counts. V^π is 0.4683."""
    world, cells = gridworld_table(), Cells((8, 8))
    greedy = np.eye(4)[np.append(world.best(0.99).round(9).argmax(axis=1), 0)]
    mu, pi = (mixture(cells.lookup(greedy), uniform(4), share) for share in (epsilon, 0.1))
    return Task(world, mu, pi, 0.96, horizon=25, see=cells.see, estimated="counts")


def frozen_lake(share, rng):
    """A random slippery lake of 4 × 4; π is nearly greedy."""
    world = lake(rng, 4)
    mu = Lookup(behaviour_table(world, rng, 0.97))
    greedy = Lookup(0.05 + 0.8 * np.eye(4)[world.best(0.97).argmax(axis=1)])
    return Task(world, mu, mixture(mu, greedy, share), 0.97)


def taxi_table():
    """Fetch a passenger from one of three stands to another, on 4 × 4 cells with a wall.

    States: row, column, passenger (at a stand, or 3 on board), destination. Actions: left, right,
    up, down, pick up, drop. −0.1 for every step, −1 for a wrong stop, 2 for the delivery, 10% slip.
    """
    stands, cells = [(0, 0), (0, 3), (3, 1)], Cells((4, 4, 4, 3))
    S = int(np.prod(cells.shape))
    P, R = np.zeros((S, 6, S + 1)), np.full((S, 6, S + 1), -0.1)
    for s in range(S):
        y, x, who, to = (int(k) for k in np.unravel_index(s, cells.shape))
        for a, step in enumerate(STEPS):
            blocked = y < 2 and {x, x + step[1]} == {1, 2}  # the wall
            to_y, to_x = (y, x) if blocked else np.clip(np.array([y, x]) + step, 0, 3)
            P[s, a, np.ravel_multi_index((to_y, to_x, who, to), cells.shape)] += 0.9
            P[s, a, s] += 0.1
        pick, drop = who < 3 and stands[who] == (y, x), who == 3 and stands[to] == (y, x)
        P[s, 4, np.ravel_multi_index((y, x, 3, to), cells.shape) if pick else s] = 1.0
        P[s, 5, S if drop else s] = 1.0
        R[s, 4] -= 0.0 if pick else 0.9
        R[s, 5] += 2.0 if drop else -0.9
    start = np.zeros(cells.shape)
    for who in range(3):
        start[:, :, who, [to for to in range(3) if to != who]] = 1.0
    return Table(P, R, start.ravel() / start.sum()), cells


def taxi(share, rng):
    """A taxi of 192 states; π is a sharper softmax of the best values than μ."""
    world, cells = taxi_table()
    best = world.best(0.97)
    mu, better = (cells.lookup(softmax(gain * best)) for gain in (3.0, 8.0))
    return Task(world, mu, mixture(mu, better, share), 0.97, limit=100, see=cells.see)


def hand(total, soft, card):
    """Return sum and softness of a hand after another card; an ace is 1, or 11 if it can be."""
    total, soft = (total + 10, True) if card == 1 and total + 11 <= 21 else (total, soft)
    total += card
    return (total - 10, False) if total > 21 and soft else (total, soft)


CARDS = {card: (4 if card == 10 else 1) / 13 for card in range(1, 11)}


def dealer_totals(total, soft):
    """Distribution of the dealer's final sum, 22 for more than 21; the dealer stops at 17."""
    if total >= 17:
        return np.eye(23)[min(total, 22)]
    return sum(p * dealer_totals(*hand(total, soft, card)) for card, p in CARDS.items())


def blackjack_table():
    """Blackjack with an infinite deck: states are the sum, the dealer's card, a soft ace.

    Actions: stick, hit. The three ends are winning, a draw and losing.
    """
    cells = Cells((22, 11, 2))
    S = int(np.prod(cells.shape))
    P, start = np.zeros((S, 2, S + 3)), np.zeros(cells.shape)
    final = {card: dealer_totals(*hand(0, False, card)) for card in CARDS}
    for s in range(S):
        total, shown, soft = (int(k) for k in np.unravel_index(s, cells.shape))
        if total < 4 or shown == 0:
            P[s, :, S + 1] = 1.0  # never met
            continue
        dealer = final[shown]
        lose = dealer[total + 1 : 22].sum()
        P[s, 0, S:] = 1 - lose - dealer[total], dealer[total], lose
        for card, p in CARDS.items():
            after, keeps = hand(total, bool(soft), card)
            if after > 21:
                P[s, 1, S + 2] += p
            else:
                P[s, 1, np.ravel_multi_index((after, shown, int(keeps)), cells.shape)] += p
    for one, p in CARDS.items():
        for two, q in CARDS.items():
            total, soft = hand(*hand(0, False, one), two)
            for shown, r in CARDS.items():
                start[total, shown, int(soft)] += p * q * r
    R = np.zeros((S, 2, S + 3))
    R[:, :, S], R[:, :, S + 2] = 1.0, -1.0
    return Table(P, R, start.ravel()), cells


def stick_at(total, gain):
    """Stick from a sum on, with some randomness; two more with a soft ace."""

    def policy(seen):
        stick = 1 / (1 + np.exp(-gain * (seen[:, 0] - 2 * seen[:, 2] - total + 0.5)))
        return np.column_stack([stick, 1 - stick])

    return policy


def blackjack(share, rng):
    """Cards; μ plays timidly, π well."""
    world, cells = blackjack_table()
    mu = mixture(stick_at(14, 0.3), uniform(2), 0.2)
    return Task(world, mu, mixture(mu, stick_at(17, 2.0), share), 1.0, see=cells.see)


FAMILIES = tuple(
    Family(name, build, variants, sizes, continuous=False, instances=instances)
    for name, build, variants, sizes, instances in [
        ("gridworld", gridworld, {"near": 0.4, "mid": 0.8, "far": 1.0}, (64, 256, 1024), 1),
        ("frozen-lake", frozen_lake, SHARES, (100, 500, 2000), 5),
        ("taxi", taxi, SHARES, (100, 500, 2000), 1),
        ("blackjack", blackjack, SHARES, (100, 500, 2000), 1),
    ]
)
