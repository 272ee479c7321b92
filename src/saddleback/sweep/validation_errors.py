"""What is wrong with a study file, each with its line, written down while reading goes on."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from saddleback import _registry
from saddleback.errors import SaddlebackError, UnknownName
from saddleback.sweep.toml_lines import Place, lines

MOST = 10**12
"""Largest count that is taken seriously."""

LARGEST = 1e100
"""Largest number, whose square is one, too."""

POWER = 1000
"""Largest power of two in a grid."""


class Complaints:
    """Values of a TOML file by the places they stand in, checked; what is wrong is collected."""

    def __init__(self, text: str) -> None:
        self._lines = lines(text)
        self._wrong: list[tuple[int, str]] = []

    @property
    def found(self) -> list[tuple[int, str]]:
        """Lines and complaints, in the order of the file, each once."""
        return sorted(set(self._wrong))

    def say(self, place: Place, what: str) -> None:
        """Complain of what is at a place, or within it where it has no line of its own."""
        while place and place not in self._lines:
            place = place[:-1]
        self._wrong.append((self._lines.get(place, 1), what))

    def keys(
        self, place: Place, table: Mapping[str, Any], known: Iterable[str], where: str
    ) -> set[str]:
        """Complain of keys that are not known; return what was meant by them.

        What is missing because its key is misspelt is not complained of once more.
        """
        known, meant = list(dict.fromkeys(known)), set()
        for key in table:
            if key not in known:
                self.attempt((*place, key), _registry.check_name, "key", key, known, where)
                meant.add(_registry.nearest(key, known) or key)
        return meant

    def attempt(self, place: Place, act: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Return what it returns; None if it complains, which is written down.

        The line is that of the key which the complaint names, if it names one.
        """
        try:
            return act(*given, **named)
        except SaddlebackError as error:
            keys = [str(each[-1]) for each in self._lines if each[:-1] == place]
            blamed = [key for key in keys if re.search(rf"\b{re.escape(key)}\b", str(error))]
            blamed = ["name"] if isinstance(error, UnknownName) else blamed
            self.say((*place, *blamed[:1]), str(error))
        except Exception as error:  # of a function that is not ours
            self.say(place, f"{type(error).__name__}: {error}.")
        return None

    def whole(self, place: Place, value: Any, least: int) -> int:
        """Return a whole number from ``least`` on."""
        if is_whole(value) and least <= value <= MOST:
            return value
        self.say(
            place, f"{place[-1]} must be a whole number from {least} to {MOST:,}, got {value!r}."
        )
        return least

    def number(self, place: Place, value: Any) -> float:
        """Return a number whose square is one, too."""
        if is_number(value) and abs(value) <= LARGEST:
            return float(value)
        self.say(place, f"{place[-1]} must be a number up to {LARGEST:g}, got {brief(value)}.")
        return 0.0

    def own_keys(
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
        return self.keys(place, table, [*keys, *takes], said)

    def none_empty(self, place: Place, lists: Mapping[str, Any]) -> None:
        """Complain of empty lists."""
        for key, value in lists.items():
            if value == []:
                self.say((*place, key), f"{key} lists nothing.")

    def sizes(self, place: Place, given: Any) -> tuple[float, ...]:
        """Numbers listed, or scale · 2^j for j between two powers."""
        if isinstance(given, dict):
            if self.keys(place, given, ("scale", "powers"), f" in {place[-1]}"):
                return ()
            scale, powers = given.get("scale"), given.get("powers")
            if not (
                is_number(scale)
                and abs(scale) <= LARGEST
                and isinstance(powers, list)
                and len(powers) == 2
                and all(map(is_whole, powers))
            ):
                said = "{ scale = 0.1, powers = [-10, 0] } is 0.1·2^-10 … 0.1·2^0"
                self.say(place, f"{place[-1]} lists numbers, or in short: {said}.")
                return ()
            if not -POWER <= powers[0] <= powers[1] <= POWER:
                where = f"go up, from -{POWER} at least to {POWER} at most"
                self.say(place, f"powers of {place[-1]} must {where}, got {brief(powers)}.")
                return ()
            given = [scale * 2.0**j for j in range(powers[0], powers[1] + 1)]
        listed = given if isinstance(given, list) else [given]
        if not listed or not all(map(is_number, listed)) or len(set(listed)) < len(listed):
            self.say(place, f"{place[-1]} must list numbers, each once, got {brief(given)}.")
            return ()
        for each in listed:
            if not 0 < each <= sys.float_info.max:
                self.say(place, f"{place[-1]} must be above 0 and finite, got {brief(each)}.")
                return ()
        return tuple(map(float, listed))


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number, and not true or false."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a number, and not true or false."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def brief(value: Any) -> str:
    """Return how it is written, cut where that is long."""
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:57]}..."
