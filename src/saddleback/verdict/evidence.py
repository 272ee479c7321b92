"""`Evidence`: all that is known of an evaluation when it is judged, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Evidence:
    """What the gates look at; None where it could not be had.

    Attributes
    ----------
    episodes, steps
        How much data.
    value, error
        V̂ of the closed form, and its standard error.
    spread
        Standard deviation of the logged returns: the scale on which gaps are judged.
    uncovered
        Share of π's probability on actions that μ cannot take.
    coverage, unmet
        Shares of π's probability that rest on enough rows, and on none.
    miscalibrated, calibration_z
        Share of rows by which propensities and actions disagree, and how sure that is.
    trace_ratio
        λ over its ceiling, for importance traces.
    self_check, self_check_error
        V̂_μ less what was returned, and its standard error.
    unique
        Whether the closed form has one solution.
    stable
        Share of resamples in which Â is stable, and what that says.
    agreement, agreement_error
        V̂ less the weighted doubly robust estimate, where that can be trusted, and the error.
    gap
        Estimated distance of the fixed point from V^π.
    sensitivity
        Largest change of V̂ over neighbouring λ and ridges.
    limit, limit_share
        Greatest length of a terminated episode, and what share has it.
    beyond
        Share of the value's weight that lies beyond the end of truncated episodes.
    outside
        By how much V̂ leaves what rewards as logged can add up to, over their range.
    notes
        Why a gate could not be checked, by its code.
    """

    episodes: int
    steps: int
    value: float
    error: float
    spread: float
    uncovered: float | None = None
    coverage: float | None = None
    unmet: float | None = None
    miscalibrated: float | None = None
    calibration_z: float | None = None
    trace_ratio: float | None = None
    self_check: float | None = None
    self_check_error: float | None = None
    unique: bool = True
    stable: float | None = None
    agreement: float | None = None
    agreement_error: float | None = None
    gap: float | None = None
    sensitivity: float | None = None
    limit: int | None = None
    limit_share: float | None = None
    beyond: float | None = None
    outside: float | None = None
    notes: dict[str, str] = field(default_factory=dict)
