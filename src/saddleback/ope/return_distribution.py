"""The distribution of the return under a target policy, from weighted episodes.

With normalised weights ω_i ∝ w_i of the episodes and their returns G_i,

    F̂(g) = Σ_i ω_i 1[G_i ≤ g]        Q̂(α) = smallest G_i with F̂(G_i) ≥ α
    CVaR(α) = Q̂(α) − Σ_i ω_i (Q̂(α) − G_i)⁺/α        the mean of the worst share α

If returns are costs, the worst are the largest: CVaR(α) = Q̂(1−α) + Σ_i ω_i (G_i − Q̂(1−α))⁺/α.

Intervals: for a quantile, the quantiles at α ± t·s, with s the standard error of F̂ at Q̂(α) by the
delta method, s² = Σ ω_i² (1[G_i ≤ Q̂] − F̂)², or the same with <, if larger (Woodruff 1952); infinite
where that leaves (0, 1). For CVaR, Student's t with its influence n ω_i (h(G_i) − CVaR), with the
terms h above: Q̂ is where they are stationary, so its own error does not matter to first order.
Where the worst returns are fewer than 10 in effect, only the interval of Q̂(α) bounds CVaR, on one
side.

References
----------
R. S. Woodruff, Confidence intervals for medians and other position measures, JASA 47 (1952).
R. T. Rockafellar, S. Uryasev, Optimization of conditional value-at-risk, Journal of Risk (2000).
Y. Chandak et al., Universal off-policy evaluation, NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.weight_diagnostics import shares

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Default levels of quantiles."""

TAIL = 0.05
"""Default share of the worst returns."""

WEIGHTED, MODEL = "weighted episodes", "model"
"""What a distribution was computed from."""

CURVE = tuple(k / 100 for k in range(1, 100))
"""Levels of the curve that is drawn."""


class Functional(NamedTuple):
    """A quantile or a CVaR: its level, value and interval, and the value for the logged policy."""

    level: float
    value: float
    low: float
    high: float
    logged: float


