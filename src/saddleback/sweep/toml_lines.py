"""Checks of the keys and values of a TOML file that report every error with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import msgspec

from saddleback import _registry
from saddleback._plugins import USER_ERRORS
from saddleback.errors import SaddlebackError, UnknownName

KeyPath = tuple[str | int, ...]
"""Keys and indices that lead to a value: ("rule", 0, "lam")."""

Count = Annotated[
    int, msgspec.Meta(ge=1, le=10**12, description="a whole number from 1 to 1,000,000,000,000")
]
Seed = Annotated[
    int, msgspec.Meta(ge=0, le=10**12, description="a whole number from 0 to 1,000,000,000,000")
]
Table = Annotated[dict[str, Any], msgspec.Meta(description="a table")]

Plain = Annotated[
    Any,
    msgspec.Meta(description="a finite number, a text, true or false, or lists and tables of them"),
]

Record = TypeVar("Record", bound=msgspec.Struct)

TABLE = re.compile(r"\s*(\[{1,2})\s*([\w.\-]+)\s*\]")
KEY = re.compile(r"\s*([\w\-]+)\s*(?:=|\.)")
TOKEN = re.compile(r"""#.*|\"{3}|'{3}|"(?:\\.|[^"\\])*"|'[^']*'|[\[\]{}]""")


def key_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line number of every table and key of a TOML file.

    Examples
    --------
    >>> key_lines("seed = 1\n[[rule]]\nname = 'GES'\n[[rule]]\nlam = [\n0.5,\n]\n")
    {('seed',): 1, ('rule', 0): 2, ('rule',): 2, ('rule', 0, 'name'): 3, ('rule', 1): 4,
     ('rule', 1, 'lam'): 5}
    """
    lines: dict[KeyPath, int] = {}
    counts: dict[str, int] = {}
    path: KeyPath = ()
    quote, depth = "", 0  # open at the start of a line, inside a multi-line value
    for number, line in enumerate(text.split("\n"), 1):
        if not quote and not depth:
            if table := TABLE.match(line):
                first, *rest = table[2].split(".")
                if table[1] == "[[":
                    counts[first] = counts.get(first, -1) + 1
                path = (first, *([counts[first]] if first in counts else []), *rest)
                lines.setdefault(path, number)
                lines.setdefault((first,), number)
            elif key := KEY.match(line):
                lines.setdefault((*path, key[1]), number)
        quote, depth = _open_at_end(line, quote, depth)
    return lines


def _open_at_end(line: str, quote: str, depth: int) -> tuple[str, int]:
    """Return the open quote, and the number of open brackets, at the end of a line."""
    if quote:
        _, closing, line = line.partition(quote)
        if not closing:
            return quote, depth
    for token in TOKEN.finditer(line):
        if token[0] in ('"""', "'''"):
            return _open_at_end(line[token.end() :], token[0], depth)
        depth += (token[0] in "[{") - (token[0] in "]}")
    return "", depth


