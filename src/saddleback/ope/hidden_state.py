"""Does the history of an episode tell what the observation hides?"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray

SIGNIFICANT = 3.0
"""Standard errors from which duals that see the history contradict the observation."""

BETTER, CHANGED = 0.95, 2.0
"""Loss of the history relative to that of the observation, below which it predicts more, and the
standard errors by which its estimate must differ then."""

CLEARLY, AS_PRECISE = 0.5, 2.0
"""Relative loss from which any estimate of the history is preferred, and the largest standard error
of others, relative to that of the observation."""

WORSE = 1.25
"""Relative loss above which estimates by the history are less accurate, whatever they find."""

NEGLIGIBLE = 1e-6
"""Share of the variance of goals that counts as predicted."""

CONSTANT = 1e-12
"""Variance of a goal, relative to its mean square, up to which there is nothing to predict."""


def is_hidden(
    residuals: FloatArray,
    observation: FloatArray,
    history: FloatArray,
    dispersion: float,
    relative: float,
) -> bool:
    """Return whether the estimate should be that of the history.

    ``residuals`` are what duals that see the history find in each episode, [E]. ``observation`` and
    ``history`` are the scores of the two estimates, [E], with the ``dispersion`` of the latter, and
    ``relative`` is the loss of the history relative to that of the observation (`relative_loss`).

    Examples
    --------
    >>> noise, none = np.array([-1.0, 1.0] * 50), np.zeros(100)
    >>> is_hidden(noise, none, noise, 0.0, 1.0), is_hidden(1 + noise, none, noise, 0.0, 1.0)
    (False, True)
    >>> [is_hidden(noise, none, 0.25 + noise, 0.0, relative) for relative in (1.0, 0.4)]
    [False, True]
    """
    if relative > WORSE:
        return False
    changes = history - observation
    predicts = relative < BETTER and dispersion <= abs(float(changes.mean())) / 2.0
    precise = relative < CLEARLY or history.std() <= AS_PRECISE * observation.std()
    clearly_better = predicts and bool(precise) and _in_errors(changes) > CHANGED
    return clearly_better or _in_errors(residuals) > SIGNIFICANT


def _in_errors(values: FloatArray) -> float:
    """Return the mean in standard errors."""
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return float(abs(values.mean()) / max(error, 1e-300))


def relative_loss(history: FloatArray, observation: FloatArray, goals: FloatArray) -> float:
    """Return how well the history predicts backups, relative to the observation.

    The losses are those of all candidates of a view, [N, P], for ``goals`` [n, P]. The best ones
    count, as shares of the variance of each goal that varies, in the mean. A goal that one view
    predicts exactly, as often rewards, has no more weight than others.

    Examples
    --------
    >>> history, observation = np.array([[0.1, 0.2], [9.0, 0.1]]), np.array([[0.4, 0.4]])
    >>> round(relative_loss(history, observation, np.array([[1.0, 0.0], [0.0, 2.0]])), 3)
    0.25
    """
    variance = goals.var(axis=0)
    best = [np.where(np.isfinite(one), one, np.inf).min(axis=0) for one in (history, observation)]
    varies = variance > CONSTANT * (goals**2).mean(axis=0)
    varies &= np.isfinite(best).all(axis=0)
    if not varies.any():
        return 1.0
    unpredicted = [float((one[varies] / variance[varies]).mean()) + NEGLIGIBLE for one in best]
    return unpredicted[0] / unpredicted[1]