@dataclass(frozen=True)
class ReturnDistribution:
    """The distribution of the return under a target policy.

    From weighted episodes it is F̂(g) = Σ_i ω_i 1[G_i ≤ g]; from the model of the log, that of the
    return in it.

    Attributes
    ----------
    target
        Name of the policy.
    quantiles
        Quantiles of the return, with 95% confidence intervals; infinite ends where the data leave
        an end open.
    cvar
        The mean of the worst share of the returns.
    standard_deviation
        Of the return.
    reliable
        Whether the importance weights are reliable, by k-hat and effective sample size; or the
        model, which must reproduce the logged returns.
    comparable
        Whether no episode was truncated, so that returns are complete; always with a model.
    ess
        Effective sample size of the weights.
    curve
        Level, quantile under the target, and quantile under the logged policy, for a plot.
    method
        "weighted episodes" or "model".
    note
        Why a model is not reliable, and what the logged values are if episodes were truncated.

    Examples
    --------
    >>> import saddleback as sb
    >>> log = sb.collect(sb.problems.random_walk(0.9), episodes=500, rng=0)
    >>> weighted = sb.importance_sampling(log, "uniform", gamma=0.9)["uniform"]
    >>> found = return_distribution(weighted, levels=(0.5,), tail=0.25)
    >>> found.quantiles[0].low <= found.quantiles[0].value <= found.quantiles[0].high
    True
    >>> found.cvar.value <= found.quantiles[0].value
    True
    """

    target: str
    quantiles: tuple[Functional, ...]
    cvar: Functional
    standard_deviation: float
    reliable: bool
    comparable: bool
    ess: float | None
    curve: tuple[tuple[float, float, float], ...]
    method: str = WEIGHTED
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the distribution as plain data for JSON."""
        return asdict(self) | {
            "quantiles": [one._asdict() for one in self.quantiles],
            "cvar": self.cvar._asdict(),
        }


def return_distribution(
    weighted: Trajectories,
    *,
    levels: Sequence[float] = LEVELS,
    tail: float = TAIL,
    lower_is_better: bool = False,
) -> ReturnDistribution:
    """Return the distribution of the return under the target of weighted episodes.

    With normalised weights ω_i of the episodes and their returns G_i, F̂(g) = Σ_i ω_i 1[G_i ≤ g].

    Parameters
    ----------
    weighted
        Weighted episodes, from `importance_sampling` or `doubly_robust`.
    levels
        Levels of the quantiles, between 0 and 1.
    tail
        Share of the worst returns whose mean is CVaR.
    lower_is_better
        Whether returns are costs, so that the worst are the largest.

    Examples
    --------
    >>> import saddleback as sb
    >>> log = sb.collect(sb.problems.random_walk(0.9), episodes=500, rng=0)
    >>> weighted = sb.importance_sampling(log, "uniform", gamma=0.9)["uniform"]
    >>> [round(one.value, 2) for one in return_distribution(weighted, levels=(0.25, 0.9)).quantiles]
    [0.0, 0.81]
    """
    check_levels((*levels, tail))
    order = np.argsort(weighted.returns, kind="stable")
    own = SortedReturns(weighted.returns[order], shares(weighted.log_weights)[order])
    equal = np.full(weighted.n, 1.0 / weighted.n)
    logged = SortedReturns(own.returns, equal)
    mean = float(own.share @ own.returns)
    return ReturnDistribution(
        target=weighted.target,
        quantiles=tuple(
            Functional(
                level, own.quantile(level), *own.quantile_ends(level), logged.quantile(level)
            )
            for level in levels
        ),
        cvar=Functional(
            tail, *own.cvar(tail, lower_is_better), logged.cvar(tail, lower_is_better)[0]
        ),
        standard_deviation=float(np.sqrt(own.share @ (own.returns - mean) ** 2)),
        reliable=weighted.is_reliable,
        comparable=weighted.comparable,
        ess=weighted.ess,
        curve=tuple((level, own.quantile(level), logged.quantile(level)) for level in CURVE),
    )


def check_levels(levels: Iterable[float]) -> None:
    """Raise unless all levels lie between 0 and 1."""
    for level in levels:
        if not 0.0 < _validate.unit("return_distribution", "level", level) < 1.0:
            raise InvalidParameter(
                f"return_distribution: a level must lie between 0 and 1, got {level!r}."
            )


def return_distributions(
    weighted: Iterable[Trajectories], lower_is_better: bool
) -> dict[str, ReturnDistribution]:
    """Return the distributions of several targets by name."""
    by_target = {one.target: one for one in weighted}
    return {
        name: return_distribution(one, lower_is_better=lower_is_better)
        for name, one in by_target.items()
    }


class SortedReturns:
    """Returns in increasing order, [n], with their shares of the weight."""

    def __init__(self, returns: FloatArray, share: FloatArray) -> None:
        self.returns, self.share = returns, share
        self._cumulative = np.cumsum(share)

    def quantile(self, level: float) -> float:
        """Return the smallest return with at least this share of the weight up to it."""
        if np.isnan(self._cumulative[-1]):
            return float("nan")
        at = np.searchsorted(self._cumulative, level * (1.0 - ROUNDING))
        return float(self.returns[min(int(at), len(self.returns) - 1)])

    def quantile_ends(self, level: float) -> tuple[float, float]:
        """Return the 95% confidence interval of a quantile."""
        at = self.quantile(level)
        errors = [
            np.sqrt(np.sum((self.share * (below - self.share @ below)) ** 2))
            for below in (self.returns <= at, self.returns < at)
        ]
        width = float(scipy.special.stdtrit(len(self.returns) - 1, 0.975)) * float(max(errors))
        low, high = level - width, level + width
        return (
            self.quantile(low) if low > 0.0 else -np.inf,
            self.quantile(high) if high < 1.0 else np.inf,
        )

    def cvar(self, tail: float, costs: bool) -> tuple[float, float, float]:
        """Return CVaR and its 95% confidence interval."""
        sign = 1.0 if costs else -1.0
        at = self.quantile(1.0 - tail if costs else tail)
        terms = at + sign * np.maximum(sign * (self.returns - at), 0.0) / tail
        value, n = float(self.share @ terms), len(terms)
        error = float(np.sqrt(np.sum((self.share * (terms - value)) ** 2) * n / (n - 1)))
        width = float(scipy.special.stdtrit(n - 1, 0.975)) * error
        worst = self.share[sign * (self.returns - at) >= 0.0]
        if worst.sum() ** 2 >= LEAST_IN_TAIL * np.sum(worst**2) * (1.0 - 1e-9):
            return value, value - width, value + width
        low, high = self.quantile_ends(1.0 - tail if costs else tail)
        return (value, low, np.inf) if costs else (value, -np.inf, high)


LEAST_IN_TAIL = 10
"""Effective number of the worst returns below which only their quantile bounds CVaR."""

ROUNDING = 1e-12
"""Relative error of a sum of shares that is attributed to rounding."""
