"""The rules and step sizes of the paper's comparison on MountainCar."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import saddleback as sb
from saddleback.rules import Correction, Saddle

SIZES = 0.1 * 2.0 ** -np.arange(11)
"""Step sizes α, and ratios β/α."""


def nine_rules(lam=0.99):
    """Return the six rules of the paper, and three of them in regularised form."""
    abq, gtb, retrace = sb.ABQ(lam), sb.GTB(lam), sb.GRetrace(lam)
    return [
        sb.GES(lam), sb.GQ(lam), abq, gtb, retrace, sb.ExpectedSarsa(lam),
        replace(abq, form=Saddle()), replace(gtb, form=Correction()),
        replace(retrace, form=Correction()),
    ]  # fmt: skip
