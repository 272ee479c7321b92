"""`Evaluation`: what a log, or its statistics, say of target policies."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from saddleback._display import Tabular, card_html, html_table, shorten
from saddleback._json import plain as finite
from saddleback._typing import FloatArray
from saddleback.evaluation.estimate import Estimate
from saddleback.evaluation.statistics import Statistics
from saddleback.log import Card, Finding
from saddleback.rules import Rule
from saddleback.verdict.baseline import Logged
from saddleback.verdict.evidence_from_statistics import Diagnosis
from saddleback.verdict.text_report import (
    HEADINGS,
    answer,
    failed_checks,
    format_result,
    rows,
    value_line,
)
from saddleback.verdict.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Paths = dict[str, dict[str, list[tuple[float, float]]]]
"""For each target, (λ, V̂) and (η, V̂)."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Tabular):
    """What a log says of target policies.

    `to_pandas` and `to_polars` have a row for each estimate: target, estimator, value, low, high,
    estimand, ess, max_share, k_hat, note, whether it is the one that is used, and the trust in it.

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
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> print(found.text.splitlines()[0])
    Better: difference +1.191 (95% CI +1.094 to +1.287); the estimate is reliable.
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

    def __repr__(self) -> str:
        return shorten(self.text, "result.text")

    def _repr_html_(self) -> str:
        from saddleback.plots.forest import forest_svg

        plain = self.as_dict()
        verdicts = {verdict["target"]: verdict for verdict in plain["verdicts"]}
        targets = list(dict.fromkeys(estimate["target"] for estimate in plain["estimates"]))
        parts = []
        for target in targets:
            verdict = verdicts.get(target)
            table, notes = rows(plain, target, verdict)
            listed = "; ".join(f"{', '.join(names)}: {note}" for note, names in notes.items())
            facts = []
            if verdict is not None:
                value = value_line(verdict)
                facts = [*([("value", value)] if value else []), *failed_checks(verdict)]
            name = f"{target}: " if len(targets) > 1 else ""
            parts.append(
                card_html(name + answer(verdict).text, facts, html_table(HEADINGS, table, listed))
            )
        return "".join([*parts, forest_svg(plain)])

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw all estimates with their intervals, and the logged policy: a forest plot.

        Parameters
        ----------
        ax
            Where to draw; a new figure if not given.
        """
        from saddleback.plots.forest import forest

        return forest(self.as_dict(), ax)

    def _columns(self) -> dict[str, list[Any]]:
        """One row for each estimate."""
        trusts = {verdict.target: verdict.trust for verdict in self.verdicts}
        columns: dict[str, list[Any]] = {"target": [], "estimator": []}
        used: set[str] = set()
        for estimate in self.estimates:
            record = asdict(estimate)
            row = {"target": record.pop("target"), "estimator": record.pop("method"), **record}
            row["used"] = estimate.target not in used
            row["trust"] = trusts.get(estimate.target) if row["used"] else None
            used.add(estimate.target)
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        return columns

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
        return dict(finite(found))


def fingerprint(sums: Statistics) -> str:
    """Return a hash of all episodes, whatever the order or the files they came in."""
    return hashlib.sha256(np.sort(sums.prints).tobytes()).hexdigest()[:16]
