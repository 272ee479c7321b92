"""Reader of study files that name a function: its arguments are the settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from msgspec import Meta, Struct

from saddleback.sweep.study import Study, asked_for, file_hash, load_function
from saddleback.sweep.toml_lines import Count, KeyPath, Seed, StudyFile, Table, is_json


class FunctionTable(Struct, kw_only=True):
    """The top level of a study of a function."""

    function: Annotated[str, Meta(min_length=1, description='"path/to/module.py:function"')] = ""
    title: Any = None
    seed: Seed = 0
    runs: Count = 1
    parameters: Table = {}
    setting: Any = []
    quick: Table = {}


Bound = Annotated[float, Meta(ge=-1e100, le=1e100)]


class Range(Struct, rename={"first": "from", "last": "to"}, forbid_unknown_fields=True):
    """Evenly spaced values of an argument."""

    first: Bound
    last: Bound
    count: Annotated[int, Meta(ge=1, le=1_000_000)]


Values = Annotated[
    Range,
    Meta(
        description="a number, a text, true or false, a list of them, or { from = 0.0, to = 1.0, "
        "count = 11 }"
    ),
]


CALL: dict[str, Any] = dict.fromkeys(("seed", "run", "rng", "progress"))
"""Arguments of each call besides its setting and the parameters."""

MAX_TASKS = 100
"""Largest number of tasks; more calls than that share tasks."""

MAX_CALLS = 1_000_000
"""Largest number of calls of a study."""

KINDS = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
"""Types of values that may share a column of the results."""


class FunctionReader(StudyFile):
    """Builds a study of a function from parsed TOML, collecting errors on the way."""

    def study(self, share: int, quick: bool) -> Study:
        """Return the study; record errors."""
        given: dict[tuple[str, ...], Any] = {("parameters",): self._data.get("parameters")}
        if isinstance(smaller := self._data.get("quick"), dict):
            given["quick", "parameters"] = smaller.get("parameters")
        self.replace_for_quick(FunctionTable.__struct_fields__, "setting", quick)
        top, self._misspelt = self.table((), self._data, FunctionTable)
        folder, tables, files = self._path.parent, [], {}
        function = None
        if not {"function"} & (set(self._data) | self._misspelt):
            self.add((), 'no function given: add function = "path/to/module.py:function".')
        if top.function:
            function = self.attempt(("function",), load_function, top.function, folder)
        for k, table in enumerate(self.tables("setting")):
            path: KeyPath = ("setting", k)
            self.reject_empty_lists(path, table)
            tables.append({key: self._values((*path, key), own) for key, own in table.items()})
            if function is not None:
                self._check_arguments(path, function, table, top.parameters)
        calls = top.runs * sum(prod(map(len, table.values())) for table in tables)
        if calls > MAX_CALLS:
            self.add((), f"the settings need {calls:,} calls; at most {MAX_CALLS:,} are possible.")
        self._check_results(tables, top)
        file = top.function.rpartition(":")[0]
        if function is not None:
            self._check_parameters(function, given)
        if function is not None and file.endswith(".py"):
            files[file] = file_hash(folder / file)
        return Study(
            str(self._path.stem if top.title is None else top.title), top.seed, top.runs, (), (),
            (), (), True, "constant", (), 1, 0.0, max(1, -(-calls // MAX_TASKS)),
            top.parameters, files, quick=quick, function=top.function, settings=tuple(tables),
        )  # fmt: skip

    def _values(self, path: KeyPath, value: Any) -> list[Any]:
        """Return the values of an argument: a list, one value, or evenly spaced numbers."""
        if isinstance(value, dict):
            spaced = self.value(path, value, Values)
            if spaced is None:
                return []
            integers = all(isinstance(value[key], int) for key in ("from", "to"))
            numbers = np.linspace(spaced.first, spaced.last, spaced.count)
            return [int(x) if integers and x == int(x) else float(x) for x in numbers]
        values = value if isinstance(value, list) else [value]
        if not is_json(values):
            self.reject(path, value, Values)
            return []
        return values

    def _check_results(self, tables: Sequence[Mapping[str, list[Any]]], top: FunctionTable) -> None:
        """Record settings that no table of results has room for."""
        settings: list[tuple[KeyPath, Mapping[str, Any]]]
        settings = [(("setting", k), table) for k, table in enumerate(tables)]
        taken = [("parameters", key) for key in CALL if key in top.parameters]
        for path in [*taken, *((*path, "run") for path, table in settings if "run" in table)]:
            self.add(path, f"{path[-1]} comes from the study, for each call: rename yours.")
        columns: dict[str, list[tuple[KeyPath, list[Any]]]] = {}
        for path, table in settings:
            for key, values in table.items():
                columns.setdefault(key, []).append(((*path, key), values))
        for key, parts in columns.items():
            self._check_column(key, parts)

    def _check_column(self, key: str, parts: Sequence[tuple[KeyPath, list[Any]]]) -> None:
        """Record an argument whose values, listed by table, need more than one type."""
        first = None
        for path, values in parts:
            for kind in (KINDS.get(type(value), "a table") for value in values):
                first = first or kind
                if kind != first:
                    message = f"{key} is {first} and {kind}: all its values need the same type."
                    self.add(path, message)
                    return
        if _why_no_column([value for _, values in parts for value in values]):
            so_far: list[Any] = []
            for path, values in parts:
                so_far += values
                if reason := _why_no_column(so_far):
                    self.add(path, f"no column can hold the values of {key}: {reason}.")
                    return

    def _check_parameters(
        self, function: Callable[..., Any], tables: Mapping[tuple[str, ...], Any]
    ) -> None:
        """Record parameters that a function does not take, also those of a quick run."""
        takes = inspect.signature(function).parameters
        if any(one.kind is one.VAR_KEYWORD for one in takes.values()):
            return
        names = [key for key in takes if key not in CALL]
        for path, table in tables.items():
            if isinstance(table, dict):
                where = f" in [{'.'.join(path)}] of {function.__name__}"
                self.check_keys(path, dict.fromkeys(set(table) - set(CALL)), names, where)

    def _check_arguments(
        self,
        path: KeyPath,
        function: Callable[..., Any],
        setting: Mapping[str, Any],
        parameters: Mapping[str, Any],
    ) -> None:
        """Record arguments that a function does not take, and those that it lacks."""
        takes = inspect.signature(function).parameters
        if not any(one.kind is one.VAR_KEYWORD for one in takes.values()) and self.check_keys(
            path, setting, takes, f" in [[setting]] of {function.__name__}"
        ):
            return
        try:
            inspect.signature(function).bind(
                **asked_for(function, CALL | dict(parameters)) | dict(setting)
            )
        except TypeError as error:
            self.add(path, f"{function.__name__}: {error}.")


def _why_no_column(values: list[Any]) -> str:
    """Return why no column of a table can hold values; empty if one can."""
    try:
        pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        return str(error).rstrip(".")
    return ""
