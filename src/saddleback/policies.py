"""Policies as tables π[s, a], and the ratios between two of them."""

from __future__ import annotations

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, BoolArray, FloatArray
from saddleback.errors import CoverageError


def table(name: str, policy: ArrayLike, acting: BoolArray, actions: int) -> FloatArray:
    """Return ``policy`` as a checked [s, a] table; rows of states that never act do not matter."""
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
    """Refuse a target that takes actions the behaviour never takes: π > 0 must imply μ > 0."""
    missing = (target > 0) & (behaviour == 0) & acting[:, None]
    if missing.any():
        pairs = [f"state {s}: action {a}" for s, a in np.argwhere(missing)]
        shown = ", ".join(pairs[:5]) + (f" and {len(pairs) - 5} more" if len(pairs) > 5 else "")
        raise CoverageError(
            "the target policy takes actions the behaviour policy never takes, so nothing can be "
            f"learned about them ({shown}). Give them positive behaviour probability, or take "
            "them out of the target."
        )
