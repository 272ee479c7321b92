"""Everything a caller can get wrong, as one family of exceptions.

Misuse raises one of these, with the place, the value and the usual fix in the message. A
computation that merely turns out badly (a learner that diverges, a singular system) is not
misuse: it is reported on the result.
"""

__all__ = [
    "CoverageError", "InvalidNumbers", "InvalidParameter", "InvalidProbabilities", "InvalidShape",
    "NeverEnds", "RuleMismatch", "SaddlebackError", "Undefined", "UndefinedRatio", "UnknownName",
]  # fmt: skip


class SaddlebackError(ValueError):
    """Base class: catch this to catch every complaint of this package.

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
    """A number outside its legal range, or an argument that does not fit the others."""


class InvalidShape(SaddlebackError):
    """An array whose shape does not match the rest of the problem."""


class InvalidNumbers(SaddlebackError):
    """An array that holds NaN or an infinity."""


class InvalidProbabilities(SaddlebackError):
    """Probabilities that are negative, not numbers, or do not sum to one."""


class CoverageError(SaddlebackError):
    """The target policy takes an action that the behaviour policy never takes."""


class UndefinedRatio(SaddlebackError):
    """Experience holds an action to which the behaviour policy gives probability zero."""


class RuleMismatch(SaddlebackError):
    """A rule that cannot be applied to this problem."""


class Undefined(SaddlebackError):
    """A quantity that has no value here, such as an error relative to zero."""


class NeverEnds(Undefined):
    """An undiscounted or episodic problem that a policy cannot bring to an end."""


class UnknownName(SaddlebackError):
    """A rule, problem or experiment that does not exist under this name."""
