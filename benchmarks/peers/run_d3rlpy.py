"""d3rlpy's FQE on one log; run in its own environment.

Arguments: arrays, then ``greedy`` or ``sampled``, then the learning rate. Q of the sampled kind is
saved next to the arrays, for estimators that need a Q; Q of every row is part of its peak memory.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import d3rlpy
import numpy as np
import torch
from fitted import RATES, STEPS, fit, q_values, target_probabilities
from measure import report, row, timed


def main(path, choice, rate):
    """Fit, and average over the start states of the log."""
    log = dict(np.load(path))
    starts = log["observations"][np.roll(log["terminated"], 1)]
    weights = target_probabilities(log, starts)
    K = weights.shape[1]
    if choice == "greedy":
        weights = np.eye(K)[weights.argmax(axis=1)]
    values = []

    def value(fqe):
        values.append(float((weights * q_values(fqe, starts, K)).sum(axis=1).mean()))

    fqe, seconds, warned = timed(fit, log, choice == "sampled", rate, watch=value)
    if choice == "sampled":
        np.savez(
            Path(path).with_suffix(f".q-{rate}.npz"), seconds=seconds, heard=warned,
            q=q_values(fqe, log["observations"], K),
            peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )  # fmt: skip
    way = ", ".join(f"{value:.3g}" for value in values).replace("-", "−")
    of, next_one = ("π", "drawn from π") if choice == "sampled" else ("greedy π", "of greedy π")
    how = f"{RATES[rate]}; next action {next_one}; {STEPS:,} steps, after each third {way}"
    one = row(f"FQE, rate {rate}", values[-1], seconds, warned, of=of, how=how)
    report([one], d3rlpy=d3rlpy.__version__, torch=torch.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
