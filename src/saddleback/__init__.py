"""Off-policy evaluation with linear function approximation.

Estimate the value of a target policy π from data logged under a behaviour policy μ (`evaluate`),
and analyse the temporal-difference rules that do so. Rules are records (`GES`, `GQ`, …), problems
are exact (`FiniteMDP`, `Problem`, `saddleback.problems`), `System.exact` is the linear system of a
rule on a problem, and `learn` runs the rule.

Names are imported on first use, from the modules that the stub file of this package lists; type
checkers and editors read the same list. Named rules are the functions of `rules/named.py`.
"""

from __future__ import annotations

import importlib
import logging
import re
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

logging.getLogger("saddleback").addHandler(logging.NullHandler())  # silent unless configured


def _lines(path: str, pattern: str) -> list[Any]:
    """Return what matches a pattern in the lines of a file of this package."""
    text = (Path(__file__).parent / path).read_text(encoding="utf-8")
    return re.findall(pattern, text, re.MULTILINE)


_MODULES: dict[str, str] = {
    **{name: module for module, name in _lines("__init__.pyi", r"^from (\S+) import (\w+) as \2$")},
    **dict.fromkeys(_lines("rules/named.py", r"^def ([A-Z]\w*)"), "saddleback.rules"),
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import a public name and its package on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'saddleback' has no attribute {name!r}")
    if _MODULES[name] == "saddleback":
        return importlib.import_module(f"saddleback.{name}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
