"""Asking a policy for probabilities, and refusing an answer that is none."""

from __future__ import annotations

from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log.findings import Finding, LogError

TOLERANCE = 1e-6
"""How far the probabilities of a policy may sum from 1."""


def ask(name: str, policy: Any, observations: FloatArray, n_actions: int) -> FloatArray:
    """Return probabilities [n, K] of a policy, or say what is wrong with its answer."""
    try:
        answer = np.asarray(policy(observations), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LogError([Finding("E144", f"{name} policy failed: {error}")]) from error
    if answer.shape != (len(observations), n_actions):
        got = ", ".join(["n" if answer.shape[:1] == (len(observations),) else str(answer.shape[:1])]
                        + [str(k) for k in answer.shape[1:]])  # fmt: skip
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
    return sound(f"{name} policy", answer, observations)


def sound(name: str, answer: FloatArray, observations: FloatArray) -> FloatArray:
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
                        f"observations (first: {_few(observations[i])}).",
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
