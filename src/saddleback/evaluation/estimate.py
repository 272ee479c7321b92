"""`Estimate` and `Weighted`: one number for the value of a policy, with its interval and notes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.evaluation.sandwich import ESTIMAND, Interval
from saddleback.evaluation.weight_diagnostics import threshold


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


@dataclass(frozen=True, eq=False, repr=False)
class Weighted:
    """An estimate by weighted episodes.

    Attributes
    ----------
    name, target
        Which estimator, of which policy.
    value, low, high
        The estimate and its interval; NaN where it is not defined, and then the note says why.
    interval
        What kind of interval.
    estimand
        What is estimated: ``"V^π"``, or an H-step value if episodes were truncated.
    comparable
        Whether the number may be ranked with estimates of V^π.
    ess, max_share, k_hat
        Of the weights of whole episodes: the effective sample size (Σw)²/Σw², the largest w/Σw,
        and Pareto k-hat of their tail (see ``saddleback.evaluation.weight_diagnostics.pareto_k``).
    ess_by_step
        Effective sample size of the weights at each step, [H].
    n
        Episodes.
    note
        ``"ok"``, or what is to be said of it.

    Examples
    --------
    >>> from saddleback import collect, importance_sampling, problems
    >>> log = collect(problems.mountain_car(), episodes=500, rng=0)
    >>> found = importance_sampling(log, "pump:0.95", gamma=0.99)["pump:0.95"].estimate("PDWIS")
    >>> found.low < found.value < found.high, found.n
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
        """Return it as plain data, for JSON: None for what is not a number, or not finite."""

        def plain(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return [plain(each) for each in value.tolist()]
            if isinstance(value, float) and not np.isfinite(value):
                return None
            return value

        return {name: plain(value) for name, value in self.__dict__.items()}

    def __repr__(self) -> str:
        return (
            f"Weighted({self.name} of {self.target}: {self.value:.4g} [{self.low:.4g}, "
            f"{self.high:.4g}], {self.estimand}, ESS {self.ess:.1f} of {self.n:,}, "
            f"k-hat {self.k_hat:.2f})"
        )


def told_apart(one: float, other: float) -> tuple[str, str]:
    """Return two numbers with two digits, or with as many as it takes to tell them apart.

    Examples
    --------
    >>> told_apart(0.5, 0.7), told_apart(0.6931, 0.6902)
    (('0.50', '0.70'), ('0.693', '0.690'))
    """
    pairs = ((f"{one:.{k}f}", f"{other:.{k}f}") for k in range(2, 12))
    return next((pair for pair in pairs if pair[0] != pair[1]), (f"{one:.2f}", f"{other:.2f}"))


def remarks(value: float, k_hat: float, n: int, estimated: str | None) -> str:
    """Say what stands in the way of an estimate, or ``"ok"``."""
    found = []
    if np.isnan(value):
        found.append(
            "undefined: no logged episode could have come from the target to its end, or weights "
            "overflow"
        )
    elif np.isinf(value):
        found.append("overflows: are the propensities right?")
    if k_hat > threshold(n):
        found.append(
            f"k-hat {' > '.join(told_apart(k_hat, threshold(n)))}: a few episodes carry the "
            "weight, and neither value nor interval can be trusted"
        )
    elif np.isnan(k_hat):
        found.append("too few episodes, or different weights, for k-hat")
    if estimated:
        found.append(f"propensities estimated: {estimated}")
    return "; ".join(found) or "ok"
