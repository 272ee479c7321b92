"""`Evidence`: the numbers on which the verdict on an evaluation is based."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Evidence:
    """The inputs of the checks; None where not available."""

    # Size of the data.
    episodes: int
    steps: int
    # V̂ of the closed form and its standard error.
    value: float
    error: float
    spread: float  # standard deviation of the logged returns: the scale of all differences
    uncovered: float | None = None  # share of π's probability on actions with μ = 0
    # Shares of π's probability with at least 10 effective rows, and with none.
    coverage: float | None = None
    unvisited: float | None = None
    # Change of the estimate over the value functions of many features, with the marginal ratios of
    # other folds: how well the reweighted data represent the target.
    imbalance: float | None = None
    # Mean of the importance weights of decisions, which should be 1, and its standard error.
    mean_weight: float | None = None
    mean_weight_error: float | None = None
    # Share of rows on which propensities contradict the actions, and the z-score.
    miscalibrated: float | None = None
    calibration_z: float | None = None
    trace_ratio: float | None = None  # γ√E[κ²] for a trace that may grow: λ relative to its ceiling
    # V̂_μ minus the mean observed return, and its standard error.
    self_check: float | None = None
    self_check_error: float | None = None
    unique: bool | None = None  # whether the closed form has a unique solution
    stable: float | None = None  # share of resamples in which Â is stable
    # V̂ minus the weighted doubly robust estimate, where that is reliable, and its error.
    agreement: float | None = None
    agreement_error: float | None = None
    gap: float | None = None  # estimated bias of the fixed point, |V^π − fixed point|
    # The same without what makes an answer doubtful at most: a hidden state, a second opinion.
    refusing_gap: float | None = None
    # Largest difference to the estimates of features that also see the step or the history of an
    # episode, and which of these it is.
    hidden: float | None = None
    hidden_in: str | None = None
    hidden_remedy: str = "add it to the observations"
    sensitivity: float | None = None  # largest change of V̂ over neighbouring λ and ridges
    # Change of V̂ by the ridge, and its standard error without a ridge.
    ridge_shift: float | None = None
    error_without_ridge: float | None = None
    # Maximum length of a terminated episode, and the share of episodes with that length.
    limit: int | None = None
    limit_share: float | None = None
    # Share of the discounted weight that lies after the end of truncated episodes.
    truncated_weight: float | None = None
    # Distance of V̂ from the range attainable with the logged rewards, relative to that range.
    outside: float | None = None
    # Shares of rows or episodes that were dropped or stop without a flag, of rewards or ends of
    # episodes that were filled in, of propensities that were raised, and of observations outside
    # the box of the features.
    dropped: float | None = None
    imputed: float | None = None
    clipped: float | None = None
    outside_box: float | None = None
    # Share of rows with values far outside all others, and which they are.
    outlying: float | None = None
    outliers: str = ""
    # Effective number of episodes, or blocks of them, that the standard error rests on, the largest
    # of them, and the number of all.
    influential: float | None = None
    most_influential: str = ""
    units: str = ""
    # What the data consist of, and what is valued: episodes and their return, or decisions and
    # their reward.
    unit: str = "episodes"
    outcome: str = "return"
    other: str = "the doubly robust estimate"  # the estimate that ``agreement`` compares with
    # Why a check was not applicable, by its code.
    notes: dict[str, str] = field(default_factory=dict)
