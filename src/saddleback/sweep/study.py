"""`Study`: problems × rules × step sizes × runs, as data that converts to and from JSON."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from saddleback import _registry, problems
from saddleback._plugins import load_once
from saddleback._typing import FloatArray
from saddleback.engine import Source, inverse, inverse_sqrt
from saddleback.errors import InvalidParameter
from saddleback.learning.device import choose_device
from saddleback.problem import Problem
from saddleback.rules import NAMED, Expected, Rule, make
from saddleback.rules.forms import Form
from saddleback.rules.parse import library, rule_files, stored_rule

SCHEDULES: dict[str, Callable[[FloatArray], Any]] = {
    "constant": np.asarray, "inverse_sqrt": inverse_sqrt, "inverse": inverse,
}  # fmt: skip
"""Step-size schedules by name."""

PROBLEMS: dict[str, Callable[..., Problem | Source]] = {
    **problems.NAMED,
    "mountain_car": problems.mountain_car,
}
"""Problems by name."""

GPU_SHARE = 20_000_000_000
"""Learner-steps per task on a GPU: a few seconds of work, for as many learners as possible."""

FORMS: dict[str, type[Form]] = {
    name: part for name, part in library().items() if issubclass(part, Form)
}
"""Forms by name, for a rule whose form is replaced."""


Weights = float | tuple[float, ...]


@dataclass(frozen=True)
class Grid:
    """Step sizes: α, and β or, with ``ratio``, β/α; and the name of their schedule."""

    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    ratio: bool
    schedule: str


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
    lam, theta0, grid
        λ of the rules that have none of their own, initial weights and step sizes; None for those
        of the study.

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
    lam: float | None = None
    theta0: Weights | None = None
    grid: Grid | None = None

    def build(self, folder: Path) -> Problem | Source:
        """Return the problem; the path in ``make`` is relative to the folder.

        A process builds it once: the reader of the study, its cost estimate and its tasks share it.
        """
        if self.make is not None:
            check_file(self.make, folder, self.mark)
        description = [self.name, self.make, self.mark, self.parameters]
        return _built(_Construction(json.dumps(description, default=repr), folder.resolve(), self))

    def _construct(self, folder: Path) -> Problem | Source:
        if self.make is None:
            assert self.name is not None
            return _registry.build("problem", self.name, PROBLEMS, self.parameters)
        return load_function(self.make, folder, self.mark)(**self.parameters)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Construction:
    """The case to build, identified by its description and the folder."""

    description: str
    folder: Path
    case: Case = field(compare=False)


@lru_cache(64)
def _built(construction: _Construction) -> Problem | Source:
    return construction.case._construct(construction.folder)


@dataclass(frozen=True)
class Study:
    """A parameter sweep: every rule with every step size on every problem, in several runs.

    A study of a ``function`` has no problems and rules: it calls the function with all settings.

    Attributes
    ----------
    title
        Title, for display.
    seed, runs
        Root seed, and runs per setting; run r of problem c uses the spawn key (c, r), or (r,) with
        common random numbers.
    cases
        The problems.
    rules
        Name or text (`Rule.parse`) and parameters of each rule. A parameter "form" replaces the
        form of the rule, "bootstrap" its bootstrap by the expected one, and "label" is its name in
        the results; "dual" says of a rule in a Python file whether it has a dual variable.
    alphas, betas, ratio
        Step sizes; ``betas`` are those of ω, or β/α with ``ratio``. Semi-gradient rules have no β.
    schedule
        Name of the step-size schedule.
    metrics, sample
        Metrics to record, by name or as ``module.py:function``; and steps under μ for an estimated
        MSPBE where there is no exact system.
    theta0
        Initial weights: one number for all, or one for each.
    share
        Approximate number of learner-steps per task, or number of calls of the function.
    parameters, marks
        Numbers that functions of metrics may ask for, and hashes of files with metrics or rules.
    common_random_numbers
        Whether run r has the same random numbers on all problems.
    quick
        Whether this is a smoke test, with the settings in [quick].
    device
        "cpu", "cuda" for a GPU, or "auto"; see `learn`.
    function, settings
        A function as ``module.py:function``, and its arguments: every combination of the values in
        a table is a setting.

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
    rules: tuple[tuple[str, Mapping[str, Any]], ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    ratio: bool
    schedule: str
    metrics: tuple[str, ...]
    sample: int
    theta0: Weights
    share: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)
    common_random_numbers: bool = False
    quick: bool = False
    device: str = "cpu"
    function: str = ""
    settings: tuple[Mapping[str, Sequence[Any]], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the study as JSON data; settings that are optional and not given are omitted."""
        cases = [_without_defaults(case) for case in self.cases]
        return _without_defaults(self) | {"cases": cases}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Study:
        """Return the study that `as_dict` describes."""
        try:
            return msgspec.convert({"title": "", **data}, cls)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"the data of the study are damaged: {error}.") from None

    def rule(self, index: int, case: int = 0, folder: Path | None = None) -> Rule:
        """Return the rule at an index, for a problem; files are imported from the folder only."""
        name, parameters = self.rules[index]
        return build_rule(name, parameters, self.cases[case].lam, folder, self.marks)

    def rule_label(self, index: int, case: int = 0) -> str:
        """Return the name of a rule in the results."""
        label: str | None = self.rules[index][1].get("label")
        return self.rule(index, case).display_name if label is None else label

    def combinations(self) -> list[dict[str, Any]]:
        """Return the settings of the function, one by one, in the order of their names.

        Tasks and seeds are numbered by them, so that the order in a file makes no difference.
        """
        return [
            dict(zip(sorted(table), values, strict=True))
            for table in self.settings
            for values in itertools.product(*(table[key] for key in sorted(table)))
        ]

    def has_dual(self, index: int) -> bool:
        """Whether a rule has a dual variable, and so a second step size."""
        declared: bool | None = self.rules[index][1].get("dual")
        return self.rule(index).form.has_dual if declared is None else declared

    def grid(self, case: int = 0) -> Grid:
        """Return the step sizes for a problem."""
        common = Grid(self.alphas, self.betas, self.ratio, self.schedule)
        return self.cases[case].grid or common

    def initial_weights(self, case: int) -> Weights:
        """Return θ_0 on a problem."""
        own = self.cases[case].theta0
        return self.theta0 if own is None else own

    def spawn_key(self, case: int, run: int) -> tuple[int, ...]:
        """Return the spawn key of a run."""
        return (run,) if self.common_random_numbers else (case, run)

    def beta_count(self, index: int, case: int = 0) -> int:
        """Return the number of β per α with which a rule is run."""
        return len(self.grid(case).betas) if self.has_dual(index) else 1

    def learners(self, case: int) -> int:
        """Return the number of learners in one run on a problem: rules times step sizes."""
        betas = sum(self.beta_count(r, case) for r in range(len(self.rules)))
        return len(self.grid(case).alphas) * betas

    def task_specs(self) -> Iterator[TaskSpec]:
        """Return the tasks, each of about the same size."""
        for c, case in enumerate(self.cases):
            per_beta = case.count * case.length
            costs = [per_beta * self.beta_count(r, c) for r in range(len(self.rules))]
            for k, block in enumerate(self._grid_blocks(costs, len(self.grid(c).alphas))):
                size = sum(costs[r] for r in range(*block[:2])) * (block[3] - block[2])
                runs = max(1, int(self.share // size))
                for first in range(0, self.runs, runs):
                    last = min(self.runs, first + runs)
                    name = f"p{c:03d}-{k:04d}-run{first:05d}"
                    yield TaskSpec(name, c, first, last, *block, int(size) * (last - first))

    def _grid_blocks(self, costs: list[float], count: int) -> Iterator[tuple[int, int, int, int]]:
        """Return blocks of several rules with all α, or one rule with some α: r0, r1, a0, a1.

        ``costs`` are the learner-steps of one α of each rule, and ``count`` the number of α.
        """
        first = 0
        while first < len(costs):
            last, size = first + 1, costs[first] * count
            has_dual = self.has_dual(first)  # rules of a block share their step sizes
            while (
                last < len(costs)
                and self.has_dual(last) == has_dual
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

    def on_device(self, device: str, threads: int) -> Study:
        """Return the study on a device, with larger tasks on a GPU; "auto" is decided here."""
        if self.function:
            if device == "cuda":
                raise InvalidParameter(f"{self.function} runs on the CPU: only learners use a GPU.")
            return replace(self, device="cpu")
        work = [
            (self.runs * self.learners(c), case.count * case.length)
            for c, case in enumerate(self.cases)
        ]
        chosen = choose_device(device, work, threads)
        return replace(self, device=chosen, share=self.share if chosen == "cpu" else GPU_SHARE)

    def step_sizes(self, spec: TaskSpec) -> tuple[Any, Any]:
        """Return α and β of a task, [α, β]."""
        grid = self.grid(spec.case)
        schedule = SCHEDULES[grid.schedule]
        alpha = np.array(grid.alphas)[spec.alpha_start : spec.alpha_stop, None]
        if not self.has_dual(spec.rule_start):
            return schedule(alpha), None
        beta = np.array(grid.betas)[None, :] * (alpha if grid.ratio else np.ones_like(alpha))
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


def build_rule(
    name: str,
    parameters: Mapping[str, Any],
    lam: float | None = None,
    folder: Path | None = None,
    marks: Mapping[str, str] | None = None,
) -> Rule:
    """Return a rule by name, with λ filled in if it takes one and none is given; or from its text.

    Files named in the text are relative to the folder, without which they are refused.

    Examples
    --------
    >>> build_rule("GES", {}, lam=0.5) == build_rule("GES", {"lam": 0.5})
    True
    >>> build_rule("GTB", {"lam": 0.9, "form": "Correction", "label": "GTB corr."}).display_name
    'GTB corr.'
    """
    own = dict(parameters)
    label, form, bootstrap, _ = (own.pop(key, None) for key in RULE)
    if not isinstance(name, str):
        _registry.check_name("rule", name, NAMED)
    if name in NAMED:
        if lam is not None and "lam" in inspect.signature(NAMED[name]).parameters:
            own.setdefault("lam", lam)
        rule = make(name, **own)
    else:
        given = ", ".join(f"{key}={value!r}" for key, value in own.items())
        rule = _rule_of_text(f"{name}({given})" if given else name, folder, marks or {})
    if form is not None:
        rule = replace(rule, form=FORMS[_registry.check_name("form", form, FORMS)]())
    if bootstrap is not None:
        _registry.check_name("bootstrap", bootstrap, ["Expected"])
        rule = replace(rule, bootstrap=Expected())
    return rule if label is None else replace(rule, label=label)


def _rule_of_text(text: str, folder: Path | None, marks: Mapping[str, str]) -> Rule:
    """Return the rule of a text, if the files that it names have not changed."""
    if folder is None:
        return stored_rule(text)
    for path in rule_files(text):
        check_file(f"{path}:", folder, marks.get(path))
    return Rule.parse(text, folder)


RULE = ("label", "form", "bootstrap", "dual")
"""Keys of a rule besides its name and the parameters of its constructor."""


def load_function(spec: str, folder: Path, mark: str | None = None) -> Callable[..., Any]:
    """Return the function that ``module.py:name`` or ``saddleback.module:name`` refers to.

    The path is relative to the folder; a file whose hash is not ``mark`` is refused. It is imported
    once, so that its functions can share what they compute.
    """
    path, _, attribute = spec.rpartition(":")
    if path.startswith("saddleback."):
        return getattr(importlib.import_module(path), attribute)  # type: ignore[no-any-return]
    check_file(spec, folder, mark)
    return load_once(f"{folder / path}:{attribute}")  # type: ignore[no-any-return]


def asked_for(function: Callable[..., Any], available: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a function asks for by the names of its arguments; all with ``**settings``.

    Examples
    --------
    >>> asked_for(lambda theta, lam: None, {"lam": 0.5, "seed": 0})
    {'lam': 0.5}
    """
    takes = inspect.signature(function).parameters
    everything = any(one.kind is one.VAR_KEYWORD for one in takes.values())
    return {key: value for key, value in available.items() if everything or key in takes}


def check_file(spec: str, folder: Path, mark: str | None) -> None:
    """Refuse ``module.py:name`` if the file has changed since its hash was taken."""
    file = folder / spec.rpartition(":")[0]
    if mark is not None and file_hash(file) != mark:
        raise InvalidParameter(f"{file} has changed since the study was read.")


def checkpoints(count: int, number: int) -> tuple[int, ...]:
    """Return checkpoints from 0 to ``count``, more densely at the start.

    Examples
    --------
    >>> checkpoints(200, 4)
    (0, 22, 89, 200)
    """
    spaced = count * np.linspace(0, 1, number) ** 2
    return tuple(np.unique(np.round(spaced)).astype(int).tolist())


def file_hash(path: Path) -> str:
    """Return a hash of a file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None


def _without_defaults(record: Study | Case) -> dict[str, Any]:
    """Return the fields of a record, without those that have their default value."""
    values = asdict(record)
    for one in fields(record):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if default is not MISSING and values[one.name] == default:
            del values[one.name]
    return values


EXAMPLE = Study(
    title="two states", seed=0, runs=3,
    cases=(
        Case("two_state", "two_state", None, {"gamma": 0.9}, None, "steps", 1000, (0, 1000), 1.0),
    ),
    rules=(("GES", {"lam": 0.0}), ("GES", {"lam": 0.5})), alphas=(0.05, 0.1), betas=(1.0,),
    ratio=True, schedule="constant", metrics=("mspbe",), sample=1000, theta0=1.0, share=10**6,
)  # fmt: skip
"""A small study, for examples."""
