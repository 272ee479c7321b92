"""Errors of the automatic answer, of all its candidates and of other methods on one log."""

from __future__ import annotations

import time

import numpy as np

import saddleback as sb
from saddleback.ope.methods import DOUBLY_ROBUST, IMPORTANCE_SAMPLING

from .families import FAMILIES
from .tree_fqe import magic, steps_of, tree_fqe

AUTOMATIC, CLOSED = "automatic", "closed form"
WEIGHTED = tuple(name.upper() for name in (*IMPORTANCE_SAMPLING, *DOUBLY_ROBUST))
SLOW, WITH_SLOW = ("MAGIC", "tree FQE"), 50
"""Slow methods, and the logs of a case that they get."""

FIRST = 1000
"""First seed; smaller ones were used while the estimate was designed."""


def errors_by_method(name, level, n, seed):
    """Return the error of every method on one log, and the verdict."""
    case = FAMILIES[name].case(level, seed, n)
    began = time.process_time()
    methods = [*IMPORTANCE_SAMPLING, *DOUBLY_ROBUST]
    evaluation = sb.evaluate(
        case.as_log(), case.target, gamma=case.gamma, horizon=case.horizon, methods=methods,
        allow_uncovered=True,
    )  # fmt: skip
    seconds = time.process_time() - began
    (diagnosis,) = evaluation.diagnoses
    values = estimated_values(evaluation.estimates)
    values |= candidate_values(diagnosis.consensus.candidates)
    if seed < FIRST + WITH_SLOW:
        q, v = tree_fqe(case, seed)
        values["tree FQE"] = float(v[steps_of(case) == 0].mean())
        values["MAGIC"] = magic(case, q, v)
    verdict = diagnosis.verdict
    return {
        "errors": {method: float(value) - case.truth for method, value in values.items()},
        "trust": verdict.trust, "failed": [check.code for check in verdict.failed],
        "half_width": 2.0 * verdict.evidence.error + verdict.gap, "gap": verdict.gap,
        "dispersion": diagnosis.consensus.dispersion, "spread": case.spread, "seconds": seconds,
    }  # fmt: skip


def estimated_values(estimates):
    """Return values by name; the automatic one is first, and a horizon has no closed form."""
    first, *others = estimates
    values = {AUTOMATIC: first.value}
    for one in others:
        values[CLOSED if one.method.startswith("LSTD") else one.method] = one.value
    return values


def candidate_values(candidates):
    """Return plug-in values by a name that is the same for all logs of a case.

    Bandwidths and numbers of cells vary between logs, so bases of a kind are numbered. Those that
    are only duals have no residual.
    """
    values, numbers = {}, {}
    for one in candidates:
        if not np.isfinite(one.residual):
            continue
        kind = one.basis.partition(",")[0].lstrip("0123456789 ")
        same = numbers.setdefault((one.view, kind), {})
        number = same.setdefault(one.basis, len(same) + 1)
        basis = f"{kind} ({number})" if kind.startswith("random") else kind
        values[f"{one.view}: {basis}, ridge {one.ridge:g}, pooling {one.pooling:g}"] = one.value
    return values
