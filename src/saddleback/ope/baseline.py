"""The baseline: the observed value of the logged policy, and comparisons with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray
from saddleback.log.behaviour_target import NAME
from saddleback.ope.sandwich import ESTIMAND, Interval, block_scores, student_interval
from saddleback.ope.scoring_pass import EpisodeScores
from saddleback.ope.statistics import Statistics
from saddleback.ope.verdict import Improvement
from saddleback.rules import Rule


@dataclass(frozen=True, eq=False)
class Baseline:
    """The value of the logged policy.

    Attributes
    ----------
    interval
        Its mean return over episodes; truncated episodes are bootstrapped.
    influence
        Influence of each episode, or block of episodes, on that mean, [n].
    spread
        Standard deviation of the return.
    estimate, self_check, self_check_error
        V̂ of the closed form for the logged policy, its difference from the mean return, and the
        standard error of the difference; None where it was not computed, or returns are unknown.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> result = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> round(result.logged.interval.value, 2), round(result.logged.estimate, 2)
    (-1.17, -1.17)
    """

    interval: Interval
    influence: FloatArray
    spread: float
    estimate: float | None = None
    self_check: float | None = None
    self_check_error: float | None = None

    @property
    def gap(self) -> float | None:
        """The self-check in excess of two standard errors."""
        if self.self_check is None or self.self_check_error is None:
            return None
        return excess_over(self.self_check, self.self_check_error, 2.0)

    @classmethod
    def of(cls, scores: EpisodeScores, truncated: bool) -> Baseline:
        """Compare the observed returns with V̂_μ, episode by episode.

        If episodes were ``truncated``, their returns are unknown, and V̂_μ is the baseline.
        """
        returns = scores.first + scores.td_error_return
        mean = float(returns.mean())
        influence = returns - mean
        paired = student_interval(0.0, scores.influence - influence, ESTIMAND, "paired")
        interval = student_interval(mean, influence, "V^μ", "Student t")
        if truncated:
            influence = scores.influence
            interval = student_interval(scores.value, influence, "V^μ, bootstrapped", "sandwich")
        spread = _spread(float(returns.std(ddof=1)), mean)
        return cls(interval, influence, spread, scores.value, scores.value - mean, paired.error)

    @classmethod
    def of_statistics(cls, sums: Statistics, rule: Rule, ridge: float) -> Baseline | None:
        """Compare by blocks of episodes; None if the logged policy has no known value."""
        ended, total, squares = sums.counts.returns.T
        count, occupied = ended.sum(), sums.episodes > 0
        estimate = None
        if NAME in sums.setting.targets:
            estimate = block_scores(sums, rule, NAME, ridge)
        spread = 0.0
        if count > 1:
            mean = float(total.sum() / count)
            square = float(squares.sum() - count * mean * mean) / (count - 1)
            spread = _spread(float(np.sqrt(max(0.0, square))), mean)
        if count < sums.episodes.sum():  # some episodes were truncated: V̂_μ is the baseline
            if estimate is None:
                return None
            interval = student_interval(*estimate, "V^μ, bootstrapped", "blocks of episodes")
            spread = spread or interval.error * float(np.sqrt(sums.episodes.sum()))
            return cls(interval, estimate[1], spread, estimate[0])
        influence = (total - ended * mean)[occupied] * int(occupied.sum()) / count
        interval = student_interval(mean, influence, "V^μ", "blocks of episodes")
        if estimate is None:
            return cls(interval, influence, spread)
        paired = student_interval(0.0, estimate[1] - influence, ESTIMAND, "paired")
        return cls(interval, influence, spread, estimate[0], estimate[0] - mean, paired.error)

    def improvement(
        self, value: float, influence: FloatArray, gap: float, lower_is_better: bool
    ) -> Improvement:
        """Compare another policy with the baseline, paired by episodes or blocks."""
        difference = value - self.interval.value
        paired = student_interval(difference, influence - self.influence, ESTIMAND, "paired")
        baseline = (self.interval.value, self.interval.low, self.interval.high)
        return Improvement.of(baseline, paired, gap, lower_is_better)


def excess_over(x: float, error: float, times: float) -> float:
    """Return |x| − times·error, at least 0; NaN if either is NaN."""
    return float(np.maximum(0.0, abs(x) - times * error))


def _spread(deviation: float, mean: float) -> float:
    """Return a standard deviation, but at least a hundredth of the mean."""
    return max(deviation, 1e-2 * abs(mean))
