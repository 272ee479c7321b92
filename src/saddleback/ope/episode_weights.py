"""`Trajectories`: the episodes of a log, weighted for a target policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saddleback import _registry, _validate
from saddleback._typing import FloatArray, IntArray, OffsetArray
from saddleback.errors import InvalidParameter
from saddleback.ope import confidence_bounds
from saddleback.ope.cumulative_weights import LARGE
from saddleback.ope.estimate import WeightedEstimate, estimate_note
from saddleback.ope.weight_diagnostics import (
    effective_sample_size,
    pareto_k,
    reliable_weights,
    shares,
)

IMPORTANCE_SAMPLING = ("IS", "PDIS", "WIS", "PDWIS")
DOUBLY_ROBUST = ("DR", "WDR")
MEANS = ("IS", "PDIS", "DR")
"""Estimators that are means over independent episodes; the others are ratios of such means."""


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """The episodes of a log, weighted for a target policy.

    Attributes
    ----------
    target, gamma
        The target policy and the discount.
    ids
        A 64-bit hash of the rows of each episode, [n]; its fold is the remainder.
    log_weights, peaks
        Logarithms of w_{T−1}, and of the largest w_t, [n].
    lengths, returns, mass
        T, Σγ^t R_t, and Σγ^t w_t, [n].
    totals
        Σγ^t w_t R_t; with a Q, V(S_0) + Σγ^t w_t(R_t − Q(S_t,A_t) + γV(S_{t+1})), [n].
    starts
        V(S_0) of the control variate Q, [n]; 0 without one.
    normalised, scores
        PDWIS, or with a Q WDR, and the influence of each episode on it, [n]; the mean is 0.
    ess_by_step
        Effective sample size of w_t, [H]; episodes that have ended keep their last weight.
    truncated
        Number of episodes that were truncated or stop without a flag.
    rewards
        Smallest and largest reward.
    declared_rewards
        Reward bounds from the log's metadata (``reward_bounds``), or None.
    has_q
        Whether there is a control variate Q; if so, the estimates are DR and WDR.
    bootstrap_truncated
        Whether Q replaces the missing tails of truncated episodes.
    remark, estimated
        A note about Q, and how propensities were estimated, if they were.

    Examples
    --------
    >>> from saddleback import collect, importance_sampling, problems
    >>> log = collect(problems.mountain_car(), episodes=50, rng=0)
    >>> weighted = importance_sampling(log, "pump:0.9", gamma=0.99)["pump:0.9"]
    >>> weighted.n, weighted.names
    (50, ('IS', 'PDIS', 'WIS', 'PDWIS'))
    """

    target: str
    gamma: float
    ids: OffsetArray
    log_weights: FloatArray
    peaks: FloatArray
    lengths: IntArray
    returns: FloatArray
    mass: FloatArray
    totals: FloatArray
    starts: FloatArray
    normalised: float
    scores: FloatArray
    ess_by_step: FloatArray
    truncated: int
    rewards: tuple[float, float]
    declared_rewards: tuple[float, float] | None
    has_q: bool
    bootstrap_truncated: bool
    remark: str
    estimated: str | None

    @property
    def n(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the available estimators."""
        return DOUBLY_ROBUST if self.has_q else IMPORTANCE_SAMPLING

    @cached_property
    def ess(self) -> float:
        """Effective sample size, in episodes."""
        return effective_sample_size(self.log_weights)

    @property
    def mean_weight(self) -> float:
        """Mean of the episode weights, each capped at e⁵⁰: 1, unless the log lacks large ones."""
        return float(np.exp(np.minimum(self.log_weights, 50.0)).mean())

    @cached_property
    def k_hat(self) -> float:
        """Pareto k-hat of the episode weights."""
        return pareto_k(self.log_weights)

    @property
    def is_reliable(self) -> bool:
        """Whether k-hat and the effective sample size are those of a reliable estimate."""
        return reliable_weights(self.k_hat, self.ess, self.n)

    @property
    def comparable(self) -> bool:
        """Whether the estimand is V^π: no truncated episodes, γ = 0, or Q fills in their tails."""
        return not self.truncated or self.gamma == 0.0 or self.bootstrap_truncated

    @property
    def estimand(self) -> str:
        """The quantity that the estimates estimate."""
        share = f"{self.truncated:,} of {self.n:,} episodes were truncated"
        if not self.truncated or self.gamma == 0.0:
            return "V^π"
        kind = "V^π, bootstrapped with Q" if self.bootstrap_truncated else "finite-horizon value"
        return f"{kind} ({share})"

    def episode_values(self, name: str) -> FloatArray:
        """Return one value per episode, [n], whose mean is the estimate.

        For IS, PDIS and DR these are independent. For WIS, PDWIS and WDR they are the estimate
        plus the scores ψ_i of the delta method.
        """
        _registry.check_name("estimator", name, self.names)
        if name in ("PDIS", "DR"):
            return self.totals
        if name == "IS":
            return _times(self.log_weights, self.returns)
        if name in ("PDWIS", "WDR"):
            return self.normalised + self.scores
        share = shares(self.log_weights)
        value = float(share @ self.returns)
        return np.asarray(value + self.n * share * (self.returns - value))

    def value(self, name: str) -> float:
        """Return the value of an estimator: "IS", "PDIS", "WIS", "PDWIS", or "DR", "WDR"."""
        _registry.check_name("estimator", name, self.names)
        if name in MEANS:
            with np.errstate(invalid="ignore"):
                return float(self.episode_values(name).mean())
        if name == "WIS":
            return float(shares(self.log_weights) @ self.returns)
        return self.normalised

    def estimate(self, name: str, level: float = 0.95) -> WeightedEstimate:
        """Return an estimate with its confidence interval (Student's t or the delta method)."""
        low, high = confidence_bounds.student(self.episode_values(name), level)
        how = "Student t" if name in MEANS else "delta method over episodes"
        return self._weighted(name, low, high, f"{level:.0%} {how}")

    def estimates(self, level: float = 0.95) -> tuple[WeightedEstimate, ...]:
        """Return the estimates of all available estimators."""
        return tuple(self.estimate(name, level) for name in self.names)

    def bernstein(
        self,
        name: str = "PDIS",
        *,
        rewards: tuple[float, float] | None = None,
        max_weight: float | None = None,
        horizon: int | None = None,
        truncate: float | None = None,
        level: float = 0.95,
    ) -> WeightedEstimate:
        """Return IS or PDIS with an interval that is valid for any number of episodes.

        Parameters
        ----------
        name
            "IS" or "PDIS".
        rewards
            Smallest and largest possible reward; by default as declared in the log.
        max_weight
            A bound on all weights w_t, for an empirical Bernstein interval. Without it there is
            only a lower bound, obtained by truncating large values.
        horizon
            Maximum number of steps of an episode; required if γ = 1.
        truncate
            Truncation point; by default chosen on a twentieth of the episodes.
        level
            Confidence level, of the lower bound alone where there is no upper bound.
        """
        if name not in ("IS", "PDIS"):
            raise InvalidParameter(
                f"Bernstein applies to bounded means over independent episodes, IS and PDIS; got "
                f"{name!r}. Use estimate({name!r})."
            )
        if name not in self.names:
            raise InvalidParameter(
                f"these trajectories are weighted with a Q, but {name} uses none."
            )
        confidence_bounds.require_two_episodes(self.n)
        bounds = self.declared_rewards if rewards is None else rewards
        smallest, largest = confidence_bounds.reward_bounds(bounds, self.rewards)
        if horizon is not None and self.lengths.max() > horizon:
            raise InvalidParameter(
                f"Bernstein: horizon={horizon} is declared, but the log has an episode of "
                f"{self.lengths.max():,} steps."
            )
        total = confidence_bounds.discounted_horizon(self.gamma, horizon)
        low, high = confidence_bounds.return_bounds((smallest, largest), total)
        values = self.episode_values(name)
        if max_weight is not None:
            W = _validate.positive("Bernstein", "max_weight", max_weight)
            logs = self.log_weights if name == "IS" else self.peaks
            observed = float(np.exp(min(LARGE, float(logs.max()))))
            if observed * (1 - 1e-12) > W:
                raise InvalidParameter(
                    f"Bernstein: max_weight={W:g} is declared, but the log has an episode of "
                    f"weight {observed:.4g}."
                )
            ends = confidence_bounds.bernstein(values, W * low, W * high, level)
            return self._weighted(name, *ends, f"{level:.0%} empirical Bernstein")
        shifted = self.shifted_values(name, smallest, total)
        bound, at = confidence_bounds.truncated(shifted, level, truncate)
        how = f"{level:.0%} lower bound, empirical Bernstein, truncated at {at:.4g}"
        return self._weighted(name, bound + low, float("inf"), how)

    def shifted_values(self, name: str, smallest: float, total: float) -> FloatArray:
        """Return values ≥ 0 per episode, [n], with mean V − min(0, smallest)·Σγ^t.

        Rewards are measured from the smallest possible one, also after the end of an episode, where
        the last weight stays: w_{T−1}(G − smallest·Σγ^t), or Σ_t γ^t w_t(R_t − smallest).
        ``total`` is the largest possible Σγ^t.
        """
        shift = min(0.0, smallest)
        if name == "IS":
            values = _times(self.log_weights, self.returns - shift * total)
        else:
            steps = self.lengths.astype(np.float64)
            if self.gamma < 1.0:
                steps = (1.0 - self.gamma**steps) / (1.0 - self.gamma)
            mass = self.mass + _times(self.log_weights, total - steps)
            values = self.totals - shift * mass
        return np.maximum(values, 0.0)

    def _weighted(self, name: str, low: float, high: float, interval: str) -> WeightedEstimate:
        value = self.value(name)
        note = estimate_note(value, self.k_hat, self.ess, self.n, self.estimated)
        if self.remark:
            note = self.remark if note == "ok" else f"{note}; {self.remark}"
        return WeightedEstimate(
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
    """Return w·x from log w; infinite only where the product is."""
    with np.errstate(divide="ignore", over="ignore"):
        large = np.copysign(np.exp(log_weights + np.log(np.abs(x))), x)
    return np.where(log_weights > LARGE, large, np.exp(np.minimum(log_weights, LARGE)) * x)
