"""Does the history of an episode tell what the observation hides?"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray
from saddleback.ope.windowed_ratios import share_of_change

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


def share_of_history(
    residuals: FloatArray,
    observation: FloatArray,
    history: FloatArray,
    dispersion: float,
    relative: float,
) -> float:
    """Return the share of the estimate by the history; the rest is that by the observation.

    ``residuals`` are what duals that see the history find in each episode, [E]. ``observation`` and
    ``history`` are the scores of the two estimates, [E], with the ``dispersion`` of the latter, and
    ``relative`` is the loss of the history relative to that of the observation (`relative_loss`).
    An imprecise estimate replaces the other one only as far as their difference is beyond noise.

    Examples
    --------
    >>> noise, none = np.array([-1.0, 1.0] * 50), np.zeros(100)
    >>> [share_of_history(mean + noise, none, noise, 0.0, 0.4) for mean in (0.0, 1.0)]
    [0.0, 1.0]
    >>> [share_of_history(noise, none, 0.25 + noise, 0.0, relative) for relative in (1.0, 0.4)]
    [0.0, 1.0]
    >>> round(share_of_history(1 + noise, 0.1 * noise, 0.4 + noise, 0.0, 0.9), 2)
    0.8
    """
    if relative > WORSE:
        return 0.0
    changes = history - observation
    change, error = float(changes.mean()), _error(changes)
    clearly = relative < CLEARLY or bool(history.std() <= AS_PRECISE * observation.std())
    predicts = relative < BETTER and dispersion <= abs(change) / 2.0
    if predicts and clearly and _in_errors(changes) > CHANGED:
        return 1.0
    if _in_errors(residuals) <= SIGNIFICANT:
        return 0.0
    return 1.0 if clearly else share_of_change(change, float(np.hypot(error, dispersion)))


def _error(values: FloatArray) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _in_errors(values: FloatArray) -> float:
    """Return the mean in standard errors."""
    return float(abs(values.mean()) / max(_error(values), 1e-300))


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
