"""Reading a study file: TOML, checked whole before anything starts, complaints with their lines."""

from __future__ import annotations

import inspect
import itertools
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from saddleback import _registry
from saddleback.engine import FiniteSource, as_source
from saddleback.errors import InvalidParameter, SaddlebackError
from saddleback.rules import NAMED, Rule, make
from saddleback.sweep.study import (
    METRICS,
    PROBLEMS,
    SCHEDULES,
    Case,
    Study,
    Unmeasurable,
    file_mark,
    mean_length,
    measures,
)
from saddleback.sweep.toml_lines import Place
from saddleback.sweep.validation_errors import Complaints, brief, is_whole

SHARE = 100_000_000
"""Learner-steps of a task: seconds."""

POINTS = 21
"""Checkpoints if nothing is said."""

MOST_POINTS = 10**5
"""Most checkpoints."""

KEYS = (
    "title", "seed", "runs", "steps", "episodes", "checkpoints", "metrics", "sample", "theta0",
    "grid", "problem", "rule",
)  # fmt: skip
GRID = ("alpha", "beta", "ratio", "schedule")
PROBLEM = ("name", "make", "label", "steps", "episodes", "each")
"""Keys of the whole file, of [grid], and of a problem besides its own parameters."""


class StudyError(InvalidParameter):
    """All that is wrong with a study file, one line each."""


