"""`Verdict`: is the estimate reliable, and is the target better? Two separate statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from saddleback.ope.evidence import Evidence
from saddleback.ope.gates import CHECKS, DOUBTFUL, REFUSED, UNKNOWN, USABLE, Check, Gate
from saddleback.ope.sandwich import Interval

RANK = {USABLE: 0, UNKNOWN: 0, DOUBTFUL: 1, REFUSED: 2}
"""Severity of a level."""


@dataclass(frozen=True)
class Improvement:
    """The target policy compared with the logged policy.

    Attributes
    ----------
    baseline, baseline_low, baseline_high
        Value of the logged policy and its confidence interval.
    difference, low, high
        V̂ minus the baseline, with the confidence interval of the difference widened by the gap.
    error, n
        Standard error of the difference, and the number of independent units.
    lower_is_better
        Whether rewards are costs.
    outcome
        "better", "worse" or "undecided".

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> result = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> better = result.verdicts[0].improvement
    >>> better.outcome, better.low > 0
    ('better', True)
    """

    baseline: float
    baseline_low: float
    baseline_high: float
    difference: float
    low: float
    high: float
    error: float
    n: int
    lower_is_better: bool
    outcome: str

    @classmethod
    def of(
        cls,
        baseline: tuple[float, float, float],
        difference: Interval,
        gap: float,
        lower_is_better: bool,
    ) -> Improvement:
        """Compare with a baseline, given as (value, low, high)."""
        low, high = difference.low - gap, difference.high + gap
        outcome = "undecided"
        if low > 0 or high < 0:
            outcome = "better" if (low > 0) != lower_is_better else "worse"
        return cls(
            *baseline, difference.value, low, high, difference.error, difference.n,
            lower_is_better, outcome,
        )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The verdict on the value of one target policy.

    Attributes
    ----------
    target
        Name of the policy.
    trust
        "usable", "doubtful" or "refused".
    value, low, high
        V̂ and its 95% confidence interval, for the TD fixed point.
    gap
        Estimated bias of the fixed point, |V^π − fixed point|.
    gates
        Results of all checks.
    reason
        Why the estimate is usable, doubtful or refused, as a sentence.
    weakest
        Where the target's decisions have the least data.
    improvement
        The target compared with the logged policy; None without a baseline.
    evidence
        The numbers behind the checks.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> result = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> verdict = result.verdicts[0]
    >>> verdict.trust, verdict.reason, len(verdict.gates)
    ('usable', 'all 20 applicable checks passed (of 24)', 24)
    """

    target: str
    trust: str
    value: float
    low: float
    high: float
    gap: float
    gates: tuple[Gate, ...]
    reason: str
    weakest: str
    improvement: Improvement | None
    evidence: Evidence

    @classmethod
    def of(
        cls,
        target: str,
        interval: tuple[float, float, float],
        evidence: Evidence,
        improvement: Improvement | None,
        region: str,
        checks: Sequence[Check] = CHECKS,
    ) -> Verdict:
        """Judge an estimate from the evidence."""
        gates = tuple(check.judge(evidence) for check in checks)
        worst = max(gates, key=lambda gate: RANK[gate.level])
        level = worst.level if RANK[worst.level] else USABLE
        value, low, high = interval
        checked = sum(gate.level != UNKNOWN for gate in gates)
        reason = (
            worst.sentence
            if RANK[worst.level]
            else f"all {checked} applicable checks passed (of {len(gates)})"
        )
        return cls(
            target, level, value, low, high, evidence.gap or 0.0, gates, reason, region,
            improvement, evidence,
        )  # fmt: skip

    @property
    def interval_with_gap(self) -> tuple[float, float]:
        """The confidence interval widened by the gap: for V^π, if the gap bounds the bias."""
        return self.low - self.gap, self.high + self.gap

    @property
    def failed(self) -> tuple[Gate, ...]:
        """The failed checks, most severe first."""
        failed = [gate for gate in self.gates if not gate.passed]
        return tuple(sorted(failed, key=lambda gate: -RANK[gate.level]))

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain data for JSON."""
        return asdict(self) | {"interval_with_gap": list(self.interval_with_gap)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Verdict:
        """Return a verdict from saved data."""
        fields = {name: plain[name] for name in cls.__dataclass_fields__}
        fields["gates"] = tuple(Gate(**gate) for gate in plain["gates"])
        fields["evidence"] = Evidence(**plain["evidence"])
        if plain["improvement"] is not None:
            fields["improvement"] = Improvement(**plain["improvement"])
        return cls(**fields)
