"""JSON schema of a saved result; see `Evaluation.as_dict`.

Numbers that are not finite are saved as null, so every number that can be infinite or undefined
may be null.
"""

from __future__ import annotations

from typing import Any

from saddleback._json_schema import (
    COUNT,
    FLAG,
    INTEGER,
    NUMBER,
    POSITIVE,
    TEXT,
    Maybe,
    first_violation,
)

MAYBE = Maybe(NUMBER)
ENDS = {"low": MAYBE, "high": MAYBE}

ESTIMATE = ENDS | {
    "target": TEXT, "method": TEXT, "value": MAYBE, "note": TEXT, "estimand": TEXT, "ess": MAYBE,
    "max_share": MAYBE, "k_hat": MAYBE, "comparable": FLAG,
}  # fmt: skip

GATE = {
    "code": TEXT, "level": frozenset(("usable", "doubtful", "refused", "not checked")),
    "sentence": TEXT, "value": MAYBE, "doubtful": NUMBER, "refused": MAYBE,
    "good": frozenset(("large", "small")),
}  # fmt: skip

IMPROVEMENT = ENDS | {
    "baseline": MAYBE, "baseline_low": MAYBE, "baseline_high": MAYBE, "difference": MAYBE,
    "error": MAYBE, "n": INTEGER, "lower_is_better": FLAG,
    "outcome": frozenset(("better", "worse", "undecided")),
}  # fmt: skip

COLUMN_COVERAGE = {
    "column": TEXT,
    "where": TEXT,
    "share": NUMBER,
    "coverage": NUMBER,
    "rows": INTEGER,
}

COVERAGE = {
    "coverage": NUMBER, "unvisited": NUMBER, "rows": NUMBER, "action": TEXT, "where": TEXT,
    "taken": INTEGER, "share": NUMBER, "parts": [COLUMN_COVERAGE],
}  # fmt: skip

EIGENVALUE = (NUMBER, NUMBER)

SPECTRUM = {
    "outcome": frozenset(("stable", "unstable", "undecidable")), "stable": INTEGER,
    "draws": INTEGER,
    "values": [EIGENVALUE, ...], "cloud": [[EIGENVALUE, ...], ...], "drawn": [MAYBE],
    "bootstrap": (MAYBE, MAYBE),
}  # fmt: skip

VERDICT = ENDS | {
    "target": TEXT, "trust": frozenset(("usable", "doubtful", "refused")), "value": MAYBE,
    "gap": MAYBE, "interval_with_gap": (MAYBE, MAYBE), "gates": [GATE], "reason": TEXT,
    "weakest": TEXT, "improvement": Maybe(IMPROVEMENT),
    "evidence": {"coverage": NUMBER, "notes": {...: TEXT}},
    "policy": {"mass": {...: NUMBER}, "entropy": NUMBER, "greedy": NUMBER},
    "support": Maybe(COVERAGE), "gap_parts": {...: MAYBE}, "spectrum": Maybe(SPECTRUM),
    "condition": MAYBE, "rank": INTEGER,
}  # fmt: skip

LOGGED = ENDS | {
    "value": MAYBE, "estimand": TEXT, "estimate": MAYBE, "self_check": MAYBE,
    "self_check_error": MAYBE,
}  # fmt: skip

CALIBRATION = {
    "from": NUMBER, "to": NUMBER, "pairs": COUNT, "estimated": NUMBER, "taken": NUMBER,
}  # fmt: skip

CARD = {
    "rows": INTEGER, "episodes": INTEGER, "terminated": INTEGER,
    "truncated": INTEGER, "stops": INTEGER,
    "with_next": INTEGER, "lost": INTEGER, "reward": (NUMBER, NUMBER, NUMBER), "low": [NUMBER],
    "high": [NUMBER], "propensity": Maybe((NUMBER, NUMBER)), "mean_return": MAYBE,
    "taken": [INTEGER], "estimated": Maybe(TEXT), "text": TEXT,
    "calibration?": [CALIBRATION],
}  # fmt: skip

RESULT = {
    "gamma": NUMBER, "features": TEXT, "p": INTEGER, "rule": TEXT, "actions": [TEXT],
    "observations?": [TEXT], "steps": COUNT, "episodes": COUNT, "fingerprint?": TEXT,
    "propensities": TEXT, "lambda_ceiling": {...: MAYBE}, "estimates": [ESTIMATE, ...],
    "paths": {...: {...: [(NUMBER, MAYBE)]}}, "warnings": [TEXT], "logged?": Maybe(LOGGED),
    "verdicts": [VERDICT], "ess_by_step?": {...: [NUMBER]}, "tails?": {...: [(NUMBER, POSITIVE)]},
    "made?": Maybe({"command": TEXT, "versions": {...: TEXT}, "seed": INTEGER}),
    "card?": Maybe(CARD),
}  # fmt: skip


def find_damage(result: dict[str, Any]) -> str | None:
    """Return a description of the first fault of a saved result, or None.

    Examples
    --------
    >>> find_damage({"gamma": "high"})
    'gamma is not a number'
    """
    damage = first_violation(result, RESULT)
    if damage is not None:
        return damage
    for k, verdict in enumerate(result["verdicts"]):
        if (verdict["low"] is None) != (verdict["high"] is None):
            return f"verdicts[{k}] has only one end of its interval"
    return None
