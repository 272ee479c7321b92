"""Windowed ratios: where bases agree and all err, propensities still tell.

Marginal ratios w come from the same bases as the estimate. Products of the logged ratios
ρ = π(a|s)/μ(a|s) do not, but their variance grows with every step. Between the two (Yuan et al.
2021, SOPE), the weight of a decision at step t is

    w̃_t = γᵏ w_{t−k} ρ_{t−k+1} ⋯ ρ_t     or, for t < k,     w̃_t = γᵗ ρ_0 ⋯ ρ_t

with the longest window k whose products have a mean square that is bounded. An error of w is as
much smaller as π forgets within k steps, and by γᵏ. What Σ w̃ δ finds, and Σ w δ does not, is wrong
with the estimate.
"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray
from saddleback.ope.episode_sample import EpisodeSample

SIGNIFICANT = 2.0
"""Standard errors up to which a change is taken for noise."""

MEAN_SQUARE = 10.0
"""Mean square of the products of the ratios in a window, at most."""

ENDED = 0.1
"""Share of truncated episodes that may be shorter than two windows."""

LEAST_KEPT = 0.5
"""Share of the sum of w that must be in windows that end within an episode."""

LARGEST_LOG = 100.0
"""Logarithm of the largest product."""


def windowed_weights(
    sample: EpisodeSample, target: str, gamma: float, ratio: FloatArray
) -> FloatArray | None:
    """Return w̃ of each row [n], given w; None without windows.

    There are none if propensities were not logged, or actions are continuous; if single ratios vary
    too much; or if windows that end in the log have less than half of the sum of w. Those that
    would end after a truncated episode are made up for by the others. Windows are at most half as
    long as most truncated episodes, so that few are lost.
    """
    rho = None if sample.estimated else sample.action_ratios(target)
    if rho is None:
        return None
    step = sample.step
    k = window(rho, int(step.max()) + 1)
    truncated = step[sample.last & sample.continues] + 1
    if len(truncated):
        k = min(k, int(np.quantile(truncated, ENDED)) // 2)
    if k < 1:
        return None
    last = np.flatnonzero(sample.last)
    last = last[np.searchsorted(last, np.arange(len(step)))]
    lost = sample.continues[last] & (last - np.arange(len(step)) < k)
    total, kept = float(ratio.sum()), float(ratio[~lost].sum())
    if total <= 0 or kept < LEAST_KEPT * total:
        return None
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(rho), -LARGEST_LOG)
    cumulative = np.cumsum(logs)
    rows = np.arange(len(step))
    first = rows - step
    early, late = np.flatnonzero(step < k), np.flatnonzero(step >= k)
    weights = np.empty(len(ratio))
    product = cumulative[early] - (cumulative - logs)[first[early]]
    weights[early] = gamma ** step[early] * _exp(product)
    product = cumulative[late] - cumulative[late - k]
    weights[late] = gamma**k * ratio[late - k] * _exp(product) * (total / kept)
    return weights


def share_of_change(change: float, error: float) -> float:
    """Return the share of a change that counts; it rises from 0 at two standard errors to 1.

    Changes near two standard errors are mostly noise, which may be heavy-tailed.

    Examples
    --------
    >>> [round(share_of_change(change, 1.0), 2) for change in (0.0, 2.0, -2.5, 4.0, 20.0)]
    [0.0, 0.0, 0.36, 0.75, 0.99]
    """
    if abs(change) <= SIGNIFICANT * error:
        return 0.0
    return 1.0 - (SIGNIFICANT * error / change) ** 2


def window(rho: FloatArray, longest: int) -> int:
    """Return the largest k, up to the steps of an episode, with (mean ρ²)ᵏ ≤ ``MEAN_SQUARE``.

    Examples
    --------
    >>> window(np.array([0.5, 1.5]), 50), window(np.array([0.0, 4.0]), 50), window(np.ones(3), 50)
    (10, 1, 50)
    """
    square = float((rho**2).mean())
    return longest if square <= 1.0 else int(min(np.log(MEAN_SQUARE) / np.log(square), longest))


def _exp(logs: FloatArray) -> FloatArray:
    return np.exp(np.minimum(logs, LARGEST_LOG))
