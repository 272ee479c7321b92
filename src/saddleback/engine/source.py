"""Sources: whatever produces experience piece by piece, and can say it in a rule's numbers.

A source is sampled once for any number of rules; each rule only adds its own weights. Finite
problems and compiled simulators are sources, so a run of any length needs constant memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray
from saddleback.engine.experience import Sampler
from saddleback.engine.stream import Stream, Streamer, weigh
from saddleback.errors import RuleMismatch
from saddleback.features import Tiles
from saddleback.problem import Problem
from saddleback.rules import Rule, Terms, tabulate, terms


class Takes(Protocol):
    """Endless experience, taken in pieces of any size."""

    def take(self, steps: int) -> Any:
        """Return the next ``steps`` steps."""


class Source(Protocol):
    """What `learn` and `System.estimate` ask of whatever they learn from."""

    @property
    def p(self) -> int:
        """Number of features."""

    def sampler(self, rng: np.random.Generator) -> Takes:
        """Return experience of μ."""

    def streamer(self, rule: Rule) -> Callable[[Any], Stream]:
        """Return a function that turns consecutive pieces of experience into stream."""


@dataclass(frozen=True, eq=False)
class FiniteSource:
    """A finite problem as a source."""

    problem: Problem

    @property
    def p(self) -> int:
        """Number of features."""
        return self.problem.p

    def sampler(self, rng: np.random.Generator) -> Sampler:
        """Return experience of μ."""
        return Sampler(self.problem, rng)

    def streamer(self, rule: Rule) -> Streamer:
        """Return a function that turns consecutive pieces of experience into stream."""
        return Streamer(terms(rule, self.problem), self.problem.mdp.n_actions)


def as_source(owner: str, given: Problem | Source) -> Source:
    """Return a finite problem as a source, and a source as it is."""
    if isinstance(given, Problem):
        return FiniteSource(given)
    if not all(hasattr(given, name) for name in ("p", "sampler", "streamer")):
        _validate.instance(owner, "problem", given, Problem)
    return given


class Trajectory(NamedTuple):
    """Steps in an observation space, whose policies depend only on the kind of a state.

    ``kinds`` and ``next_kinds`` are rows of the policy tables; the rest is as in `Experience`.
    """

    observations: FloatArray
    next_observations: FloatArray
    kinds: IntArray
    next_kinds: IntArray
    actions: IntArray
    next_actions: IntArray
    rewards: FloatArray
    discounts: FloatArray
    starts: BoolArray


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A compiled simulator with tile-coded features and two policies.

    Attributes
    ----------
    name
        What is simulated.
    simulator
        ``simulator(rng)`` returns an object whose ``take(n)`` is a `Trajectory`.
    tiles
        Features of an observation; for action values each comes once for each action.
    target, behaviour
        π and μ for each kind of state, [n, A].
    gamma
        Discount.
    values
        Whether action values or state values are learned.
    """

    name: str
    simulator: Callable[[np.random.Generator], Takes]
    tiles: Tiles
    target: FloatArray
    behaviour: FloatArray
    gamma: float
    values: Literal["action", "state"] = "action"

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.target.shape[1])

    @property
    def p(self) -> int:
        """Number of features."""
        return self.tiles.size * (self.n_actions if self.values == "action" else 1)

    def sampler(self, rng: np.random.Generator) -> Takes:
        """Return experience of μ."""
        return self.simulator(rng)

    def streamer(self, rule: Rule) -> Callable[[Trajectory], Stream]:
        """Return a function that turns consecutive pieces of experience into stream."""
        if rule.values != self.values:
            raise RuleMismatch(
                f"{rule} learns {rule.values} values but {self.name} describes {self.values} "
                "values; make it with the other, or use another rule."
            )
        kinds, actions = self.target.shape
        # What a rule makes of one-hot actions are its weights over actions.
        one_hot = np.eye(actions) if self.values == "action" else np.ones((actions, 1))
        phi = np.repeat(one_hot[None], kinds, axis=0)
        everywhere = np.ones(kinds, dtype=bool)
        t = tabulate(rule, phi, self.target, self.behaviour, everywhere)
        return TiledStreamer(self.tiles, t, actions)

    def __repr__(self) -> str:
        return f"Simulation({self.name}, gamma={self.gamma:g}, {self.values} values, p={self.p})"


class TiledStreamer:
    """Turns consecutive trajectories into stream, with tiles for features."""

    def __init__(self, tiles: Tiles, terms: Terms, n_actions: int) -> None:
        self._tiles = tiles
        self._terms = terms
        self._n_actions = n_actions
        self._copies = terms.phi.shape[1]
        self._carry = np.zeros(3)

    def __call__(self, piece: Trajectory) -> Stream:
        """Return the stream of the next piece."""
        steps, active = len(piece.rewards), self._tiles.tilings
        here = piece.kinds * self._n_actions + piece.actions
        following = piece.next_kinds * self._n_actions + piece.next_actions
        t, many = self._terms, active * self._copies
        decay, weight = np.empty(steps), np.empty(steps)
        weigh(
            here, piece.discounts, piece.starts, t.kappa, t.weight, t.rho, t.emphasis,
            self._carry, decay, weight,
        )  # fmt: skip
        phi_index = np.empty(steps * active, dtype=np.uint32)
        next_index = np.empty(steps * many, dtype=np.uint32)
        next_b, next_x = np.empty(steps * many), np.empty(steps * many)
        _expand(
            self._tiles.code(piece.observations), self._tiles.code(piece.next_observations),
            piece.actions, following, self._copies, t.bootstrap, t.correction,
            phi_index, next_index, next_b, next_x,
        )  # fmt: skip
        return Stream(
            np.arange(steps + 1) * active, phi_index, np.ones(1), np.arange(steps + 1) * many,
            next_index, next_b, next_x, piece.rewards, piece.discounts, decay, weight,
        )  # fmt: skip


@compiled
def _expand(
    tiles: IndexArray,
    next_tiles: IndexArray,
    actions: IntArray,
    following: IntArray,
    copies: int,
    bootstrap: FloatArray,
    correction: FloatArray,
    phi_index: IndexArray,
    next_index: IndexArray,
    next_b: FloatArray,
    next_x: FloatArray,
) -> None:
    """Feature of tile f with action a is f·copies + a: the actions of a tile are neighbours."""
    steps, active = tiles.shape
    many = active * copies
    for t in range(steps):
        a = actions[t] if copies > 1 else 0
        for i in range(active):
            phi_index[t * active + i] = tiles[t, i] * copies + a
            for c in range(copies):
                j = t * many + i * copies + c
                next_index[j] = next_tiles[t, i] * copies + c
                next_b[j] = bootstrap[following[t], c]
                next_x[j] = correction[following[t], c]
