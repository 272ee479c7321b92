"""`Study`: problems × rules × step sizes × runs, as data that converts to and from JSON."""

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
"""Metrics by name: the rule's own MSPBE, the absolute MSE, and ‖θ‖."""

SCHEDULES: dict[str, Callable[[FloatArray], Any]] = {
    "constant": np.asarray, "inverse_sqrt": inverse_sqrt, "inverse": inverse,
}  # fmt: skip
"""Step-size schedules by name."""

PROBLEMS: dict[str, Callable[..., Problem | Source]] = {
    **problems.NAMED,
    "mountain_car": problems.mountain_car,
}
"""Problems by name."""

PROBE = 5000
"""Steps sampled to estimate the mean episode length."""


@dataclass(frozen=True)
class Case:
    """One problem of a study.

    Attributes
    ----------
    label
        Name in the results.
    name, make
        Name of a built-in problem, or ``module.py:function`` that returns one.
    parameters
        Arguments of the problem.
    mark
        Hash of the file of ``make``; a changed file makes a different study.
    unit, count, points
        "steps" or "episodes", their number, and the checkpoints at which metrics are recorded.
    length
        Mean number of steps per unit.

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
        """Return the problem; the path in ``make`` is relative to the folder."""
        if self.make is None:
            assert self.name is not None
            return _registry.build("problem", self.name, PROBLEMS, self.parameters)
        path, _, attribute = self.make.rpartition(":")
        module = folder / path
        if self.mark is not None and file_hash(module) != self.mark:
            raise InvalidParameter(f"{module} has changed since the study was read.")
        return load(f"{module}:{attribute}")(**self.parameters)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Study:
    """A parameter sweep: every rule with every step size on every problem, in several runs.

    Attributes
    ----------
    title
        Title, for display.
    seed, runs
        Root seed, and runs per setting; run r of problem c uses the spawn key (c, r).
    cases
        The problems.
    rules
        Name and parameters of each rule.
    alphas, betas, ratio
        Step sizes; ``betas`` are those of ω, or β/α with ``ratio``. Semi-gradient rules have no β.
    schedule
        Name of the step-size schedule.
    metrics, sample
        Metrics to record; and steps under μ for an estimated MSPBE where there is no exact system.
    theta0
        Initial weights.
    share
        Approximate number of learner-steps per task.

    Examples
    --------
    >>> [(spec.name, spec.size) for spec in EXAMPLE.task_specs()]
    [('p000-0000-run00000', 12000)]
    >>> Study.from_dict(EXAMPLE.as_dict()) == EXAMPLE
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

    def as_dict(self) -> dict[str, Any]:
        """Return the study as JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Study:
        """Return the study that `as_dict` describes."""
        lists: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        cases = tuple(Case(**(case | {"points": tuple(case["points"])})) for case in data["cases"])
        rules = tuple((name, parameters) for name, parameters in data["rules"])
        return cls(**({"title": ""} | lists | {"cases": cases, "rules": rules}))

    def rule(self, index: int) -> Rule:
        """Return the rule at an index."""
        name, parameters = self.rules[index]
        return make(name, **parameters)

    def beta_count(self, index: int) -> int:
        """Return the number of β per α with which a rule is run."""
        return len(self.betas) if self._has_dual(index) else 1

    def _has_dual(self, index: int) -> bool:
        return self.rule(index).form.has_dual

    def task_specs(self) -> Iterator[TaskSpec]:
        """Return the tasks, each of about the same size."""
        for c, case in enumerate(self.cases):
            costs = [case.count * case.length * self.beta_count(r) for r in range(len(self.rules))]
            for k, block in enumerate(self._grid_blocks(costs)):
                size = sum(costs[r] for r in range(*block[:2])) * (block[3] - block[2])
                runs = max(1, int(self.share // size))
                for first in range(0, self.runs, runs):
                    last = min(self.runs, first + runs)
                    name = f"p{c:03d}-{k:04d}-run{first:05d}"
                    yield TaskSpec(name, c, first, last, *block, int(size) * (last - first))

    def _grid_blocks(self, costs: list[float]) -> Iterator[tuple[int, int, int, int]]:
        """Return blocks of several rules with all α, or one rule with some α: r0, r1, a0, a1.

        ``costs`` are the learner-steps of one α of each rule.
        """
        count = len(self.alphas)
        first = 0
        while first < len(costs):
            last, size = first + 1, costs[first] * count
            has_dual = self._has_dual(first)  # rules of a block share their step sizes
            while (
                last < len(costs)
                and self._has_dual(last) == has_dual
                and size + costs[last] * count <= self.share
            ):
                size += costs[last] * count
                last += 1
            alphas = max(1, min(count, int(self.share // costs[first])))
            if last > first + 1:
                alphas = count
            for a in range(0, count, alphas):
                yield first, last, a, min(count, a + alphas)
            first = last

    def step_sizes(self, spec: TaskSpec) -> tuple[Any, Any]:
        """Return α and β of a task, [α, β]."""
        schedule = SCHEDULES[self.schedule]
        alpha = np.array(self.alphas)[spec.alpha_start : spec.alpha_stop, None]
        if not self._has_dual(spec.rule_start):
            return schedule(alpha), None
        beta = np.array(self.betas)[None, :] * (alpha if self.ratio else np.ones_like(alpha))
        return schedule(alpha), schedule(beta)


@dataclass(frozen=True)
class TaskSpec:
    """One task of a study: some runs of some rules with some α and all β on one problem.

    Attributes
    ----------
    name
        Name of its shard.
    case
        Index of the problem.
    run_start, run_stop, rule_start, rule_stop, alpha_start, alpha_stop
        Half-open ranges of runs, rules and α.
    size
        Approximate number of learner-steps.
    """

    name: str
    case: int
    run_start: int
    run_stop: int
    rule_start: int
    rule_stop: int
    alpha_start: int
    alpha_stop: int
    size: int


Metrics = Mapping[str, Callable[[FloatArray], ArrayLike]]


class Unmeasurable(InvalidParameter):
    """A metric that is not available on a problem, whatever the rule."""


def study_metrics(
    problem: Problem | Source, rule: Rule, names: tuple[str, ...], sample: int, seed: int
) -> Metrics:
    """Return the metrics of a rule on a problem, by name."""
    metrics: dict[str, Callable[[FloatArray], ArrayLike]] = {
        "norm": lambda theta: np.linalg.norm(theta, axis=-1)
    }
    if isinstance(problem, Problem) and {"mspbe", "mse"} & set(names):
        objectives = System.exact(problem, rule).objectives
        metrics |= {
            "mse" if name == "mse_absolute" else name: objective
            for name, objective in objectives.items()
        }
    elif "mspbe" in names:
        rng = np.random.SeedSequence(seed, spawn_key=(SAMPLED,))
        metrics["mspbe"] = System.estimate(problem, rule, steps=sample, rng=rng).mspbe
    missing = [name for name in names if name not in metrics]
    if missing:
        raise Unmeasurable(
            f"{missing[0]} is not available: the true values are unknown. Remove it."
        )
    return {name: metrics[name] for name in names}


SAMPLED = 2**32 - 1
"""Spawn key of the sample for estimated metrics; no run uses it."""


def file_hash(path: Path) -> str:
    """Return a hash of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None


def mean_length(problem: Problem | Source) -> float:
    """Return the approximate mean episode length; deterministic for a given problem."""
    sample = as_source("study", problem).sampler(np.random.default_rng(0)).take(PROBE)
    return PROBE / max(1, int(np.sum(sample.starts)))


EXAMPLE = Study(
    title="two states", seed=0, runs=3,
    cases=(
        Case("two_state", "two_state", None, {"gamma": 0.9}, None, "steps", 1000, (0, 1000), 1.0),
    ),
    rules=(("GES", {"lam": 0.0}), ("GES", {"lam": 0.5})), alphas=(0.05, 0.1), betas=(1.0,),
    ratio=True, schedule="constant", metrics=("mspbe",), sample=1000, theta0=1.0, share=10**6,
)  # fmt: skip
"""A small study, for examples."""
