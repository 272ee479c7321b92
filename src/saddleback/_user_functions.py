"""Functions of observations that a user supplies: they must not write, and treat each row alone."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter

SAMPLE = 256
"""Rows on which a function is called again."""

ROUNDING, SINGLE_ROUNDING = 1e-9, 1e-5
"""Largest difference, relative to the largest result, between two calls with the same rows; and
between two batches if the function computes in single precision, as most networks do."""

BELOW_SINGLE = 1e-11
"""A change of observations, relative to their range, that is lost in single precision."""


Recheck = Callable[[], None]
"""Asks a function of the user again what it was asked before; raises if it answers otherwise."""


class ImpureFunction(InvalidParameter):
    """A function that writes into its argument, or is not a function of each row alone."""


def call(
    name: str, function: Callable[..., Any], observations: FloatArray, *more: FloatArray
) -> Any:
    """Return ``function(observations, *more)``; it gets views that it cannot write to.

    Examples
    --------
    >>> def centred(obs):
    ...     obs -= 0.5
    ...     return obs
    >>> call("features", centred, np.zeros((1, 2)))
    Traceback (most recent call last):
    ...
    saddleback._user_functions.ImpureFunction: features: centred writes into the observations that
    it is given. Let it work on a copy: obs = obs.copy().
    """
    arrays = (observations, *more)
    views = [array.view() for array in arrays]
    for view in views:
        view.flags.writeable = False
    try:
        with np.errstate():  # it may change how NumPy treats overflows
            return function(*views)
    except Exception as error:
        text = str(error).replace("-", "")
        if "readonly" not in text and "not writeable" not in text:
            raise
        copies = [array.copy() for array in arrays]
        function(*copies)  # fails as well if the error has another cause
        into = "observations or actions" if more else "observations"
        raise _writes(name, function, into) from error


def check_rows(
    name: str,
    function: Callable[[FloatArray], FloatArray],
    observations: FloatArray,
    of: Callable[..., Any] | None = None,
    limit: int = SAMPLE,
) -> Recheck:
    """Raise unless a function gives each row the same result again, in any batch.

    Returns a function that asks once more, for the end of the work.

    Parameters
    ----------
    name, of
        Of the function in messages: its role, and the user's function that it calls, if another.
    function
        From observations [n, d] to an array [n, ·].
    observations, limit
        The rows, of which at most ``limit`` are used, evenly spaced.
    """
    rows = observations[:: max(1, -(-len(observations) // limit))]
    if not len(rows):
        return nothing_to_recheck
    given, blame = rows.copy(), function if of is None else of
    first = function(given)
    if not np.array_equal(given, rows):  # past the protection, such as through torch.from_numpy
        raise _writes(name, blame)
    size = float(np.max(np.abs(first), initial=0.0, where=np.isfinite(first)))

    def recheck() -> None:
        change = _difference(function(given), first)
        if not change <= ROUNDING * size:
            raise ImpureFunction(
                f"{name}: {_title(blame)} gives the same observations other results when it is "
                f"called again (by up to {change:.2g}). It must be deterministic: return "
                "probabilities rather than sampled actions, and keep no state between calls."
            )

    recheck()
    middle = (len(rows) + 1) // 2
    parts = [function(part.copy()) for part in (rows[:middle][::-1], rows[middle:]) if len(part)]
    change = _difference(np.concatenate([parts[0][::-1], *parts[1:]]), first)
    if change <= ROUNDING * size:
        return recheck
    if not (change <= SINGLE_ROUNDING * size and _is_single(function, rows, first)):
        raise ImpureFunction(
            f"{name}: {_title(blame)} gives an observation another result in another batch (by up "
            f"to {change:.2g}). It must treat each row alone: use constants instead of the mean, "
            "the range or the order of the batch."
        )
    return recheck


def describe_error(error: BaseException) -> str:
    """Return an error of the user's code, with file and line where its own code raised it.

    Examples
    --------
    >>> describe_error(KeyError("hr"))
    "KeyError: 'hr'"
    """
    text = f"{type(error).__name__}: {error}"
    frames: list[traceback.FrameSummary] = []
    cause: BaseException | None = error
    while cause is not None:
        frames += traceback.extract_tb(cause.__traceback__)
        cause = cause.__cause__
    own = [frame for frame in frames if _is_of_the_user(frame.filename)]
    return f"{text} ({Path(own[-1].filename).name} line {own[-1].lineno})" if own else text


LIBRARIES = (
    str(Path(__file__).resolve().parent),
    *(str(Path(sysconfig.get_paths()[name]).resolve()) for name in ("stdlib", "purelib")),
)
"""Folders of code that is not the user's."""


def _is_of_the_user(file: str) -> bool:
    return not file.startswith("<") and not str(Path(file).resolve()).startswith(LIBRARIES)


def nothing_to_recheck() -> None:
    """The recheck of what is not a function of the user."""


def _is_single(
    function: Callable[[FloatArray], FloatArray], rows: FloatArray, results: FloatArray
) -> bool:
    """Whether most results do not change with the digits that single precision lacks."""
    change = function(rows + BELOW_SINGLE * np.ptp(rows, axis=0)) != results
    return 2 * int(change.any(axis=1).sum()) < len(rows)


def _difference(one: FloatArray, other: FloatArray) -> float:
    """Return the largest difference; infinite if shapes differ, or NaN if one of two is NaN."""
    if one.shape != other.shape:
        return float("inf")
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return float(np.max(np.abs(one[~same] - other[~same]), initial=0.0))


def _writes(name: str, function: Callable[..., Any], into: str = "observations") -> ImpureFunction:
    return ImpureFunction(
        f"{name}: {_title(function)} writes into the {into} that it is given. Let it work on a "
        "copy: obs = obs.copy()."
    )


def _title(function: Any) -> str:
    """Return the name of a function, also of one that is wrapped or a method of an object."""
    while hasattr(function, "func"):  # a partial function
        function = next((a for a in function.args if callable(a)), function.func)
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).rpartition("<locals>.")[2]
