"""`Study`: problems × rules × step sizes × runs, as plain data that a file or a wire can carry."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saddleback import _registry, problems
from saddleback._plugins import load
from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine import Source, as_source, inverse, inverse_sqrt
from saddleback.errors import InvalidParameter
from saddleback.problem import Problem
from saddleback.rules import Rule, make
from saddleback.system import System

METRICS = ("mspbe", "mse", "norm")
"""What can be measured: the rule's own MSPBE, the absolute MSE, and ‖θ‖."""

SCHEDULES: dict[str, Callable[[FloatArray], Any]] = {
    "constant": np.asarray, "inverse_sqrt": inverse_sqrt, "inverse": inverse,
}  # fmt: skip
"""How step sizes go down, by name."""

PROBLEMS: dict[str, Callable[..., Problem | Source]] = {
    **problems.NAMED,
    "mountain_car": problems.mountain_car,
}
"""Problems by name."""

PROBE = 5000
"""Steps by which it is judged how long episodes are."""


@dataclass(frozen=True)
class Case:
    """One problem of a study.

    Attributes
    ----------
    label
        What it is called in the results.
    name, make
        A problem of ours, or ``module.py:function`` that returns one.
    parameters
        What it is called with.
    mark
        Hash of the file of ``make``, so that another version of it is another study.
    unit, count, points
        How many steps or episodes, and at which of them metrics are taken.
    length
        Steps of one unit, on average.

    Examples
    --------
    >>> EXAMPLE.cases[0].build(Path())
    Problem(states=2, actions=2, gamma=0.9, continuing, action values, p=2)
    """

    label: str
    name: str | None
    make: str | None
    parameters: Mapping[str, Any]
    mark: str | None
    unit: str
    count: int
    points: tuple[int, ...]
    length: float

    def build(self, folder: Path) -> Problem | Source:
        """Return the problem; ``make`` is a path from the folder."""
        if self.make is None:
            assert self.name is not None
            return _registry.build("problem", self.name, PROBLEMS, self.parameters)
        path, _, attribute = self.make.rpartition(":")
        where = folder / path
        if self.mark is not None and file_mark(where) != self.mark:
            raise InvalidParameter(f"{where} has changed since the study was read.")
        return load(f"{where}:{attribute}")(**self.parameters)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Study:
    """What to run: every rule with every step size on every problem, several times over.

    Attributes
    ----------
    title
        What it is about.
    seed, runs
        Entropy of all randomness; the stream of run r of problem c has spawn key (c, r).
    cases
        The problems.
    rules
        Name and parameters of each.
    alphas, betas, ratio
        Step sizes; betas are those of ω, or with ``ratio`` β/α. Semi-gradient rules have no β.
    schedule
        How they go down.
    metrics, sample
        What is measured; and steps of μ behind the MSPBE where there is no exact system.
    theta0
        First weights.
    share
        Learner-steps of a task, about.

    Examples
    --------
    >>> [(part.name, part.size) for part in EXAMPLE.parts()]
    [('p000-0000-run00000', 12000)]
    >>> Study.of(EXAMPLE.plain()) == EXAMPLE
    True
    """

    title: str
    seed: int
    runs: int
    cases: tuple[Case, ...]
    rules: tuple[tuple[str, Mapping[str, float]], ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    ratio: bool
    schedule: str
    metrics: tuple[str, ...]
    sample: int
    theta0: float
    share: int

    def plain(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Study:
        """Return it from plain data."""
        lists: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in plain.items()
        }
        cases = tuple(Case(**(each | {"points": tuple(each["points"])})) for each in plain["cases"])
        rules = tuple((name, parameters) for name, parameters in plain["rules"])
        return cls(**({"title": ""} | lists | {"cases": cases, "rules": rules}))

    def rule(self, index: int) -> Rule:
        """Return one of the rules."""
        name, parameters = self.rules[index]
        return make(name, **parameters)

    def width(self, index: int) -> int:
        """How many β a rule is run with for each α."""
        return len(self.betas) if self._dual(index) else 1

    def _dual(self, index: int) -> bool:
        return self.rule(index).form.has_dual

    def parts(self) -> Iterator[Part]:
        """Return the pieces of work, each of about the same size."""
        for c, case in enumerate(self.cases):
            row = [case.count * case.length * self.width(r) for r in range(len(self.rules))]
            for k, piece in enumerate(self._pieces(row)):
                size = sum(row[r] for r in range(*piece[:2])) * (piece[3] - piece[2])
                runs = max(1, int(self.share // size))
                for first in range(0, self.runs, runs):
                    last = min(self.runs, first + runs)
                    name = f"p{c:03d}-{k:04d}-run{first:05d}"
                    yield Part(name, c, first, last, *piece, int(size) * (last - first))

    def _pieces(self, row: list[float]) -> Iterator[tuple[int, int, int, int]]:
        """Return whole rules in groups, or one rule in parts of its α: r0, r1, a0, a1."""
        count = len(self.alphas)
        first = 0
        while first < len(row):
            last, size = first + 1, row[first] * count
            dual = self._dual(first)  # their step sizes are given together
            while (
                last < len(row)
                and self._dual(last) == dual
                and size + row[last] * count <= self.share
            ):
                size += row[last] * count
                last += 1
            rows = max(1, min(count, int(self.share // row[first])))
            if last > first + 1:
                rows = count
            for a in range(0, count, rows):
                yield first, last, a, min(count, a + rows)
            first = last

    def step_sizes(self, part: Part) -> tuple[Any, Any]:
        """Return α and β of a part of the grid, [α, β]."""
        shape = SCHEDULES[self.schedule]
        alpha = np.array(self.alphas)[part.alpha : part.alphas, None]
        if not self._dual(part.rule):
            return shape(alpha), None
        beta = np.array(self.betas)[None, :] * (alpha if self.ratio else np.ones_like(alpha))
        return shape(alpha), shape(beta)


@dataclass(frozen=True)
class Part:
    """A piece of work of a study: runs of some rules with some α and all β on one problem.

    Attributes
    ----------
    name
        Of its shard.
    case
        Which problem.
    run, runs, rule, rules, alpha, alphas
        The first run and the one after the last; likewise the rules, and the α.
    size
        Learner-steps, about.
    """

    name: str
    case: int
    run: int
    runs: int
    rule: int
    rules: int
    alpha: int
    alphas: int
    size: int


Metrics = Mapping[str, Callable[[FloatArray], ArrayLike]]


class Unmeasurable(InvalidParameter):
    """A metric that a problem does not have, whatever the rule."""


def measures(
    problem: Problem | Source, rule: Rule, names: tuple[str, ...], sample: int, seed: int
) -> Metrics:
    """Return the metrics of a rule on a problem, by name."""
    found: dict[str, Callable[[FloatArray], ArrayLike]] = {
        "norm": lambda theta: np.linalg.norm(theta, axis=-1)
    }
    if isinstance(problem, Problem) and {"mspbe", "mse"} & set(names):
        own = dict(System.exact(problem, rule).objectives)
        found |= {"mse" if name == "mse_absolute" else name: each for name, each in own.items()}
    elif "mspbe" in names:
        rng = np.random.SeedSequence(seed, spawn_key=(SAMPLED,))
        found["mspbe"] = System.estimate(problem, rule, steps=sample, rng=rng).mspbe
    missing = [name for name in names if name not in found]
    if missing:
        raise Unmeasurable(
            f"{missing[0]} cannot be measured there: true values are not known. Leave it out."
        )
    return {name: found[name] for name in names}


SAMPLED = 2**32 - 1
"""Spawn key of the sample behind estimated metrics; no run has it."""


def file_mark(path: Path) -> str:
    """Return a hash of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None


def mean_length(problem: Problem | Source) -> float:
    """Return how many steps an episode has, about; the same for the same problem."""
    piece = as_source("study", problem).sampler(np.random.default_rng(0)).take(PROBE)
    return PROBE / max(1, int(np.sum(piece.starts)))


EXAMPLE = Study(
    title="two states", seed=0, runs=3,
    cases=(
        Case("two_state", "two_state", None, {"gamma": 0.9}, None, "steps", 1000, (0, 1000), 1.0),
    ),
    rules=(("GES", {"lam": 0.0}), ("GES", {"lam": 0.5})), alphas=(0.05, 0.1), betas=(1.0,),
    ratio=True, schedule="constant", metrics=("mspbe",), sample=1000, theta0=1.0, share=10**6,
)  # fmt: skip
"""A small study, to show what one is."""
