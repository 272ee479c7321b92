"""Sources: whatever produces experience piece by piece, and can say it in a rule's numbers.

A source is sampled once for any number of rules; each rule only adds its own weights. Finite
problems and compiled simulators are sources, so a run of any length needs constant memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from saddleback import _names, _validate
from saddleback._jit import compiled
from saddleback._typing import BoolArray, FloatArray, IndexArray, IntArray
from saddleback.engine.experience import Sampler
from saddleback.engine.stream import Stream, Streamer, weigh
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.features import Features
from saddleback.problem import Problem
from saddleback.rules import Rule, Terms, is_rule, tabulate, terms


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

    ``kinds`` and ``next_kinds`` are rows of the policy tables: those of the simulation, or
    ``target`` and ``behaviour`` if given. The rest is as in `Experience`.
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
    target: FloatArray | None = None
    behaviour: FloatArray | None = None

    def part(self, which: slice) -> Trajectory:
        """Return some of the steps."""
        columns: list[Any] = [column[which] for column in self[:9]]
        return Trajectory._make([*columns, self.target, self.behaviour])


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A simulator with features of its observations and two policies.

    Attributes
    ----------
    name
        What is simulated.
    simulator
        ``simulator(rng)`` returns an object whose ``take(n)`` is a `Trajectory`.
    features
        Features of an observation.
    target, behaviour
        π and μ for each kind of state, [n, A].
    gamma
        Discount.
    dimensions
        Length of an observation.
    values
        Whether action values or state values are learned. For action values each feature comes
        once for each action, and with ``shared`` once more for all of them.
    """

    name: str
    simulator: Callable[[np.random.Generator], Takes]
    features: Features
    target: FloatArray
    behaviour: FloatArray
    gamma: float
    dimensions: int
    values: Literal["action", "state"] = "action"
    shared: bool = False

    def __post_init__(self) -> None:
        _names.known("values", self.values, ("action", "state"))
        if not (hasattr(self.features, "encode") and hasattr(self.features, "size")):
            raise InvalidParameter(
                f"{self.name}: features must be Tiles, Fourier, … or Custom(function, size), got "
                f"{self.features!r}."
            )
        wanted = self.features.dimensions
        if wanted not in (None, self.dimensions):
            raise InvalidParameter(
                f"{self.name}: observations have {self.dimensions} entries, but the features "
                f"expect {wanted}."
            )
        if self.p >= 1 << 32:
            raise InvalidParameter(f"{self.name}: {self.p} features are too many for an index.")

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.target.shape[1])

    @property
    def copies(self) -> FloatArray:
        """Which copies of a feature an action switches on, [A, copies]."""
        common = np.ones((self.n_actions, 1))
        if self.values == "state":
            return common
        own = np.eye(self.n_actions)
        return np.hstack([own, common]) if self.shared else own

    @property
    def p(self) -> int:
        """Number of features."""
        return int(self.features.size * self.copies.shape[1])

    def phi(self, observations: FloatArray, actions: IntArray) -> FloatArray:
        """Return φ(s, a) as dense rows [n, p], for a look at values rather than for learning."""
        given = np.asarray(observations, dtype=np.float64)
        rows = self.features.encode(given).dense(self.features.size)
        each = np.einsum("nf,nc->nfc", rows, self.copies[actions])
        return np.asarray(each.reshape(len(rows), -1))

    def sampler(self, rng: np.random.Generator) -> Takes:
        """Return experience of μ."""
        return self.simulator(rng)

    def streamer(self, rule: Rule) -> Callable[[Trajectory], Stream]:
        """Return a function that turns consecutive pieces of experience into stream."""
        is_rule(rule)
        if rule.values != self.values:
            raise RuleMismatch(
                f"{rule} learns {rule.values} values but {self.name} describes {self.values} "
                "values; make it with the other, or use another rule."
            )
        return FeatureStreamer(self.features, rule, self.copies, self.target, self.behaviour)

    def __repr__(self) -> str:
        return f"Simulation({self.name}, gamma={self.gamma:g}, {self.values} values, p={self.p})"


