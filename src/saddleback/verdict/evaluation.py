"""`Evaluation`: what a log, or its statistics, say of target policies."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from saddleback._plain import plain
from saddleback._typing import FloatArray
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Card, Finding
from saddleback.rules import Rule
from saddleback.verdict.estimate import Estimate
from saddleback.verdict.logged import Logged
from saddleback.verdict.sums import Diagnosis
from saddleback.verdict.verdict import Verdict
from saddleback.verdict.words import format_result

Paths = dict[str, dict[str, list[tuple[float, float]]]]
"""For each target, (λ, V̂) and (η, V̂)."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a log says of target policies.

    Attributes
    ----------
    statistics, rule
        The sums it was made of, and the rule whose fixed point was solved for.
    estimates
        All numbers; the first of each target is the one to use.
    paths
        For each target the value along λ and along the ridge, if asked for.
    findings
        Warnings.
    logged
        The logged policy: what it returned, and what the closed form says of it; these must come
        close, or features and rule cannot be trusted with others.
    diagnoses
        For each target all that was looked at, with the verdict.
    ess_by_step
        For each target the effective number of episodes at each step.
    tails
        For each target the tail of the weights of episodes: sizes, and the share at least as large.
    lower_is_better
        Whether rewards are costs.
    card
        What the log holds; None of statistics.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> print(found.text.splitlines()[0])
    Better: difference +1.14 (95% CI +1.04 to +1.23); the estimate is reliable.
    >>> [each.trust for each in found.verdicts], round(found.logged.interval.value, 2)
    (['usable'], -1.17)
    """

    statistics: Statistics
    rule: Rule
    estimates: tuple[Estimate, ...]
    paths: Paths
    findings: tuple[Finding, ...]
    logged: Logged | None = None
    diagnoses: tuple[Diagnosis, ...] = ()
    ess_by_step: dict[str, FloatArray] = field(default_factory=dict)
    tails: dict[str, FloatArray] = field(default_factory=dict)
    lower_is_better: bool = False
    card: Card | None = None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on each target."""
        return tuple(each.verdict for each in self.diagnoses)

    @property
    def text(self) -> str:
        """The result as text within 80 columns, the answer first."""
        return format_result(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return it all as plain data, as JSON holds them: None for what is not finite."""
        sums = self.statistics
        checked = () if self.card is None else self.card.findings
        found: dict[str, Any] = {
            "kind": "saddleback evaluation",
            "schema": 1,
            "gamma": sums.setting.gamma,
            "features": sums.setting.features,
            "p": sums.p,
            "rule": str(self.rule),
            "actions": list(sums.setting.actions),
            "observations": list(sums.setting.observation),
            "steps": int(sums.steps.sum()),
            "episodes": int(sums.episodes.sum()),
            "fingerprint": fingerprint(sums),
            "propensities": f"estimated: {sums.estimated}" if sums.estimated else "logged",
            "lambda_ceiling": {
                name: float(each) if np.isfinite(each) else None
                for name, each in zip(sums.setting.targets, sums.ceilings, strict=True)
                if name in {each.target for each in self.estimates}
            },
            "estimates": [asdict(each) for each in self.estimates],
            "paths": self.paths,
            "warnings": list(dict.fromkeys(map(str, (*checked, *self.findings)))),
        }
        if self.card is not None:
            found["card"] = self.card.as_dict()
        if self.logged is not None:
            own = self.logged
            found["logged"] = {
                "value": own.interval.value, "low": own.interval.low, "high": own.interval.high,
                "estimand": own.interval.estimand, "pipeline": own.value, "off": own.off,
                "error": own.error,
            }  # fmt: skip
        found["verdicts"] = [each.as_dict() for each in self.diagnoses]
        for name, each in self.ess_by_step.items():
            found.setdefault("ess_by_step", {})[name] = each.tolist()
        for name, each in self.tails.items():
            found.setdefault("tails", {})[name] = each.tolist()
        return dict(plain(found))


def fingerprint(sums: Statistics) -> str:
    """Return a hash of all episodes, whatever the order or the files they came in."""
    return hashlib.sha256(np.sort(sums.prints).tobytes()).hexdigest()[:16]
