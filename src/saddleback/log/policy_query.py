"""Query a policy for action probabilities and validate them."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log.diagnostics import Finding, LogError

TOLERANCE = 1e-6
"""Largest deviation from 1 of a sum of probabilities."""


def query_policy(name: str, policy: Any, observations: FloatArray, n_actions: int) -> FloatArray:
    """Return the probabilities [n, K] of a policy, or raise `LogError` if they are invalid."""
    try:
        probabilities = np.asarray(policy(observations), dtype=np.float64)
    except Exception as error:
        message = f"{name} policy failed: {type(error).__name__}: {error}"
        raise LogError([Finding("E144", message)]) from error
    if probabilities.shape != (len(observations), n_actions):
        sizes = [str(size) for size in probabilities.shape]
        if probabilities.shape[:1] == (len(observations),):
            sizes[0] = "n"
        shape = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
        raise LogError(
            [
                Finding(
                    "E141",
                    f"{name} policy returned shape ({shape}); expected (n, {n_actions}), one "
                    "probability per row and action of the log.",
                )
            ]
        )
    return check_distribution(f"{name} policy", probabilities, observations)


def check_distribution(
    name: str, probabilities: FloatArray, observations: FloatArray
) -> FloatArray:
    """Raise an error if a row is not a probability distribution, naming the first one."""
    total = probabilities @ np.ones(probabilities.shape[1])
    if not probabilities.size or (
        probabilities.min() >= 0 and np.abs(total - 1.0).max() <= TOLERANCE
    ):
        return probabilities
    for problem, wrong in (
        ("NaN", np.isnan(probabilities).any(axis=1)),
        ("a negative probability", (probabilities < 0).any(axis=1)),
    ):
        for i in np.flatnonzero(wrong)[:1]:
            raise LogError(
                [
                    Finding(
                        "E144",
                        f"{name} gives {problem} for {int(wrong.sum()):,} of "
                        f"{len(probabilities):,} observations (first: "
                        f"{_format_observation(observations[i])}). Every observation needs one "
                        "probability per action.",
                    )
                ]
            )
    wrong = ~(np.abs(total - 1.0) <= TOLERANCE)
    i = int(wrong.argmax())
    raise LogError(
        [
            Finding(
                "E104",
                f"{name}: probabilities sum to {total[i]:.6g}, not 1, for {int(wrong.sum()):,} of "
                f"{len(probabilities):,} observations (first: "
                f"{_format_observation(observations[i])}).",
            )
        ]
    )


def _format_observation(observation: FloatArray) -> str:
    shown = ", ".join(f"{x:.4g}" for x in observation[:6])
    return f"[{shown}{', …' if len(observation) > 6 else ''}]"
