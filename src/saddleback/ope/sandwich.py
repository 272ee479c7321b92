"""Sandwich confidence intervals for the closed form; they cover the TD fixed point.

The estimate is V̂ = x̄ᵀθ̂ with Âθ̂ + b̂ = 0. Episodes are independent, steps within one are not, so
the unit is the episode. To first order, with A_i, b_i, x_i the sums of episode i of n, and u
solving Âᵀu = x̄ (both per episode, in the span of the active features),

    V̂ − V ≈ (1/n) Σ_i g_i,      g_i = x_iᵀθ̂ − V̂ − uᵀ(A_iθ̂ + b_i),      var V̂ ≈ Σ g_i² / n(n−1)

(the sandwich, clustered by episode). uᵀ(A_iθ̂ + b_i) = Σ_t (uᵀe_t) δ_t is one number, so one more
pass over the log suffices; without the log, the sums over blocks of episodes give the same with
fewer degrees of freedom. These intervals do not cover V^π, which differs from the fixed point by
the approximation error of the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from saddleback._typing import FloatArray
from saddleback.errors import Undefined
from saddleback.ope.scoring_pass import EpisodeScores, solve_adjoint
from saddleback.ope.statistics import Statistics
from saddleback.rules import Rule

ESTIMAND = "TD fixed point of these features"

LEVEL = 0.95
"""Nominal coverage."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval and its estimand.

    Attributes
    ----------
    value, low, high
        The estimate and its interval.
    level
        Nominal coverage.
    error
        Standard error.
    estimand
        The quantity that it is an interval for.
    method
        How the interval was computed.
    n
        Number of independent units: episodes, or blocks of episodes.
    """

    value: float
    low: float
    high: float
    level: float
    error: float
    estimand: str
    method: str
    n: int


def student_interval(value: float, influence: FloatArray, estimand: str, method: str) -> Interval:
    """Return the Student interval of a value from independent influences g_i of mean about 0."""
    n = len(influence)
    if n < 2:
        raise Undefined(
            f"a confidence interval needs at least two independent episodes, the data have {n}. "
            "Add more, or split a long one into episodes that can be treated as independent."
        )
    error = float(np.sqrt(np.sum(influence**2) / (n * (n - 1))))
    half_width = float(scipy.special.stdtrit(n - 1, 0.5 + LEVEL / 2)) * error
    return Interval(
        value, value - half_width, value + half_width, LEVEL, error, estimand, method, n
    )


def interval_from_scores(scores: EpisodeScores) -> Interval:
    """Return the sandwich interval from the scores of episodes."""
    how = "sandwich, clustered by episode"
    return student_interval(scores.value, scores.influence, ESTIMAND, how)


def block_scores(
    sums: Statistics, rule: Rule | int = 0, target: str | int = 0, ridge: float = 0.0
) -> tuple[float, FloatArray]:
    """Return V̂ and the influence of each block of episodes on it, scaled by their number."""
    t, r = sums.index_of(rule, target)
    theta, start, u = solve_adjoint(sums, rule, target, ridge)
    value, n = float(theta @ start), float(sums.episodes.sum())
    share = sums.steps / sums.steps.sum()  # M is not kept by block
    ridged = np.outer(share, ridge * np.diag(sums.M) * theta)
    residual = sums.A[t, r] @ theta + sums.b[t, r] - ridged
    influence = sums.starts[t] @ theta - sums.episodes * value - residual @ u
    occupied = sums.episodes > 0
    return value, np.asarray(influence[occupied] * int(occupied.sum()) / n)
