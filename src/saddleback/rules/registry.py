"""The registry of named rules, which every place that takes a rule by name looks up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from saddleback import _registry
from saddleback.errors import InvalidParameter
from saddleback.rules.rule import Rule

Constructor = TypeVar("Constructor", bound=Callable[..., Rule])

NAMED: dict[str, Callable[..., Rule]] = {}
"""Every named rule by name, in the order of the table in the documentation."""

SOURCES: dict[str, Sequence[str]] = {}
"""The publications of each named rule, as keys of the bibliography."""

LIBRARY = "saddleback.rules.named"
"""Module of the rules of saddleback, whose names are taken."""


@overload
def named_rule(constructor: Constructor, /) -> Constructor: ...


@overload
def named_rule(*, cite: Sequence[str]) -> Callable[[Constructor], Constructor]: ...


def named_rule(constructor: Any = None, /, *, cite: Sequence[str] = ()) -> Any:
    """Register a function that returns a rule; its name then works wherever a rule is named.

    Parameters
    ----------
    constructor
        The function.
    cite
        Publications of the rule, as keys of the bibliography, ``cli/references.bib``.

    Examples
    --------
    >>> from saddleback.rules import Correction, Expected, Retrace
    >>> @named_rule
    ... def CorrectedRetrace(lam: float) -> Rule:
    ...     return Rule(Retrace(lam), Correction(), Expected())
    >>> print(Rule.parse("CorrectedRetrace:0.5"))
    CorrectedRetrace(0.5)
    >>> del NAMED["CorrectedRetrace"]
    """
    if constructor is None:
        return partial(_register, cite)
    return _register(cite, constructor)


def _register(cite: Sequence[str], constructor: Constructor) -> Constructor:
    name = constructor.__name__
    if constructor.__module__ != LIBRARY:
        from saddleback.rules.parse import library

        built_in = name in NAMED and NAMED[name].__module__ == LIBRARY
        if built_in or name in library():
            kind = "rule" if built_in else "part of the rules"
            raise InvalidParameter(
                f"named_rule: {name} is a {kind} of saddleback; choose another name."
            )
    NAMED[name], SOURCES[name] = constructor, cite
    return constructor


def make(name: str, **parameters: Any) -> Rule:
    """Build a rule from its name and parameters.

    Examples
    --------
    >>> print(make("GES", lam=0.5))
    GES(0.5)
    """
    return _registry.build("rule", name, NAMED, parameters)


def make_with(name: str, value: float) -> Rule:
    """Build a rule from its name, with one value for every parameter that it requires.

    Examples
    --------
    >>> print(make_with("TDRC", 0.5), make_with("GTD", 0.5))
    TDRC(0.5) GTD()
    """
    constructor = NAMED[_registry.check_name("rule", name, NAMED)]
    return constructor(**dict.fromkeys(_registry.required_parameters(constructor), value))
