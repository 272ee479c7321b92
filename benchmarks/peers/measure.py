"""What every worker does in the same way: time an estimate, note what is said, print JSON."""

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


class Heard:
    """What a tool warned of while it ran: Python warnings, and printed lines that say so."""

    def __init__(self):
        self.lines = []

    def __str__(self):
        return "; ".join(dict.fromkeys(self.lines))


@contextlib.contextmanager
def listening():
    """Keep a tool's output off the screen, and its warnings for the table."""
    heard, out = Heard(), io.StringIO()
    with warnings.catch_warnings(record=True) as raised, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        yield heard
    heard.lines += [str(w.message) for w in raised if not issubclass(w.category, SILENT)]
    heard.lines += [line for line in out.getvalue().splitlines() if "warn" in line.lower()]


def timed(estimate, *arguments, **options):
    """Return what a call returns, its seconds, and what was heard meanwhile."""
    with listening() as heard:
        start = time.perf_counter()
        found = estimate(*arguments, **options)
        seconds = time.perf_counter() - start
    return found, seconds, str(heard)


def row(estimator, value, seconds, says, *, low=None, high=None, of="π", how=""):
    """Return one row of the table.

    ``of`` is the policy that was really evaluated, ``how`` what else must be known.
    """
    return {
        "estimator": estimator, "value": float(value), "seconds": seconds, "says": says,
        "low": None if low is None else float(low), "high": None if high is None else float(high),
        "of": of, "how": how,
    }  # fmt: skip


def report(rows, **versions):
    """Print the rows, the versions and the peak memory of this process: the worker's last line."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    versions |= {"Python": sys.version.split()[0]}
    print(json.dumps({"rows": rows, "peak_mb": peak, "versions": versions}))
