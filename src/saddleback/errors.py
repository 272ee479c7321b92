"""Exceptions for misuse, all derived from `SaddlebackError`.

The message names the place, the value and the usual fix. A fix that is an argument is data, a
`Fix`, so that each front end can word it: ``drop_bad="episode"`` in Python, an option on the
command line. A computation that turns out badly (a learner that diverges, a singular system) is not
misuse: the result reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "CoverageError", "Fix", "InvalidNumbers", "InvalidParameter", "InvalidProbabilities",
    "InvalidShape", "NeverEnds", "RuleMismatch", "RuleRequired", "SaddlebackError", "Undefined",
    "UndefinedRatio",
    "UnknownName",
]  # fmt: skip


@dataclass(frozen=True)
class Fix:
    """An argument that repairs an error.

    Parameters
    ----------
    advice
        What the argument does, after other ways to repair the error.
    parameter, value
        Its name and its value, plain data; "…" stands for a choice of the user.
    code
        Python code in place of ``parameter=value``, if the fix is not an argument in Python.

    Examples
    --------
    >>> print(Fix("Fix the log, or drop the episode", "drop_bad", "episode"))
    Fix the log, or drop the episode: drop_bad="episode".
    >>> print(Fix("Map the column", "columns", {"reward": "…"}))
    Map the column: columns={"reward": …}.
    """

    advice: str
    parameter: str
    value: Any = field(default="…", hash=False)
    code: str = ""

    def __str__(self) -> str:
        return self.text(self.code or f"{self.parameter}={_as_code(self.value)}")

    def text(self, argument: str) -> str:
        """Return the advice with an argument as a front end words it."""
        return f"{self.advice}: {argument}{'' if argument.endswith('…') else '.'}"


def _as_code(value: Any) -> str:
    """Return a value as Python code."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_as_code(k)}: {_as_code(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_code, value))}]"
    if isinstance(value, str) and value != "…":
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


ESTIMATE_PROPENSITIES = Fix(
    "Add behavior_prob, or estimate it", "estimate_behaviour", "counts", "estimate_behaviour(log)"
)
"""Fix of a log without propensities."""


def with_fix(message: str, fix: Fix | None, wording: Callable[[Fix], str] = str) -> str:
    """Return a message and its fix, as ``wording`` words it."""
    return message if fix is None else f"{message} {wording(fix)}"


class SaddlebackError(ValueError):
    """Base class of every exception that this package raises on purpose.

    Parameters
    ----------
    message
        What is wrong, and where.
    fix
        The argument that repairs it, if there is one.
    parameter
        Name of the argument that is wrong, if it is known.

    Examples
    --------
    >>> from saddleback import GES
    >>> try:
    ...     GES(2.0)
    ... except SaddlebackError as error:
    ...     print(f"{type(error).__name__}: {error}")
    InvalidParameter: Importance: lam must be a number in [0, 1], got 2.0.
    """

    def __init__(self, message: str, fix: Fix | None = None, parameter: str = "") -> None:
        super().__init__(message)
        self.message, self.fix, self.parameter = message, fix, parameter

    def __str__(self) -> str:
        return self.render()

    def render(self, wording: Callable[[Fix], str] = str) -> str:
        """Return the message and the fix, as ``wording`` words it."""
        return with_fix(self.message, self.fix, wording)


class InvalidParameter(SaddlebackError):
    """A number outside its valid range, or an argument inconsistent with the others."""


class InvalidShape(SaddlebackError):
    """An array whose shape does not match the rest of the problem."""


class InvalidNumbers(SaddlebackError):
    """An array that contains NaN or an infinity."""


class InvalidProbabilities(SaddlebackError):
    """Probabilities that are negative, not numbers, or do not sum to one."""


class CoverageError(SaddlebackError):
    """The target policy takes an action that the behaviour policy never takes."""


class UndefinedRatio(SaddlebackError):
    """An action in the experience has probability zero under the behaviour policy."""


class RuleMismatch(SaddlebackError):
    """A rule that cannot be applied to this problem."""


class RuleRequired(RuleMismatch):
    """A file was made with a rule that saddleback does not have, so it must be given."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"the rule {text} is not one of saddleback's, and no code is imported from a data "
            "file.",
            Fix("Give the rule", "rule", "path/to/module.py:Name(0.5)"),
        )
        self.text = text


class Undefined(SaddlebackError):
    """A quantity that is undefined here, such as an error relative to zero."""


class NeverEnds(Undefined):
    """An undiscounted or episodic problem that a policy never terminates."""


class UnknownName(SaddlebackError):
    """An unknown name of a rule, problem or experiment."""
