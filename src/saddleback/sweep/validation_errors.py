"""Validation of the values of a study file; errors are collected with their line numbers."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from saddleback import _registry
from saddleback.errors import SaddlebackError, UnknownName
from saddleback.sweep.toml_lines import KeyPath, key_lines

MAX_COUNT = 10**12
"""Largest count accepted."""

MAX_NUMBER = 1e100
"""Largest number accepted; its square is finite."""

MAX_POWER = 1000
"""Largest power of two in a grid."""


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
