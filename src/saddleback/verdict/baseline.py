"""The logged policy: what it returned, what the same pipeline says of it, and others against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saddleback._typing import FloatArray
from saddleback.evaluation.sandwich import ESTIMAND, Interval, block_scores, student
from saddleback.evaluation.scoring_pass import Scored
from saddleback.evaluation.statistics import Statistics
from saddleback.log.behaviour_target import NAME
from saddleback.rules import Rule
from saddleback.verdict.verdict import Improvement


@dataclass(frozen=True, eq=False)
class Logged:
    """The logged policy.

    Attributes
    ----------
    interval
        What it returned: the mean over episodes. What truncated ones leave out is bootstrapped.
    each
        How much each episode, or block of them, draws that mean, [n].
    spread
        Standard deviation of a return.
    value, off, error
        V̂ of the same pipeline, how far that is off, and the standard error of it; None where it
        was not asked, or there is nothing to hold it against.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> round(found.logged.interval.value, 2), round(found.logged.value, 2)
    (-1.17, -1.17)
    """

    interval: Interval
    each: FloatArray
    spread: float
    value: float | None = None
    off: float | None = None
    error: float | None = None

    @property
    def gap(self) -> float | None:
        """How far the pipeline is off beyond chance."""
        if self.off is None or self.error is None:
            return None
        return beyond(self.off, self.error, 2.0)

    @classmethod
    def of(cls, scored: Scored, cut: bool) -> Logged:
        """Compare what was returned with what was foreseen, episode by episode.

        Where some were ``cut`` short, returns are not known, and V̂_μ is the baseline.
        """
        returns = scored.first + scored.beyond
        mean = float(returns.mean())
        each = returns - mean
        off = student(0.0, scored.each - each, 0.95, ESTIMAND, "paired")
        interval = student(mean, each, 0.95, "V^μ", "Student t")
        if cut:
            each = scored.each
            interval = student(scored.value, each, 0.95, "V^μ, bootstrapped", "sandwich")
        spread = _spread(float(returns.std(ddof=1)), mean)
        return cls(interval, each, spread, scored.value, scored.value - mean, off.error)

    @classmethod
    def of_sums(cls, sums: Statistics, rule: Rule, ridge: float) -> Logged | None:
        """Compare by blocks of episodes; None if nothing is known of the logged policy."""
        ended, total, squares = sums.tally.returns.T
        count, some = ended.sum(), sums.episodes > 0
        own = None
        if NAME in sums.setting.targets:
            own = block_scores(sums, rule, NAME, ridge)
        spread = 0.0
        if count > 1:
            mean = float(total.sum() / count)
            square = float(squares.sum() - count * mean * mean) / (count - 1)
            spread = _spread(float(np.sqrt(max(0.0, square))), mean)
        if count < sums.episodes.sum():  # some were cut short: V̂_μ stands for what was not logged
            if own is None:
                return None
            interval = student(*own, 0.95, "V^μ, bootstrapped", "blocks of episodes")
            spread = spread or interval.error * float(np.sqrt(sums.episodes.sum()))
            return cls(interval, own[1], spread, own[0])
        each = (total - ended * mean)[some] * int(some.sum()) / count
        interval = student(mean, each, 0.95, "V^μ", "blocks of episodes")
        if own is None:
            return cls(interval, each, spread)
        off = student(0.0, own[1] - each, 0.95, ESTIMAND, "paired")
        return cls(interval, each, spread, own[0], own[0] - mean, off.error)

    def against(
        self, value: float, each: FloatArray, gap: float, lower_is_better: bool
    ) -> Improvement:
        """Compare another policy with it, by the same episodes or blocks."""
        ahead = value - self.interval.value
        paired = student(ahead, each - self.each, 0.95, ESTIMAND, "paired")
        own = (self.interval.value, self.interval.low, self.interval.high)
        return Improvement.of(own, paired, gap, lower_is_better)


def beyond(x: float, error: float, times: float) -> float:
    """|x| less so many standard errors, at least 0; not a number if either is not."""
    return float(np.maximum(0.0, abs(x) - times * error))


def _spread(deviation: float, mean: float) -> float:
    """Return a standard deviation; where hardly anything varies a hundredth of the size."""
    return max(deviation, 1e-2 * abs(mean))
