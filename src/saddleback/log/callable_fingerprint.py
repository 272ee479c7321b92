"""Fingerprint of a policy, feature function or class: a hash of its source and the values it uses.

Statistics are merged only if they belong to the same target and features. Two functions count as
the same if their source and the values they refer to are equal, on any machine.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import re
import reprlib
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

DEPTH = 5
"""Depth to which the values that a function refers to are followed."""

EXCLUDED = ("saddleback", "builtins", "abc", "typing")
"""Packages of base classes that are not part of a fingerprint."""

GENERATED = ("<string>", dataclasses.__file__, reprlib.__file__)
"""Files of the methods that dataclasses add."""


def fingerprint(value: Any, source: str | None = None) -> str:
    """Return a name and a 64-bit hash in hexadecimal; ``source`` is hashed as well if given.

    Examples
    --------
    >>> def weighted(w):
    ...     return lambda x: w * x
    >>> fingerprint(weighted(np.arange(3.0))) == fingerprint(weighted(np.arange(3.0)))
    True
    >>> fingerprint(weighted(np.arange(3.0))) == fingerprint(weighted(np.ones(3)))
    False
    """
    name = getattr(value, "__qualname__", None) or type(value).__name__
    text = (source or "") + _describe(value, DEPTH)
    return f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def class_fingerprint(kind: type) -> str:
    """Return a name and a hash of what a class and its bases outside saddleback define.

    Examples
    --------
    >>> class Scaled:
    ...     __module__ = "mine"
    ...     factor = 2
    >>> before = class_fingerprint(Scaled)
    >>> Scaled.factor = 3
    >>> before == class_fingerprint(Scaled)
    False
    """
    bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in EXCLUDED]
    text = str(
        [(name, _describe(value, DEPTH)) for base in bases for name, value in _members(base)]
    )
    return f"{kind.__qualname__} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _members(kind: type) -> list[tuple[str, Any]]:
    """Return what the body of a class defines, without what Python and dataclasses add."""

    def written(name: str, value: Any) -> bool:
        if name.startswith(("_abc_", "__annotate")):
            return False
        code = getattr(value, "__code__", None)
        return not name.startswith("__") or (code is not None and code.co_filename not in GENERATED)

    return [(name, value) for name, value in sorted(vars(kind).items()) if written(name, value)]


def _describe(value: Any, depth: int) -> str:
    """Return text that identifies a value, without its memory address."""
    if depth == 0 or isinstance(value, (ModuleType, type)):
        return getattr(value, "__name__", type(value).__name__)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, functools.partial):
        return "partial" + _describe((value.func, value.args, value.keywords), depth - 1)
    if isinstance(value, property):
        return "property" + _describe((value.fget, value.fset), depth - 1)
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__ + _describe(value.__func__, depth - 1)
    if isinstance(value, MethodType):
        return _describe((value.__func__, value.__self__), depth - 1)
    if isinstance(value, FunctionType):
        return _describe_function(value, depth - 1)
    if isinstance(value, dict):
        return str([(str(key), _describe(item, depth - 1)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return str([_describe(item, depth - 1) for item in value])
    if isinstance(value, (set, frozenset)):
        return str(sorted(_describe(item, depth - 1) for item in value))
    attributes = getattr(value, "__dict__", None)
    if attributes:
        return type(value).__qualname__ + _describe(attributes, depth - 1)
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _describe_function(function: FunctionType, depth: int) -> str:
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    global_values = {
        name: function.__globals__[name]
        for name in sorted(_global_names(function.__code__))
        if name in function.__globals__
    }
    code = function.__code__
    return (source or code.co_code.hex()) + _describe(
        (code.co_consts if not source else (), closure, function.__defaults__,
         function.__kwdefaults__, global_values), depth,
    )  # fmt: skip


def _global_names(code: CodeType) -> set[str]:
    """Names that a function looks up, including those in functions it defines."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(_global_names, inner))
