"""Look-up by name, with a suggestion when a name is unknown. Loads nothing heavy."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from saddleback._display import join_names
from saddleback.errors import InvalidParameter, UnknownName

Built = TypeVar("Built")


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the closest match among ``names``, ignoring case; None if none is close.

    ``cutoff`` is the least similarity, from 0 to 1.

    Examples
    --------
    >>> nearest("alhpa", ["alpha", "beta"]), nearest("xyzzy", ["alpha", "beta"])
    ('alpha', None)
    """
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[close[0]] if close else None


def check_name(kind: str, name: Any, names: Iterable[str], where: str = "") -> str:
    """Return ``name`` if it is one of ``names``; otherwise raise, suggesting the closest match.

    Parameters
    ----------
    kind
        Kind of thing that is named, for the message.
    name, names
        The name, and the valid ones.
    where
        Location of the name, appended to it in the message.
    """
    names = list(names)
    if not isinstance(name, str):
        raise UnknownName(f"{kind} must be a name, got {name!r}. Known: {join_names(names)}.")
    if name in names:
        return name
    close = nearest(name, names)
    hint = f" Did you mean {close!r}?" if close else ""
    raise UnknownName(
        f"unknown {kind} {name!r}{where}.{hint} Known: {join_names(names)}.", parameter=kind
    )


def check_parameters(owner: str, given: Iterable[str], takes: Iterable[str]) -> None:
    """Refuse the first parameter that ``owner`` does not take; suggest the closest match.

    Examples
    --------
    >>> check_parameters("GES", ["lma"], ["lam"])
    Traceback (most recent call last):
    ...
    saddleback.errors.InvalidParameter: GES: unknown parameter 'lma'. Did you mean 'lam'? Takes lam.
    """
    names = list(takes)
    for parameter in given:
        if parameter not in names:
            close = nearest(parameter, names)
            hint = f" Did you mean {close!r}?" if close else ""
            listed = ", ".join(names) or "no parameters"
            raise InvalidParameter(
                f"{owner}: unknown parameter {parameter!r}.{hint} Takes {listed}.",
                parameter=parameter,
            )


def required_parameters(constructor: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters without a default."""
    takes = inspect.signature(constructor).parameters.values()
    return [parameter.name for parameter in takes if parameter.default is parameter.empty]


def build(
    kind: str, name: str, table: Mapping[str, Callable[..., Built]], parameters: Mapping[str, Any]
) -> Built:
    """Call the constructor registered under a name; bad parameters raise a `SaddlebackError`."""
    constructor = table[check_name(kind, name, table)]
    takes = inspect.signature(constructor).parameters
    check_parameters(name, parameters, takes)
    missing = [name for name in required_parameters(constructor) if name not in parameters]
    if missing:
        raise InvalidParameter(f"{name}: missing parameter {missing[0]!r}.")
    return constructor(**parameters)
