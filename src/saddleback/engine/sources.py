"""Sources of experience: finite problems, simulations and user-supplied streams.

A source is sampled once for any number of rules; a rule only adds its weights. Experience is drawn
in chunks, so a run of any length needs constant memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from saddleback import _registry, _validate
from saddleback._typing import FloatArray, IntArray
from saddleback.engine.experience import Experience, TransitionSampler
from saddleback.engine.feature_stream import SimulationStreamer, copies_of
from saddleback.engine.stream_columns import Columns
from saddleback.engine.tabular_stream import Streamer
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.features import Features
from saddleback.problem import Problem
from saddleback.rules import Rule, Terms, terms


class ExperienceIterator(Protocol):
    """Experience, drawn in chunks of any size."""

    def take(self, steps: int) -> Any:
        """Return the next ``steps`` steps."""


class Source(Protocol):
    """The interface that `learn` and `System.estimate` need of a source of experience.

    ``one_at_a_time``: whether its samplers must not run in parallel.
    """

    one_at_a_time: ClassVar[bool]

    @property
    def p(self) -> int:
        """Number of features."""

    @property
    def steps(self) -> int | None:
        """Number of steps; None if unlimited."""

    def sampler(self, rng: np.random.Generator) -> ExperienceIterator:
        """Return an iterator over experience of μ."""

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Any], list[Columns]]:
        """Return a function that turns consecutive chunks into one stream per rule."""


@dataclass(frozen=True, eq=False)
class FiniteSource:
    """A finite problem as a source: sampled, or with recorded experience."""

    problem: Problem
    experience: Experience | None = None
    one_at_a_time: ClassVar[bool] = False
    _tabulated: list[tuple[Rule, Terms]] = field(default_factory=list, init=False)

    @property
    def p(self) -> int:
        """Number of features."""
        return self.problem.p

    @property
    def steps(self) -> int | None:
        """Number of steps; None if unlimited."""
        return None if self.experience is None else len(self.experience)

    def sampler(self, rng: np.random.Generator) -> ExperienceIterator:
        """Return an iterator over experience of μ."""
        return (
            TransitionSampler(self.problem, rng)
            if self.experience is None
            else Replay(self.experience)
        )

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Experience], list[Columns]]:
        """Return a function that turns consecutive chunks into one stream per rule."""
        n_actions = self.problem.mdp.n_actions
        streamers = [Streamer(self.terms(rule), n_actions, rule.form) for rule in rules]
        return lambda chunk: [streamer(chunk) for streamer in streamers]

    def terms(self, rule: Rule) -> Terms:
        """Return the terms of a rule on the problem, tabulated once for each rule."""
        for tabulated, table in self._tabulated:
            if tabulated is rule:
                return table
        self._tabulated.append((rule, terms(rule, self.problem)))
        return self._tabulated[-1][1]


class Replay:
    """Recorded experience, returned in order as if it were sampled."""

    def __init__(self, experience: Any) -> None:
        self._experience, self._done = experience, 0

    def take(self, steps: int) -> Any:
        """Return the next ``steps`` steps."""
        self._done += steps
        return self._experience.part(slice(self._done - steps, self._done))


SOURCE = ("p", "steps", "one_at_a_time", "sampler", "streamer")
"""What a source of experience must have."""


def as_source(owner: str, source: Problem | Source) -> Source:
    """Return a finite problem as a source, and a source as it is."""
    if isinstance(source, Problem):
        return FiniteSource(source)
    if not all(hasattr(source, name) for name in SOURCE):
        _validate.instance(owner, "problem", source, Problem)
    return source


PROBE = 5000
"""Steps sampled to estimate the mean episode length."""


def mean_length(source: Source) -> float:
    """Return the approximate mean episode length; deterministic for a given source."""
    sample = source.sampler(np.random.default_rng(0)).take(PROBE)
    return PROBE / max(1, int(np.sum(sample.starts)))


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A simulator with features of its observations and two policies.

    `mountain_car` and `from_gymnasium` return simulations; `learn`, `collect` and
    `System.estimate` accept them in place of a `Problem`.

    Attributes
    ----------
    name
        Name of the simulated environment.
    simulator
        ``simulator(rng)`` returns an object whose ``take(n)`` returns the next n steps.
    features
        Features of an observation.
    target, behaviour
        π and μ for each kind of state, [n, A].
    gamma
        Discount.
    dimensions
        Length of an observation.
    values
        Whether action values or state values are learned. For action values each feature has one
        copy per action, and with ``shared`` one more copy for all actions.

    Examples
    --------
    >>> from saddleback import problems
    >>> car = problems.mountain_car()
    >>> car.name, car.p, car.gamma, car.target.shape
    ('mountain_car', 972, 0.99, (2, 3))
    """

    name: str
    simulator: Callable[[np.random.Generator], ExperienceIterator]
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
        expected = self.features.dimensions
        if expected not in (None, self.dimensions):
            raise InvalidParameter(
                f"{self.name}: observations have {self.dimensions} entries, but the features "
                f"expect {expected}."
            )
        if self.p >= 1 << 32:
            raise InvalidParameter(f"{self.name}: {self.p} features are too many for an index.")

    @property
    def steps(self) -> int | None:
        """Number of steps; None, since a simulation is unlimited."""
        return None

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.target.shape[1])

    @property
    def copies(self) -> FloatArray:
        """Which copies of a feature an action activates, [A, copies]."""
        return copies_of(self.n_actions, self.values, self.shared)

    @property
    def p(self) -> int:
        """Number of features."""
        return int(self.features.size * self.copies.shape[1])

    def phi(self, observations: FloatArray, actions: IntArray) -> FloatArray:
        """Return φ(s, a) as dense rows [n, p], to inspect values rather than to learn."""
        points = np.asarray(observations, dtype=np.float64)
        rows = self.features.encode(points).dense(self.features.size)
        products = np.einsum("nf,nc->nfc", rows, self.copies[actions])
        return np.asarray(products.reshape(len(rows), -1))

    def sampler(self, rng: np.random.Generator) -> ExperienceIterator:
        """Return an iterator over experience of μ."""
        return self.simulator(rng)

    def streamer(self, rules: Sequence[Rule]) -> Callable[[Any], list[Columns]]:
        """Return a function that turns consecutive chunks into one stream per rule."""
        for rule in rules:
            if rule.values != self.values:
                raise RuleMismatch(
                    f"{rule} learns {rule.values} values but {self.name} describes {self.values} "
                    f"values; make it with values={rule.values!r}, or use another rule."
                )
        return SimulationStreamer(self.features, rules, self.copies, self.target, self.behaviour)

    def __repr__(self) -> str:
        return f"Simulation({self.name}, gamma={self.gamma:g}, {self.values} values, p={self.p})"
