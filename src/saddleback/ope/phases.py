"""Planned costs of the phases of an evaluation, so that progress covers all of the work.

The costs are in microseconds of one core, measured on logs of 35,000 to 674,000 rows with 81 to
3000 features. Only their ratios matter.
"""

from __future__ import annotations

from typing import NamedTuple

from saddleback._progress import Progress, part_of, split_progress

READING = 0.06
"""Share of reading and validating the log, which precedes the choice of features."""

SUMS, WEIGHTS, SCORES = 1.0, 4.0, 1.0
"""Cost per row of the log, and per rule or target it is read for."""

ACTIVE = 0.4
"""Additional cost per row and active feature."""

STREAMED, SVRG, EPOCHS = 2.0, 0.2, 100
"""Cost per row of a pass of a streamed rule and of an epoch of SVRG, and the number of epochs."""

SOLVE, FOLD, CHECKS, EIGENVALUES = 5e-4, 2.5e-4, 7e-4, 4e-4
"""Cost per multiplication of a matrix product: the closed form, the Q of a fold, the checks, and
the eigenvalues of a resample."""


CANDIDATES, OPINION, CANDIDATE_ROW = 2e6, 1e5, 150.0
"""Cost of fitting all candidate features for an estimate or a second opinion, and per row of the
sample."""


class Phases(NamedTuple):
    """Progress callbacks of the phases."""

    sums: Progress | None
    solving: Progress | None
    choosing: Progress | None
    folds: Progress | None
    weights: Progress | None
    scores: Progress | None
    resampling: Progress | None
    streamed: Progress | None
    svrg: Progress | None


def plan_phases(
    progress: Progress | None,
    *,
    rows: int,
    active: int,
    p: int,
    targets: int,
    rules: int,
    folds: int,
    weighting_jobs: int,
    draws: int,
    sampled: int = 0,
    is_consensus: bool = False,
    passes: int = 0,
    epochs: int = 0,
) -> Phases:
    """Plan the phases that come after reading.

    ``active`` are features per row, ``p`` features over all actions, ``folds`` those of Q,
    ``sampled`` rows of the sample for candidate features, and ``passes`` and ``epochs`` those of a
    streamed rule and of SVRG, 0 if not used.

    Examples
    --------
    >>> phases = plan_phases(
    ...     lambda fraction, phase: print(f"{fraction:.2f}", phase), rows=10_000, active=4, p=972,
    ...     targets=1, rules=2, folds=5, weighting_jobs=1, draws=20,
    ... )
    >>> phases.resampling(1.0)
    1.00 resampling
    """
    row, cube = 1.0 + ACTIVE * active, float(p) ** 3
    fixed = (CANDIDATES if is_consensus else OPINION) if sampled else 0.0
    costs = [
        ("evaluating", SUMS * rows * (targets + 1) * rules * row),
        ("evaluating", SOLVE * targets * cube),
        ("choosing features", targets * (fixed + CANDIDATE_ROW * min(sampled, rows))),
        ("evaluating", FOLD * folds * targets * cube),
        ("evaluating", WEIGHTS * rows * weighting_jobs),
        ("evaluating", SCORES * rows * (targets + 1) * row + CHECKS * targets * cube),
        ("resampling", EIGENVALUES * targets * draws * cube),
        ("streaming", STREAMED * rows * targets * passes * row),
        ("SVRG", SVRG * rows * targets * epochs * row),
    ]
    return Phases(*split_progress(part_of(progress, READING, 1.0), costs))