def read_study(path: Path, share: int = SHARE) -> Study:
    """Read a study and check all of it: names, numbers, and that rules, problems and metrics fit.

    Parameters
    ----------
    path
        A TOML file; see docs/sweeps.md.
    share
        Learner-steps of a task, about.

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
    >>> study.rules, [part.name for part in study.parts()]
    ((('GES', {'lam': 0.0}), ('GES', {'lam': 0.5})), ['p000-0000-run00000'])
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InvalidParameter(f"cannot read {path}: {why}.") from None
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not TOML: {error}.") from None
    return _Reader(path, text, given).study(share)


class _Reader(Complaints):
    """Collects what is wrong while it reads."""

    def __init__(self, path: Path, text: str, given: dict[str, Any]) -> None:
        super().__init__(text)
        self._path, self._given = path, given
        self._meant: set[str] = set()  # by keys of the whole file that are misspelt

    def study(self, share: int) -> Study:
        top = self._given
        self._meant = self.keys((), top, KEYS, "")
        metrics = self._metrics()
        seed = self.whole(("seed",), top.get("seed", 0), 0)
        runs = self.whole(("runs",), top.get("runs", 1), 1)
        sample = self.whole(("sample",), top.get("sample", 100_000), 1)
        theta0 = self.number(("theta0",), top.get("theta0", 0.0))
        rules = self._rules()
        alphas, betas, ratio, schedule = self._grid(rules)
        cases = self._cases()
        self._fit(cases, rules, metrics, sample, seed)
        if self.found:
            raise StudyError("\n".join(f"{self._path}:{line}: {what}" for line, what in self.found))
        return Study(
            str(top.get("title", self._path.stem)), seed, runs,
            tuple(case for _, case, _ in cases), tuple(rule for _, rule in rules), alphas, betas,
            ratio, schedule, metrics, sample, theta0, share,
        )  # fmt: skip

    def _tables(self, name: str) -> list[dict[str, Any]]:
        found = self._given.get(name, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            self.say((name,), f"write each {name} as a table of its own, [[{name}]].")
            return []
        if not found and name not in self._meant:
            self.say((), f"there is no {name}: add at least one [[{name}]].")
        return found

    def _metrics(self) -> tuple[str, ...]:
        given = self._given.get("metrics", ["mspbe"])
        if not isinstance(given, list) or not given or len(set(map(str, given))) < len(given):
            self.say(("metrics",), f"metrics must list names, each once, got {given!r}.")
            return ()
        found = [
            self.attempt(("metrics",), _registry.check_name, "metric", m, METRICS) for m in given
        ]
        return tuple(filter(None, found))

    def _grid(
        self, rules: list[tuple[Place, Any]]
    ) -> tuple[tuple[float, ...], tuple[float, ...], bool, str]:
        grid = self._given.get("grid", {})
        whole = isinstance(grid, dict)
        meant = self.keys(("grid",), grid, GRID, " in [grid]") if whole else set()
        if not whole or "alpha" not in grid:
            if not {"alpha", "grid"} & (meant | self._meant):
                self.say(("grid",), "the step sizes are missing: [grid] with alpha = [0.1, …].")
            return (), (), True, "constant"
        if "beta" in grid and "ratio" in grid:
            self.say(("grid", "beta"), "give beta or ratio (β/α), not both.")
        which = "beta" if "beta" in grid else "ratio"
        dual = any(make(*rule[:1], **rule[1]).form.has_dual for _, rule in rules)
        if dual and which not in grid and not meant & {"beta", "ratio"}:
            self.say(("grid",), "rules with two step sizes need ratio = [1.0, …] (β/α), or beta.")
        schedule = grid.get("schedule", "constant")
        self.attempt(("grid", "schedule"), _registry.check_name, "schedule", schedule, SCHEDULES)
        betas = self.sizes(("grid", which), grid[which]) if which in grid else ()
        return self.sizes(("grid", "alpha"), grid["alpha"]), betas, which == "ratio", schedule

    def _rules(self) -> list[tuple[Place, tuple[str, dict[str, float]]]]:
        found: list[tuple[Place, tuple[str, dict[str, float]]]] = []
        rules: set[Rule] = set()
        shown: set[str] = set()
        for k, given in enumerate(self._tables("rule")):
            place: Place = ("rule", k)
            parameters = dict(given)
            name = parameters.pop("name", None)
            meant = self.own_keys(place, given, name, NAMED, ("name",), "[[rule]]")
            if name is None and "name" not in meant:
                self.say(place, 'the rule has no name: name = "GES".')
            if name is None or meant:
                continue
            self.none_empty(place, parameters)
            for each in _spread(parameters):
                rule = self.attempt(place, make, name, **each)
                if isinstance(rule, Rule):
                    if rule in rules or rule.display_name in shown:  # results go by it
                        self.say(place, f"{rule.display_name} is there twice.")
                    rules.add(rule)
                    shown.add(rule.display_name)
                    found.append((place, (name, each)))
        return found

    def _cases(self) -> list[tuple[Place, Case, Any]]:
        found: list[tuple[Place, Case, Any]] = []
        for k, given in enumerate(self._tables("problem")):
            place: Place = ("problem", k)
            rest = dict(given)
            name, maker, label = (rest.pop(key, None) for key in ("name", "make", "label"))
            meant = set()
            if maker is None:
                meant = self.own_keys(place, given, name, PROBLEMS, PROBLEM, "[[problem]]")
            if (name is None) == (maker is None) and not meant & {"name", "make"}:
                self.say(place, 'give name = "two_state", or make = "module.py:function".')
            if (name is None) == (maker is None) or meant:
                continue
            length = {str(key): rest.pop(key) for key in ("steps", "episodes") if key in rest}
            unit, count = self._length(place, length)
            each = rest.pop("each", {})
            if not isinstance(each, dict) or not all(isinstance(v, list) for v in each.values()):
                self.say((*place, "each"), "each lists values: each = { gamma = [0.9, 0.99] }.")
                continue
            if maker is None:
                within: Place = (*place, "each")
                if self.own_keys(within, each, name, PROBLEMS, (), "each of"):
                    continue
            self.none_empty((*place, "each"), each)
            for one in _spread(each):
                said = ", ".join(f"{key}={value}" for key, value in one.items())
                called = str(label or name or maker) + (f" {said}" if said else "")
                case = Case(called, name, maker, rest | one, None, unit, count, (), 1.0)
                built = self.attempt(place, self._built, case)
                if built is None:
                    continue
                if any(called == other.label for _, other, _ in found):
                    self.say(place, f"{called!r} is there twice: give it another label.")
                found.append((place, *built))
        return found

    def _built(self, case: Case) -> tuple[Case, Any]:
        """Build a problem; return what is known of it then."""
        folder = self._path.parent
        mark = None
        if case.make is not None:
            path = str(case.make).rpartition(":")[0]
            if not path:
                raise InvalidParameter(f"make = {case.make!r}: write path/to/module.py:function.")
            mark = file_mark(folder / path)
        problem = case.build(folder)
        if case.name is not None:
            takes = inspect.signature(PROBLEMS[case.name]).parameters
            if "rng" in takes and "rng" not in case.parameters:
                raise InvalidParameter(f"{case.name} is drawn at random: say which, rng = 0.")
        try:
            json.dumps(dict(case.parameters), allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidParameter(
                f"{case.label}: parameters are numbers, texts, true, false, and lists and tables "
                f"of them; got {brief(dict(case.parameters))}."
            ) from None
        source = as_source("study", problem)
        if source.steps is not None:
            raise InvalidParameter(
                f"{case.label} is given, {source.steps:,} steps; a study samples its problems."
            )
        endless = isinstance(source, FiniteSource) and not source.problem.mdp.episodic
        if case.unit == "episodes" and endless:
            raise InvalidParameter(f"{case.label} has no episodes; give steps instead.")
        length = mean_length(problem) if case.unit == "episodes" else 1.0
        known = Case(
            case.label, case.name, case.make, case.parameters, mark, case.unit, case.count,
            self._points(case), length,
        )  # fmt: skip
        return known, problem

    def _points(self, case: Case) -> tuple[int, ...]:
        """At which steps or episodes metrics are taken: so many, closer at first, or those listed.

        The last is always among them.
        """
        given = self._given.get("checkpoints", POINTS)
        if is_whole(given) and 2 <= given <= MOST_POINTS:
            spaced = case.count * np.linspace(0, 1, given) ** 2
            return tuple(np.unique(np.round(spaced)).astype(int).tolist())
        if not isinstance(given, list) or not given or not all(map(is_whole, given)):
            self.say(
                ("checkpoints",),
                f"checkpoints must be a whole number from 2 to {MOST_POINTS:,}, or list "
                f"{case.unit}; got {brief(given)}.",
            )
            return ()
        for each in given:
            if not 0 <= each <= case.count:
                there = f"{case.label} has {case.unit} 0 to {case.count}"
                self.say(("checkpoints",), f"checkpoints lists {each}, but {there}.")
        return tuple(sorted({*given, case.count}))

    def _length(self, place: Place, own: Mapping[str, Any]) -> tuple[str, int]:
        """How long to learn: what the problem says, else what all share."""
        shared = {key: self._given[key] for key in ("steps", "episodes") if key in self._given}
        given, where = (own, place) if own else (shared, ())
        if len(given) != 1:
            where = (*where, "episodes") if given else where
            if given:
                self.say(where, "give steps or episodes, not both.")
            elif not self._meant & {"steps", "episodes"}:
                self.say(where, "say how long to learn: steps = 50_000, or episodes = 500.")
            return "steps", 1
        unit, count = next(iter(given.items()))
        return unit, self.whole((*where, unit), count, 1)

    def _fit(
        self,
        cases: list[tuple[Place, Case, Any]],
        rules: list[tuple[Place, Any]],
        metrics: tuple[str, ...],
        sample: int,
        seed: int,
    ) -> None:
        """Try every rule on every problem: whether it applies, and can be measured."""
        for (_, case, problem), (place, (name, parameters)) in itertools.product(cases, rules):
            rule = make(name, **parameters)
            try:
                as_source("study", problem).streamer([rule])
                # A sample of one step shows whether it can be measured at all.
                measures(problem, rule, metrics, min(sample, 20), seed)
            except Unmeasurable as error:  # by any rule: said once
                self.say(("metrics",), f"{case.label}: {error}")
            except SaddlebackError as error:
                self.say(place, f"{rule} on {case.label}: {error}")


def _spread(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every choice of one value from each list; what is no list is a list of one."""
    values = [value if isinstance(value, list) else [value] for value in lists.values()]
    return [dict(zip(lists, each, strict=True)) for each in itertools.product(*values)]
