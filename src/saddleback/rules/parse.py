"""Rules as text: ``GES:0.5``, ``Retrace:0.5+Correction``, ``mine.py:Capped(0.5, cap=2)``.

Parts are joined by ``+``. A part is a name and its parameters, ``NAME:0.5`` or
``NAME(0.5, eta=2)``; the name is that of a rule, of a class of `saddleback.rules`, or
``path/to/module.py:NAME``. Parameters are literals: no expression is evaluated.

Files keep the text of a rule, `Rule.spec`. Reading one imports no code: `stored_rule` takes parts
that saddleback does not have from rules that the caller gives. A part of your own with the name of
one of saddleback's is marked there, ``own:Retrace(0.5)``.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from saddleback import _registry, rules
from saddleback._plugins import USER_ERRORS, file_of, load_once
from saddleback.errors import InvalidParameter, RuleRequired, SaddlebackError
from saddleback.rules.bootstraps import Bootstrap, Expected
from saddleback.rules.emphasis import FollowOn
from saddleback.rules.forms import Form, Saddle
from saddleback.rules.registry import NAMED
from saddleback.rules.rule import Rule
from saddleback.rules.traces import Trace

KINDS: dict[str, type] = {
    "trace": Trace, "form": Form, "bootstrap": Bootstrap, "emphasis": FollowOn,
}  # fmt: skip
"""Parts of a rule and their base classes."""

JOINT = re.compile(r"\+(?=\s*(?:[^\W\d]|\.{0,2}/))")
"""A plus between two parts; the one in 1e+3 is followed by a digit."""

CALL = re.compile(r"(?:(.*\.py|own):)?([^\W\d]\w*)\s*(?:\((.*)\)|:(.*))?", re.DOTALL)
"""Path or ``own``, name and parameters of one part."""

LookUp = Callable[[str], Any]


def parse_rule(text: str, folder: str | os.PathLike[str] = ".") -> Rule:
    """Return the rule that a text describes; see `Rule.parse`."""
    if not isinstance(text, str):
        raise InvalidParameter(f"a rule is described by text such as 'GES:0.5', got {text!r}.")

    def look_up(name: str) -> Any:
        path, _, attribute = name.rpartition(":")
        if path:
            return load_once(f"{Path(folder, path)}:{attribute}")
        rules = library() | NAMED
        if name in rules:
            return rules[name]
        kind, names = ("part of a rule", library()) if "+" in text else ("rule", NAMED)
        return _registry.check_name(kind, name, names)

    return _compose(text, look_up)


def stored_rule(text: str, given: Iterable[Rule] = ()) -> Rule:
    """Return the rule of a text from a file, without importing any code.

    Parameters
    ----------
    text
        `Rule.spec` of a rule.
    given
        Rules with the parts that saddleback does not have.

    Examples
    --------
    >>> print(stored_rule("Importance(0.5)+Saddle"))
    GES(0.5)
    >>> stored_rule("mine.py:Capped(0.5)")
    Traceback (most recent call last):
    ...
    saddleback.errors.RuleRequired: the rule mine.py:Capped(0.5) is not one of saddleback's...
    """
    listed = list(given)
    for rule in listed:
        if rule.spec == text:
            return rule
    parts = {_part_name(type(part)): type(part) for rule in listed for part in _parts(rule)}
    available = library() | NAMED | parts

    def look_up(name: str) -> Any:
        if name not in available:
            raise RuleRequired(text)
        return available[name]

    return _compose(text, look_up)


def rule_files(text: str) -> list[str]:
    """Return the Python files that a text names.

    Examples
    --------
    >>> rule_files("mine.py:Capped(0.5)+Saddle")
    ['mine.py']
    """
    return [
        path for name in part_names(text) if (path := name.rpartition(":")[0]) not in ("", "own")
    ]


def part_names(text: str) -> list[str]:
    """Return the name of each part of a text.

    Examples
    --------
    >>> part_names("Retrace:0.5+mine.py:Capped(2)")
    ['Retrace', 'mine.py:Capped']
    """
    return [_call(part)[0] for part in _split(text)]


@cache
def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def named_text(rule: Rule, show: Callable[[Any], str] = repr) -> str:
    """Return a rule as a call of its named constructor, or empty text if it has none."""
    values = {f.name: getattr(part, f.name) for part in _parts(rule)[::-1] for f in fields(part)}
    for name, constructor in NAMED.items():
        chosen = {key: values[key] for key in _parameters(constructor) if key in values}
        try:
            if constructor(**chosen) == rule:
                return call_text(name, constructor, chosen, show)
        except (TypeError, ValueError):  # the values of a different rule
            continue
    return ""


def part_text(part: Any, name: str = "") -> str:
    """Return a part as a call of its class, or of another name."""
    values = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
    name = name or _part_name(type(part))
    return call_text(name, type(part), values, repr).removesuffix("()")


def located_text(rule: Rule) -> str:
    """Return text that another process parses into a rule; empty if a class is from no file.

    Parts of your own are named with the absolute path of their file.

    Examples
    --------
    >>> located_text(Rule.parse("GES:0.5"))
    'Importance(0.5)+Saddle+Expected'
    """
    library_parts, texts = set(library().values()), []
    for part in _parts(rule):
        kind = type(part)
        path = None if kind in library_parts else file_of(kind)
        if kind not in library_parts and path is None:
            return ""
        texts.append(part_text(part, f"{path}:{kind.__name__}" if path else ""))
    return "+".join(texts)


def call_text(
    name: str, function: Callable[..., Any], values: dict[str, Any], show: Callable[[Any], str]
) -> str:
    """Return a call as text: values equal to their default are left out, others named."""
    shown = []
    for key, parameter in _parameters(function).items():
        value = values[key]
        plain = value.item() if isinstance(value, np.generic) else value
        if parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
            shown.append(show(plain))
        elif plain != parameter.default:
            shown.append(f"{key}={show(plain)}")
    return f"{name}({', '.join(shown)})"


def short_text(value: Any) -> str:
    """Return a value as text, a float with twelve digits at most."""
    return f"{value:.12g}" if isinstance(value, float) else repr(value)


def library() -> dict[str, Any]:
    """Return the traces, forms, bootstraps and the emphasis of saddleback, by name."""
    return {
        name: value
        for name, value in vars(rules).items()
        if isinstance(value, type)
        and issubclass(value, tuple(KINDS.values()))
        and not inspect.isabstract(value)
    }


def _part_name(kind: type) -> str:
    """Return the name of a class, marked if saddleback has another part or rule of that name."""
    name = kind.__name__
    return name if (library() | NAMED).get(name, kind) is kind else f"own:{name}"


def _parts(rule: Rule) -> list[Any]:
    return [part for kind in KINDS if (part := getattr(rule, kind)) is not None]


def _compose(text: str, look_up: LookUp) -> Rule:
    """Build every part of a text and put them together."""
    texts = _split(text)
    built = [_build(part, look_up) for part in texts]
    if len(built) == 1 and isinstance(built[0], Rule):
        return built[0]
    parts: dict[str, Any] = {"form": Saddle(), "bootstrap": Expected()}
    given: set[str] = set()
    for part, value in zip(texts, built, strict=True):
        kind = next((kind for kind, base in KINDS.items() if isinstance(value, base)), None)
        if isinstance(value, Rule):
            raise InvalidParameter(
                f"rule {text!r}: {part} is a complete rule. Join parts, such as Retrace:0.5+Saddle."
            )
        if kind is None:
            raise InvalidParameter(
                f"rule {text!r}: {part} is {value!r}; it must be a Rule, or a trace, form, "
                "bootstrap or emphasis."
            )
        if kind in given:
            raise InvalidParameter(f"rule {text!r} has two parts of one kind, {kind}: {part}.")
        given.add(kind)
        parts[kind] = value
    if "trace" not in given:
        raise InvalidParameter(f"rule {text!r} has no trace: add one, such as Retrace:0.5+{text}.")
    return Rule(**parts)


def _build(part: str, look_up: LookUp) -> Any:
    """Return the object that one part of a text describes."""
    name, arguments, keywords = _call(part)
    value = look_up(name)
    if not callable(value):
        if arguments or keywords:
            raise InvalidParameter(f"rule {part!r}: {name} takes no parameters.")
        return value
    signature = inspect.signature(value)
    takes = ", ".join(signature.parameters)
    if name in NAMED and not arguments:
        missing = [key for key in _registry.required_parameters(value) if key not in keywords]
        keywords = dict.fromkeys(missing, 0.0) | keywords
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise InvalidParameter(f"rule {part!r}: {error}; write {name}({takes}).") from None
    try:
        return value(*arguments, **keywords)
    except SaddlebackError:
        raise
    except USER_ERRORS as error:
        raise InvalidParameter(f"rule {part!r}: {type(error).__name__}: {error}.") from error


def is_text(text: str) -> bool:
    """Whether a text is more than the name of a rule.

    Examples
    --------
    >>> is_text("GES"), is_text("GES:0.5")
    (False, True)
    """
    return bool(set(text) & set(":+("))


def _split(text: str) -> list[str]:
    """Split a text at each plus that follows a complete part."""
    parts, start = [], 0
    for joint in JOINT.finditer(text):
        if CALL.fullmatch(text[start : joint.start()].strip()):
            parts.append(text[start : joint.start()].strip())
            start = joint.end()
    return [*parts, text[start:].strip()]


def _call(part: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Split ``NAME(0.5, cap=2)`` or ``NAME:0.5`` into a name and literal arguments."""
    match = CALL.fullmatch(part.strip())
    if match is None:
        raise InvalidParameter(f"rule {part!r}: write NAME, NAME:0.5 or NAME(0.5, eta=2).")
    path, name, in_brackets, after_colon = match.groups()
    inside = in_brackets if in_brackets is not None else after_colon or ""
    try:
        call: Any = ast.parse(f"f({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError
        arguments = [_literal(node) for node in call.args]
        keywords = {str(node.arg): _literal(node.value) for node in call.keywords}
        if "None" in keywords or len(keywords) < len(
            call.keywords
        ):  # **mapping, or a repeated name
            raise ValueError
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidParameter(
            f"rule {part!r}: {inside!r} is not a number or a list such as 0.5, eta=2."
        ) from None
    return (f"{path}:{name}" if path else name), arguments, keywords


def _literal(node: ast.AST) -> Any:
    """Return the value of a literal; ``inf`` is one, also within another."""
    return ast.literal_eval(_Infinity().visit(node))


class _Infinity(ast.NodeTransformer):
    """Replaces the name ``inf`` by its value."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(float("inf")) if node.id == "inf" else node
