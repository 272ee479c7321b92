"""The gates of trust: what is looked at, and from where on it makes an answer doubtful or void.

Each is one number against two thresholds. The thresholds are judgements, held against situations
whose truth is known (``make verdicts``); docs/project/validation.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from saddleback.verdict.evidence import Evidence

USABLE, DOUBTFUL, REFUSED, UNKNOWN = "usable", "doubtful", "refused", "not checked"


@dataclass(frozen=True)
class Gate:
    """One look at an evaluation.

    Attributes
    ----------
    code
        Its stable name.
    level
        What it makes of the answer: usable, doubtful, refused; or not checked.
    sentence
        What was found, in plain words.
    value, doubtful, refused
        The number, and from where on it is bad; None where it is never refused.
    good
        Whether large numbers are good ("large") or bad ("small").

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
        """Whether there is nothing to object."""
        return self.level in (USABLE, UNKNOWN)


@dataclass(frozen=True)
class Check:
    """How a gate is made of evidence.

    ``good`` is whether large numbers are good ("large") or bad ("small"); ``says`` and ``means``
    are formatted with the value.
    """

    code: str
    of: Callable[[Evidence], float | None]
    doubtful: float
    refused: float | None
    says: str
    means: str
    good: str = "small"

    def judge(self, evidence: Evidence) -> Gate:
        """Return the gate."""
        value = self.of(evidence)
        if value is None:
            said = evidence.notes.get(self.code, "could not be checked on this log")
            return Gate(self.code, UNKNOWN, said, None, self.doubtful, self.refused, self.good)
        sign = 1.0 if self.good == "small" else -1.0
        level = USABLE
        if not sign * value <= sign * self.doubtful:
            level = DOUBTFUL
        if self.refused is not None and not sign * value <= sign * self.refused:
            level = REFUSED
        said = self.says.format(value=value, short=_short(value), e=evidence)
        if level != USABLE:
            said = f"{said}: {self.means.format(value=value, e=evidence)}"
        return Gate(self.code, level, said, value, self.doubtful, self.refused, self.good)


def _short(value: float) -> str:
    """Write a number of standard deviations.

    Examples
    --------
    >>> _short(0.0), _short(1.3e-15), _short(0.0312), _short(678.9)
    ('0', 'less than 0.0001', '0.031', '679')
    """
    if 0 < value < 1e-4:
        return "less than 0.0001"
    return f"{value:.2g}" if value < 100 else f"{value:,.0f}"


def _relative(x: float | None, error: float | None, spread: float) -> float | None:
    """|x| less two standard errors, on the scale of returns."""
    if x is None:
        return None
    beyond = abs(x) - 2.0 * (error or 0.0)
    if beyond <= 0:  # what is not a number is not, and passes no gate
        return 0.0
    return beyond / spread if not spread <= 0 else float("inf")


def _scaled(x: float | None, spread: float) -> float | None:
    return _relative(x, 0.0, spread)


def _in_errors(x: float | None, error: float | None, spread: float) -> float | None:
    """|x| in standard errors, which are at least a ten-thousandth of a standard deviation."""
    if x is None or error is None:
        return None
    least = max(error, 1e-4 * spread)
    return abs(x) / least if not least <= 0 else (0.0 if x == 0 else float("inf"))


def _reach(e: Evidence) -> float:
    """Half the width of the widened interval, about."""
    return 2.0 * e.error + (e.gap or 0.0)


CHECKS = (
    Check(
        "EPISODES", lambda e: float(e.episodes), 50, 10,
        "{value:,.0f} episodes", "too few to tell how much they vary", "large",
    ),
    Check(
        "SUPPORT", lambda e: e.uncovered, 0.001, 0.05,
        "{value:.1%} of the target's probability is on actions the log cannot take",
        "what they lead to is unknown",
    ),
    Check(
        "COVERAGE", lambda e: e.coverage, 0.95, 0.75,
        "{value:.1%} of what the target does rests on at least 10 rows",
        "the rest is a guess of the features", "large",
    ),
    Check(
        "PROPENSITIES",
        lambda e: e.miscalibrated,
        0.01, 0.25,
        "actions and their logged probabilities surely disagree on {value:.1%} of rows",
        "the propensities are not those of the policy that acted",
    ),
    Check(
        "CEILING", lambda e: e.trace_ratio, 1.0, 1.15,
        "λ is {value:.2f} of its ceiling", "the trace has no bounded variance on this log",
    ),
    Check(
        "SELF-CHECK", lambda e: _relative(e.self_check, e.self_check_error, e.spread), 0.1, 0.5,
        "of the logged policy the pipeline is off by {short} standard deviations of a return",
        "it cannot be trusted with another policy either",
    ),
    Check(
        "SOLUTION", lambda e: float(e.unique), 1.0, None,
        "the equations could be solved", "one of many solutions was taken", "large",
    ),
    Check(
        "STABILITY", lambda e: e.stable, 0.975, None,
        "Â is stable in {value:.0%} of resamples",
        "how the features and the policy go together is not settled by this sample", "large",
    ),
    Check(
        "AGREEMENT",
        lambda e: _in_errors(e.agreement, e.agreement_error, e.spread),
        3.0, None,
        "{value:.1f} standard errors from the doubly robust estimate",
        "the features miss something, or the ratios do",
    ),
    Check(
        "GAP", lambda e: _scaled(e.gap, e.spread), 0.5, 2.0,
        "the features may be off by {short} standard deviations of a return",
        "they cannot say what the value is",
    ),
    Check(
        "PRECISION", lambda e: _scaled(_reach(e), e.spread), 0.5, None,
        "the interval reaches {short} standard deviations of a return to each side",
        "it says little",
    ),
    Check(
        "SENSITIVITY", lambda e: _scaled(e.sensitivity, e.spread), 0.5, 2.0,
        "other λ and ridges move it by {short} standard deviations of a return",
        "the choice of λ or ridge decides the answer",
    ),
    Check(
        "ENDS", lambda e: e.limit_share, 0.05, None,
        "{value:.1%} of episodes pile up at the greatest length, {e.limit:,}",
        "a time limit logged as terminated? Then the answer is of shorter episodes",
    ),
    Check(
        "HORIZON", lambda e: e.beyond, 0.5, 0.9,
        "{value:.0%} of the value's weight lies beyond what was logged",
        "there the answer is all bootstrapping",
    ),
    Check(
        "RANGE", lambda e: e.outside, 0.0, 0.0,
        "the value leaves what the logged rewards can add up to by {value:.1%} of that range",
        "it is impossible",
    ),
)  # fmt: skip
"""All gates, in the order in which they are told."""
