"""`Weighted`: an estimate by weighted episodes, its interval, and what its weights are worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback._typing import FloatArray

HEAVY = 0.7
"""k-hat above which weights cannot be trusted, however many there are (Vehtari et al. 2024)."""


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


def threshold(n: int) -> float:
    """k-hat above which n weights are too few: min(1 − 1/log₁₀ n, 0.7), and 0 up to n = 10.

    From Vehtari et al. (2024).

    Examples
    --------
    >>> round(threshold(500), 3), threshold(5000)
    (0.629, 0.7)
    """
    return min(1.0 - 1.0 / float(np.log10(n)), HEAVY) if n > 10 else 0.0


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
