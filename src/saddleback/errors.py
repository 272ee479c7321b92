"""Exceptions for misuse, all derived from `SaddlebackError`.

The message names the place, the value and the usual fix. A computation that turns out badly (a
learner that diverges, a singular system) is not misuse: the result reports it.
"""

__all__ = [
    "CoverageError", "InvalidNumbers", "InvalidParameter", "InvalidProbabilities", "InvalidShape",
    "NeverEnds", "RuleMismatch", "RuleRequired", "SaddlebackError", "Undefined", "UndefinedRatio",
    "UnknownName",
]  # fmt: skip


class SaddlebackError(ValueError):
    """Base class of every exception that this package raises on purpose.

    Examples
    --------
    >>> from saddleback import GES
    >>> try:
    ...     GES(2.0)
    ... except SaddlebackError as error:
    ...     print(f"{type(error).__name__}: {error}")
    InvalidParameter: Importance: lam must be a number in [0, 1], got 2.0.
    """


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
            "file. Give the rule: path/to/module.py:Name(0.5)."
        )
        self.text = text


class Undefined(SaddlebackError):
    """A quantity that is undefined here, such as an error relative to zero."""


class NeverEnds(Undefined):
    """An undiscounted or episodic problem that a policy never terminates."""


class UnknownName(SaddlebackError):
    """An unknown name of a rule, problem or experiment."""
