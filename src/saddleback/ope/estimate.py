"""`Estimate` and `WeightedEstimate`: the value of a policy, with its interval and notes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddleback._json import json_ready
from saddleback._typing import FloatArray
from saddleback.ope.number_format import number
from saddleback.ope.sandwich import ESTIMAND, Interval
from saddleback.ope.weight_diagnostics import MIN_ESS, k_hat_threshold


@dataclass(frozen=True)
class Estimate:
    """One estimate of the value of a policy.

    Attributes
    ----------
    target
        Name of the policy.
    method
        The estimator, with the rule.
    value
        V^π over the start states of the log.
    note
        ``"ok"``, or a warning.
    low, high, estimand
        The 95% confidence interval where there is one, and its estimand.
    ess, max_share, k_hat
        For weighted estimators: the effective sample size in episodes, the largest share of the
        total weight held by one episode, and Pareto k-hat of the weights.
    comparable
        Whether the estimand is V^π, or its TD fixed point; false for finite-horizon values.

    Examples
    --------
    >>> Estimate("new", "LSTD, GRetrace(0.5)", 5.6, "ok").value
    5.6
    """

    target: str
    method: str
    value: float
    note: str
    low: float | None = None
    high: float | None = None
    estimand: str = ESTIMAND
    ess: float | None = None
    max_share: float | None = None
    k_hat: float | None = None
    comparable: bool = True

    def with_interval(self, interval: Interval) -> Estimate:
        """Return the estimate with an interval."""
        return replace(self, low=interval.low, high=interval.high, estimand=interval.estimand)

    @classmethod
    def of(cls, weighted: WeightedEstimate) -> Estimate:
        """Return the record of a weighted estimate.

        Equal weights have no tail and k-hat −∞, which JSON cannot represent; any number below −½
        means that the weights are bounded.
        """
        return cls(
            target=weighted.target,
            method=weighted.name,
            value=weighted.value,
            note=weighted.note,
            low=weighted.low,
            high=weighted.high,
            estimand=weighted.estimand,
            ess=weighted.ess,
            max_share=weighted.max_share,
            k_hat=max(weighted.k_hat, -1.0),
            comparable=weighted.comparable,
        )


def marginal_dr(target: str, interval: Interval) -> Estimate:
    """Return the consensus of candidate features as an estimate."""
    return Estimate(target, "Marginal DR", interval.value, "ok").with_interval(interval)


def leading_estimates(
    closed: Estimate, interval: Interval, is_consensus: bool, horizon: int | None
) -> list[Estimate]:
    """Return the estimate that the interval and the verdict are for, and the closed form.

    The closed form has no horizon, so that it is left out where there is one.
    """
    if not is_consensus:
        return [closed.with_interval(interval)]
    return [marginal_dr(closed.target, interval), *([closed] if horizon is None else [])]


@dataclass(frozen=True, eq=False, repr=False)
class WeightedEstimate:
    """An estimate from weighted episodes.

    Attributes
    ----------
    name, target
        The estimator and the policy.
    value, low, high
        The estimate and its interval; NaN where undefined, with the reason in the note.
    interval
        The kind of interval.
    estimand
        ``"V^π"``, or a finite-horizon value if episodes were truncated.
    comparable
        Whether the estimand is V^π.
    ess, max_share, k_hat
        Of the final weights of episodes: the effective sample size (Σw)²/Σw², the largest w/Σw,
        and Pareto k-hat of their tail (see ``saddleback.ope.weight_diagnostics.pareto_k``).
    ess_by_step
        Effective sample size of the weights at each step, [H].
    n
        Number of episodes.
    note
        ``"ok"``, or a warning.

    Examples
    --------
    >>> from saddleback import collect, importance_sampling, problems
    >>> log = collect(problems.mountain_car(), episodes=500, rng=0)
    >>> estimate = importance_sampling(log, "pump:0.95", gamma=0.99)["pump:0.95"].estimate("PDWIS")
    >>> estimate.low < estimate.value < estimate.high, estimate.n
    (True, 500)
    """

    name: str
    target: str
    value: float
    low: float
    high: float
    interval: str
    estimand: str
    comparable: bool
    ess: float
    ess_by_step: FloatArray
    max_share: float
    k_hat: float
    n: int
    note: str

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data for JSON; numbers that are not finite become None."""
        plain: dict[str, Any] = json_ready(
            self.__dict__ | {"ess_by_step": self.ess_by_step.tolist()}
        )
        return plain

    def __repr__(self) -> str:
        return (
            f"WeightedEstimate({self.name} of {self.target}: {self.value:.4g} [{self.low:.4g}, "
            f"{self.high:.4g}], {self.estimand}, ESS {self.ess:.1f} of {self.n:,}, "
            f"k-hat {self.k_hat:.2f})"
        )


def format_distinct(one: float, other: float) -> tuple[str, str]:
    """Format two numbers with two decimals, or with more until they differ.

    Examples
    --------
    >>> format_distinct(-0.5, 0.7), format_distinct(0.6931, 0.6902)
    (('−0.50', '0.70'), ('0.693', '0.690'))
    """
    pairs = [(number(one, k), number(other, k)) for k in range(2, 12)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


def estimate_note(value: float, k_hat: float, ess: float, n: int, estimated: str | None) -> str:
    """Return the warnings about an estimate, or ``"ok"``."""
    notes = []
    if np.isnan(value):
        notes.append(
            "undefined: the target could not have produced any of the logged episodes in full, or "
            "the weights overflow"
        )
    elif np.isinf(value):
        notes.append("overflows: check the propensities")
    if k_hat > k_hat_threshold(n):
        pair = " > ".join(format_distinct(k_hat, k_hat_threshold(n)))
        notes.append(
            f"importance weights are heavy-tailed (k̂ {pair}); neither the value nor the interval "
            "is reliable"
        )
    elif np.isnan(k_hat):
        notes.append("too few episodes, or too few different weights, to compute k̂")
    elif ess < MIN_ESS:
        notes.append(
            f"small effective sample size ({ess:.1f} < {MIN_ESS:g}); neither the value nor the "
            "interval is reliable"
        )
    if estimated:
        notes.append(f"propensities estimated: {estimated}")
    return "; ".join(notes) or "ok"
