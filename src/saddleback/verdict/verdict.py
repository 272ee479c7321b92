"""`Verdict`: can the answer be trusted, and is the target better? Two statements, kept apart."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from saddleback.evaluation.sandwich import Interval
from saddleback.verdict.evidence import Evidence
from saddleback.verdict.gates import CHECKS, DOUBTFUL, REFUSED, UNKNOWN, USABLE, Gate

RANK = {USABLE: 0, UNKNOWN: 0, DOUBTFUL: 1, REFUSED: 2}
"""How bad a level is."""


@dataclass(frozen=True)
class Improvement:
    """The target against the logged policy.

    Attributes
    ----------
    baseline, baseline_low, baseline_high
        What the logged policy returned, and its interval.
    difference, low, high
        V̂ less the baseline, with the interval of the difference, widened by the gap.
    error, n
        Standard error of the difference, and how many independent units are behind it.
    lower_is_better
        Whether rewards are costs.
    word
        better, worse, or undecided.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> better = found.verdicts[0].improvement
    >>> better.word, better.low > 0
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
    word: str

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
        word = "undecided"
        if low > 0 or high < 0:
            word = "better" if (low > 0) != lower_is_better else "worse"
        return cls(
            *baseline, difference.value, low, high, difference.error, difference.n,
            lower_is_better, word,
        )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What is to be said of the value of one target policy.

    Attributes
    ----------
    target
        Which policy.
    trust
        "usable", "doubtful" or "refused".
    value, low, high
        V̂, and its 95 % interval, of the TD fixed point.
    gap
        Estimated distance of that from V^π.
    gates
        All that was looked at.
    reason
        Why it is not usable, or what makes it so, in plain words.
    weakest
        Where the data are thinnest for what the target does.
    improvement
        The target against the logged policy, or None where that is not known.
    evidence
        The numbers behind the gates.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> verdict = found.verdicts[0]
    >>> verdict.trust, verdict.reason, len(verdict.gates)
    ('usable', 'all 13 applicable checks passed (of 15)', 15)
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
    ) -> Verdict:
        """Judge an estimate by the evidence."""
        gates = tuple(check.judge(evidence) for check in CHECKS)
        worst = max(gates, key=lambda each: RANK[each.level])
        level = worst.level if RANK[worst.level] else USABLE
        value, low, high = interval
        checked = sum(each.level != UNKNOWN for each in gates)
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
    def wide(self) -> tuple[float, float]:
        """The interval widened by the gap: of V^π, as far as the gap is known."""
        return self.low - self.gap, self.high + self.gap

    @property
    def failed(self) -> tuple[Gate, ...]:
        """The gates that object, worst first."""
        bad = [each for each in self.gates if not each.passed]
        return tuple(sorted(bad, key=lambda each: -RANK[each.level]))

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return asdict(self) | {"wide": list(self.wide)}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Verdict:
        """Return the verdict that was saved."""
        held = {name: plain[name] for name in cls.__dataclass_fields__}
        held["gates"] = tuple(Gate(**each) for each in plain["gates"])
        held["evidence"] = Evidence(**plain["evidence"])
        if plain["improvement"] is not None:
            held["improvement"] = Improvement(**plain["improvement"])
        return cls(**held)
