"""Reader of study files (TOML): validates everything up front, and reports errors by line."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from saddleback import _registry
from saddleback.engine import FiniteSource, as_source
from saddleback.errors import InvalidParameter, SaddlebackError, UnknownName
from saddleback.rules import NAMED, Rule
from saddleback.rules.parse import rule_files
from saddleback.sweep.study import (
    METRICS,
    PROBLEMS,
    RULE,
    SCHEDULES,
    Case,
    Grid,
    Study,
    Unmeasurable,
    build_rule,
    checkpoints,
    file_hash,
    load_function,
    mean_length,
    study_metrics,
)
from saddleback.sweep.toml_lines import KeyPath, key_lines

SHARE = 100_000_000
"""Learner-steps per task: a few seconds of work."""

POINTS = 21
"""Default number of checkpoints."""

MAX_POINTS = 10**5
"""Largest number of checkpoints."""

MAX_COUNT = 10**12
"""Largest count accepted."""

MAX_NUMBER = 1e100
"""Largest number accepted; its square is finite."""

MAX_POWER = 1000
"""Largest power of two in a grid."""

KEYS = (
    "title", "seed", "runs", "steps", "episodes", "checkpoints", "metrics", "sample", "theta0",
    "common_random_numbers", "parameters", "grid", "problem", "rule", "rules", "quick",
)  # fmt: skip
GRID = ("alpha", "beta", "ratio", "schedule", "label", "lam")
PROBLEM = ("name", "make", "label", "steps", "episodes", "theta0", "each")
"""Keys at the top level, in [grid], and of a problem besides its parameters."""

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
    return _StudyReader(path, text, data).study(share, quick)


class ValidationErrors:
    """Checks values of a TOML file, and collects the errors with their lines."""

    def __init__(self, text: str) -> None:
        self._lines = key_lines(text)
        self._errors: list[tuple[int, str]] = []

    @property
    def errors(self) -> list[tuple[int, str]]:
        """Line numbers and messages, in the order of the file, without duplicates."""
        return sorted(set(self._errors))

    def add(self, path: KeyPath, message: str) -> None:
        """Record an error at a key, or at the nearest enclosing key that has a line."""
        while path and path not in self._lines:
            path = path[:-1]
        self._errors.append((self._lines.get(path, 1), message))

    def check_keys(
        self, path: KeyPath, table: Mapping[str, Any], known: Iterable[str], where: str
    ) -> set[str]:
        """Record unknown keys; return the keys that were probably meant.

        A key that is missing because it is misspelt is not reported a second time.
        """
        known, meant = list(dict.fromkeys(known)), set()
        for key in table:
            if key not in known:
                self.attempt((*path, key), _registry.check_name, "key", key, known, where)
                meant.add(_registry.nearest(key, known) or key)
        return meant

    def attempt(
        self, path: KeyPath, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function and return its result; record an error it raises and return None.

        The line is that of the key that the error message names, if it names one.
        """
        try:
            return function(*args, **kwargs)
        except SaddlebackError as error:
            keys = [str(line_path[-1]) for line_path in self._lines if line_path[:-1] == path]
            blamed = [key for key in keys if re.search(rf"\b{re.escape(key)}\b", str(error))]
            blamed = ["name"] if isinstance(error, UnknownName) else blamed
            self.add((*path, *blamed[:1]), str(error))
        except Exception as error:  # raised by user code
            self.add(path, f"{type(error).__name__}: {error}.")
        return None

    def integer(self, path: KeyPath, value: Any, smallest: int) -> int:
        """Return a whole number that is at least ``smallest``."""
        if is_integer(value) and smallest <= value <= MAX_COUNT:
            return value
        self.add(
            path,
            f"{path[-1]} must be a whole number from {smallest} to {MAX_COUNT:,}, got {value!r}.",
        )
        return smallest

    def number(self, path: KeyPath, value: Any) -> float:
        """Return a number whose square is finite."""
        if is_number(value) and abs(value) <= MAX_NUMBER:
            return float(value)
        self.add(
            path, f"{path[-1]} must be a number up to {MAX_NUMBER:g}, got {abbreviate(value)}."
        )
        return 0.0

    def check_parameters(
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

    def reject_empty_lists(self, path: KeyPath, lists: Mapping[str, Any]) -> None:
        """Record empty lists."""
        for key, value in lists.items():
            if value == []:
                self.add((*path, key), f"{key} is an empty list.")

    def step_sizes(self, path: KeyPath, value: Any) -> tuple[float, ...]:
        """Return step sizes given as a list, or as scale · 2^j for j between two powers."""
        if isinstance(value, dict):
            if self.check_keys(path, value, ("scale", "powers"), f" in {path[-1]}"):
                return ()
            scale, powers = value.get("scale"), value.get("powers")
            if not (
                is_number(scale)
                and abs(scale) <= MAX_NUMBER
                and isinstance(powers, list)
                and len(powers) == 2
                and all(map(is_integer, powers))
            ):
                example = "{ scale = 0.1, powers = [-10, 0] }, meaning 0.1·2^-10 … 0.1·2^0"
                self.add(path, f"{path[-1]} must be a list of numbers, or {example}.")
                return ()
            if not -MAX_POWER <= powers[0] <= powers[1] <= MAX_POWER:
                bounds = f"ascend, between -{MAX_POWER} and {MAX_POWER}"
                self.add(path, f"powers of {path[-1]} must {bounds}; got {abbreviate(powers)}.")
                return ()
            value = [scale * 2.0**j for j in range(powers[0], powers[1] + 1)]
        sizes = value if isinstance(value, list) else [value]
        if not sizes or not all(map(is_number, sizes)) or len(set(sizes)) < len(sizes):
            self.add(
                path,
                f"{path[-1]} must be a list of numbers without duplicates, got "
                f"{abbreviate(value)}.",
            )
            return ()
        for size in sizes:
            if not 0 < size <= sys.float_info.max:
                self.add(path, f"{path[-1]} must be above 0 and finite, got {abbreviate(size)}.")
                return ()
        return tuple(map(float, sizes))


class _StudyReader(ValidationErrors):
    """Builds a study from parsed TOML, collecting errors on the way."""

    def __init__(self, path: Path, text: str, data: dict[str, Any]) -> None:
        super().__init__(text)
        self._path, self._data = path, data
        self._rule_marks: dict[str, str] = {}
        self._misspelt: set[str] = set()  # top-level keys that are present, but misspelt

    def study(self, share: int, quick: bool) -> Study:
        top = self._data
        self._misspelt = self.check_keys((), top, KEYS, "")
        smaller = self._table("quick")
        self.check_keys(("quick",), smaller, KEYS, " in [quick]")
        if quick:
            for table in self._tables("problem"):
                table.update(smaller.pop("problem", {}))
            top.update(smaller)
        metrics = self._metrics()
        seed = self.integer(("seed",), top.get("seed", 0), 0)
        runs = self.integer(("runs",), top.get("runs", 1), 1)
        sample = self.integer(("sample",), top.get("sample", 100_000), 1)
        theta0 = self.number(("theta0",), top.get("theta0", 0.0))
        common = top.get("common_random_numbers", False)
        if not isinstance(common, bool):
            self.add(("common_random_numbers",), "common_random_numbers must be true or false.")
        grids = self._data.get("grid", {})
        tables = grids if isinstance(grids, list) else [grids]
        lams = [table.get("lam") for table in tables if isinstance(table, dict)]
        rules = self._rules(lams)
        steps = [self._grid(table, k, rules) for k, table in enumerate(tables)]
        grid = steps[0][2] if steps else EMPTY
        problems = self._cases()
        cases = [
            (path, replace(case, lam=lam, label=", ".join(filter(None, (label, case.label))),
                           grid=one if len(steps) > 1 else None), problem)
            for (label, lam, one) in steps for path, case, problem in problems
        ]  # fmt: skip
        study = Study(
            str(top.get("title", self._path.stem)), seed, runs, tuple(case for _, case, _ in cases),
            tuple(rule for _, rule in rules), grid.alphas, grid.betas, grid.ratio, grid.schedule,
            metrics, sample, theta0, share,
            self._table("parameters"), self._marks(metrics) | self._rule_marks, common, quick,
        )  # fmt: skip
        self._check_combinations(study, cases, [path for path, _ in rules])
        if self.errors:
            raise StudyError(
                "\n".join(f"{self._path}:{line}: {message}" for line, message in self.errors)
            )
        return study

    def _table(self, name: str) -> dict[str, Any]:
        table = self._data.get(name, {})
        if not isinstance(table, dict):
            self.add((name,), f"write {name} as a table, [{name}].")
            return {}
        return table

    def _marks(self, metrics: tuple[str, ...]) -> dict[str, str]:
        """Return the hashes of the files with metrics."""
        files = {metric.rpartition(":")[0] for metric in metrics if metric not in METRICS}
        own = sorted(file for file in files if file.endswith(".py"))
        marks = {
            file: self.attempt(("metrics",), file_hash, self._path.parent / file) for file in own
        }
        return {file: mark for file, mark in marks.items() if mark is not None}

    def _tables(self, name: str) -> list[dict[str, Any]]:
        tables = self._data.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self.add((name,), f"write each {name} as a separate table, [[{name}]].")
            return []
        if not tables and name not in self._misspelt:
            self.add((), f"no {name} given: add at least one [[{name}]].")
        return tables

    def _metrics(self) -> tuple[str, ...]:
        listed = self._data.get("metrics", ["mspbe"])
        if not isinstance(listed, list) or not listed or len(set(map(str, listed))) < len(listed):
            self.add(
                ("metrics",), f"metrics must be a list of names without duplicates, got {listed!r}."
            )
            return ()
        names = [
            name if isinstance(name, str) and ":" in name
            else self.attempt(("metrics",), _registry.check_name, "metric", name, METRICS)
            for name in listed
        ]  # fmt: skip
        return tuple(filter(None, names))

    def _grid(
        self, grid: Any, index: int, rules: list[tuple[KeyPath, Any]]
    ) -> tuple[str, float | None, Grid]:
        """Return the label, λ and step sizes of a grid."""
        is_table = isinstance(grid, dict)
        path: KeyPath = ("grid", index) if isinstance(self._data.get("grid"), list) else ("grid",)
        meant = self.check_keys(path, grid, GRID, " in [grid]") if is_table else set()
        if not is_table or "alpha" not in grid:
            if not {"alpha", "grid"} & (meant | self._misspelt):
                self.add(path, "step sizes are missing: add [grid] with alpha = [0.1, …].")
            return "", None, EMPTY
        if "beta" in grid and "ratio" in grid:
            self.add((*path, "beta"), "give beta or ratio (β/α), not both.")
        dual_key = "beta" if "beta" in grid else "ratio"
        lam = self.number((*path, "lam"), grid["lam"]) if "lam" in grid else None
        folder = self._path.parent
        has_dual = any(build_rule(n, own, lam, folder).form.has_dual for _, (n, own) in rules)
        if has_dual and dual_key not in grid and not meant & {"beta", "ratio"}:
            self.add(path, "rules with two step sizes need ratio = [1.0, …] (β/α), or beta.")
        schedule = grid.get("schedule", "constant")
        self.attempt((*path, "schedule"), _registry.check_name, "schedule", schedule, SCHEDULES)
        betas = self.step_sizes((*path, dual_key), grid[dual_key]) if dual_key in grid else ()
        alphas = self.step_sizes((*path, "alpha"), grid["alpha"])
        return str(grid.get("label", "")), lam, Grid(alphas, betas, dual_key == "ratio", schedule)

    def _rules(self, lams: list[Any]) -> list[tuple[KeyPath, tuple[str, dict[str, Any]]]]:
        specs: list[tuple[KeyPath, tuple[str, dict[str, Any]]]] = []
        rules: set[Rule] = set()
        display_names: set[str] = set()
        texts = self._data.get("rules", [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            self.add(("rules",), 'rules must be a list of texts, ["GES:0.5", …].')
            texts = []
        tables: list[tuple[KeyPath, dict[str, Any]]] = [
            (("rules",), {"name": text}) for text in texts
        ]
        if "rule" in self._data or not texts:
            tables += [(("rule", k), table) for k, table in enumerate(self._tables("rule"))]
        for path, table in tables:
            parameters = dict(table)
            name = parameters.pop("name", None)
            meant = self.check_parameters(
                path, table, name, NAMED, ("name", *RULE[:-1]), "[[rule]]"
            )
            if name is None and "name" not in meant:
                self.add(path, 'the rule has no name: add name = "GES".')
            if name is None or meant:
                continue
            self.reject_empty_lists(path, parameters)
            for choice in _combinations(parameters):
                folder = self._path.parent
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

    def _cases(self) -> list[tuple[KeyPath, Case, Any]]:
        cases: list[tuple[KeyPath, Case, Any]] = []
        for k, table in enumerate(self._tables("problem")):
            path: KeyPath = ("problem", k)
            rest = dict(table)
            name, maker, label = (rest.pop(key, None) for key in ("name", "make", "label"))
            meant = set()
            if maker is None:
                meant = self.check_parameters(path, table, name, PROBLEMS, PROBLEM, "[[problem]]")
            if (name is None) == (maker is None) and not meant & {"name", "make"}:
                self.add(path, 'give name = "two_state", or make = "module.py:function".')
            if (name is None) == (maker is None) or meant:
                continue
            own = {"theta0": rest.pop("theta0")} if "theta0" in rest else {}
            theta0 = self.number((*path, "theta0"), own["theta0"]) if own else None
            length = {str(key): rest.pop(key) for key in ("steps", "episodes") if key in rest}
            unit, count = self._length(path, length)
            lists = rest.pop("each", {})
            lists_path: KeyPath = (*path, "each")
            if not isinstance(lists, dict) or not all(isinstance(v, list) for v in lists.values()):
                self.add(lists_path, "each must hold lists: each = { gamma = [0.9, 0.99] }.")
                continue
            if maker is None and self.check_parameters(
                lists_path, lists, name, PROBLEMS, (), "each of"
            ):
                continue
            self.reject_empty_lists(lists_path, lists)
            for choice in _combinations(lists):
                values = ", ".join(f"{key}={value}" for key, value in choice.items())
                full_label = str(label or name or maker) + (f" {values}" if values else "")
                case = Case(
                    full_label, name, maker, rest | choice, None, unit, count, (), 1.0,
                    theta0=theta0,
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
        mark = None
        if case.make is not None:
            path = str(case.make).rpartition(":")[0]
            if not path:
                raise InvalidParameter(f"make = {case.make!r}: write path/to/module.py:function.")
            mark = None if path.startswith("saddleback.") else file_hash(folder / path)
        problem = case.build(folder)
        if case.name is not None:
            takes = inspect.signature(PROBLEMS[case.name]).parameters
            if "rng" in takes and "rng" not in case.parameters:
                raise InvalidParameter(f"{case.name} is random: add a seed, rng = 0.")
        try:
            json.dumps(dict(case.parameters), allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidParameter(
                f"{case.label}: parameters must be numbers, strings, booleans, or lists and tables "
                f"of them; got {abbreviate(dict(case.parameters))}."
            ) from None
        source = as_source("study", problem)
        if source.steps is not None:
            raise InvalidParameter(
                f"{case.label} is a fixed stream of {source.steps:,} steps; a study needs a "
                "problem that it can sample."
            )
        continuing = isinstance(source, FiniteSource) and not source.problem.mdp.episodic
        if case.unit == "episodes" and continuing:
            raise InvalidParameter(f"{case.label} has no episodes; give steps instead.")
        length = mean_length(problem) if case.unit == "episodes" else 1.0
        return replace(case, mark=mark, points=self._points(case), length=length), problem

    def _points(self, case: Case) -> tuple[int, ...]:
        """Return the checkpoints: as listed, or of the given number, denser at the beginning.

        The end is always one of them.
        """
        value = self._data.get("checkpoints", POINTS)
        if is_integer(value) and 2 <= value <= MAX_POINTS:
            return checkpoints(case.count, value)
        if not isinstance(value, list) or not value or not all(map(is_integer, value)):
            self.add(
                ("checkpoints",),
                f"checkpoints must be a whole number from 2 to {MAX_POINTS:,}, or a list of "
                f"{case.unit}; got {abbreviate(value)}.",
            )
            return ()
        for point in value:
            if not 0 <= point <= case.count:
                valid = f"{case.label} has {case.unit} 0 to {case.count}"
                self.add(("checkpoints",), f"checkpoint {point} is out of range: {valid}.")
        return tuple(sorted({*value, case.count}))

    def _length(self, path: KeyPath, own: Mapping[str, Any]) -> tuple[str, int]:
        """Return unit and length of learning: the problem's own, or else the common one."""
        shared = {key: self._data[key] for key in ("steps", "episodes") if key in self._data}
        lengths, where = (own, path) if own else (shared, ())
        if len(lengths) != 1:
            where = (*where, "episodes") if lengths else where
            if lengths:
                self.add(where, "give steps or episodes, not both.")
            elif not self._misspelt & {"steps", "episodes"}:
                self.add(where, "the length is missing: add steps = 50_000, or episodes = 500.")
            return "steps", 1
        unit, count = next(iter(lengths.items()))
        return unit, self.integer((*where, unit), count, 1)

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


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number, excluding booleans."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number, excluding booleans."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def abbreviate(value: Any) -> str:
    """Return the repr of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
