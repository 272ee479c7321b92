"""`Trajectories`: what is kept of each episode of a log, weighted for a target policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saddleback import _registry, _validate
from saddleback._typing import FloatArray, IntArray, OffsetArray
from saddleback.errors import InvalidParameter
from saddleback.evaluation import confidence_bounds
from saddleback.evaluation.cumulative_weights import LARGE
from saddleback.evaluation.estimate import Weighted, remarks
from saddleback.evaluation.weight_diagnostics import effective, pareto_k, shares

PLAIN = ("IS", "PDIS", "WIS", "PDWIS")
ROBUST = ("DR", "WDR")
MEANS = ("IS", "PDIS", "DR")
"""Those that are means over independent episodes; the others are ratios of such means."""


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """The episodes of a log, weighted for a target policy.

    Attributes
    ----------
    target, gamma
        Whose ratios, and the discount.
    ids
        64 bits for each episode, [n]; its block or fold is the remainder.
    log_weights, peaks
        Logarithms of w_{T−1}, and of the greatest w_t, [n].
    lengths, gains, mass
        T, Σγ^t R_t, and Σγ^t w_t, [n].
    totals
        Σγ^t w_t R_t; with a Q, V(S_0) + Σγ^t w_t(R_t − Q(S_t,A_t) + γV(S_{t+1})), [n].
    normalised, scores
        PDWIS, or with a Q WDR, and how much each episode draws it, [n]; their mean is 0.
    ess_by_step
        Effective sample size of w_t, [H]; an episode that has ended keeps its last weight.
    truncated
        How many episodes were cut short, or simply stop.
    rewards
        Least and greatest reward.
    declared
        Bounds of rewards that the log declares (``reward_bounds`` in its metadata), or None.
    robust
        Whether there is a Q: then DR and WDR are what is estimated.
    beyond
        Whether Q stands for what truncated episodes leave out.
    remark, estimated
        What is to be said of Q, and how propensities were estimated, if they were.

    Examples
    --------
    >>> from saddleback import collect, importance_sampling, problems
    >>> log = collect(problems.mountain_car(), episodes=50, rng=0)
    >>> found = importance_sampling(log, "pump:0.9", gamma=0.99)["pump:0.9"]
    >>> found.n, found.names
    (50, ('IS', 'PDIS', 'WIS', 'PDWIS'))
    """

    target: str
    gamma: float
    ids: OffsetArray
    log_weights: FloatArray
    peaks: FloatArray
    lengths: IntArray
    gains: FloatArray
    mass: FloatArray
    totals: FloatArray
    normalised: float
    scores: FloatArray
    ess_by_step: FloatArray
    truncated: int
    rewards: tuple[float, float]
    declared: tuple[float, float] | None
    robust: bool
    beyond: bool
    remark: str
    estimated: str | None

    @property
    def n(self) -> int:
        """How many episodes there are."""
        return len(self.lengths)

    @property
    def names(self) -> tuple[str, ...]:
        """Estimators that these are for."""
        return ROBUST if self.robust else PLAIN

    @cached_property
    def ess(self) -> float:
        """Effective sample size of the episodes."""
        return effective(self.log_weights)

    @cached_property
    def k_hat(self) -> float:
        """Pareto k-hat of their weights."""
        return pareto_k(self.log_weights)

    @property
    def comparable(self) -> bool:
        """Whether it is V^π that is estimated: no episode was cut short, or γ = 0, or Q helps."""
        return not self.truncated or self.gamma == 0.0 or self.beyond

    @property
    def estimand(self) -> str:
        """What is estimated."""
        cut = f"{self.truncated:,} of {self.n:,} episodes were truncated"
        if not self.truncated or self.gamma == 0.0:
            return "V^π"
        return f"V^π, by Q beyond the end ({cut})" if self.beyond else f"H-step value ({cut})"

    def numbers(self, name: str) -> FloatArray:
        """Return a number for each episode, [n], whose mean is the estimate.

        For IS, PDIS and DR these are independent. For WIS, PDWIS and WDR they are the estimate
        plus the scores ψ_i of the delta method.
        """
        _registry.known("estimator", name, self.names)
        if name in ("PDIS", "DR"):
            return self.totals
        if name == "IS":
            return _times(self.log_weights, self.gains)
        if name in ("PDWIS", "WDR"):
            return self.normalised + self.scores
        share = shares(self.log_weights)
        value = float(share @ self.gains)
        return np.asarray(value + self.n * share * (self.gains - value))

    def value(self, name: str) -> float:
        """Return an estimate: "IS", "PDIS", "WIS", "PDWIS", or "DR", "WDR"."""
        _registry.known("estimator", name, self.names)
        if name in MEANS:
            with np.errstate(invalid="ignore"):
                return float(self.numbers(name).mean())
        if name == "WIS":
            return float(shares(self.log_weights) @ self.gains)
        return self.normalised

    def estimate(self, name: str, level: float = 0.95) -> Weighted:
        """Return an estimate with its interval, Student's t or the delta method."""
        low, high = confidence_bounds.student(self.numbers(name), level)
        how = "Student t" if name in MEANS else "delta method over episodes"
        return self._weighted(name, low, high, f"{level:.0%} {how}")

    def estimates(self, level: float = 0.95) -> tuple[Weighted, ...]:
        """Return all estimates."""
        return tuple(self.estimate(name, level) for name in self.names)

    def bernstein(
        self,
        name: str = "PDIS",
        *,
        rewards: tuple[float, float] | None = None,
        most_weight: float | None = None,
        horizon: int | None = None,
        truncate: float | None = None,
        level: float = 0.95,
    ) -> Weighted:
        """Return IS or PDIS with an interval that holds for any number of episodes.

        Parameters
        ----------
        name
            "IS" or "PDIS".
        rewards
            Least and greatest reward there can be; else as the log declares.
        most_weight
            A bound on all weights w_t, for an empirical Bernstein interval. Without it there is a
            lower bound only: of numbers ≥ 0 whose large values are truncated.
        horizon
            Most steps that an episode can have; needed if γ = 1.
        truncate
            Where to truncate; chosen on a twentieth of the episodes if not given.
        level
            Probability with which it holds; of the lower bound alone if there is but that.
        """
        if name not in ("IS", "PDIS"):
            raise InvalidParameter(
                f"Bernstein is for means of independent episodes with known bounds, IS and PDIS; "
                f"got {name!r}. Use estimate({name!r})."
            )
        if name not in self.names:
            raise InvalidParameter(f"these trajectories have a Q: {name} is without one.")
        confidence_bounds.enough(self.n)
        seen = self.declared if rewards is None else rewards
        least, greatest = confidence_bounds.reward_bounds(seen, self.rewards)
        if horizon is not None and self.lengths.max() > horizon:
            raise InvalidParameter(
                f"Bernstein: horizon={horizon} is declared, but the log has an episode of "
                f"{self.lengths.max():,} steps."
            )
        total = confidence_bounds.most(self.gamma, horizon)
        low, high = confidence_bounds.returns((least, greatest), total)
        numbers = self.numbers(name)
        if most_weight is not None:
            W = _validate.positive("Bernstein", "most_weight", most_weight)
            logs = self.log_weights if name == "IS" else self.peaks
            there = float(np.exp(min(LARGE, float(logs.max()))))
            if there * (1 - 1e-12) > W:
                raise InvalidParameter(
                    f"Bernstein: most_weight={W:g} is declared, but the log has an episode of "
                    f"weight {there:.4g}."
                )
            ends = confidence_bounds.bernstein(numbers, W * low, W * high, level)
            return self._weighted(name, *ends, f"{level:.0%} empirical Bernstein")
        bound, at = confidence_bounds.truncated(self.at_least(name, least, total), level, truncate)
        how = f"{level:.0%} lower bound, empirical Bernstein, truncated at {at:.4g}"
        return self._weighted(name, bound + low, float("inf"), how)

    def at_least(self, name: str, least: float, total: float) -> FloatArray:
        """Return numbers ≥ 0 for each episode, [n], with mean V − min(0, least)·Σγ^t.

        As if every reward were counted from the least there can be, on to the end of time: w_{T−1}
        (G − least·Σγ^t), and Σ_t γ^t w_t(R_t − least) where the last weight stays after the end.
        ``total`` is the Σγ^t that is possible.
        """
        shift = min(0.0, least)
        if name == "IS":
            numbers = _times(self.log_weights, self.gains - shift * total)
        else:
            steps = self.lengths.astype(np.float64)
            if self.gamma < 1.0:
                steps = (1.0 - self.gamma**steps) / (1.0 - self.gamma)
            mass = self.mass + _times(self.log_weights, total - steps)
            numbers = self.totals - shift * mass
        return np.maximum(numbers, 0.0)

    def _weighted(self, name: str, low: float, high: float, interval: str) -> Weighted:
        value = self.value(name)
        note = remarks(value, self.k_hat, self.n, self.estimated)
        if self.remark:
            note = self.remark if note == "ok" else f"{note}; {self.remark}"
        return Weighted(
            name=name, target=self.target, value=value, low=low, high=high, interval=interval,
            estimand=self.estimand, comparable=self.comparable, ess=self.ess,
            ess_by_step=self.ess_by_step, max_share=float(shares(self.log_weights).max()),
            k_hat=self.k_hat, n=self.n, note=note,
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"Trajectories(target={self.target!r}, n={self.n:,}, {', '.join(self.names)}, "
            f"ESS {self.ess:.1f})"
        )


def _times(log_weights: FloatArray, x: FloatArray) -> FloatArray:
    """w·x from log w, infinite only where the product is."""
    with np.errstate(divide="ignore", over="ignore"):
        large = np.copysign(np.exp(log_weights + np.log(np.abs(x))), x)
    return np.where(log_weights > LARGE, large, np.exp(np.minimum(log_weights, LARGE)) * x)
