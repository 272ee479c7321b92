"""Intervals for the closed form, that say what they cover: the TD fixed point of these features.

The estimate is V̂ = x̄ᵀθ̂ with Âθ̂ + b̂ = 0. Episodes are independent, steps within one are not, so
the unit is the episode. To first order, with A_i, b_i, x_i the sums of episode i of n, and u
solving Âᵀu = x̄ (both per episode, in the span of the features that were met),

    V̂ − V ≈ (1/n) Σ_i g_i,      g_i = x_iᵀθ̂ − V̂ − uᵀ(A_iθ̂ + b_i),      var V̂ ≈ Σ g_i² / n(n−1)

(the sandwich, clustered by episode). uᵀ(A_iθ̂ + b_i) = Σ_t (uᵀe_t) δ_t is one number, so one more
pass over the log is all it takes; without the log, the sums of blocks of episodes give the same
with fewer degrees of freedom. None of this covers V^π: between the two stands what linear features
cannot say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter, Undefined
from saddleback.evaluation.scoring_pass import Scored, direction, second_pass
from saddleback.evaluation.statistics import Statistics
from saddleback.features import Features
from saddleback.log import Log, as_target
from saddleback.rules import Rule

ESTIMAND = "TD fixed point of these features"


@dataclass(frozen=True)
class Interval:
    """An interval, and what it is an interval of.

    Attributes
    ----------
    value, low, high
        The estimate and its interval.
    level
        Nominal coverage.
    error
        Standard error.
    estimand
        What it is meant to cover.
    method
        How it was made.
    n
        Independent units behind it: episodes, or blocks of them.
    """

    value: float
    low: float
    high: float
    level: float
    error: float
    estimand: str
    method: str
    n: int


def student(value: float, each: FloatArray, level: float, estimand: str, method: str) -> Interval:
    """Return the interval of a mean of independent terms g_i, whose mean is about 0."""
    n = len(each)
    if n < 2:
        raise Undefined(
            f"an interval needs at least two independent episodes, and there is {n}. Give more, or "
            "cut a long one into episodes that may be taken as independent."
        )
    error = float(np.sqrt(np.sum(each**2) / (n * (n - 1))))
    reach = float(stdtrit(n - 1, 0.5 + level / 2)) * error
    return Interval(value, value - reach, value + reach, level, error, estimand, method, n)


def sandwich(
    log: Log,
    sums: Statistics,
    targets: Any,
    *,
    features: Features,
    rule: Rule | int = 0,
    ridge: float = 0.0,
    level: float = 0.95,
) -> list[Interval]:
    """Return the interval of the closed form for each target, with one more pass over the log.

    Parameters
    ----------
    log, targets, features
        As they were when the statistics were made.
    sums
        Its statistics.
    rule, ridge
        Which solution.
    level
        Nominal coverage.

    Examples
    --------
    >>> from saddleback import GRetrace, problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=1000, rng=0)
    >>> options = dict(features=car.features)
    >>> sums = Statistics.of(log, GRetrace(0.5), "pump:0.8", gamma=0.99, **options)
    >>> (found,) = sandwich(log, sums, "pump:0.8", **options)
    >>> print(f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}] {found.estimand}")
    -77.5 [-78.6, -76.3] TD fixed point of these features
    """
    _level(level)
    setting = sums.setting
    chosen = setting.rules[sums.place(rule, 0)[1]]
    named = targets if isinstance(targets, dict) else {setting.targets[0]: targets}
    policies = [as_target(given, log, name) for name, given in named.items()]
    return [
        of_scores(each, level)
        for each in second_pass(log, sums, policies, features=features, rule=chosen, ridge=ridge)
    ]


def of_scores(scored: Scored, level: float = 0.95) -> Interval:
    """Return the sandwich interval from the scores of episodes."""
    how = "sandwich, clustered by episode"
    return student(scored.value, scored.each, level, ESTIMAND, how)


def of_blocks(
    sums: Statistics,
    rule: Rule | int = 0,
    target: str | int = 0,
    *,
    ridge: float = 0.0,
    level: float = 0.95,
) -> Interval:
    """Return the sandwich interval from the sums of blocks alone, where the log is not at hand."""
    _level(level)
    value, each = block_scores(sums, rule, target, ridge)
    how = f"sandwich over {len(each)} blocks of episodes"
    return student(value, each, level, ESTIMAND, how)


def block_scores(
    sums: Statistics, rule: Rule | int = 0, target: str | int = 0, ridge: float = 0.0
) -> tuple[float, FloatArray]:
    """Return V̂, and how much each block of episodes draws it, times their number."""
    t, r = sums.place(rule, target)
    theta, start, u = direction(sums, rule, target, ridge)
    value, n = float(theta @ start), float(sums.episodes.sum())
    share = sums.steps / sums.steps.sum()  # M is not kept by blocks
    ridged = np.outer(share, ridge * np.diag(sums.M) * theta)
    residual = sums.A[t, r] @ theta + sums.b[t, r] - ridged
    each = sums.starts[t] @ theta - sums.episodes * value - residual @ u
    some = sums.episodes > 0
    return value, np.asarray(each[some] * int(some.sum()) / n)


def _level(level: float) -> None:
    if not 0 < _validate.unit("interval", "level", level) < 1:
        raise InvalidParameter(f"interval: level must be in (0, 1), got {level!r}.")
