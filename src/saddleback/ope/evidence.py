"""`Evidence`: the numbers on which the verdict on an evaluation is based."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Evidence:
    """The inputs of the checks; None where not available.

    Attributes
    ----------
    episodes, steps
        Size of the data.
    value, error
        V̂ of the closed form and its standard error.
    spread
        Standard deviation of the logged returns: the scale of all differences.
    uncovered
        Share of π's probability on actions with μ = 0.
    coverage, unvisited
        Shares of π's probability with at least 10 effective rows, and with none.
    imbalance
        Change of the estimate over the value functions of many features, with the marginal ratios
        of other folds: how well the reweighted data represent the target.
    mean_weight, mean_weight_error
        Mean of the importance weights of decisions, which should be 1, and its standard error.
    miscalibrated, calibration_z
        Share of rows on which propensities contradict the actions, and the z-score.
    trace_ratio
        γ√E[κ²] for a trace that may grow: λ relative to its ceiling.
    self_check, self_check_error
        V̂_μ minus the mean observed return, and its standard error.
    unique
        Whether the closed form has a unique solution.
    stable
        Share of resamples in which Â is stable.
    agreement, agreement_error
        V̂ minus the weighted doubly robust estimate, where that is reliable, and its error.
    gap
        Estimated bias of the fixed point, |V^π − fixed point|.
    refusing_gap
        The same without what makes an answer doubtful at most: a hidden state, a second opinion.
    hidden, hidden_in
        Largest difference to the estimates of features that also see the step or the history of an
        episode, and which of these it is.
    sensitivity
        Largest change of V̂ over neighbouring λ and ridges.
    ridge_shift, error_without_ridge
        Change of V̂ by the ridge, and its standard error without a ridge.
    limit, limit_share
        Maximum length of a terminated episode, and the share of episodes with that length.
    truncated_weight
        Share of the discounted weight that lies after the end of truncated episodes.
    outside
        Distance of V̂ from the range attainable with the logged rewards, relative to that range.
    dropped, imputed, clipped, outside_box
        Shares of rows or episodes that were dropped or stop without a flag, of rewards or ends of
        episodes that were filled in, of propensities that were raised, and of observations outside
        the box of the features.
    outlying, outliers
        Share of rows with values far outside all others, and which they are.
    influential, most_influential, units
        Effective number of episodes, or blocks of them, that the standard error rests on, the
        largest of them, and the number of all.
    unit, outcome
        What the data consist of, and what is valued: episodes and their return, or decisions and
        their reward.
    other
        The estimate that ``agreement`` compares with.
    notes
        Why a check was not applicable, by its code.
    """

    episodes: int
    steps: int
    value: float
    error: float
    spread: float
    uncovered: float | None = None
    coverage: float | None = None
    unvisited: float | None = None
    imbalance: float | None = None
    mean_weight: float | None = None
    mean_weight_error: float | None = None
    miscalibrated: float | None = None
    calibration_z: float | None = None
    trace_ratio: float | None = None
    self_check: float | None = None
    self_check_error: float | None = None
    unique: bool | None = None
    stable: float | None = None
    agreement: float | None = None
    agreement_error: float | None = None
    gap: float | None = None
    refusing_gap: float | None = None
    hidden: float | None = None
    hidden_in: str | None = None
    sensitivity: float | None = None
    ridge_shift: float | None = None
    error_without_ridge: float | None = None
    limit: int | None = None
    limit_share: float | None = None
    truncated_weight: float | None = None
    outside: float | None = None
    dropped: float | None = None
    imputed: float | None = None
    clipped: float | None = None
    outside_box: float | None = None
    outlying: float | None = None
    outliers: str = ""
    influential: float | None = None
    most_influential: str = ""
    units: str = ""
    unit: str = "episodes"
    outcome: str = "return"
    other: str = "the doubly robust estimate"
    notes: dict[str, str] = field(default_factory=dict)
