"""What tells one policy, or one function of features, from another: its text and its numbers.

Statistics are merged only if they are of the same target and features. Two functions count as the
same if they read alike and hold the same values, whichever machine or session they come from.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

DEPTH = 5
"""How far a function is followed into what it holds."""


def fingerprint(what: Any, text: str | None = None) -> str:
    """Return a name and 64 bits in hexadecimal; ``text`` takes the place of the source.

    Examples
    --------
    >>> def weighted(w):
    ...     return lambda x: w * x
    >>> fingerprint(weighted(np.arange(3.0))) == fingerprint(weighted(np.arange(3.0)))
    True
    >>> fingerprint(weighted(np.arange(3.0))) == fingerprint(weighted(np.ones(3)))
    False
    """
    name = getattr(what, "__qualname__", None) or type(what).__name__
    said = _say(what, DEPTH) if text is None else text + _say(what, DEPTH)
    return f"{name} {hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _say(what: Any, depth: int) -> str:
    """Put into words what an object is, without its address."""
    if depth == 0 or isinstance(what, (ModuleType, type)):
        return getattr(what, "__name__", type(what).__name__)
    if isinstance(what, np.ndarray) and what.dtype != object:
        return f"{what.dtype}{what.shape}{hashlib.sha256(what.tobytes()).hexdigest()}"
    if isinstance(what, functools.partial):
        return "partial" + _say((what.func, what.args, what.keywords), depth - 1)
    if isinstance(what, MethodType):
        return _say((what.__func__, what.__self__), depth - 1)
    if isinstance(what, FunctionType):
        return _function(what, depth - 1)
    if isinstance(what, dict):
        return str([(str(k), _say(v, depth - 1)) for k, v in what.items()])
    if isinstance(what, (list, tuple)):
        return str([_say(each, depth - 1) for each in what])
    if isinstance(what, (set, frozenset)):
        return str(sorted(_say(each, depth - 1) for each in what))
    held = getattr(what, "__dict__", None)
    if held:
        return type(what).__qualname__ + _say(held, depth - 1)
    return re.sub(r" at 0x[0-9a-f]+", "", repr(what))


def _function(function: FunctionType, depth: int) -> str:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = ""
    kept = [cell.cell_contents for cell in function.__closure__ or ()]
    used = {
        name: function.__globals__[name]
        for name in sorted(_names(function.__code__))
        if name in function.__globals__
    }
    code = function.__code__
    return (text or code.co_code.hex()) + _say(
        (code.co_consts if not text else (), kept, function.__defaults__, function.__kwdefaults__,
         used), depth,
    )  # fmt: skip


def _names(code: CodeType) -> set[str]:
    """Names a function looks up, also within functions it defines."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*map(_names, inner))
