"""Query a policy for action probabilities and validate them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from saddleback._display import join_names
from saddleback._plugins import USER_ERRORS
from saddleback._typing import FloatArray
from saddleback._user_functions import ImpureFunction, Recheck, call, check_rows, describe_error
from saddleback.errors import Fix
from saddleback.log.diagnostics import Finding, LogError
from saddleback.log.likely_columns import PLACEHOLDER

TOLERANCE = 1e-6
"""Largest deviation from 1 of a sum of probabilities."""


def query_policy(
    name: str,
    policy: Any,
    observations: FloatArray,
    n_actions: int,
    actions: Sequence[str] = (),
) -> FloatArray:
    """Return the probabilities [n, K] of a policy, or raise `LogError` if they are invalid.

    ``actions`` are the names of the actions, for messages.
    """
    try:
        returned = np.asarray(call(f"E144 {name} policy", policy, observations))
        if returned.dtype.kind not in "biufO":
            raise TypeError(f"it returned {returned.dtype} instead of numbers")
        probabilities = np.array(returned, np.float64)  # the policy may reuse its array
    except ImpureFunction:
        raise
    except USER_ERRORS as error:
        message = f"{name} policy failed: {describe_error(error)}"
        raise LogError(Finding("E144", message)) from error
    if probabilities.shape != (len(observations), n_actions):
        sizes = [str(size) for size in probabilities.shape]
        if probabilities.shape[:1] == (len(observations),):
            sizes[0] = "n"
        shape = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
        message = (
            f"{name} policy returned shape ({shape}); expected (n, {n_actions}), one probability "
            "per row and action of the log."
        )
        message += f" Its actions are {join_names(actions)}." if 0 < len(actions) <= 12 else ""
        raise LogError(Finding("E141", message, _fix_of_shape(probabilities.shape, actions)))
    return check_distribution(f"{name} policy", probabilities, observations)


def _fix_of_shape(shape: tuple[int, ...], actions: Sequence[str]) -> Fix | None:
    """Return the fix for a policy with more actions than the log."""
    if not actions or len(shape) != 2 or not len(actions) < shape[1] <= 12:
        return None
    names = [*actions, *[PLACEHOLDER] * (shape[1] - len(actions))]
    if list(actions) == list(map(str, range(len(actions)))):
        names = list(map(str, range(shape[1])))
    return Fix("If the policy has more, name all of them in its order", "actions", names)


def check_policy_rows(
    name: str,
    policy: Any,
    observations: FloatArray,
    n_actions: int,
    actions: Sequence[str] = (),
) -> Recheck:
    """Raise unless a policy treats each observation alone, and always the same."""
    return check_rows(
        f"E144 {name} policy", lambda rows: query_policy(name, policy, rows, n_actions, actions),
        observations, policy,
    )  # fmt: skip


def check_distribution(
    name: str, probabilities: FloatArray, observations: FloatArray
) -> FloatArray:
    """Raise an error if a row is not a probability distribution, naming the first one."""
    total = probabilities @ np.ones(probabilities.shape[1])
    if not probabilities.size or (
        probabilities.min() >= 0 and np.abs(total - 1.0).max() <= TOLERANCE
    ):
        return probabilities
    requirement = " Every observation needs one probability per action."
    divide = " Divide the probabilities of an observation by their sum."
    for code, wrong, problem, hint in (
        ("E144", np.isnan(probabilities).any(axis=1), " gives NaN", requirement),
        ("E144", (probabilities < 0).any(axis=1), " gives a negative probability", requirement),
        ("E104", np.abs(total - 1.0) > TOLERANCE, ": probabilities sum to {:.6g}, not 1,", divide),
    ):
        for i in np.flatnonzero(wrong)[:1]:
            message = (
                f"{name}{problem.format(total[i])} for {int(wrong.sum()):,} of "
                f"{len(observations):,} observations (first: "
                f"{format_observation(observations[i])}).{hint}"
            )
            raise LogError(Finding(code, message))
    return probabilities


def format_observation(observation: FloatArray) -> str:
    """Return the first entries of an observation as text."""
    shown = ", ".join(f"{x:.4g}" for x in observation[:6])
    return f"[{shown}{', …' if len(observation) > 6 else ''}]"
