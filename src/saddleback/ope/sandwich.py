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
from typing import NamedTuple

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

NEGLIGIBLE_ERROR = 1e-4
"""Standard error, in standard deviations of the return, that is small whatever it rests on."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval and its estimand."""

    # The estimate and its interval.
    value: float
    low: float
    high: float
    level: float  # nominal coverage
    error: float
    estimand: str  # the quantity that it is an interval for
    method: str  # how the interval was computed
    n: int  # number of independent units: episodes, or blocks of episodes


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


class Concentration(NamedTuple):
    """The effective number of units that a standard error rests on, and the largest of them."""

    units: float
    largest: int


def concentration(influence: FloatArray, rows: FloatArray, negligible: bool) -> Concentration:
    """Return the effective number of units, by their influence ψ [n] or by their rows r [n].

    The smaller of (Σψ²)²/Σψ⁴, unless the standard error is ``negligible``, and (Σr)²/Σr². The
    influences sum to 0, so that of a unit with nearly all rows is small, however noisy it is.

    Examples
    --------
    >>> influence = np.array([1.0, -1.0, 0.1, -0.1])
    >>> one = concentration(influence, np.array([5, 5, 5, 5]), False)
    >>> other = concentration(influence, np.array([5, 5, 5, 500]), False)
    >>> round(one.units, 2), round(other.units, 2), other.largest
    (2.04, 1.06, 3)
    """
    share = rows / rows.sum()
    by_rows = Concentration(float(1.0 / (share @ share)), int(share.argmax()))
    size = np.abs(influence)
    if negligible or not size.any():
        return by_rows
    square = (size / size.max()) ** 2
    by_influence = Concentration(float(square.sum() ** 2 / (square @ square)), int(size.argmax()))
    return min(by_rows, by_influence)
