"""The checks behind a verdict, and the thresholds that make an estimate doubtful or refused.

Each compares one number with two thresholds. The thresholds are judgements, validated on
situations whose true value is known (``make verdicts``); docs/reference/checks.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from saddleback.ope.evidence import Evidence

USABLE, DOUBTFUL, REFUSED, UNKNOWN = "usable", "doubtful", "refused", "not checked"


@dataclass(frozen=True)
class Gate:
    """The result of one check.

    Attributes
    ----------
    code
        Its stable name.
    level
        "usable", "doubtful", "refused" or "not checked".
    sentence
        The finding, as a sentence.
    value, doubtful, refused
        The number and its thresholds; ``refused`` is None for a check that never refuses.
    good
        Whether "large" or "small" numbers are good.

    Examples
    --------
    >>> Gate("EPISODES", "doubtful", "only 20 episodes", 20.0, 50, 10, good="large").passed
    False
    """

    code: str
    level: str
    sentence: str
    value: float | None
    doubtful: float
    refused: float | None
    good: str = "small"

    @property
    def passed(self) -> bool:
        """Whether the check did not fail: it passed, or was not applicable."""
        return self.level in (USABLE, UNKNOWN)


@dataclass(frozen=True)
class Check:
    """The definition of a check: a number computed from the evidence, and its thresholds.

    ``good`` is whether "large" or "small" numbers are good; ``finding`` and ``consequence`` are
    formatted with the value.
    """

    code: str
    of: Callable[[Evidence], float | None]
    doubtful: float
    refused: float | None
    finding: str
    consequence: str
    good: str = "small"

    def judge(self, evidence: Evidence) -> Gate:
        """Return the result of the check."""
        value = self.of(evidence)
        if value is None:
            sentence = evidence.notes.get(self.code, "not applicable to this log")
            return Gate(self.code, UNKNOWN, sentence, None, self.doubtful, self.refused, self.good)
        sign = 1.0 if self.good == "small" else -1.0
        level = USABLE
        if not sign * value <= sign * self.doubtful:
            level = DOUBTFUL
        if self.refused is not None and not sign * value <= sign * self.refused:
            level = REFUSED
        sentence = self.finding.format(value=value, short=_short(value), e=evidence)
        if level != USABLE:
            sentence = f"{sentence}: {self.consequence.format(value=value, e=evidence)}"
        return Gate(self.code, level, sentence, value, self.doubtful, self.refused, self.good)


def _short(value: float) -> str:
    """Format a number of standard deviations.

    Examples
    --------
    >>> _short(0.0), _short(1.3e-15), _short(0.0312), _short(99.6), _short(678.9)
    ('0', 'less than 0.0001', '0.031', '100', '679')
    """
    if 0 < value < 1e-4:
        return "less than 0.0001"
    return f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"


def _relative(x: float | None, error: float | None, spread: float) -> float | None:
    """Return |x| minus two standard errors, in units of ``spread``."""
    if x is None:
        return None
    excess = abs(x) - 2.0 * (error or 0.0)
    if excess <= 0:  # false for NaN, which fails every check
        return 0.0
    return excess / spread if not spread <= 0 else float("inf")


def _scaled(x: float | None, spread: float) -> float | None:
    return _relative(x, 0.0, spread)


def _in_errors(x: float | None, error: float | None, spread: float) -> float | None:
    """Return |x| in standard errors, which are at least a ten-thousandth of ``spread``."""
    if x is None or error is None:
        return None
    floor = max(error, 1e-4 * spread)
    return abs(x) / floor if not floor <= 0 else (0.0 if x == 0 else float("inf"))


def _half_width(e: Evidence) -> float:
    """Return approximately half the width of the bias-adjusted interval."""
    return 2.0 * e.error + (e.gap or 0.0)


def _refusing_gap(e: Evidence) -> float | None:
    return e.gap if e.refusing_gap is None else e.refusing_gap


def _excess_weight(e: Evidence) -> float | None:
    return None if e.mean_weight is None else e.mean_weight - 1.0


def _shift_by_ridge(e: Evidence) -> float | None:
    """Return the change by a ridge in half-widths, which are at least 0.02 SD of the return."""
    if e.ridge_shift is None or e.error_without_ridge is None:
        return None
    half_width = max(2.0 * e.error_without_ridge, 0.02 * e.spread)
    return _in_errors(e.ridge_shift, half_width, 0.0)


CHECKS = (
    Check(
        "EPISODES", lambda e: float(e.episodes), 50, 10,
        "{value:,.0f} episodes", "too few to estimate their variance", "large",
    ),
    Check(
        "SUPPORT", lambda e: e.uncovered, 0.001, 0.05,
        "{value:.1%} of the target's probability is on actions the logged policy never takes",
        "their outcome is unknown",
    ),
    Check(
        "COVERAGE", lambda e: _scaled(e.imbalance, e.spread), 0.5, 2.0,
        "reweighted to the target's decisions, the data are out of balance by {short} SD of the "
        "{e.outcome}",
        "the log does not represent what the target does",
    ),
    Check(
        "ROWS", lambda e: e.coverage if e.imbalance is None else None, 0.95, 0.75,
        "{value:.1%} of the target's decisions have at least 10 effective rows",
        "the rest is extrapolation", "large",
    ),
    Check(
        "PROPENSITIES",
        lambda e: e.miscalibrated,
        0.01, 0.25,
        "propensities contradict the actions on {value:.1%} of rows",
        "they are not those of the policy that chose the actions",
    ),
    Check(
        "CEILING", lambda e: e.trace_ratio, 1.0, 1.15,
        "λ is {value:.2f} of its ceiling", "the variance of the trace is unbounded on this log",
    ),
    Check(
        "SELF-CHECK", lambda e: _relative(e.self_check, e.self_check_error, e.spread), 0.1, 0.5,
        "the estimate for the logged policy is off by {short} SD of the {e.outcome}",
        "estimates for other policies are not reliable either",
    ),
    Check(
        "SOLUTION", lambda e: None if e.unique is None else float(e.unique), 1.0, None,
        "the linear system has a solution", "it is not unique", "large",
    ),
    Check(
        "STABILITY", lambda e: e.stable, 0.975, None,
        "Â is stable in {value:.0%} of resamples",
        "the sample does not establish that Â is stable", "large",
    ),
    Check(
        "AGREEMENT",
        lambda e: _in_errors(e.agreement, e.agreement_error, e.spread),
        3.0, None,
        "{value:.1f} standard errors from {e.other}",
        "the features or the importance weights are biased",
    ),
    Check(
        "HIDDEN", lambda e: _scaled(e.hidden, e.spread), 0.5, None,
        "features that also see the {e.hidden_in} change the estimate by {short} SD of the return",
        "the value depends on the {e.hidden_in}; {e.hidden_remedy}",
    ),
    Check(
        "GAP", lambda e: _scaled(_refusing_gap(e), e.spread), 0.5, 2.0,
        "the estimated bias is {short} SD of the {e.outcome}",
        "other features or estimators contradict the estimate",
    ),
    Check(
        "PRECISION", lambda e: _scaled(_half_width(e), e.spread), 0.5, None,
        "the confidence interval extends {short} SD of the {e.outcome} to each side",
        "the estimate is imprecise",
    ),
    Check(
        "SENSITIVITY", lambda e: _scaled(e.sensitivity, e.spread), 0.5, 2.0,
        "the estimate varies by {short} SD of the {e.outcome} with λ and ridge",
        "the result depends on the choice of λ or ridge",
    ),
    Check(
        "RIDGE", _shift_by_ridge, 0.5, 1.0,
        "the ridge moves the estimate by {short} of the half-width of the interval without it",
        "the ridge biases the estimate",
    ),
    Check(
        "ENDS", lambda e: e.limit_share, 0.05, None,
        "{value:.1%} of episodes end exactly at the maximum length, {e.limit:,}",
        "if a time limit was logged as termination, the estimate is for shorter episodes",
    ),
    Check(
        "HORIZON", lambda e: e.truncated_weight, 0.5, 0.9,
        "{value:.0%} of the discounted weight lies after the end of the logged data",
        "that part of the estimate is bootstrapped",
    ),
    Check(
        "DROPPED", lambda e: e.dropped, 0.01, 0.25,
        "{value:.1%} of the data is missing or dropped",
        "unless those rows are like the others, the estimate is biased",
    ),
    Check(
        "IMPUTED", lambda e: e.imputed, 0.01, None,
        "{value:.1%} of rewards or ends were filled in where others are logged",
        "unless they are as assumed, the estimate is biased",
    ),
    Check(
        "CLIPPED", lambda e: e.clipped, 0.05, 0.5,
        "{value:.1%} of propensities were raised to the smallest one allowed",
        "importance ratios are too small",
    ),
    Check(
        "BOX", lambda e: e.outside_box, 0.1, 0.5,
        "{value:.1%} of observations are outside the box of the features",
        "the features cannot tell them apart",
    ),
    Check(
        "OUTLIERS", lambda e: e.outlying, 0.0, 0.01,
        "{value:.2%} of rows have values far outside all others",
        "{e.outliers}",
    ),
    Check(
        "INFLUENCE", lambda e: e.influential, 2.0, 1.1,
        "the standard error rests on {value:,.1f} of {e.units}",
        "above all on {e.most_influential}", "large",
    ),
    Check(
        "RANGE", lambda e: e.outside, 0.0, 0.0,
        "the value is outside the attainable range by {value:.1%} of that range",
        "it cannot be correct",
    ),
)  # fmt: skip
"""All checks of episodes, in the order of reports."""

BANDIT_CHECKS = (
    Check(
        "DECISIONS", lambda e: float(e.episodes), 50, 10,
        "{value:,.0f} decisions", "too few to estimate their variance", "large",
    ),
    Check(
        "WEIGHTS", lambda e: _relative(_excess_weight(e), e.mean_weight_error, 1.0), 0.05, 0.25,
        "importance weights average {e.mean_weight:.3f}, 1 is expected",
        "propensities are wrong, or rare large weights are missing from the log",
    ),
    *(
        check
        for check in CHECKS
        if check.code in (
            "SUPPORT", "COVERAGE", "PROPENSITIES", "AGREEMENT", "GAP", "PRECISION", "DROPPED",
            "IMPUTED", "CLIPPED", "OUTLIERS", "INFLUENCE", "RANGE",
        )
    ),
)  # fmt: skip
"""The checks of single decisions, which have no steps, ends or traces."""
