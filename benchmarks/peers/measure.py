"""Shared by all workers: time an estimate, collect its warnings, print JSON."""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
import warnings

SILENT = (DeprecationWarning, FutureWarning, PendingDeprecationWarning, ImportWarning)
"""Warnings about versions of software, not about the estimate."""


class CapturedWarnings:
    """Warnings of a tool while it ran: Python warnings, and printed lines with "warn"."""

    def __init__(self):
        self.lines = []

    def __str__(self):
        return "; ".join(dict.fromkeys(self.lines))


@contextlib.contextmanager
def capture_warnings():
    """Hide the output of a tool, and collect its warnings for the table."""
    captured, out = CapturedWarnings(), io.StringIO()
    with warnings.catch_warnings(record=True) as raised, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        yield captured
    captured.lines += [str(w.message) for w in raised if not issubclass(w.category, SILENT)]
    captured.lines += [line for line in out.getvalue().splitlines() if "warn" in line.lower()]


def timed(estimate, *arguments, **options):
    """Return the result of a call, its seconds, and its warnings."""
    with capture_warnings() as captured:
        start = time.perf_counter()
        result = estimate(*arguments, **options)
        seconds = time.perf_counter() - start
    return result, seconds, str(captured)


def row(estimator, value, seconds, message, *, low=None, high=None, of="π", how=""):
    """Return one row of the table.

    ``of`` is the policy that was evaluated in fact, ``how`` a remark.
    """
    return {
        "estimator": estimator, "value": float(value), "seconds": seconds, "says": message,
        "low": None if low is None else float(low), "high": None if high is None else float(high),
        "of": of, "how": how,
    }  # fmt: skip


def report(rows, **versions):
    """Print the rows, the versions and the peak memory of this process: the worker's last line."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    versions |= {"Python": sys.version.split()[0]}
    print(json.dumps({"rows": rows, "peak_mb": peak, "versions": versions}))
