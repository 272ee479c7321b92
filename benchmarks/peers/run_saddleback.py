"""saddleback on one log. Arguments: the folder of logs, and the case."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cases import problem
from measure import report, row, timed

import saddleback as sb


def message(estimate):
    """Return the note of an estimate by weighted episodes."""
    return estimate.note


def closed(log, target, features, gamma):
    """Return the row of the closed form, and that of its verdict."""
    result, seconds, _ = timed(sb.evaluate, log, target, features=features, gamma=gamma)
    one, (verdict,) = result.estimates[0], result.verdicts
    low, high = verdict.interval_with_gap
    summary = f"{verdict.trust}: {verdict.reason}"
    how = f"interval of: {one.estimand}; all estimates and diagnostics in these seconds"
    adjusted = f"the same, widened by the gap ({verdict.gap:.2g})"
    return [
        row(one.method, one.value, seconds, summary, low=one.low, high=one.high, how=how),
        row("verdict", one.value, seconds, summary, low=low, high=high, how=adjusted),
    ]


def weighted(log, target, features, gamma):
    """Return the rows of estimates by weighted episodes, with their weight diagnostics."""
    rows = []
    options = {"gamma": gamma}
    for make, names, more in (
        (sb.importance_sampling, ("PDIS", "PDWIS"), {}),
        (sb.doubly_robust, ("DR", "WDR"), {"features": features}),
    ):
        results, seconds, warned = timed(make, log, target, **options, **more)
        (estimates,) = results.values()
        for name in names:
            one = estimates.estimate(name)
            how = f"ESS {one.ess:.1f} of {one.n:,}, k-hat {one.k_hat:.2f}"
            note = "; ".join(filter(None, (message(one), warned)))
            rows.append(row(name, one.value, seconds, note, low=one.low, high=one.high, how=how))
    return rows


def main(folder, case):
    """Estimate twice: the first time kernels are compiled, the second time counts."""
    _, features, target, gamma = problem(case)
    log = sb.Log(str(Path(folder) / f"{case}.parquet"))
    for _ in range(2):
        start = time.perf_counter()
        rows = [*closed(log, target, features, gamma), *weighted(log, target, features, gamma)]
        spent = time.perf_counter() - start
        print(f"{case}: all estimates in {spent:.1f} s", file=sys.stderr)
    report(rows, saddleback=sb.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
