"""`Estimate`: one number for the value of a policy, whichever way it was found."""

from __future__ import annotations

from dataclasses import dataclass, replace

from saddleback.evaluation.sandwich import ESTIMAND, Interval
from saddleback.evaluation.weighted_estimate import Weighted


@dataclass(frozen=True)
class Estimate:
    """One number for the value of a policy.

    Attributes
    ----------
    target
        Which policy.
    method
        How it was found, with the rule.
    value
        V^π over the start states of the log.
    note
        ``"ok"``, or what is to be said of it.
    low, high, estimand
        A 95 % interval where there is one, and what it is an interval of.
    ess, max_share, k_hat
        For weighted ones: the effective number of episodes behind it, the largest share of the
        weight that one of them has, and the tail of their weights.
    comparable
        Whether it may be ranked with the others: not an H-step value of a truncated log.

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

    def within(self, interval: Interval | None) -> Estimate:
        """Return it with an interval."""
        if interval is None:
            return self
        return replace(self, low=interval.low, high=interval.high, estimand=interval.estimand)

    @classmethod
    def of(cls, found: Weighted) -> Estimate:
        """Return an estimate by weighted episodes.

        Weights that are all alike have no tail, k-hat −∞, which JSON cannot hold: any number below
        −½ says that it is bounded.
        """
        return cls(
            found.target, found.name, found.value, found.note, found.low, found.high,
            found.estimand, found.ess, found.max_share, max(found.k_hat, -1.0), found.comparable,
        )  # fmt: skip
