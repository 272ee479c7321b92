"""Counts over a log, kept with its sums and added up like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.engine import count_known, count_policy, count_ratios
from saddleback.log import Finding, Piece

NEAR = 5
"""Lengths just below the greatest with which it is compared."""

NEGLIGIBLE = 1e-6
"""Share of π's probability that may lie where μ never goes, as rounding leaves it."""


@dataclass(frozen=True, eq=False)
class Portrait:
    """Sums for one target, in cells of the observation or all in one.

    Attributes
    ----------
    chances
        Σπ by action, [K].
    shape
        Σ of π's entropy, rows where it is greedy, and Σ of its probability on actions that could
        not be taken, [3].
    ratios
        Σ of x = π(1{A=a}/μ − 1), of x², of π²(1/μ − 1) where a was taken, and of π², [4, cells, K].
    known
        Σ of 1{A=a} − μ and of μ(1 − μ), where all of μ is known, [2, cells, K].
    least
        The smallest propensity with which each action was taken, [K]; infinite if never.
    """

    chances: FloatArray
    shape: FloatArray
    ratios: FloatArray
    known: FloatArray
    least: FloatArray

    @classmethod
    def begin(cls, n_actions: int, cells: int = 1) -> Self:
        """Return sums of nothing."""
        K = n_actions
        ratios, known = np.zeros((4, cells, K)), np.zeros((2, cells, K))
        return cls(np.zeros(K), np.zeros(3), ratios, known, np.full(K, np.inf))

    def add(self, piece: Piece, pi: FloatArray, cell: IntArray | None = None) -> None:
        """Take in the next piece, with π in all of its states [m, K], and the cell of each row."""
        at = np.zeros(len(piece), dtype=np.int64) if cell is None else cell
        mu = piece.tables.get("mu")
        count_policy(pi, piece.here, self.chances, self.shape)
        if piece.propensity is not None:
            count_ratios(
                pi, np.zeros((0, pi.shape[1])) if mu is None else mu, piece.here, piece.actions,
                piece.propensity, at, self.ratios, self.least, self.shape,
            )  # fmt: skip
        if mu is not None:
            count_known(mu, piece.here, piece.actions, at, self.known)

    def merge(self, other: Self) -> Self:
        """Return the sums over both logs."""
        return type(self)(
            self.chances + other.chances, self.shape + other.shape, self.ratios + other.ratios,
            self.known + other.known, np.minimum(self.least, other.least),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts over a log.

    Attributes
    ----------
    visits
        Steps on which each feature was active, [p].
    mass
        For each target Σ|b| over the states that were led to, [T, p]: what it would do there.
    returns
        Episodes that ended: how many, Σ and Σ² of their discounted returns, by block, [B, 3].
    rewards
        Least and greatest reward, [2].
    beyond
        Σγ^T over the episodes that were cut short, [1].
    lengths
        Lengths of episodes that ended, and how many have each, [n, 2].
    portraits
        What each target would do on the rows.
    """

    visits: FloatArray
    mass: FloatArray
    returns: FloatArray
    rewards: FloatArray
    beyond: FloatArray
    lengths: IntArray
    portraits: tuple[Portrait, ...]

    def merge(self, other: Tally) -> Tally:
        """Return the counts over both logs."""
        low, high = np.minimum(self.rewards, other.rewards), np.maximum(self.rewards, other.rewards)
        return Tally(
            self.visits + other.visits, self.mass + other.mass, self.returns + other.returns,
            np.array([low[0], high[1]]), self.beyond + other.beyond,
            counted(np.concatenate([self.lengths, other.lengths])),
            tuple(map(Portrait.merge, self.portraits, other.portraits)),
        )  # fmt: skip

    @property
    def limit(self) -> tuple[int, float]:
        """The greatest length of episodes that ended, and what share of those piles up there.

        Where lengths vary, and many more episodes have the very greatest one than those just below
        it, a time limit was perhaps logged as an end; else the share is 0.
        """
        ends = dict(self.lengths.tolist())
        longest = max(ends, default=0)
        before = [ends.get(longest - k, 0) for k in range(1, NEAR + 1)]
        if longest <= NEAR or ends[longest] <= 3 * max(before) or len(ends) < 2:
            return longest, 0.0
        return longest, ends[longest] / sum(ends.values())


def counted(lengths: IntArray) -> IntArray:
    """Add up pairs of length and number, [n, 2], so that each length is there once."""
    values, where = np.unique(lengths[:, 0], return_inverse=True)
    count = np.bincount(where, lengths[:, 1], len(values)).astype(np.int64)
    return np.column_stack([values, count])


class Ends:
    """Returns and lengths of episodes, as consecutive pieces come."""

    def __init__(self, gamma: float, blocks: int, task: bool) -> None:
        self._gamma, self._task = gamma, task
        self.returns, self.beyond = np.zeros((blocks, 3)), np.zeros(1)
        self.rewards = np.array([np.inf, -np.inf])
        self.lengths = np.zeros((0, 2), dtype=np.int64)
        self._held = np.zeros(1)
        self._block = np.zeros(1, dtype=np.int64)

    def add(self, piece: Piece, mine: IntArray) -> None:
        """Take in the next piece, with the blocks of the episodes that begin."""
        rows = piece.rows
        if not len(rows):
            return
        self.rewards = np.array(
            [min(self.rewards[0], rows.rewards.min()), max(self.rewards[1], rows.rewards.max())]
        )
        first = bool(rows.starts[0])
        number = np.cumsum(rows.starts) - (1 if first else 0)
        power = self._gamma ** rows.position.astype(np.float64)
        each = np.bincount(number, weights=power * rows.rewards)
        block = mine if first else np.concatenate([self._block, mine])
        if not first:
            each[0] += self._held[0]
        last = np.append(np.flatnonzero(rows.starts[1:]), len(rows) - 1)
        over: BoolArray = rows.terminated[last] | (rows.truncated[last] & self._task)
        here = np.append(np.ones(len(last) - 1, dtype=np.bool_), not piece.goes_on)
        if piece.goes_on:
            self._held, self._block = np.asarray(each[-1:], dtype=np.float64), block[-1:]
        done = np.flatnonzero(over & here)
        for column, what in enumerate((np.ones_like(each), each, each**2)):
            np.add.at(self.returns[:, column], block[done], what[done])
        ended = rows.position[last[done]] + 1
        pairs = np.column_stack([ended, np.ones_like(ended)]).astype(np.int64)
        self.lengths = counted(np.concatenate([self.lengths, pairs]))
        cut = last[~over & here]
        # One by one, so that it does not matter how the log comes in pieces.
        self.beyond = np.cumsum(np.append(self.beyond, power[cut] * self._gamma))[-1:]


class Coverage:
    """Adds up π's probability on actions that μ does not take.

    Where the whole of μ is known, in the very state; else on actions that no row of the log takes.
    """

    def __init__(self, name: str, actions: tuple[str, ...]) -> None:
        self._name, self._actions = name, actions
        self._rows = 0
        self._never, self._taken = (np.zeros(len(actions)) for _ in range(2))
        self._mass, self._where = (np.zeros(len(actions)) for _ in range(2))

    def add(self, piece: Piece, pi: FloatArray, mu: FloatArray | None) -> None:
        """Take in the next piece."""
        here = pi[piece.here]
        self._rows += len(here)
        self._taken += np.bincount(piece.actions, minlength=len(self._actions))
        if mu is None:
            self._mass += np.ones(len(here)) @ here
            self._where += np.ones(len(here)) @ (here > 0)
            return
        if mu.min() > 0:
            return
        missing = (mu[piece.here] == 0) & (here > 0)
        self._never += np.where(missing, here, 0.0).sum(axis=0)
        self._where += missing.sum(axis=0)

    def finding(self, allowed: bool) -> Finding | None:
        """Say what is not covered, if anything."""
        mass = self._never + np.where(self._taken == 0, self._mass, 0.0)
        if not mass.sum() > NEGLIGIBLE * self._rows:
            return None
        worst = int(mass.argmax())
        return Finding(
            "W110" if allowed else "E110",
            f"pi ({self._name}) puts mass on actions mu never takes: "
            f"{mass.sum() / self._rows:.1%} of pi's probability (action "
            f"{self._actions[worst]!r} in {int(self._where[worst]):,} rows). Ratio estimators are "
            "biased; use DM only (allow_uncovered) or restrict pi.",
        )
