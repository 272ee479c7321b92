"""SLOPE++: choose among estimates whose bias grows as their confidence intervals shrink."""

from __future__ import annotations

import numpy as np

from saddleback._typing import ArrayLike

OVERLAP = float(np.sqrt(6.0)) - 1.0
"""Weight of the wider interval of two that must overlap."""


def slope(estimates: ArrayLike, half_widths: ArrayLike) -> int:
    """Return the index of the estimate that SLOPE++ chooses.

    Estimates are sorted by decreasing half-width c, so that the bias grows and the variance falls.
    The last is chosen, up to which each estimate θ_i agrees with all before it:

        |θ_i − θ_j| ≤ c_i + (√6 − 1) c_j

    Estimates or half-widths that are not finite are left out.

    References
    ----------
    Y. Su, P. Srinath, A. Krishnamurthy, Adaptive estimator selection for off-policy evaluation,
    ICML 2020. G. Tucker, J. Lee, Improved estimator selection for off-policy evaluation, 2021.

    Examples
    --------
    >>> slope([1.0, 1.2, 1.3, 3.0], [1.0, 0.5, 0.2, 0.1])
    2
    """
    value, width = np.asarray(estimates, dtype=float), np.asarray(half_widths, dtype=float)
    usable = np.flatnonzero(np.isfinite(value) & np.isfinite(width))
    if not len(usable):
        return 0
    order = usable[np.argsort(-width[usable], kind="stable")]
    chosen = order[0]
    for i, index in enumerate(order):
        earlier = order[:i]
        distance = np.abs(value[index] - value[earlier])
        if (distance > width[index] + OVERLAP * width[earlier]).any():
            break
        chosen = index
    return int(chosen)
