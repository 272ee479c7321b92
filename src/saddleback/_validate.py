"""Validation of arguments; each check raises an error that names the argument and its value."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from saddleback._typing import RNG, ArrayLike, BoolArray, FloatArray
from saddleback.errors import (
    InvalidNumbers,
    InvalidParameter,
    InvalidProbabilities,
    InvalidShape,
)

TOLERANCE = 1e-8
"""Largest deviation from 1 of the sum of a row of probabilities."""


def unit(owner: str, name: str, value: Any) -> float:
    """Return ``value`` if it lies in [0, 1]."""
    return _real(owner, name, value, 0.0, 1.0, "a number in [0, 1]")


def non_negative(owner: str, name: str, value: Any) -> float:
    """Return ``value`` if it is a finite number ≥ 0."""
    return _real(owner, name, value, 0.0, math.inf, "a finite number >= 0")


def positive(owner: object, name: str, value: Any) -> float:
    """Return ``value`` if it is a finite number > 0."""
    tiny = float(np.nextafter(0.0, 1.0))
    return _real(owner, name, value, tiny, math.inf, "a finite number > 0")


def _real(owner: object, name: str, value: Any, low: float, high: float, allowed: str) -> float:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    number = isinstance(value, (int, float, np.integer, np.floating)) and type(value) is not bool
    real = number and abs(value) <= sys.float_info.max
    if not real or not low <= value <= high:
        raise InvalidParameter(f"{owner}: {name} must be {allowed}, got {value!r}.", parameter=name)
    return float(value)


def number(owner: str, name: str, value: Any) -> float:
    """Return ``value`` if it is a finite number."""
    return _real(owner, name, value, -np.inf, np.inf, "a finite number")


def flag(owner: str, name: str, value: Any) -> None:
    """Refuse any value but True or False, such as the text "no"."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidParameter(
            f"{owner}: {name} must be True or False, got {value!r}.", parameter=name
        )


def count(owner: str, name: str, value: Any) -> int:
    """Return ``value`` if it is a whole number ≥ 1."""
    is_integer = isinstance(value, (int, np.integer)) and type(value) is not bool
    if not is_integer or value < 1:
        hint = ""
        if isinstance(value, float) and value.is_integer() and value >= 1:
            hint = f" Write {int(value)}."
        raise InvalidParameter(
            f"{owner}: {name} must be a whole number >= 1, got {value!r}.{hint}", parameter=name
        )
    return int(value)


def instance(owner: object, name: str, value: Any, kind: type) -> None:
    """Refuse a ``value`` that is not a ``kind``."""
    if not isinstance(value, kind):
        got = repr(value) if isinstance(value, (str, int, float, type)) else type(value).__name__
        raise InvalidParameter(
            f"{owner}: {name} must be a {kind.__name__}, got {got}.", parameter=name
        )


def floats(name: str, value: ArrayLike) -> FloatArray:
    """Return a float64 copy of ``value``; refuse anything but real numbers."""
    try:
        array = np.array(value)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"it holds {array.dtype.name}")
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidShape(
            f"{name} must be a rectangular array of numbers: {error}.", parameter=name
        ) from None


def shape(name: str, array: FloatArray, expected: tuple[int | str, ...]) -> None:
    """Refuse an array whose shape differs from ``expected`` (strings stand for any size)."""
    fits = array.ndim == len(expected) and all(
        isinstance(size, str) or size == actual
        for size, actual in zip(expected, array.shape, strict=True)
    )
    if not fits:
        sizes = ", ".join(map(str, expected))
        raise InvalidShape(
            f"{name} must have shape [{sizes}], got {list(array.shape)}.", parameter=name
        )


def rewards(name: str, value: ArrayLike, states: int, actions: int) -> FloatArray:
    """Return rewards of state-action pairs, or of transitions; refuse another shape, and NaN."""
    array = floats(name, value)
    if array.shape not in ((states, actions), (states, actions, states)):
        raise InvalidShape(
            f"{name} must have shape [{states}, {actions}] or [{states}, {actions}, {states}], "
            f"got {list(array.shape)}.",
            parameter=name,
        )
    finite(name, array)
    return array


