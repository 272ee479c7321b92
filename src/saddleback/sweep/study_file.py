"""Reader of study files (TOML): validates everything up front, and reports errors by line."""

from __future__ import annotations

import inspect
import itertools
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from saddleback import _registry, _validate
from saddleback.engine import FiniteSource, as_source, mean_length
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.learning.device import DEVICES
from saddleback.rules import NAMED, Rule
from saddleback.rules.parse import rule_files
from saddleback.sweep.function_file import FunctionReader
from saddleback.sweep.study import (
    PROBLEMS,
    RULE,
    SCHEDULES,
    Case,
    Grid,
    Study,
    build_rule,
    checkpoints,
    file_hash,
    load_function,
)
from saddleback.sweep.study_metrics import (
    COLUMNS,
    METRICS,
    Unmeasurable,
    metric_name,
    study_metrics,
)
from saddleback.sweep.study_tables import (
    GridTable,
    Logarithmic,
    Names,
    Powers,
    ProblemTable,
    StepSizes,
    StudyTable,
)
from saddleback.sweep.toml_lines import KeyPath, StudyFile, abbreviate, is_json

SHARE = 100_000_000
"""Learner-steps per task: a few seconds of work."""

EMPTY = Grid((), (), True, "constant")
"""Step sizes of a study in which they are missing."""


class StudyError(InvalidParameter):
    """All errors in a study file, one per line."""


