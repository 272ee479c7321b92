"""Looking things up by name, with the nearest match when there is none. Loads nothing heavy."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from saddleback.errors import InvalidParameter, UnknownName

Built = TypeVar("Built")


def known(kind: str, name: str, names: Iterable[str]) -> str:
    """Return ``name`` if it is one of ``names``; otherwise suggest the nearest."""
    names = list(names)
    if name in names:
        return name
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f" Did you mean {by_lower[close[0]]!r}?" if close else ""
    raise UnknownName(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")


def build(
    kind: str, name: str, table: Mapping[str, Callable[..., Built]], parameters: Mapping[str, Any]
) -> Built:
    """Call the constructor of that name, turning wrong parameters into a complaint of ours."""
    constructor = table[known(kind, name, table)]
    try:
        inspect.signature(constructor).bind(**parameters)
    except TypeError as error:
        raise InvalidParameter(f"{name}: {error}.") from None
    return constructor(**parameters)