def finite(name: str, array: FloatArray) -> None:
    """Refuse NaN and infinities, naming the first position and their number."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        index = f"[{', '.join(map(str, bad[0]))}]" if array.ndim else ""
        more = f" ({len(bad)} such entries)" if len(bad) > 1 else ""
        raise InvalidNumbers(
            f"{name}{index} is {array[tuple(bad[0])]}{more}; every entry must be finite.",
            parameter=name,
        )


def broadcast(**arrays: FloatArray) -> tuple[FloatArray, ...]:
    """Return named arrays in their common shape; refuse shapes that do not broadcast together."""
    try:
        return np.broadcast_arrays(*arrays.values())
    except ValueError:
        shapes = [f"{name} of shape {list(array.shape)}" for name, array in arrays.items()]
        raise InvalidShape(f"{' and '.join(shapes)} do not broadcast together.") from None


def weights(name: str, values: ArrayLike, p: int) -> FloatArray:
    """Return p finite weights, given as an array or as one number for all."""
    array = floats(name, values)
    finite(name, array)
    if array.shape not in ((), (p,)):
        got = list(array.shape)
        raise InvalidShape(
            f"{name} must be a number or have shape [{p}], got {got}.", parameter=name
        )
    return np.asarray(np.broadcast_to(array, p))


def stochastic(name: str, rows: FloatArray, used: BoolArray | None = None) -> None:
    """Refuse rows (last axis) that are not probability distributions.

    ``used`` masks the leading indices whose rows are checked.
    """
    mask = np.ones(rows.shape[:1], dtype=bool) if used is None else used
    kept = rows[mask] if rows.ndim > 1 else rows
    firsts = np.flatnonzero(mask)

    def position(index: tuple[int, ...]) -> str:
        return ", ".join(map(str, (firsts[index[0]], *index[1:]) if rows.ndim > 1 else index))

    for invalid, kind in ((np.isnan(kept), "NaN"), (kept < 0, "negative")):
        if invalid.any():
            at = tuple(int(i) for i in np.argwhere(invalid)[0])
            value = "" if kind == "NaN" else f" ({kept[at]:g})"
            raise InvalidProbabilities(
                f"{name}[{position(at)}] is {kind}{value}; probabilities must be >= 0."
            )
    sums = np.atleast_1d(kept.sum(axis=-1))
    off = np.argwhere(~(np.abs(sums - 1.0) <= TOLERANCE))
    if len(off):
        at = tuple(int(i) for i in off[0])
        where = f"{name}[{position(at)}]" if rows.ndim > 1 else name
        raise InvalidProbabilities(
            f"{where} sums to {sums[at]:.12g}, not 1; each row must be a probability distribution "
            f"(to {TOLERANCE:g}: divide it by its sum if it was rounded)."
        )


def generator(rng: RNG) -> tuple[np.random.Generator, np.random.SeedSequence | None]:
    """Return a generator and its seed (None if a generator was passed in)."""
    if isinstance(rng, np.random.Generator):
        return rng, None
    if isinstance(rng, np.random.SeedSequence):
        return np.random.default_rng(rng), rng
    is_integer = isinstance(rng, (int, np.integer)) and type(rng) is not bool
    if rng is not None and (not is_integer or rng < 0):
        raise InvalidParameter(
            f"rng must be a whole number >= 0, a SeedSequence, a Generator or None, got {rng!r}.",
            parameter="rng",
        )
    seed = np.random.SeedSequence(rng)
    return np.random.default_rng(seed), seed


SHORTEST = 1e-300
"""Shortest side of a box, and 1 / its longest."""


def box(owner: str, low: ArrayLike, high: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the corners of a box if every side has a positive, finite length."""
    lower, upper = floats("low", low), floats("high", high)
    shape("low", lower, ("d",))
    shape("high", upper, (len(lower),))
    if not len(lower):
        raise InvalidParameter(f"{owner}: the box has no dimensions.")
    for d in np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper) & (lower < upper)))[:1]:
        raise InvalidParameter(
            f"{owner}: low[{d}] = {lower[d]:g} must be less than high[{d}] = {upper[d]:g}."
        )
    with np.errstate(over="ignore"):
        side = upper - lower
    for d in np.flatnonzero(~((side > SHORTEST) & (side < 1.0 / SHORTEST)))[:1]:
        raise InvalidParameter(
            f"{owner}: the box has a side from low[{d}] = {lower[d]:g} to high[{d}] = "
            f"{upper[d]:g}, and floats cannot divide that: scale the column."
        )
    return lower, upper
