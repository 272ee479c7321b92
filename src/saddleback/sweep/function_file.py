"""Reader of study files that name a function: its arguments are the settings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from saddleback.sweep.study import Study, asked_for, file_hash, load_function
from saddleback.sweep.toml_lines import Count, KeyPath, Seed, StudyFile, Table


class FunctionTable(Struct, kw_only=True):
    """The top level of a study of a function."""

    function: Annotated[str, Meta(description='"path/to/module.py:function"')] = ""
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


class FunctionReader(StudyFile):
    """Builds a study of a function from parsed TOML, collecting errors on the way."""

    def study(self, share: int, quick: bool) -> Study:
        """Return the study; record errors."""
        self.replace_for_quick(FunctionTable.__struct_fields__, "setting", quick)
        top, self._misspelt = self.table((), self._data, FunctionTable)
        folder, tables, files = self._path.parent, [], {}
        function = None
        if top.function:
            function = self.attempt(("function",), load_function, top.function, folder)
        for k, table in enumerate(self.tables("setting")):
            path: KeyPath = ("setting", k)
            self.reject_empty_lists(path, table)
            tables.append({key: self._values((*path, key), own) for key, own in table.items()})
            if function is not None:
                self._check_arguments(path, function, table, top.parameters)
        file = top.function.rpartition(":")[0]
        if function is not None and file.endswith(".py"):
            files[file] = file_hash(folder / file)
        return Study(
            str(self._path.stem if top.title is None else top.title), top.seed, top.runs, (), (),
            (), (), True, "constant", (), 1, 0.0, 1, top.parameters, files, quick=quick,
            function=top.function, settings=tuple(tables),
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
        try:
            json.dumps(values, allow_nan=False)
        except (TypeError, ValueError):
            self.reject(path, value, Values)
            return []
        return values

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
