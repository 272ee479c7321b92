"""Policies as tables π[s, a] or functions of observations, and importance ratios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, BoolArray, FloatArray
from saddleback.errors import CoverageError, InvalidParameter

__all__ = [
    "Gaussian", "Policy", "Sampler", "always", "check_coverage", "mixture", "named_columns", "pump",
    "ratio", "table", "uniform",
]  # fmt: skip

Policy: TypeAlias = Callable[[FloatArray], ArrayLike]
"""Action probabilities [n, A] for observations [n, d]."""


COLUMNS = "takes_named_columns"
"""Attribute that marks a function whose argument is columns by name."""

Function = TypeVar("Function", bound=Callable[..., object])


def named_columns(function: Function) -> Function:
    """Mark a policy whose argument is the columns of the observation by name, a dict of arrays [n].

    A policy whose first parameter is annotated as a dict or Mapping, a pandas or polars DataFrame,
    or an Arrow Table needs no mark: it is called with that type.

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
            f"named_columns cannot set an attribute on {function!r}: wrap it in a function, or "
            "annotate its parameter as a dict."
        ) from None
    return function


def table(name: str, policy: ArrayLike, acting: BoolArray, actions: int) -> FloatArray:
    """Return ``policy`` as a validated table [s, a]; rows of terminal states are ignored.

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
    """Return importance ratios ρ(s, a) = π(a|s) / μ(a|s), with 0 where μ never takes the action.

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
            "the target policy takes actions that the behaviour policy never takes, so their "
            f"values cannot be learned ({shown}). Give them positive behaviour probability, or "
            "remove them from the target."
        )


def uniform(actions: int) -> Policy:
    """Return the uniform policy: π(a|s) = 1/K.

    Examples
    --------
    >>> uniform(2)(np.zeros((1, 3)))
    array([[0.5, 0.5]])
    """
    return partial(_constant, np.full(actions, 1.0 / actions))


def always(action: int, actions: int) -> Policy:
    """Return the policy that always takes one action: π(a|s) = 1.

    Examples
    --------
    >>> always(1, 3)(np.zeros((1, 2)))
    array([[0., 1., 0.]])
    """
    return partial(_constant, np.eye(actions)[action])


def _constant(row: FloatArray, observations: FloatArray) -> FloatArray:
    return np.repeat(row[None], len(observations), axis=0)


def mixture(policy: Policy, other: Policy, share: float) -> Policy:
    """Return π = (1 − share)·policy + share·other; with `uniform` as the other, ε-greedy.

    Examples
    --------
    >>> mixture(always(0, 2), uniform(2), 0.1)(np.zeros((1, 1))).round(3)
    array([[0.95, 0.05]])
    """
    weight = _validate.unit("mixture", "share", share)
    return partial(_mixture, policy, other, weight)


def _mixture(policy: Policy, other: Policy, share: float, observations: FloatArray) -> FloatArray:
    first, second = (np.asarray(member(observations)) for member in (policy, other))
    return np.asarray((1 - share) * first + share * second)


def pump(probability: float) -> Policy:
    """Push a car in its direction of motion with this probability (MountainCar; left at rest).

    Examples
    --------
    >>> pump(0.8)(np.array([[-0.5, 0.01], [-0.5, 0.0]])).round(3)
    array([[0.1, 0.1, 0.8],
           [0.8, 0.1, 0.1]])
    """
    p = _validate.unit("pump", "probability", probability)
    rest = (1 - p) / 2
    rows = np.array([[p, rest, rest], [rest, rest, p]])
    return partial(_pump, rows)


def _pump(rows: FloatArray, observations: FloatArray) -> FloatArray:
    return np.asarray(rows[(np.asarray(observations)[:, 1] > 0).astype(np.int64)])


@dataclass(frozen=True)
class Gaussian:
    """A policy of continuous actions, a ~ N(m(s), Σ(s)).

    Attributes
    ----------
    mean
        m as a function from observations [n, d] to actions [n, k].
    covariance
        Σ: a number (the variance of every entry), k variances or a matrix [k, k]; or a function
        from observations [n, d] to variances [n, k] or matrices [n, k, k].

    Examples
    --------
    >>> careful = Gaussian(lambda obs: -0.5 * obs[:, :1], covariance=0.04)
    >>> careful.mean(np.array([[2.0]])), careful.covariance
    (array([[-1.]]), 0.04)
    """

    mean: Callable[[FloatArray], ArrayLike]
    covariance: ArrayLike | Callable[[FloatArray], ArrayLike]


@dataclass(frozen=True)
class Sampler:
    """A policy of continuous actions that can be sampled: E_π f(s, a) ≈ Σ_j f(s, a_j)/16.

    Attributes
    ----------
    draw
        A function of observations [n, d] and a NumPy generator that returns one action for each
        observation, [n, k].
    density
        Its density as a function of observations [n, d] and actions [n, k], if it is known.

    Examples
    --------
    >>> box = Sampler(lambda obs, rng: rng.uniform(-1.0, 1.0, (len(obs), 1)))
    >>> box.draw(np.zeros((3, 2)), np.random.default_rng(0)).shape
    (3, 1)
    """

    draw: Callable[[FloatArray, np.random.Generator], ArrayLike]
    density: Callable[[FloatArray, FloatArray], ArrayLike] | None = None
