"""SLOPE++: choose a tuning parameter of an estimator from its estimates and their intervals.

Less variance is bought with more bias: candidates are sorted by decreasing half-width, and the last
one is chosen whose estimate is consistent with all before it,

    |V̂_i − V̂_j| ≤ c_i + (√6 − 1) c_j    for all j < i

with half-widths c of confidence intervals. No estimate of the bias is needed.

References
----------
Y. Su, P. Srinath, A. Krishnamurthy, Adaptive estimator selection for off-policy evaluation, ICML
2020. G. Tucker, J. Lee, Improved estimator selection for off-policy evaluation, 2021.
"""

from __future__ import annotations

import numpy as np

from saddleback._typing import FloatArray

FACTOR = float(np.sqrt(6.0)) - 1.0
"""Factor of the half-widths of earlier candidates."""


def slope(values: FloatArray, half_widths: FloatArray) -> int:
    """Return the index of the candidate that SLOPE++ chooses.

    Examples
    --------
    >>> slope(np.array([1.0, 1.2, 3.0]), np.array([0.5, 0.2, 0.1]))
    1
    """
    order = np.argsort(-half_widths, kind="stable")
    chosen = int(order[0])
    for k, i in enumerate(order[1:], start=1):
        earlier = order[:k]
        allowed = half_widths[i] + FACTOR * half_widths[earlier]
        if not (np.abs(values[i] - values[earlier]) <= allowed).all():
            break
        chosen = int(i)
    return chosen
