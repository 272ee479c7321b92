"""Contract checks of feature maps, policies and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback._user_functions import ImpureFunction, call, check_rows
from saddleback.checks.rule_checks import CheckFailed
from saddleback.errors import SaddlebackError
from saddleback.features import Active, Features
from saddleback.log import Log, LogError
from saddleback.log.episode_hashes import Fingerprints
from saddleback.log.policy_query import check_policy_rows

SHORT_SEGMENT = 50
"""Rows of a segment in the second reading of a log."""


def check_features(features: Features, observations: ArrayLike) -> None:
    """Check a feature map on some observations [n, d].

    Its indices are whole numbers below ``size``, each at most once in a row; its values are finite.
    It does not change the observations, it gives the same features when it is called again, and
    those of an observation do not depend on the others.

    Examples
    --------
    >>> from saddleback.features import Tiles
    >>> check_features(Tiles((0.0,), (1.0,), bins=4, tilings=2), np.linspace(0, 1, 20)[:, None])
    """
    points = _points(observations)
    name = f"features {features!r}"
    for needed in ("size", "dimensions", "encode"):
        if not hasattr(features, needed):
            _fail(name, f"have no {needed}; wrap a function: features.Custom(function, size)")
    size: Any = features.size
    expected = features.dimensions
    if not isinstance(size, (int, np.integer)) or size < 1:
        _fail(name, f"size must be a whole number above 0, got {size!r}")
    if expected not in (None, points.shape[1]):
        _fail(name, f"expect {expected} entries per observation, got {points.shape[1]}")

    def dense(rows: FloatArray) -> FloatArray:
        result = call(name, features.encode, rows)
        _check_active(name, result, len(rows), int(size))
        return Active(*result).dense(int(size))

    with _failures():
        check_rows(name, dense, points, features.encode)


def _check_active(name: str, result: Any, n: int, size: int) -> None:
    """Check the indices and values of active features."""
    if not isinstance(result, tuple) or len(result) != 2:
        _fail(name, f"encode must return Active(indices, value), got {type(result).__name__}")
    indices, value = np.asarray(result[0]), result[1]
    if indices.ndim != 2 or len(indices) != n or indices.dtype.kind not in "ui":
        _fail(name, f"indices must be whole numbers [{n}, m], got {list(indices.shape)}")
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        _fail(name, f"indices must be 0 … {size - 1}, got {indices.min()} … {indices.max()}")
    values = np.ones(indices.shape) if value is None else np.asarray(value)
    if values.shape != indices.shape:
        _fail(name, f"values must be {list(indices.shape)} like indices, got {list(values.shape)}")
    if not np.isfinite(values).all():
        _fail(name, "a value is NaN or infinite")
    ordered = np.sort(np.where(values != 0, indices.astype(np.int64), -1), axis=1)
    repeated = (np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)
    for row in np.flatnonzero(repeated.any(axis=1))[:1]:
        _fail(name, f"observation {row} has an index with a value twice")


def check_policy(
    policy: Callable[[FloatArray], ArrayLike], observations: ArrayLike, n_actions: int
) -> None:
    """Check a policy on some observations [n, d].

    It returns one probability per action, [n, n_actions], with Σ_a π(a|s) = 1. It does not change
    the observations, it gives the same probabilities when it is called again, and those of an
    observation do not depend on the others.

    Examples
    --------
    >>> check_policy(lambda observations: np.full((len(observations), 2), 0.5), np.eye(3), 2)
    >>> check_policy(lambda observations: observations, [[0.5, 0.2]], 2)
    Traceback (most recent call last):
    ...
    saddleback.checks.rule_checks.CheckFailed: the policy: probabilities sum to 0.7, not 1, for 1
    of 1 observations (first: [0.5, 0.2]). Divide the probabilities of an observation by their sum.
    """
    if not callable(policy):
        _fail("the policy", f"must be a function of observations, got {policy!r}")

    with _failures():
        check_policy_rows("the", policy, _points(observations), n_actions)


def check_log(log: Log) -> None:
    """Check a log: every row is valid, and reading it again, in other segments, gives the same.

    A behaviour policy that is given as a function is checked like any policy.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> check_log(collect(problems.mountain_car(), episodes=5, rng=0))
    """
    _validate.instance("check_log", "log", log, Log)
    first = _contents(log)
    if log.behaviour is not None:
        check_policy(log.behaviour, next(log.segments()).observations, log.n_actions)
    second = _contents(log.with_options(segment=SHORT_SEGMENT))
    for name, values in first.items():
        if not np.array_equal(values, second[name]):
            _fail(repr(log), f"a second reading, in other segments, gives other {name}")


def _contents(log: Log) -> dict[str, Any]:
    """Return hashes of the episodes of a log, and its propensities."""
    prints, propensities = Fingerprints(), []
    try:
        for segment in log.segments():
            prints.add(segment)
            if segment.propensity is not None:
                propensities.append(segment.propensity)
    except SaddlebackError as error:
        raise CheckFailed(f"{log!r}: {error}") from error
    ids, rows, unfinished = prints.arrays()
    return {
        "episodes": ids, "rows": rows, "ends": unfinished,
        "propensities": np.concatenate(propensities or [np.zeros(0)]),
    }  # fmt: skip


@contextmanager
def _failures() -> Iterator[None]:
    """Raise errors as failed checks, without their codes."""
    try:
        yield
    except LogError as error:
        raise CheckFailed("\n".join(finding.message for finding in error.findings)) from error
    except ImpureFunction as error:
        raise CheckFailed(error.message) from error


def _points(observations: ArrayLike) -> FloatArray:
    points = _validate.floats("observations", observations)
    _validate.shape("observations", points, ("n", "d"))
    return points


def _fail(name: str, failure: str) -> NoReturn:
    raise CheckFailed(f"{name}: {failure}.")
