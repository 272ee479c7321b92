"""Diagnostics of importance weights: effective sample size, shares, and Pareto k-hat."""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray

MIN_TAIL = 5
"""Smallest number of weights above the threshold to which a tail is fitted."""

TIES = 10
"""Number of times that the largest weight occurs if it is a bound."""

PRIOR, CENTRE = 10, 0.5
"""The prior on k of Vehtari et al.: worth this many observations, and its centre."""

MAX_K_HAT = 0.7
"""k-hat above which weights are unreliable for every sample size (Vehtari et al. 2024)."""

MIN_ESS = 20.0
"""Smallest effective sample size of a reliable estimate."""


def shares(log_weights: FloatArray) -> FloatArray:
    """Return normalised weights w_i/Σw, [n], from logarithms; NaN if all weights are 0.

    Examples
    --------
    >>> shares(np.array([2000.0, 2000.0, -np.inf]))
    array([0.5, 0.5, 0. ])
    """
    top = float(np.max(log_weights, initial=-np.inf))
    if top == -np.inf:
        return np.full(len(log_weights), np.nan)
    scaled = np.exp(log_weights - top)
    return np.asarray(scaled / scaled.sum())


def effective_sample_size(log_weights: FloatArray) -> float:
    """Return the effective sample size (Σw)²/Σw² from log weights; 0 if all weights are 0.

    Examples
    --------
    >>> effective_sample_size(np.log([1.0, 1.0, 1.0]))
    3.0
    >>> effective_sample_size(np.array([0.0, -np.inf]))
    1.0
    """
    share = shares(log_weights)
    return 0.0 if np.isnan(share).any() else float(1.0 / (share @ share))


def weight_tail(log_weights: FloatArray, max_points: int = 80) -> FloatArray:
    """Return the tail of the weights as pairs (w/mean w, fraction of weights ≥ w), [k, 2].

    The largest weight comes first. At most ``max_points`` pairs are returned, evenly spaced in the
    logarithm of the rank. A tail of shape k̂ falls like w^(−1/k̂). Weights of 0 are left out.

    Examples
    --------
    >>> weight_tail(np.log([1.0, 1.0, 6.0])).round(3)
    array([[2.25 , 0.333],
           [0.375, 1.   ]])
    """
    n, share = len(log_weights), shares(log_weights)
    if not n or np.isnan(share).any():
        return np.zeros((0, 2))
    ordered = np.sort(share[share > 0])[::-1] * n
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1) + 1  # of equal weights
    rank = np.geomspace(1, len(ordered), max_points).round().astype(np.int64)
    rank = last[np.unique(np.searchsorted(last, rank))]
    return np.column_stack([ordered[rank - 1], rank / n])


def pareto_k(log_weights: FloatArray) -> float:
    """Return Pareto k-hat: the shape of the tail of weights, from their logarithms [n].

    A generalised Pareto distribution is fitted to the M = min(n/5, 3√n) largest weights, less the
    next smaller one, by the method of Zhang & Stephens; a prior worth 10 observations shrinks the
    shape towards ½, k̂ = (M k + 5)/(M + 10). Moments of order 1/k and above are infinite: with
    k > ½ the variance of the weights is infinite, with k > 1 their mean.

    NaN if fewer than 5 weights lie above the threshold, and −∞ if the largest weights are all
    equal, or the very largest one occurs at least 10 times, as with few actions and contexts: then
    weights are bounded, and there is no tail.

    References
    ----------
    A. Vehtari, D. Simpson, A. Gelman, Y. Yao, J. Gabry, Pareto smoothed importance sampling, JMLR
    25 (2024). J. Zhang, M. A. Stephens, A new and efficient estimation method for the generalized
    Pareto distribution, Technometrics 51 (2009).

    Examples
    --------
    >>> u = (np.arange(10_000) + 0.5) / 10_000
    >>> float(round(pareto_k(-0.8 * np.log(u)), 2))
    0.79
    """
    n = len(log_weights)
    size = int(np.ceil(min(0.2 * n, 3.0 * np.sqrt(n))))
    if size < MIN_TAIL or np.max(log_weights) == -np.inf:
        return float("nan")
    ordered = np.sort(log_weights)[-size - 1 :]
    scaled = np.exp(ordered - ordered[-1])
    if scaled[1] == scaled[-1] or (scaled == scaled[-1]).sum() >= TIES:
        return float("-inf")
    above = scaled[1:] - scaled[0]
    above = above[above > 0]
    if len(above) < MIN_TAIL:
        return float("nan")
    shape = pareto_shape(above)
    return (len(above) * shape + PRIOR * CENTRE) / (len(above) + PRIOR)


def k_hat_threshold(n: int) -> float:
    """Largest acceptable k-hat of n weights: min(1 − 1/log₁₀ n, 0.7), and 0 up to n = 10.

    From Vehtari et al. (2024).

    Examples
    --------
    >>> round(k_hat_threshold(500), 3), k_hat_threshold(5000)
    (0.629, 0.7)
    """
    return min(1.0 - 1.0 / float(np.log10(n)), MAX_K_HAT) if n > 10 else 0.0


def reliable_weights(k_hat: float, ess: float, n: int) -> bool:
    """Whether n weights with this k-hat and effective sample size give a reliable estimate.

    Examples
    --------
    >>> reliable_weights(0.5, 40.0, 500), reliable_weights(0.5, 6.0, 500)
    (True, False)
    """
    return k_hat <= k_hat_threshold(n) and ess >= MIN_ESS


def pareto_shape(x: FloatArray) -> float:
    """Return the shape k of a generalised Pareto sample x > 0, sorted, by Zhang & Stephens (2009).

    With the density (1/σ)(1 + kx/σ)^(−1/k − 1) and b = −k/σ, the likelihood given b is maximal
    at k(b) = mean log(1 − b x), where it is ℓ(b) = n(log(−b/k(b)) − k(b) − 1). b is estimated by
    its mean under weights exp ℓ(b_j) on the points

        b_j = 1/x_(n) + (1 − √(m/(j − ½)))/(3 x*),   j = 1, …, m = 30 + ⌊√n⌋,

    x* the first quartile; and k by k(b). At b = 0, the exponential, −b/k(b) is 1/mean x.
    """
    n = len(x)
    m = 30 + int(np.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    b = 1.0 / x[-1] + (1.0 - np.sqrt(m / (np.arange(m) + 0.5))) / (3.0 * quartile)
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    rate = np.divide(-b, k, out=np.full(m, 1.0 / x.mean()), where=k != 0)
    likelihood = n * (np.log(rate) - k - 1.0)
    weight = np.exp(likelihood - likelihood.max())
    best = float(b @ weight / weight.sum())
    return float(np.log1p(-best * x).mean())
