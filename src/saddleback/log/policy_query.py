"""Asking a policy for probabilities, and refusing an answer that is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log.diagnostics import Finding, LogError

TOLERANCE = 1e-6
"""How far the probabilities of a policy may sum from 1."""


def query_policy(name: str, policy: Any, observations: FloatArray, n_actions: int) -> FloatArray:
    """Return probabilities [n, K] of a policy, or say what is wrong with its answer."""
    try:
        answer = np.asarray(policy(observations), dtype=np.float64)
    except Exception as error:
        what = f"{name} policy failed: {type(error).__name__}: {error}"
        raise LogError([Finding("E144", what)]) from error
    if answer.shape != (len(observations), n_actions):
        sizes = [str(size) for size in answer.shape]
        if answer.shape[:1] == (len(observations),):
            sizes[0] = "n"
        got = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
        raise LogError(
            [
                Finding(
                    "E141",
                    f"{name} policy returned shape ({got}), {n_actions} actions in the log: it "
                    "must return one probability for each row and action, (n, "
                    f"{n_actions}).",
                )
            ]
        )
    return check_distribution(f"{name} policy", answer, observations)


def check_distribution(name: str, answer: FloatArray, observations: FloatArray) -> FloatArray:
    """Refuse rows that are not probability distributions, naming the first."""
    total = answer @ np.ones(answer.shape[1])
    if not answer.size or (answer.min() >= 0 and np.abs(total - 1.0).max() <= TOLERANCE):
        return answer
    for what, wrong in (
        ("NaN", np.isnan(answer).any(axis=1)),
        ("a negative probability", (answer < 0).any(axis=1)),
    ):
        for i in np.flatnonzero(wrong)[:1]:
            raise LogError(
                [
                    Finding(
                        "E144",
                        f"{name} gives {what} for {int(wrong.sum()):,} of {len(answer):,} "
                        f"observations (first: {_few(observations[i])}). It must give every "
                        "observation of the log a probability for each action.",
                    )
                ]
            )
    off = ~(np.abs(total - 1.0) <= TOLERANCE)
    i = int(off.argmax())
    raise LogError(
        [
            Finding(
                "E104",
                f"{name} sums to {total[i]:.6g} rather than 1 for {int(off.sum()):,} of "
                f"{len(answer):,} observations (first: {_few(observations[i])}).",
            )
        ]
    )


def _few(observation: FloatArray) -> str:
    shown = ", ".join(f"{x:.4g}" for x in observation[:6])
    return f"[{shown}{', …' if len(observation) > 6 else ''}]"
