"""Policies as tables π[s, a] or functions of observations, and the ratios between two of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, BoolArray, FloatArray
from saddleback.errors import CoverageError, InvalidParameter

__all__ = [
    "Policy", "always", "check_coverage", "mixture", "named_columns", "pump", "ratio", "table",
    "uniform",
]  # fmt: skip

Policy: TypeAlias = Callable[[FloatArray], ArrayLike]
"""Action probabilities [n, A] for observations [n, d]."""


COLUMNS = "takes_named_columns"
"""Attribute of a function that takes columns by name."""

Function = TypeVar("Function", bound=Callable[..., object])


def named_columns(function: Function) -> Function:
    """Mark a policy that takes the columns of the observation by name, as a dict of arrays [n].

    A policy whose first parameter is annotated as a dict or Mapping, a pandas or polars DataFrame,
    or an Arrow Table needs no mark: it gets what it asks for.

    Examples
    --------
    >>> @named_columns
    ... def treat(obs):
    ...     sick = obs["sofa"] > 5
    ...     return np.column_stack([~sick, sick])
    """
    try:
        setattr(function, COLUMNS, True)
    except AttributeError:
        raise InvalidParameter(
            f"named_columns marks functions, and {function!r} cannot be marked: wrap it in one, or "
            "annotate its parameter as a dict."
        ) from None
    return function


def table(name: str, policy: ArrayLike, acting: BoolArray, actions: int) -> FloatArray:
    """Return ``policy`` as a checked [s, a] table; rows of states that never act do not matter.

    Examples
    --------
    >>> acting = np.array([True, False])
    >>> table("target", [[0.2, 0.8], [0, 0]], acting, 2)
    array([[0.2, 0.8],
           [0.5, 0.5]])
    """
    probabilities = _validate.floats(name, policy)
    _validate.shape(name, probabilities, (len(acting), actions))
    _validate.stochastic(name, probabilities, used=acting)
    probabilities[~acting] = 1.0 / actions
    return probabilities


def ratio(target: FloatArray, behaviour: FloatArray) -> FloatArray:
    """Importance ratio ρ(s, a) = π(a|s) / μ(a|s), and 0 where μ never takes the action.

    Examples
    --------
    >>> ratio(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]))
    array([[4., 0.]])
    """
    return np.divide(target, behaviour, out=np.zeros_like(target), where=behaviour > 0)


def check_coverage(target: FloatArray, behaviour: FloatArray, acting: BoolArray) -> None:
    """Refuse a target that takes actions the behaviour never takes: π > 0 must imply μ > 0.

    Examples
    --------
    >>> check_coverage(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]]), np.array([True]))
    """
    missing = (target > 0) & (behaviour == 0) & acting[:, None]
    if missing.any():
        pairs = [f"state {s}: action {a}" for s, a in np.argwhere(missing)]
        shown = ", ".join(pairs[:5]) + (f" and {len(pairs) - 5} more" if len(pairs) > 5 else "")
        raise CoverageError(
            "the target policy takes actions the behaviour policy never takes, so nothing can be "
            f"learned about them ({shown}). Give them positive behaviour probability, or take "
            "them out of the target."
        )


def uniform(actions: int) -> Policy:
    """Every action alike: π(a|s) = 1/K.

    Examples
    --------
    >>> uniform(2)(np.zeros((1, 3)))
    array([[0.5, 0.5]])
    """
    return partial(_constant, np.full(actions, 1.0 / actions))


def always(action: int, actions: int) -> Policy:
    """One action whatever is observed: π(a|s) = 1.

    Examples
    --------
    >>> always(1, 3)(np.zeros((1, 2)))
    array([[0., 1., 0.]])
    """
    return partial(_constant, np.eye(actions)[action])


def _constant(row: FloatArray, observations: FloatArray) -> FloatArray:
    return np.repeat(row[None], len(observations), axis=0)


def mixture(policy: Policy, other: Policy, share: float) -> Policy:
    """π = (1 − share)·policy + share·other; with `uniform` as the other, ε-greedy.

    Examples
    --------
    >>> mixture(always(0, 2), uniform(2), 0.1)(np.zeros((1, 1))).round(3)
    array([[0.95, 0.05]])
    """
    weight = _validate.unit("mixture", "share", share)
    return partial(_mixture, policy, other, weight)


def _mixture(policy: Policy, other: Policy, share: float, observations: FloatArray) -> FloatArray:
    one, two = (np.asarray(each(observations)) for each in (policy, other))
    return np.asarray((1 - share) * one + share * two)


def pump(probability: float) -> Policy:
    """Push a car in its direction of motion with this probability (MountainCar; rest is left).

    Examples
    --------
    >>> pump(0.8)(np.array([[-0.5, 0.01], [-0.5, 0.0]])).round(3)
    array([[0.1, 0.1, 0.8],
           [0.8, 0.1, 0.1]])
    """
    most = _validate.unit("pump", "probability", probability)
    rest = (1 - most) / 2
    rows = np.array([[most, rest, rest], [rest, rest, most]])
    return partial(_pump, rows)


def _pump(rows: FloatArray, observations: FloatArray) -> FloatArray:
    return np.asarray(rows[(np.asarray(observations)[:, 1] > 0).astype(np.int64)])
