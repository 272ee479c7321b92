"""Sources: whatever produces experience piece by piece, and can say it in a rule's numbers.

A source is sampled once for any number of rules; each rule only adds its own weights. Finite
problems, compiled simulators and given streams are sources, so a run of any length needs constant
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from saddleback import _registry, _validate
from saddleback._typing import FloatArray, IntArray
from saddleback.engine.experience import Experience, Sampler
from saddleback.engine.log_stream import copies_of
from saddleback.engine.simulation_stream import FeatureStreamer
from saddleback.engine.tabular_stream import Columns, Streamer
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.features import Features
from saddleback.problem import Problem
from saddleback.rules import Rule, terms


class Takes(Protocol):
    """Experience, taken in pieces of any size."""

    def take(self, steps: int) -> Any:
        """Return the next ``steps`` steps."""


class Source(Protocol):
    """What `learn` and `System.estimate` ask of whatever they learn from."""

    @property
    def p(self) -> int:
        """Number of features."""

    @property
    def steps(self) -> int | None:
        """How many steps there are; None if they never end."""

    def sampler(self, rng: np.random.Generator) -> Takes:
        """Return experience of μ."""

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Any], list[Columns]]:
        """Return a function that turns consecutive pieces into one stream for each rule."""


@dataclass(frozen=True, eq=False)
class FiniteSource:
    """A finite problem as a source, to be sampled or with given experience."""

    problem: Problem
    experience: Experience | None = None

    @property
    def p(self) -> int:
        """Number of features."""
        return self.problem.p

    @property
    def steps(self) -> int | None:
        """How many steps there are; None if they never end."""
        return None if self.experience is None else len(self.experience)

    def sampler(self, rng: np.random.Generator) -> Takes:
        """Return experience of μ."""
        return Sampler(self.problem, rng) if self.experience is None else Replay(self.experience)

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Experience], list[Columns]]:
        """Return a function that turns consecutive pieces into one stream for each rule."""
        n_actions = self.problem.mdp.n_actions
        each = [Streamer(terms(rule, self.problem), n_actions) for rule in rules]
        return lambda piece: [streamer(piece) for streamer in each]


class Replay:
    """What is given, handed out as if it were sampled."""

    def __init__(self, given: Any) -> None:
        self._given, self._done = given, 0

    def take(self, steps: int) -> Any:
        """Return the next ``steps`` steps."""
        self._done += steps
        return self._given.part(slice(self._done - steps, self._done))


def as_source(owner: str, given: Problem | Source) -> Source:
    """Return a finite problem as a source, and a source as it is."""
    if isinstance(given, Problem):
        return FiniteSource(given)
    if not all(hasattr(given, name) for name in ("p", "steps", "sampler", "streamer")):
        _validate.instance(owner, "problem", given, Problem)
    return given


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A simulator with features of its observations and two policies.

    `mountain_car` and `from_gymnasium` make them; `learn`, `collect` and `System.estimate` take
    them where a `Problem` would do.

    Attributes
    ----------
    name
        What is simulated.
    simulator
        ``simulator(rng)`` returns an object whose ``take(n)`` makes n steps.
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

    Examples
    --------
    >>> from saddleback import problems
    >>> car = problems.mountain_car()
    >>> car.name, car.p, car.gamma, car.target.shape
    ('mountain_car', 972, 0.99, (2, 3))
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
    one_at_a_time: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _registry.check_name("values", self.values, ("action", "state"))
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
    def steps(self) -> int | None:
        """How many steps there are; None, since they never end."""
        return None

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.target.shape[1])

    @property
    def copies(self) -> FloatArray:
        """Which copies of a feature an action switches on, [A, copies]."""
        return copies_of(self.n_actions, self.values, self.shared)

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

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Any], list[Columns]]:
        """Return a function that turns consecutive pieces into one stream for each rule."""
        for rule in rules:
            if rule.values != self.values:
                raise RuleMismatch(
                    f"{rule} learns {rule.values} values but {self.name} describes {self.values} "
                    "values; make it with the other, or use another rule."
                )
        return FeatureStreamer(self.features, rules, self.copies, self.target, self.behaviour)

    def __repr__(self) -> str:
        return f"Simulation({self.name}, gamma={self.gamma:g}, {self.values} values, p={self.p})"
