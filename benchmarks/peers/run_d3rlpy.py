"""d3rlpy's FQE on one log; run in its own environment.

Arguments: arrays, then ``greedy`` or ``sampled``.
"""

from __future__ import annotations

import sys

import d3rlpy
import numpy as np
import torch
from fitted import STEPS, chances, fit, q_values
from measure import report, row, timed


def main(path, choice):
    """Fit, and average over the start states of the log."""
    log = dict(np.load(path))
    starts = log["observations"][np.roll(log["terminated"], 1)]
    weights = chances(log, starts)
    if choice == "greedy":
        weights = np.eye(weights.shape[1])[weights.argmax(axis=1)]
    passed = []

    def value(found):
        q = q_values(found, starts, weights.shape[1])
        passed.append(float((weights * q).sum(axis=1).mean()))

    _, seconds, heard = timed(fit, log, choice == "sampled", watch=value)
    way = ", ".join(f"{each:.3g}" for each in passed)
    found = row(
        f"FQE, next action {'of greedy π' if choice == 'greedy' else 'drawn from π'}",
        passed[-1], seconds, heard, of="greedy π" if choice == "greedy" else "π",
        how=f"{STEPS:,} steps; after each third {way}",
    )  # fmt: skip
    report([found], d3rlpy=d3rlpy.__version__, torch=torch.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