class ValidationErrors:
    r"""Checks values of a TOML file, and collects the errors with their lines.

    Examples
    --------
    >>> from typing import Annotated
    >>> Count = Annotated[int, msgspec.Meta(ge=1, description="a whole number above 0")]
    >>> checked = ValidationErrors("rums = 3\nseed = 0")
    >>> table = msgspec.defstruct("Table", [("runs", Count, 1), ("seed", Count, 1)])
    >>> checked.table((), {"rums": 3, "seed": 0}, table)
    (Table(runs=1, seed=1), {'runs'})
    >>> checked.errors
    [(1, "unknown key 'rums'. Did you mean 'runs'? Known: runs, seed."),
     (2, 'seed must be a whole number above 0, got 0.')]
    """

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
        self, path: KeyPath, table: Mapping[str, Any], valid: Iterable[str], where: str
    ) -> set[str]:
        """Record unknown keys; return the keys that were probably meant.

        A key that is missing because it is misspelt is not reported a second time.
        """
        valid, meant = list(dict.fromkeys(valid)), set()
        for key in table:
            if key not in valid:
                self.attempt((*path, key), _registry.check_name, "key", key, valid, where)
                meant.add(_registry.nearest(key, valid) or key)
        return meant

    def attempt(
        self, path: KeyPath, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function and return its result; record an error it raises and return None.

        The line is that of the key that is wrong, if the error knows it.
        """
        try:
            return function(*args, **kwargs)
        except SaddlebackError as error:
            has_line = (*path, error.parameter) in self._lines
            key = error.parameter if has_line else "name" if isinstance(error, UnknownName) else ""
            self.add((*path, key) if key else path, str(error))
        except USER_ERRORS as error:
            self.add(path, f"{type(error).__name__}: {error}.")
        return None

    def table(
        self, path: KeyPath, table: Mapping[str, Any], kind: type[Record], where: str = ""
    ) -> tuple[Record, set[str]]:
        """Return a table as a record, and the keys that were probably meant by unknown ones.

        Every key is checked. One that is missing or invalid has its default.
        """
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        meant = self.check_keys(path, table, fields, where)
        values = {
            field.name: self.value((*path, key), table[key], field.type)
            for key, field in fields.items()
            if key in table
        }
        given = {name: value for name, value in values.items() if value is not None}
        return kind(**given), meant

    def value(self, path: KeyPath, value: Any, kind: Any) -> Any:
        """Return a value of a type that is annotated with a description, or None if it is not."""
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            self.reject(path, value, kind)
            return None

    def reject(self, path: KeyPath, value: Any, kind: Any) -> None:
        """Record a value that is not of a type."""
        self.add(path, f"{path[-1]} must be {_description(kind)}, got {abbreviate(value)}.")

    def reject_empty_lists(self, path: KeyPath, lists: Mapping[str, Any]) -> None:
        """Record empty lists."""
        for key, value in lists.items():
            if value == []:
                self.add((*path, key), f"{key} is an empty list.")


class StudyFile(ValidationErrors):
    """A study file: its tables, and the settings for a quick run."""

    def __init__(self, path: Path, text: str, data: dict[str, Any]) -> None:
        super().__init__(text)
        self._path, self._data = path, data
        self._misspelt: set[str] = set()  # top-level keys that are present, but misspelt

    def tables(self, name: str) -> list[dict[str, Any]]:
        """Return the tables of a name."""
        tables = self._data.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self.add((name,), f"write each {name} as a separate table, [[{name}]].")
            return []
        if not tables and name not in self._misspelt:
            self.add((), f"no {name} given: add at least one [[{name}]].")
        return tables

    def replace_for_quick(self, names: Sequence[str], repeated: str, quick: bool) -> None:
        """Check [quick]; let its settings replace the others, and each of the repeated tables."""
        self._check_parameter_values(("parameters",), self._data.get("parameters"))
        smaller = self._data.get("quick")
        if not isinstance(smaller, dict):
            return
        self.check_keys(("quick",), smaller, names, " in [quick]")
        self._check_parameter_values(("quick", "parameters"), smaller.get("parameters"))
        if not quick:
            return
        own = self.value(("quick", repeated), smaller.get(repeated, {}), Table) or {}
        for table in self.tables(repeated):
            table.update(own)
        merged = {
            name: value for name, value in smaller.items() if name in names and name != repeated
        }
        both = (self._data.get("parameters", {}), smaller.get("parameters", {}))
        if all(isinstance(parameters, dict) for parameters in both):
            merged["parameters"] = both[0] | both[1]
        elif not isinstance(both[0], dict):  # reported there
            merged.pop("parameters", None)
        self._data |= merged

    def _check_parameter_values(self, path: KeyPath, parameters: Any) -> None:
        """Record parameters that the manifest of the results cannot keep."""
        for key, value in parameters.items() if isinstance(parameters, dict) else ():
            if not is_json(value):
                self.reject((*path, key), value, Plain)


def _description(kind: Any) -> str:
    """Return the description of an annotated type, or of the first of a union."""
    for part in (*getattr(kind, "__metadata__", ()), *get_args(kind)):
        text = part.description if isinstance(part, msgspec.Meta) else _description(part)
        if text:
            return str(text)
    return ""


def is_json(value: Any) -> bool:
    """Whether JSON can represent a value of a TOML file: dates, NaN and infinities it cannot.

    Examples
    --------
    >>> is_json([1, {"a": "b"}]), is_json([float("nan")])
    (True, False)
    """
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def abbreviate(value: Any) -> str:
    """Return the repr of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
