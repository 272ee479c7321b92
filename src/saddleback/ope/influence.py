"""On how many independent units, episodes or blocks of them, does a standard error rest?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddleback._typing import FloatArray

NEGLIGIBLE_ERROR = 1e-4
"""Standard error, in standard deviations of the return, that is small whatever it rests on."""


class Concentration(NamedTuple):
    """The effective number of units, and the one that matters most."""

    units: float
    largest: int


def concentration(influence: FloatArray, rows: FloatArray, negligible: bool) -> Concentration:
    """Return the effective number of units, by their influence ψ [n] or by their rows r [n].

    The smaller of (Σψ²)²/Σψ⁴, unless the standard error is ``negligible``, and (Σr)²/Σr². The
    influences sum to 0, so that of a unit with nearly all rows is small, however noisy it is.

    Examples
    --------
    >>> influence = np.array([1.0, -1.0, 0.1, -0.1])
    >>> one = concentration(influence, np.array([5, 5, 5, 5]), False)
    >>> other = concentration(influence, np.array([5, 5, 5, 500]), False)
    >>> round(one.units, 2), round(other.units, 2), other.largest
    (2.04, 1.06, 3)
    """
    share = rows / rows.sum()
    by_rows = Concentration(float(1.0 / (share @ share)), int(share.argmax()))
    size = np.abs(influence)
    if negligible or not size.any():
        return by_rows
    square = (size / size.max()) ** 2
    by_influence = Concentration(float(square.sum() ** 2 / (square @ square)), int(size.argmax()))
    return min(by_rows, by_influence)
