"""Intervals for means of independent episodes, and what each of them supposes.

Student's t supposes that the mean is near normal. Empirical Bernstein supposes a range, and holds
for every n. Truncation supposes numbers ≥ 0, and bounds their mean from below.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter

HELD_OUT = 20
"""One number in so many is used to choose where to truncate, as by Thomas et al."""


def student(numbers: FloatArray, level: float) -> tuple[float, float]:
    """Return mean ± t_{n−1} s/√n.

    Examples
    --------
    >>> tuple(round(each, 2) for each in student(np.array([1.0, 2.0, 3.0]), 0.95))
    (-0.48, 4.48)
    """
    n = enough(len(numbers))
    chance(level)
    if not np.isfinite(numbers).all():
        return float("nan"), float("nan")
    width = special.stdtrit(n - 1, 0.5 + 0.5 * level) * numbers.std(ddof=1) / np.sqrt(n)
    return float(numbers.mean() - width), float(numbers.mean() + width)


def bernstein(numbers: FloatArray, low: float, high: float, level: float) -> tuple[float, float]:
    """Return the empirical Bernstein interval of the mean of numbers in [low, high].

    Each side holds with probability 1 − δ, δ = (1 − level)/2:

        mean ± (√(2 s² ln(2/δ)/n) + 7 (high − low) ln(2/δ)/(3(n − 1)))

    References
    ----------
    A. Maurer, M. Pontil, Empirical Bernstein bounds and sample variance penalization, COLT 2009,
    theorem 4.

    Examples
    --------
    >>> many = np.tile([0.0, 1.0], 5000)
    >>> tuple(round(each, 3) for each in bernstein(many, 0.0, 1.0, 0.95))
    (0.484, 0.516)
    """
    n = enough(len(numbers))
    chance(level)
    log = np.log(4.0 / (1.0 - level))
    width = np.sqrt(2.0 * numbers.var(ddof=1) * log / n) + 7 * (high - low) * log / (3 * (n - 1))
    return (
        float(max(low, numbers.mean() - width)),
        float(min(high, numbers.mean() + width)),
    )


def truncated(numbers: FloatArray, level: float, at: float | None = None) -> tuple[float, float]:
    """Return a lower bound of the mean of numbers ≥ 0 without an upper bound, and where it cuts.

    Numbers above c are cut to c, which can only lower their mean; then, with δ = 1 − level,

        mean min(X, c) − √(2 s² ln(2/δ)/n) − 7c ln(2/δ)/(3(n − 1)).

    c must not depend on the numbers: it is given, or chosen on every twentieth of them, as the one
    for which the bound that they predict for the others is greatest; the others give the bound.

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
    enough(len(numbers))
    chance(level)
    log = np.log(2.0 / (1.0 - level))
    if at is None:
        chosen = np.arange(len(numbers)) % HELD_OUT == 0
        few, numbers = numbers[chosen], numbers[~chosen]
        if len(few) < 2 or len(numbers) < 2:
            raise InvalidParameter(
                f"truncation: {len(few) + len(numbers)} episodes are too few to choose where to "
                f"truncate (at least {HELD_OUT + 1}); say where, truncate=…"
            )
        n = len(numbers)
        cuts = np.unique(few[np.isfinite(few) & (few > 0)])
        if not len(cuts):
            cuts = np.ones(1)
        cut = np.minimum(few, cuts[:, None])
        spread = np.sqrt(2.0 * cut.var(axis=1, ddof=1) * log / n)
        at = float(cuts[(cut.mean(axis=1) - spread - 7 * cuts * log / (3 * (n - 1))).argmax()])
    at = _validate.positive("truncation", "truncate", at)
    n, cut = len(numbers), np.minimum(numbers, at)
    width = np.sqrt(2.0 * cut.var(ddof=1) * log / n) + 7 * at * log / (3 * (n - 1))
    return float(max(0.0, cut.mean() - width)), at


def enough(n: int) -> int:
    """Refuse fewer than two episodes."""
    if n < 2:
        raise InvalidParameter(
            f"an interval needs at least two episodes, the log has {n}: episodes are what is "
            "independent, not their steps. Log more of them."
        )
    return n


def chance(level: float) -> float:
    """Refuse a level that is not between 0 and 1."""
    if not 0.0 < _validate.unit("interval", "level", level) < 1.0:
        raise InvalidParameter(f"interval: level must lie between 0 and 1, got {level!r}.")
    return level


def returns(rewards: tuple[float, float], total: float) -> tuple[float, float]:
    """Bounds of the discounted return, 0 among them, if the powers of γ add up to ``total``.

    Examples
    --------
    >>> returns((-1.0, 0.5), most(0.5, None))
    (-2.0, 1.0)
    """
    return min(0.0, rewards[0] * total), max(0.0, rewards[1] * total)


def most(gamma: float, horizon: int | None) -> float:
    """Σ γ^t over at most ``horizon`` steps."""
    if horizon is None:
        if gamma == 1.0:
            raise InvalidParameter(
                "Bernstein: without a discount returns are bounded only if episodes are: say how "
                "many steps they can have, horizon=…"
            )
        return 1.0 / (1.0 - gamma)
    steps = _validate.count("Bernstein", "horizon", horizon)
    return float(steps) if gamma == 1.0 else (1.0 - gamma**steps) / (1.0 - gamma)


def reward_bounds(
    given: tuple[float, float] | None, seen: tuple[float, float]
) -> tuple[float, float]:
    """Return declared bounds of rewards, refusing none, nonsense, and what the log contradicts."""
    if given is None:
        raise InvalidParameter(
            "Bernstein needs bounds of the rewards, which no log can tell (this one shows "
            f"{seen[0]:g} to {seen[1]:g}, but the next may go beyond): rewards=(least, greatest). "
            "Student's t needs none."
        )
    pair = np.asarray(given, dtype=np.float64)
    if pair.shape != (2,) or not np.isfinite(pair).all() or not pair[0] <= pair[1]:
        raise InvalidParameter(
            f"Bernstein: rewards must be two numbers, the least and the greatest, got {given!r}."
        )
    low, high = float(pair[0]), float(pair[1])
    if seen[0] < low or seen[1] > high:
        raise InvalidParameter(
            f"Bernstein: rewards={given!r} is declared, but the log holds rewards from "
            f"{seen[0]:g} to {seen[1]:g}."
        )
    return low, high
