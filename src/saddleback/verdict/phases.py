"""What the phases of an evaluation are planned to cost, so that its progress is of all the work.

The costs are in microseconds of one core, by measurements on logs of 35,000 to 674,000 rows with
81 to 3000 features. Only their ratios matter.
"""

from __future__ import annotations

from typing import NamedTuple

from saddleback._progress import Progress, part_of, split_progress

READING = 0.06
"""Share of reading and checking the log, which comes before the features are known."""

SUMS, WEIGHTS, SCORES = 1.0, 4.0, 1.0
"""For each row of the log, and each rule or target it is read for."""

ACTIVE = 0.4
"""The same, for each active feature."""

STREAMED, SVRG, EPOCHS = 2.0, 0.2, 100
"""The same for a pass of a streamed rule and for an epoch of SVRG, and how many epochs it takes."""

SOLVE, FOLD, CHECKS, EIGENVALUES = 5e-4, 2.5e-4, 7e-4, 4e-4
"""For each multiplication of a matrix product: the closed form, the Q of a fold, what is checked
besides, and the eigenvalues of a resample."""


class Phases(NamedTuple):
    """What each phase reports its progress to."""

    sums: Progress | None
    solving: Progress | None
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
    walks: int,
    draws: int,
    passes: int = 0,
    epochs: int = 0,
) -> Phases:
    """Plan the phases that come after reading.

    Parameters
    ----------
    progress
        What the evaluation reports to, or None.
    rows, active, p
        Rows of the log, active features of a row, and features over all actions.
    targets, rules, folds, walks, draws
        How many targets and rules there are, folds of Q, weighted passes, and resamples.
    passes, epochs
        Passes of a streamed rule, and epochs of SVRG, 0 without them.

    Examples
    --------
    >>> phases = plan_phases(
    ...     lambda fraction, phase: print(f"{fraction:.2f}", phase), rows=10_000, active=4, p=972,
    ...     targets=1, rules=2, folds=5, walks=1, draws=20,
    ... )
    >>> phases.resampling(1.0)
    1.00 resampling
    """
    row, cube = 1.0 + ACTIVE * active, float(p) ** 3
    costs = [
        ("evaluating", SUMS * rows * (targets + 1) * rules * row),
        ("evaluating", SOLVE * targets * cube),
        ("evaluating", FOLD * folds * targets * cube),
        ("evaluating", WEIGHTS * rows * walks),
        ("evaluating", SCORES * rows * (targets + 1) * row + CHECKS * targets * cube),
        ("resampling", EIGENVALUES * targets * draws * cube),
        ("streaming", STREAMED * rows * targets * passes * row),
        ("SVRG", SVRG * rows * targets * epochs * row),
    ]
    return Phases(*split_progress(part_of(progress, READING, 1.0), costs))
