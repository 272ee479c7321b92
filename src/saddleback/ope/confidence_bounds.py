"""Confidence intervals for means over independent episodes, and their assumptions.

Student's t assumes that the mean is approximately normal. Empirical Bernstein assumes known bounds
and holds for every n. Truncation assumes values ≥ 0 and gives a lower bound on their mean.
"""

from __future__ import annotations

import numpy as np
import scipy

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter

PILOT_STRIDE = 20
"""Every 20th value is used to choose the truncation point, as in Thomas et al."""


def student(values: FloatArray, level: float) -> tuple[float, float]:
    """Return mean ± t_{n−1} s/√n.

    Examples
    --------
    >>> tuple(round(end, 2) for end in student(np.array([1.0, 2.0, 3.0]), 0.95))
    (-0.48, 4.48)
    """
    n = require_two_episodes(len(values))
    check_level(level)
    if not np.isfinite(values).all():
        return float("nan"), float("nan")
    with np.errstate(over="ignore", invalid="ignore"):  # of huge weights
        width = scipy.special.stdtrit(n - 1, 0.5 + 0.5 * level) * values.std(ddof=1) / np.sqrt(n)
    return float(values.mean() - width), float(values.mean() + width)


def bernstein(values: FloatArray, low: float, high: float, level: float) -> tuple[float, float]:
    """Return the empirical Bernstein interval for the mean of values in [low, high].

    Each side holds with probability 1 − δ, δ = (1 − level)/2:

        mean ± (√(2 s² ln(2/δ)/n) + 7 (high − low) ln(2/δ)/(3(n − 1)))

    References
    ----------
    A. Maurer, M. Pontil, Empirical Bernstein bounds and sample variance penalization, COLT 2009,
    theorem 4.

    Examples
    --------
    >>> many = np.tile([0.0, 1.0], 5000)
    >>> tuple(round(end, 3) for end in bernstein(many, 0.0, 1.0, 0.95))
    (0.484, 0.516)
    """
    n = require_two_episodes(len(values))
    check_level(level)
    log = np.log(4.0 / (1.0 - level))
    width = np.sqrt(2.0 * values.var(ddof=1) * log / n) + 7 * (high - low) * log / (3 * (n - 1))
    return (
        float(max(low, values.mean() - width)),
        float(min(high, values.mean() + width)),
    )


def truncated(values: FloatArray, level: float, at: float | None = None) -> tuple[float, float]:
    """Return a lower bound on the mean of unbounded values ≥ 0, and the truncation point.

    Values above c are replaced by c, which can only lower their mean; then, with δ = 1 − level,

        mean min(X, c) − √(2 s² ln(2/δ)/n) − 7c ln(2/δ)/(3(n − 1)).

    c must not depend on the values it truncates. It is given, or chosen on every twentieth value so
    as to maximise the bound predicted for the others; the others then give the bound.

    References
    ----------
    P. S. Thomas, G. Theocharous, M. Ghavamzadeh, High-confidence off-policy evaluation, AAAI 2015.

    Examples
    --------
    >>> heavy = np.random.default_rng(0).pareto(1.5, 4000)  # mean 2
    >>> bound, at = truncated(heavy, 0.95)
    >>> 1.0 < bound < 2.0
    True
    """
    require_two_episodes(len(values))
    check_level(level)
    log = np.log(2.0 / (1.0 - level))
    if at is None:
        in_pilot = np.arange(len(values)) % PILOT_STRIDE == 0
        pilot, values = values[in_pilot], values[~in_pilot]
        if len(pilot) < 2 or len(values) < 2:
            raise InvalidParameter(
                f"truncation: {len(pilot) + len(values)} episodes are too few to choose the "
                f"truncation point (at least {PILOT_STRIDE + 1}); set it: truncate=…"
            )
        n = len(values)
        cuts = np.unique(pilot[np.isfinite(pilot) & (pilot > 0)])
        if not len(cuts):
            cuts = np.ones(1)
        cut = np.minimum(pilot, cuts[:, None])
        spread = np.sqrt(2.0 * cut.var(axis=1, ddof=1) * log / n)
        at = float(cuts[(cut.mean(axis=1) - spread - 7 * cuts * log / (3 * (n - 1))).argmax()])
    at = _validate.positive("truncation", "truncate", at)
    n, cut = len(values), np.minimum(values, at)
    width = np.sqrt(2.0 * cut.var(ddof=1) * log / n) + 7 * at * log / (3 * (n - 1))
    return float(max(0.0, cut.mean() - width)), at


def require_two_episodes(n: int) -> int:
    """Return n, or raise if there are fewer than two episodes."""
    if n < 2:
        raise InvalidParameter(
            f"a confidence interval needs at least two episodes, the log has {n}: episodes are "
            "independent, their steps are not. Log more episodes."
        )
    return n


def check_level(level: float) -> float:
    """Return the level, or raise if it does not lie between 0 and 1."""
    if not 0.0 < _validate.unit("interval", "level", level) < 1.0:
        raise InvalidParameter(f"interval: level must lie between 0 and 1, got {level!r}.")
    return level


def return_bounds(rewards: tuple[float, float], total: float) -> tuple[float, float]:
    """Bounds on the discounted return, including 0, where ``total`` is Σγ^t.

    Examples
    --------
    >>> return_bounds((-1.0, 0.5), discounted_horizon(0.5, None))
    (-2.0, 1.0)
    """
    return min(0.0, rewards[0] * total), max(0.0, rewards[1] * total)


def discounted_horizon(gamma: float, horizon: int | None) -> float:
    """Σ γ^t over at most ``horizon`` steps."""
    if horizon is None:
        if gamma == 1.0:
            raise InvalidParameter(
                "Bernstein: with γ = 1, returns are bounded only if episode lengths are: set the "
                "maximum number of steps: horizon=…"
            )
        return 1.0 / (1.0 - gamma)
    steps = _validate.count("Bernstein", "horizon", horizon)
    return float(steps) if gamma == 1.0 else (1.0 - gamma**steps) / (1.0 - gamma)


def reward_bounds(
    declared: tuple[float, float] | None, observed: tuple[float, float]
) -> tuple[float, float]:
    """Return the declared reward bounds; raise if missing, invalid or contradicted by the log."""
    if declared is None:
        raise InvalidParameter(
            "Bernstein needs reward bounds, which cannot be inferred from data (this log has "
            f"{observed[0]:g} to {observed[1]:g}, another may exceed them): rewards=(min, max). "
            "Student's t needs none."
        )
    pair = np.asarray(declared, dtype=np.float64)
    if pair.shape != (2,) or not np.isfinite(pair).all() or not pair[0] <= pair[1]:
        raise InvalidParameter(
            f"Bernstein: rewards must be two numbers, (min, max), got {declared!r}."
        )
    low, high = float(pair[0]), float(pair[1])
    if observed[0] < low or observed[1] > high:
        raise InvalidParameter(
            f"Bernstein: rewards={declared!r} is declared, but the log has rewards from "
            f"{observed[0]:g} to {observed[1]:g}."
        )
    return low, high
