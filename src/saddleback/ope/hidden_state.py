"""Does the history of an episode tell what the observation hides?"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray

SIGNIFICANT = 3.0
"""Standard errors from which duals that see the history contradict the observation."""

BETTER, CHANGED = 0.95, 2.0
"""Loss of the history relative to that of the observation, below which it predicts more,
and the standard errors by which its estimate must differ then."""

WORSE = 1.25
"""Relative loss above which estimates by the history are less accurate, whatever they find."""

NEGLIGIBLE = 1e-6
"""Loss that counts as none, relative to the smallest one that a constant has."""


def is_hidden(residuals: FloatArray, changes: FloatArray, relative: float) -> bool:
    """Return whether the estimate should be that of the history.

    ``residuals`` are what duals that see the history find in each episode, [E], ``changes`` how
    much the scores of the two estimates differ, [E], and ``relative`` is the loss of the history
    relative to that of the observation (`relative_loss`).

    Examples
    --------
    >>> noise = np.array([-1.0, 1.0] * 50)
    >>> is_hidden(noise, noise, 1.0), is_hidden(1 + noise, noise, 1.0)
    (False, True)
    >>> is_hidden(noise, 0.25 + noise, 1.0), is_hidden(noise, 0.25 + noise, 0.5)
    (False, True)
    """
    if relative > WORSE:
        return False
    clearly_better = relative < BETTER and _in_errors(changes) > CHANGED
    return clearly_better or _in_errors(residuals) > SIGNIFICANT


def _in_errors(values: FloatArray) -> float:
    """Return the mean in standard errors."""
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return float(abs(values.mean()) / max(error, 1e-300))


def relative_loss(history: FloatArray, observation: FloatArray, variance: FloatArray) -> float:
    """Return how well the history predicts backups, relative to the observation.

    The losses are those of all candidates of a view, [N, P]; ``variance`` is that of each goal. The
    best ones count, in geometric mean over goals.

    Examples
    --------
    >>> history, observation = np.array([[0.1, 0.2], [9.0, 0.1]]), np.array([[0.4, 0.4]])
    >>> round(relative_loss(history, observation, np.ones(2)), 3)
    0.25
    """
    floor = NEGLIGIBLE * variance + 1e-300
    best = [np.log(losses.min(axis=0) + floor) for losses in (history, observation)]
    return float(np.exp((best[0] - best[1]).mean()))