class FeatureStreamer:
    """Turns consecutive trajectories into stream."""

    def __init__(
        self,
        features: Features,
        rule: Rule,
        copies: FloatArray,
        target: FloatArray,
        behaviour: FloatArray,
    ) -> None:
        self._features = features
        self._rule, self._all = rule, copies
        self._terms = self._look_up(target, behaviour)
        self._copies = copies.shape[1]
        # Every action switches equally many copies on.
        self._on = np.array([np.flatnonzero(row) for row in copies], dtype=np.uint32)
        self._carry = np.zeros(3)

    def _look_up(self, target: FloatArray, behaviour: FloatArray) -> Terms:
        """What a rule makes of the copies of one feature are its weights for all of them."""
        kinds = len(target)
        phi = np.repeat(self._all[None], kinds, axis=0)
        return tabulate(self._rule, phi, target, behaviour, np.ones(kinds, dtype=bool))

    def __call__(self, piece: Trajectory) -> Stream:
        """Return the stream of the next piece."""
        steps, actions = len(piece.rewards), len(self._on)
        here = piece.kinds * actions + piece.actions
        following = piece.next_kinds * actions + piece.next_actions
        t = self._terms
        if piece.target is not None and piece.behaviour is not None:
            t = self._look_up(piece.target, piece.behaviour)
        decay, weight = np.empty(steps), np.empty(steps)
        weigh(
            here, piece.discounts, piece.starts, t.kappa, t.weight, t.rho, t.emphasis,
            self._carry, decay, weight,
        )  # fmt: skip
        index, value = self._features.encode(piece.observations)
        next_index, next_value = self._features.encode(piece.next_observations)
        few = index.shape[1] * self._on.shape[1]
        many = next_index.shape[1] * self._copies
        phi_index = np.empty(steps * few, dtype=np.uint32)
        phi_value = np.ones(1 if value is None else steps * few)
        b_index = np.empty(steps * many, dtype=np.uint32)
        b, x = np.empty(steps * many), np.empty(steps * many)
        binary = np.ones((0, 0))
        _expand(
            index, binary if value is None else value,
            next_index, binary if next_value is None else next_value,
            self._on[piece.actions], following, t.bootstrap, t.correction,
            phi_index, phi_value, b_index, b, x,
        )  # fmt: skip
        step = np.arange(steps + 1, dtype=np.uint64)
        return Stream(
            step * np.uint64(few), phi_index, phi_value,
            step * np.uint64(many), b_index, b, x,
            piece.rewards, piece.discounts, decay, weight,
        )  # fmt: skip


@compiled
def _expand(
    index: IndexArray,
    value: FloatArray,
    next_index: IndexArray,
    next_value: FloatArray,
    on: IndexArray,
    following: IntArray,
    bootstrap: FloatArray,
    correction: FloatArray,
    phi_index: IndexArray,
    phi_value: FloatArray,
    b_index: IndexArray,
    b: FloatArray,
    x: FloatArray,
) -> None:
    """Copy c of feature f is f·copies + c: the actions of a feature are neighbours."""
    steps, active = index.shape
    copies = bootstrap.shape[1]
    valued, next_valued = value.size > 0, next_value.size > 0
    j, m = 0, 0
    for t in range(steps):
        for i in range(active):
            for c in range(on.shape[1]):
                phi_index[j] = index[t, i] * copies + on[t, c]
                if valued:
                    phi_value[j] = value[t, i]
                j += 1
        for i in range(next_index.shape[1]):
            size = next_value[t, i] if next_valued else 1.0
            for c in range(copies):
                b_index[m] = next_index[t, i] * copies + c
                b[m] = size * bootstrap[following[t], c]
                x[m] = size * correction[following[t], c]
                m += 1
