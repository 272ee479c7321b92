"""Estimates for single decisions, as in a contextual bandit.

With ρ = π(a|x)/μ(a|x), a direct model q, and v(x) = Σ_a π(a|x) q(x, a), means over decisions of:

    IPW        ρ r                                   inverse propensity weighting
    SNIPW      Σ ρ r / Σ ρ                           self-normalised
    DM         v(x)                                  direct method
    DR         v(x) + ρ (r − q(x, a))                doubly robust (Dudík et al. 2014)
    Switch-DR  v(x) + ρ 1[ρ ≤ τ] (r − q(x, a))       Wang, Agarwal & Dudík 2017
    DRos       v(x) + λρ/(ρ² + λ) (r − q(x, a))      optimistic shrinkage (Su et al. 2020)

q is cross-fitted. τ and λ are chosen by SLOPE++ among 30 values around the logged weights, and both
ends, DM and DR. IPW and DR are unbiased; the intervals of the others leave out their bias.

References
----------
M. Dudík, D. Erhan, J. Langford, L. Li, Doubly robust policy evaluation and optimization,
Statistical Science 2014. Y.-X. Wang, A. Agarwal, M. Dudík, Optimal and adaptive off-policy
evaluation in contextual bandits, ICML 2017. Y. Su, M. Dimakopoulou, A. Krishnamurthy, M. Dudík,
Doubly robust off-policy evaluation with shrinkage, ICML 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from saddleback._typing import FloatArray
from saddleback.ope.confidence_bounds import student
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.estimate import Estimate, estimate_note
from saddleback.ope.slope import slope
from saddleback.ope.weight_diagnostics import shares

DECISION_METHODS = {
    "dr": "DR", "dros": "DRos", "switch-dr": "Switch-DR", "snipw": "SNIPW", "ipw": "IPW",
    "dm": "DM", "marginal-dr": "Marginal DR",
}  # fmt: skip
"""Estimators of decisions by their names as methods, in the order of reports."""

GRID = 30
"""Number of values of a tuning parameter, besides both ends."""

MODEL = "mean of the model"
MODEL_ERROR = "the interval leaves out the error of the model"
"""Estimand of the interval of DM, and its note."""

SHRUNK = "V^π, shrunk"
SHRINKAGE = "the interval leaves out the bias of the shrinkage"
"""The same for estimates with a tuning parameter."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Weighted decisions of a log, with a direct model, for one target policy.

    With ρ = π(a|x)/μ(a|x) and v(x) = Σ_a π(a|x) q(x, a): IPW, the mean of ρr; SNIPW = Σρr/Σρ; DM,
    the mean of v; DR, of v + ρ(r − q); Switch-DR, with ρ 1[ρ ≤ τ] for ρ; DRos, with λρ/(ρ² + λ).

    Attributes
    ----------
    weighted
        The decisions as episodes of one step, with q as control variate.

    Examples
    --------
    >>> import saddleback as sb
    >>> log = sb.Log(
    ...     {
    ...         "obs_0": [0.0, 0.0, 0.0, 0.0],
    ...         "action": [0, 1, 1, 0],
    ...         "reward": [0.0, 1.0, 1.0, 0.0],
    ...         "behavior_prob": [0.5, 0.5, 0.5, 0.5],
    ...     },
    ...     bandit=True,
    ... )
    >>> model = lambda contexts: np.tile([0.1, 0.8], (len(contexts), 1))
    >>> weighted = sb.doubly_robust(log, "always:1", gamma=0.0, q=model)["always:1"]
    >>> decisions = Decisions(weighted)
    >>> {name: round(decisions.estimate(name).value, 3) for name in ("IPW", "DM", "DR")}
    {'IPW': 1.0, 'DM': 0.8, 'DR': 1.0}
    """

    weighted: Trajectories

    @cached_property
    def weights(self) -> FloatArray:
        """ρ of each decision, [n]."""
        return np.exp(self.weighted.log_weights)

    @cached_property
    def residuals(self) -> FloatArray:
        """Residual r − q(x, a) of each decision, [n]; 0 where ρ is 0, and it does not count."""
        corrections = self.weighted.totals - self.weighted.starts
        some = self.weights > 0
        return np.where(some, corrections / np.where(some, self.weights, 1.0), 0.0)

    def switched(self, tau: float) -> FloatArray:
        """Return v + ρ 1[ρ ≤ τ] (r − q), [n]."""
        kept = np.where(self.weights <= tau, self.weights, 0.0)
        return self.weighted.starts + kept * self.residuals

    def shrunk(self, lam: float) -> FloatArray:
        """Return v + λρ/(ρ² + λ) (r − q), [n]."""
        if np.isinf(lam):
            return self.weighted.totals
        square = self.weights**2
        safe = np.where(square + lam > 0, square + lam, 1.0)
        return self.weighted.starts + lam * self.weights / safe * self.residuals

    @property
    def mean_weight(self) -> tuple[float, float]:
        """Mean of ρ, which estimates 1, and its standard error."""
        return float(self.weights.mean()), float(
            self.weights.std(ddof=1) / np.sqrt(self.weighted.n)
        )

    def values(self, name: str) -> tuple[FloatArray, str]:
        """Return one value per decision, [n], whose mean is an estimate, and a remark."""
        w, weighted = self.weights, self.weighted
        if name == "IPW":
            return w * weighted.returns, ""
        if name == "SNIPW":
            share = shares(weighted.log_weights)
            value = float(share @ weighted.returns)
            return value + weighted.n * share * (weighted.returns - value), ""
        if name == "DM":
            return weighted.starts, MODEL_ERROR
        if name == "DR":
            return weighted.totals, ""
        low, high = np.quantile(w[w > 0], [0.05, 0.95]) if (w > 0).any() else (1.0, 1.0)
        if name == "Switch-DR":
            return self._tuned("τ", self.switched, np.geomspace(low, high, GRID))
        grid = np.geomspace(0.01 * low**2, 100.0 * high**2, GRID)
        return self._tuned("λ", self.shrunk, grid)

    def _tuned(
        self, symbol: str, of: Callable[[float], FloatArray], grid: FloatArray
    ) -> tuple[FloatArray, str]:
        """Return the values at the parameter that SLOPE++ chooses."""
        parameters = [np.inf, *grid[::-1], 0.0]
        candidates = [of(float(parameter)) for parameter in parameters]
        ends = np.array([student(values, 0.95) for values in candidates])
        means = np.array([values.mean() for values in candidates])
        best = slope(means, 0.5 * (ends[:, 1] - ends[:, 0]))
        chosen = "∞" if np.isinf(parameters[best]) else f"{parameters[best]:.3g}"
        bias = "" if np.isinf(parameters[best]) else f"; {SHRINKAGE}"
        return candidates[best], f"{symbol} = {chosen} by SLOPE++{bias}"

    def estimate(self, name: str) -> Estimate:
        """Return an estimate with its confidence interval, Student's t over decisions."""
        weighted, (values, remark) = self.weighted, self.values(name)
        value, (low, high) = float(values.mean()), student(values, 0.95)
        if name == "DM":
            return Estimate(
                weighted.target, name, value, remark, low, high, MODEL, comparable=False
            )
        warnings = estimate_note(
            value, weighted.k_hat, weighted.ess, weighted.n, weighted.estimated
        )
        notes = [warnings, remark]
        note = "; ".join(text for text in notes if text not in ("", "ok")) or "ok"
        biased = SHRINKAGE in remark
        return Estimate(
            weighted.target, name, value, note, low, high, SHRUNK if biased else "V^π",
            weighted.ess, float(shares(weighted.log_weights).max()), max(weighted.k_hat, -1.0),
            not biased,
        )  # fmt: skip