def read_study(path: Path, share: int = SHARE, quick: bool = False) -> Study:
    """Read and validate a study: names, numbers, and whether rules, problems and metrics match.

    Parameters
    ----------
    path
        A TOML file; see docs/learn/studies.md.
    share
        Approximate number of learner-steps per task.
    quick
        Whether the settings in [quick] replace the others, for a smoke test.

    Examples
    --------
    >>> import tempfile
    >>> text = '''
    ... steps = 1000
    ... [grid]
    ... alpha = [0.1, 0.05]
    ... ratio = [1.0]
    ... [[problem]]
    ... name = "two_state"
    ... [[rule]]
    ... name = "GES"
    ... lam = [0.0, 0.5]
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "s.toml").write_text(text)
    ...     study = read_study(Path(folder) / "s.toml")
    >>> study.rules, [spec.name for spec in study.task_specs()]
    ((('GES', {'lam': 0.0}), ('GES', {'lam': 0.5})), ['p000-0000-run00000'])
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise InvalidParameter(f"cannot read {path}: {reason}.") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: invalid TOML: {error}.") from None
    learning = {"problem", "rule", "rules", "grid"} & set(data)
    function = "function" in data or ("setting" in data and not learning)
    reader = (FunctionReader if function else _StudyReader)(path, text, data)
    study = reader.study(share, quick)
    if reader.errors:
        raise StudyError("\n".join(f"{path}:{line}: {message}" for line, message in reader.errors))
    return study


class _StudyReader(StudyFile):
    """Builds a study from parsed TOML, collecting errors on the way."""

    def __init__(self, path: Path, text: str, data: dict[str, Any]) -> None:
        super().__init__(path, text, data)
        self._rule_marks: dict[str, str] = {}
        self._top = StudyTable()

    def study(self, share: int, quick: bool) -> Study:
        """Return the study; record errors."""
        self.replace_for_quick(StudyTable.__struct_fields__, "problem", quick)
        top, self._misspelt = self.table((), self._data, StudyTable)
        self._top = top
        device = self.attempt(("device",), _registry.check_name, "device", top.device, DEVICES)
        metrics = self._metrics(top.metrics)
        tables = top.grid if isinstance(top.grid, list) else [top.grid]
        lams = [table.get("lam") for table in tables if isinstance(table, dict)]
        rules = self._rules(lams, top.rules)
        steps = [self._grid(table, k, rules) for k, table in enumerate(tables)]
        grid = steps[0][2] if steps else EMPTY
        problems = self._cases()
        cases = [
            (path, replace(case, lam=lam, label=", ".join(filter(None, (label, case.label))),
                           grid=one if len(steps) > 1 else None), problem)
            for (label, lam, one) in steps for path, case, problem in problems
        ]  # fmt: skip
        study = Study(
            str(self._path.stem if top.title is None else top.title), top.seed, top.runs,
            tuple(case for _, case, _ in cases), tuple(rule for _, rule in rules), grid.alphas,
            grid.betas, grid.ratio, grid.schedule, metrics, top.sample, top.theta0, share,
            top.parameters, self._marks(metrics) | self._rule_marks, top.common_random_numbers,
            quick, device or "cpu",
        )  # fmt: skip
        self._check_combinations(study, cases, [path for path, _ in rules])
        return study

    def _marks(self, metrics: tuple[str, ...]) -> dict[str, str]:
        """Return the hashes of the files with metrics."""
        files = {metric.rpartition(":")[0] for metric in metrics if metric not in METRICS}
        own = sorted(file for file in files if file.endswith(".py"))
        marks = {
            file: self.attempt(("metrics",), file_hash, self._path.parent / file) for file in own
        }
        return {file: mark for file, mark in marks.items() if mark is not None}

    def _metrics(self, listed: list[Any]) -> tuple[str, ...]:
        if len(set(map(str, listed))) < len(listed):
            self.reject(("metrics",), listed, Names)
            return ()
        names = [
            name if isinstance(name, str) and ":" in name
            else self.attempt(("metrics",), _registry.check_name, "metric", name, METRICS)
            for name in listed
        ]  # fmt: skip
        seen: set[str] = set()
        for name in map(metric_name, filter(None, names)):
            if name in COLUMNS:
                self.add(
                    ("metrics",), f"{name} is another column of the results: rename the function."
                )
            if name in seen:
                self.add(("metrics",), f"two metrics have the name {name}: rename one of them.")
            seen.add(name)
        return tuple(filter(None, names))

    def _grid(
        self, grid: Any, index: int, rules: list[tuple[KeyPath, Any]]
    ) -> tuple[str, float | None, Grid]:
        """Return the label, λ and step sizes of a grid."""
        path: KeyPath = ("grid", index) if isinstance(self._data.get("grid"), list) else ("grid",)
        grid = grid if isinstance(grid, dict) else {}
        given, meant = self.table(path, grid, GridTable, " in [grid]")
        if "alpha" not in grid:
            if not {"alpha", "grid"} & (meant | self._misspelt):
                self.add(path, "step sizes are missing: add [grid] with alpha = [0.1, …].")
            return "", None, EMPTY
        if "beta" in grid and "ratio" in grid:
            self.add((*path, "beta"), "give beta or ratio (β/α), not both.")
        dual_key = "beta" if "beta" in grid else "ratio"
        folder = self._path.parent
        has_dual = any(
            build_rule(name, own, given.lam, folder).form.has_dual for _, (name, own) in rules
        )
        if has_dual and dual_key not in grid and not meant & {"beta", "ratio"}:
            self.add(path, "rules with two step sizes need ratio = [1.0, …] (β/α), or beta.")
        schedule = given.schedule
        self.attempt((*path, "schedule"), _registry.check_name, "schedule", schedule, SCHEDULES)
        betas = self._step_sizes((*path, dual_key), grid[dual_key]) if dual_key in grid else ()
        alphas = self._step_sizes((*path, "alpha"), given.alpha)
        return str(given.label), given.lam, Grid(alphas, betas, dual_key == "ratio", schedule)

    def _step_sizes(self, path: KeyPath, value: Any) -> tuple[float, ...]:
        """Return step sizes given as a list, or as scale · 2^j for j between two powers."""
        keys = Powers.__struct_fields__
        if isinstance(value, dict) and self.check_keys(path, value, keys, f" in {path[-1]}"):
            return ()
        sizes = self.value(path, value, StepSizes)
        if isinstance(sizes, Powers):
            first, last = sizes.powers
            sizes = [sizes.scale * 2.0**j for j in range(first, last + 1)]
        elif isinstance(sizes, float):
            sizes = [sizes]
        if sizes is None:
            return ()
        if not sizes or len(set(sizes)) < len(sizes) or not 0 < min(sizes) <= max(sizes) < math.inf:
            self.reject(path, value, StepSizes)
            return ()
        return tuple(sizes)

    def _rules(
        self, lams: list[Any], texts: list[str]
    ) -> list[tuple[KeyPath, tuple[str, dict[str, Any]]]]:
        specs: list[tuple[KeyPath, tuple[str, dict[str, Any]]]] = []
        rules: set[Rule] = set()
        display_names: set[str] = set()
        tables: list[tuple[KeyPath, dict[str, Any]]] = [
            (("rules",), {"name": text}) for text in texts
        ]
        if "rule" in self._data or not texts:
            tables += [(("rule", k), table) for k, table in enumerate(self.tables("rule"))]
        folder = self._path.parent
        for path, table in tables:
            parameters = dict(table)
            name = parameters.pop("name", None)
            keys = ("name", *RULE[:-1])
            meant = self._check_parameters(path, table, name, NAMED, keys, "[[rule]]")
            if "dual" in parameters and not meant:  # set below, for a rule in a file
                meant = self.check_keys(path, {"dual": None}, keys, " in [[rule]]")
            if name is None and "name" not in meant:
                self.add(path, 'the rule has no name: add name = "GES".')
            if name is None or meant:
                continue
            self.reject_empty_lists(path, parameters)
            for choice in _combinations(parameters):
                built = [self.attempt(path, build_rule, name, choice, lam, folder) for lam in lams]
                rule = built[0] if built else None
                if all(isinstance(one, Rule) for one in built) and rule is not None:
                    if rule in rules or rule.display_name in display_names:  # used in results
                        self.add(path, f"duplicate rule {rule.display_name}.")
                    rules.add(rule)
                    display_names.add(rule.display_name)
                    for file in rule_files(name):
                        self._rule_marks[file] = file_hash(folder / file)
                        choice |= {"label": rule.display_name, "dual": rule.form.has_dual}
                    specs.append((path, (name, choice)))
        return specs

    def _check_parameters(
        self,
        path: KeyPath,
        table: Mapping[str, Any],
        name: Any,
        constructors: Mapping[str, Callable[..., Any]],
        keys: tuple[str, ...],
        where: str,
    ) -> set[str]:
        """Record keys that a rule or problem does not take; return the keys that were meant."""
        if name is not None and not (isinstance(name, str) and name in constructors):
            return set()  # the unknown name is reported later
        candidates = constructors.values() if name is None else [constructors[name]]
        takes = [key for function in candidates for key in inspect.signature(function).parameters]
        location = f" in {where}" + ("" if name is None else f" {name}")
        return self.check_keys(path, table, [*keys, *takes], location)

    def _cases(self) -> list[tuple[KeyPath, Case, Any]]:
        cases: list[tuple[KeyPath, Case, Any]] = []
        for k, table in enumerate(self.tables("problem")):
            path: KeyPath = ("problem", k)
            keys = ProblemTable.__struct_encode_fields__
            rest = {key: value for key, value in table.items() if key not in keys}
            given, _ = self.table(
                path, {key: table[key] for key in keys if key in table}, ProblemTable
            )
            name, maker, label = given.name, given.make, given.label
            meant = set()
            if maker is None:
                meant = self._check_parameters(path, table, name, PROBLEMS, keys, "[[problem]]")
            if (name is None) == (maker is None) and not meant & {"name", "make"}:
                self.add(path, 'give name = "two_state", or make = "module.py:function".')
            if (name is None) == (maker is None) or meant:
                continue
            unit, count = self._length(path, table, given)
            lists, lists_path = given.lists or {}, (*path, "each")
            if "each" in table and given.lists is None:
                continue
            if maker is None and self._check_parameters(
                lists_path, lists, name, PROBLEMS, (), "each of"
            ):
                continue
            self.reject_empty_lists(lists_path, lists)
            for choice in _combinations(lists):
                values = ", ".join(f"{key}={value}" for key, value in choice.items())
                full_label = str(label or name or maker) + (f" {values}" if values else "")
                case = Case(
                    full_label, name, maker, rest | choice, None, unit, count, (), 1.0,
                    theta0=given.theta0,
                )  # fmt: skip
                built = self.attempt(path, self._build, case)
                if built is None:
                    continue
                if any(full_label == other.label for _, other, _ in cases):
                    self.add(path, f"duplicate problem {full_label!r}: give it another label.")
                cases.append((path, *built))
        return cases

    def _build(self, case: Case) -> tuple[Case, Any]:
        """Build a problem; return its case with hash, checkpoints and length, and the problem."""
        folder = self._path.parent
        if case.make is not None:
            path = str(case.make).rpartition(":")[0]
            if not path:
                raise InvalidParameter(
                    f"make = {case.make!r}: write path/to/module.py:function.", parameter="make"
                )
            if not path.startswith("saddleback."):
                case = replace(case, mark=file_hash(folder / path))
        problem = case.build(folder)
        if case.name is not None:
            takes = inspect.signature(PROBLEMS[case.name]).parameters
            if "rng" in takes and "rng" not in case.parameters:
                raise InvalidParameter(f"{case.name} is random: add a seed, rng = 0.")
        if not is_json(dict(case.parameters)):
            raise InvalidParameter(
                f"{case.label}: parameters must be numbers, strings, booleans, or lists and tables "
                f"of them; got {abbreviate(dict(case.parameters))}."
            )
        source = as_source("study", problem)
        if source.steps is not None:
            raise InvalidParameter(
                f"{case.label} is a fixed stream of {source.steps:,} steps; a study needs a "
                "problem that it can sample."
            )
        continuing = isinstance(source, FiniteSource) and not source.problem.mdp.episodic
        if case.unit == "episodes" and continuing:
            raise InvalidParameter(
                f"{case.label} has no episodes; give steps instead.", parameter="episodes"
            )
        length = mean_length(source) if case.unit == "episodes" else 1.0
        return replace(case, points=self._points(case), length=length), problem

    def _points(self, case: Case) -> tuple[int, ...]:
        """Return the checkpoints: as listed, or of the given number, denser at the beginning.

        The end is always one of them.
        """
        value = self._top.checkpoints
        if isinstance(value, int):
            return checkpoints(case.count, value)
        if isinstance(value, Logarithmic):
            points = np.geomspace(1, case.count, value.log)
            return tuple(np.unique(points.astype(np.int64)).tolist())
        for point in value:
            if not 0 <= point <= case.count:
                valid = f"{case.label} has {case.unit} 0 to {case.count}"
                self.add(("checkpoints",), f"checkpoint {point} is out of range: {valid}.")
        return tuple(sorted({*value, case.count}))

    def _length(
        self, path: KeyPath, table: Mapping[str, Any], own: ProblemTable
    ) -> tuple[str, int]:
        """Return unit and length of learning: the problem's own, or else the common one."""
        places: tuple[tuple[KeyPath, Mapping[str, Any], ProblemTable | StudyTable], ...] = (
            (path, table, own), ((), self._data, self._top),
        )  # fmt: skip
        for where, data, record in places:
            units = [unit for unit in ("steps", "episodes") if unit in data]
            if len(units) == 1:
                return units[0], getattr(record, units[0])
            if units:
                self.add((*where, "episodes"), "give steps or episodes, not both.")
                return "steps", 1
        if not self._misspelt & {"steps", "episodes"}:
            self.add((), "the length is missing: add steps = 50_000, or episodes = 500.")
        return "steps", 1

    def _check_combinations(
        self, study: Study, cases: list[tuple[KeyPath, Case, Any]], paths: list[KeyPath]
    ) -> None:
        """Check that every rule applies to every problem, and that the metrics are available."""
        # A short sample suffices to see whether the metrics can be estimated.
        names = tuple(metric for metric in study.metrics if metric in METRICS)
        short = replace(study, metrics=names, sample=min(study.sample, 20))
        folder = self._path.parent
        for metric in study.metrics:
            if metric not in METRICS:
                mark = study.marks.get(metric.rpartition(":")[0])
                self.attempt(("metrics",), load_function, metric, folder, mark)
        for c, (place, case, problem) in enumerate(cases):
            where: KeyPath = ("theta0",) if case.theta0 is None else (*place, "theta0")
            try:
                p = as_source("study", problem).p
                _validate.weights("theta0", study.initial_weights(c), p)
            except SaddlebackError as error:
                self.add(where, f"{case.label}: {error}")
        for (c, (_, case, problem)), (r, path) in itertools.product(
            enumerate(cases), enumerate(paths)
        ):
            rule = study.rule(r, c, folder)
            try:
                as_source("study", problem).streamer([rule])
                study_metrics(short, c, problem, rule, folder)
            except Unmeasurable as error:  # independent of the rule: reported once
                self.add(("metrics",), f"{case.label}: {error}")
            except SaddlebackError as error:
                self.add(path, f"{rule} on {case.label}: {error}")


def _combinations(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every choice of one value per list; a scalar counts as a list of one."""
    values = [value if isinstance(value, list) else [value] for value in lists.values()]
    return [dict(zip(lists, choice, strict=True)) for choice in itertools.product(*values)]
