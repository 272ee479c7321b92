"""Reading a study file: TOML, checked whole before anything starts, complaints with their lines."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from saddleback import _names
from saddleback.engine import FiniteSource, as_source
from saddleback.errors import InvalidParameter, SaddlebackError, UnknownName
from saddleback.rules import NAMED, Rule, make
from saddleback.sweep.places import Place, lines
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

SHARE = 100_000_000
"""Learner-steps of a task: seconds."""

POINTS = 21
"""Checkpoints if nothing is said."""

MOST, MOST_POINTS = 10**12, 10**5
"""Largest counts that are taken seriously, and most checkpoints."""

LARGEST = 1e100
"""Largest number, whose square is one, too."""

POWER = 1000
"""Largest power of two in a grid."""

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


class _Reader:
    """Collects what is wrong while it reads."""

    def __init__(self, path: Path, text: str, given: dict[str, Any]) -> None:
        self._path, self._given, self._lines = path, given, lines(text)
        self._wrong: list[tuple[int, str]] = []
        self._meant: set[str] = set()  # by keys of the whole file that are misspelt

    def study(self, share: int) -> Study:
        top = self._given
        self._meant = self._keys((), top, KEYS, "")
        metrics = self._metrics()
        seed = self._whole(("seed",), top.get("seed", 0), 0)
        runs = self._whole(("runs",), top.get("runs", 1), 1)
        sample = self._whole(("sample",), top.get("sample", 100_000), 1)
        theta0 = self._number(("theta0",), top.get("theta0", 0.0))
        rules = self._rules()
        alphas, betas, ratio, schedule = self._grid(rules)
        cases = self._cases()
        self._fit(cases, rules, metrics, sample, seed)
        if self._wrong:
            said = [f"{self._path}:{line}: {what}" for line, what in sorted(set(self._wrong))]
            raise StudyError("\n".join(said))
        return Study(
            str(top.get("title", self._path.stem)), seed, runs,
            tuple(case for _, case, _ in cases), tuple(rule for _, rule in rules), alphas, betas,
            ratio, schedule, metrics, sample, theta0, share,
        )  # fmt: skip

    # Small things.

    def _say(self, place: Place, what: str) -> None:
        while place and place not in self._lines:
            place = place[:-1]
        self._wrong.append((self._lines.get(place, 1), what))

    def _keys(
        self, place: Place, table: Mapping[str, Any], known: Iterable[str], where: str
    ) -> set[str]:
        """Complain of keys that are not known; return what was meant by them.

        What is missing because its key is misspelt is not complained of once more.
        """
        known, meant = list(dict.fromkeys(known)), set()
        for key in table:
            if key not in known:
                self._try((*place, key), _names.known, "key", key, known, where)
                meant.add(_names.nearest(key, known) or key)
        return meant

    def _try(self, place: Place, act: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Return what it returns; None if it complains, which is written down.

        The line is that of the key which the complaint names, if it names one.
        """
        try:
            return act(*given, **named)
        except SaddlebackError as error:
            keys = [str(each[-1]) for each in self._lines if each[:-1] == place]
            blamed = [key for key in keys if re.search(rf"\b{re.escape(key)}\b", str(error))]
            blamed = ["name"] if isinstance(error, UnknownName) else blamed
            self._say((*place, *blamed[:1]), str(error))
        except Exception as error:  # of a function that is not ours
            self._say(place, f"{type(error).__name__}: {error}.")
        return None

    def _whole(self, place: Place, value: Any, least: int) -> int:
        if _is_whole(value) and least <= value <= MOST:
            return value
        self._say(
            place, f"{place[-1]} must be a whole number from {least} to {MOST:,}, got {value!r}."
        )
        return least

    def _number(self, place: Place, value: Any) -> float:
        if _is_number(value) and abs(value) <= LARGEST:
            return float(value)
        self._say(place, f"{place[-1]} must be a number up to {LARGEST:g}, got {_brief(value)}.")
        return 0.0

    def _tables(self, name: str) -> list[dict[str, Any]]:
        found = self._given.get(name, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            self._say((name,), f"write each {name} as a table of its own, [[{name}]].")
            return []
        if not found and name not in self._meant:
            self._say((), f"there is no {name}: add at least one [[{name}]].")
        return found

    # The parts.

    def _metrics(self) -> tuple[str, ...]:
        given = self._given.get("metrics", ["mspbe"])
        if not isinstance(given, list) or not given or len(set(map(str, given))) < len(given):
            self._say(("metrics",), f"metrics must list names, each once, got {given!r}.")
            return ()
        found = [self._try(("metrics",), _names.known, "metric", m, METRICS) for m in given]
        return tuple(filter(None, found))

    def _grid(
        self, rules: list[tuple[Place, Any]]
    ) -> tuple[tuple[float, ...], tuple[float, ...], bool, str]:
        grid = self._given.get("grid", {})
        whole = isinstance(grid, dict)
        meant = self._keys(("grid",), grid, GRID, " in [grid]") if whole else set()
        if not whole or "alpha" not in grid:
            if not {"alpha", "grid"} & (meant | self._meant):
                self._say(("grid",), "the step sizes are missing: [grid] with alpha = [0.1, …].")
            return (), (), True, "constant"
        if "beta" in grid and "ratio" in grid:
            self._say(("grid", "beta"), "give beta or ratio (β/α), not both.")
        which = "beta" if "beta" in grid else "ratio"
        dual = any(make(*rule[:1], **rule[1]).form.has_dual for _, rule in rules)
        if dual and which not in grid and not meant & {"beta", "ratio"}:
            self._say(("grid",), "rules with two step sizes need ratio = [1.0, …] (β/α), or beta.")
        schedule = grid.get("schedule", "constant")
        self._try(("grid", "schedule"), _names.known, "schedule", schedule, SCHEDULES)
        betas = self._sizes(("grid", which), grid[which]) if which in grid else ()
        return self._sizes(("grid", "alpha"), grid["alpha"]), betas, which == "ratio", schedule

    def _sizes(self, place: Place, given: Any) -> tuple[float, ...]:
        """Numbers listed, or scale · 2^j for j between two powers."""
        if isinstance(given, dict):
            if self._keys(place, given, ("scale", "powers"), f" in {place[-1]}"):
                return ()
            scale, powers = given.get("scale"), given.get("powers")
            if not (
                _is_number(scale)
                and abs(scale) <= LARGEST
                and isinstance(powers, list)
                and len(powers) == 2
                and all(map(_is_whole, powers))
            ):
                said = "{ scale = 0.1, powers = [-10, 0] } is 0.1·2^-10 … 0.1·2^0"
                self._say(place, f"{place[-1]} lists numbers, or in short: {said}.")
                return ()
            if not -POWER <= powers[0] <= powers[1] <= POWER:
                where = f"go up, from -{POWER} at least to {POWER} at most"
                self._say(place, f"powers of {place[-1]} must {where}, got {_brief(powers)}.")
                return ()
            given = [scale * 2.0**j for j in range(powers[0], powers[1] + 1)]
        listed = given if isinstance(given, list) else [given]
        if not listed or not all(map(_is_number, listed)) or len(set(listed)) < len(listed):
            self._say(place, f"{place[-1]} must list numbers, each once, got {_brief(given)}.")
            return ()
        for each in listed:
            if not 0 < each <= sys.float_info.max:
                self._say(place, f"{place[-1]} must be above 0 and finite, got {_brief(each)}.")
                return ()
        return tuple(map(float, listed))

    def _rules(self) -> list[tuple[Place, tuple[str, dict[str, float]]]]:
        found: list[tuple[Place, tuple[str, dict[str, float]]]] = []
        said: set[str] = set()
        for k, given in enumerate(self._tables("rule")):
            place: Place = ("rule", k)
            parameters = dict(given)
            name = parameters.pop("name", None)
            meant = self._own(place, given, name, NAMED, ("name",), "[[rule]]")
            if name is None and "name" not in meant:
                self._say(place, 'the rule has no name: name = "GES".')
            if name is None or meant:
                continue
            self._none_empty(place, parameters)
            for each in _spread(parameters):
                rule = self._try(place, make, name, **each)
                if isinstance(rule, Rule):
                    if str(rule) in said:  # by which results are told apart
                        self._say(place, f"{rule} is there twice.")
                    said.add(str(rule))
                    found.append((place, (name, each)))
        return found

    def _own(
        self,
        place: Place,
        table: Mapping[str, Any],
        name: Any,
        makers: Mapping[str, Callable[..., Any]],
        keys: tuple[str, ...],
        where: str,
    ) -> set[str]:
        """Complain of keys that the rule or problem does not have; return what was meant."""
        if name is not None and not (isinstance(name, str) and name in makers):
            return set()  # said later, and who knows what it would take
        these = makers.values() if name is None else [makers[name]]
        takes = [key for each in these for key in inspect.signature(each).parameters]
        said = f" in {where}" + ("" if name is None else f" {name}")
        return self._keys(place, table, [*keys, *takes], said)

    def _none_empty(self, place: Place, lists: Mapping[str, Any]) -> None:
        for key, value in lists.items():
            if value == []:
                self._say((*place, key), f"{key} lists nothing.")

    def _cases(self) -> list[tuple[Place, Case, Any]]:
        found: list[tuple[Place, Case, Any]] = []
        for k, given in enumerate(self._tables("problem")):
            place: Place = ("problem", k)
            rest = dict(given)
            name, maker, label = (rest.pop(key, None) for key in ("name", "make", "label"))
            meant = set()
            if maker is None:
                meant = self._own(place, given, name, PROBLEMS, PROBLEM, "[[problem]]")
            if (name is None) == (maker is None) and not meant & {"name", "make"}:
                self._say(place, 'give name = "two_state", or make = "module.py:function".')
            if (name is None) == (maker is None) or meant:
                continue
            length = {str(key): rest.pop(key) for key in ("steps", "episodes") if key in rest}
            unit, count = self._length(place, length)
            each = rest.pop("each", {})
            if not isinstance(each, dict) or not all(isinstance(v, list) for v in each.values()):
                self._say((*place, "each"), "each lists values: each = { gamma = [0.9, 0.99] }.")
                continue
            if maker is None:
                within: Place = (*place, "each")
                if self._own(within, each, name, PROBLEMS, (), "each of"):
                    continue
            self._none_empty((*place, "each"), each)
            for one in _spread(each):
                said = ", ".join(f"{key}={value}" for key, value in one.items())
                called = str(label or name or maker) + (f" {said}" if said else "")
                case = Case(called, name, maker, rest | one, None, unit, count, (), 1.0)
                built = self._try(place, self._built, case)
                if built is None:
                    continue
                if any(called == other.label for _, other, _ in found):
                    self._say(place, f"{called!r} is there twice: give it another label.")
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
                f"of them; got {_brief(dict(case.parameters))}."
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
        if _is_whole(given) and 2 <= given <= MOST_POINTS:
            spaced = case.count * np.linspace(0, 1, given) ** 2
            return tuple(np.unique(np.round(spaced)).astype(int).tolist())
        if not isinstance(given, list) or not given or not all(map(_is_whole, given)):
            self._say(
                ("checkpoints",),
                f"checkpoints must be a whole number from 2 to {MOST_POINTS:,}, or list "
                f"{case.unit}; got {_brief(given)}.",
            )
            return ()
        for each in given:
            if not 0 <= each <= case.count:
                there = f"{case.label} has {case.unit} 0 to {case.count}"
                self._say(("checkpoints",), f"checkpoints lists {each}, but {there}.")
        return tuple(sorted({*given, case.count}))

    def _length(self, place: Place, own: Mapping[str, Any]) -> tuple[str, int]:
        """How long to learn: what the problem says, else what all share."""
        shared = {key: self._given[key] for key in ("steps", "episodes") if key in self._given}
        given, where = (own, place) if own else (shared, ())
        if len(given) != 1:
            where = (*where, "episodes") if given else where
            if given:
                self._say(where, "give steps or episodes, not both.")
            elif not self._meant & {"steps", "episodes"}:
                self._say(where, "say how long to learn: steps = 50_000, or episodes = 500.")
            return "steps", 1
        unit, count = next(iter(given.items()))
        return unit, self._whole((*where, unit), count, 1)

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
                self._say(("metrics",), f"{case.label}: {error}")
            except SaddlebackError as error:
                self._say(place, f"{rule} on {case.label}: {error}")


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _brief(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:57]}..."


def _spread(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every choice of one value from each list; what is no list is a list of one."""
    values = [value if isinstance(value, list) else [value] for value in lists.values()]
    return [dict(zip(lists, each, strict=True)) for each in itertools.product(*values)]
