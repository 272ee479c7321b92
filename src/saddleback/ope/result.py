"""`Evaluation`: the result of evaluating target policies on a log or its statistics."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from saddleback._display import Tabular, card_html, html_table, shorten
from saddleback._json import json_ready as finite
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log import Finding, LogSummary
from saddleback.ope.baseline import Baseline
from saddleback.ope.diagnosis import Diagnosis
from saddleback.ope.estimate import Estimate
from saddleback.ope.result_schema import (
    SCHEMA,
    SavedBaseline,
    SavedDistribution,
    SavedEstimate,
    SavedEvaluation,
    SavedLogSummary,
    SavedVerdict,
)
from saddleback.ope.return_distribution import ReturnDistribution
from saddleback.ope.statistics import Statistics
from saddleback.ope.text_report import (
    HEADINGS,
    answer,
    failed_checks,
    format_result,
    rows,
    value_line,
)
from saddleback.ope.verdict import Verdict
from saddleback.rules import Rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_SAVED_STEPS = 10_000
"""Number of steps up to which effective sample sizes are saved."""

Paths = dict[str, dict[str, list[tuple[float, float]]]]
"""For each target, (λ, V̂) and (η, V̂)."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Tabular):
    """The estimated values of target policies, with diagnostics and verdicts.

    `to_pandas` and `to_polars` give one row per estimate: target, estimator, value, low, high,
    estimand, ess, max_share, k_hat, note, whether it is the main estimate, and the verdict on it.

    Attributes
    ----------
    statistics, rule
        The statistics, and the rule whose TD fixed point was computed.
    estimates
        All estimates; the first of each target is the main one.
    paths
        For each target the value for a range of λ and of ridges, if requested.
    findings
        Warnings.
    logged
        The logged policy: its observed value and the closed form's estimate of it. If these
        differ, estimates for other policies are not reliable either.
    diagnoses
        For each target the diagnostics and the verdict.
    ess_by_step
        For each target the effective sample size at each step.
    tails
        For each target the tail of the episode weights: sizes, and the fraction at least as large.
    lower_is_better
        Whether rewards are costs.
    log_summary
        Summary of the log; None for statistics.
    is_bandit
        Whether the log holds single decisions.
    distributions
        For each target the distribution of the return, if episodes were weighted.
    model_distributions
        For each target the distribution of the return in the model of the log, if it has one.
    missing_models
        For each other target why there is none, if it was requested.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> result = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> print(result.text.splitlines()[0])
    Better: difference +1.19 (95% CI +1.02 to +1.37); the estimate is reliable.
    >>> [verdict.trust for verdict in result.verdicts], round(result.logged.interval.value, 2)
    (['usable'], -1.17)
    """

    statistics: Statistics
    rule: Rule
    estimates: tuple[Estimate, ...]
    paths: Paths
    findings: tuple[Finding, ...]
    logged: Baseline | None = None
    diagnoses: tuple[Diagnosis, ...] = ()
    ess_by_step: dict[str, FloatArray] = field(default_factory=dict)
    tails: dict[str, FloatArray] = field(default_factory=dict)
    lower_is_better: bool = False
    log_summary: LogSummary | None = None
    is_bandit: bool = False
    distributions: dict[str, ReturnDistribution] = field(default_factory=dict)
    model_distributions: dict[str, ReturnDistribution] = field(default_factory=dict)
    missing_models: dict[str, str] = field(default_factory=dict)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts on the targets."""
        return tuple(diagnosis.verdict for diagnosis in self.diagnoses)

    @property
    def text(self) -> str:
        """The result as text of at most 80 columns, the answer first."""
        return format_result(self.as_dict())

    def __repr__(self) -> str:
        return shorten(self.text, "result.text")

    def _repr_html_(self) -> str:
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
        try:
            from saddleback.plots.forest import forest_svg
        except InvalidParameter as error:
            return "".join([*parts, f"<p>No figure: {error}</p>"])
        return "".join([*parts, forest_svg(plain)])

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot all estimates with their intervals, and the logged policy, as a forest plot.

        Parameters
        ----------
        ax
            Axes to draw on; a new figure if not given.
        """
        from saddleback.plots.forest import forest

        return forest(self.as_dict(), ax)

    def _columns(self) -> dict[str, list[Any]]:
        """Return the columns of a table with one row per estimate."""
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

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings about the log, then those about the estimates."""
        checked = () if self.log_summary is None else self.log_summary.findings
        return tuple(dict.fromkeys((*checked, *self.findings)))

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain data for JSON; numbers that are not finite become None."""
        sums = self.statistics
        summary = logged = None
        if self.log_summary is not None:
            summary = SavedLogSummary(**self.log_summary.as_dict())
        if self.logged is not None:
            interval = self.logged.interval
            logged = SavedBaseline(
                value=interval.value, low=interval.low, high=interval.high,
                estimand=interval.estimand, estimate=self.logged.estimate,
                self_check=self.logged.self_check, self_check_error=self.logged.self_check_error,
            )  # fmt: skip
        saved = SavedEvaluation(
            gamma=sums.setting.gamma,
            features=sums.setting.features,
            p=sums.p,
            rule=str(self.rule),
            actions=list(sums.setting.actions),
            observations=list(sums.setting.observation),
            steps=int(sums.steps.sum()),
            episodes=int(sums.episodes.sum()),
            fingerprint=fingerprint(sums),
            propensities=f"estimated: {sums.estimated}" if sums.estimated else "logged",
            bandit=self.is_bandit,
            lambda_ceiling={}
            if self.is_bandit
            else {
                name: sums.lambda_ceiling(self.rule, name)
                for name in sums.setting.targets
                if name in {estimate.target for estimate in self.estimates}
            },
            estimates=[SavedEstimate(**asdict(estimate)) for estimate in self.estimates],
            paths=self.paths,
            warnings=list(map(str, self.warnings)),
            altered=sums.counts.altered_rows.lines,
            card=summary,
            logged=logged,
            verdicts=[SavedVerdict(**diagnosis.as_dict()) for diagnosis in self.diagnoses],
            ess_by_step={
                name: steps[:MAX_SAVED_STEPS].tolist() for name, steps in self.ess_by_step.items()
            },
            tails={name: tail.tolist() for name, tail in self.tails.items()},
            distributions=[
                SavedDistribution(**one.as_dict())
                for by_target in (self.distributions, self.model_distributions)
                for one in by_target.values()
            ],
            missing_models=self.missing_models,
        )
        plain = msgspec.to_builtins(saved, enc_hook=np.generic.item)
        return {"kind": "saddleback evaluation", "schema": SCHEMA, **finite(plain)}


def fingerprint(sums: Statistics) -> str:
    """Return a hash of all episodes, independent of their order and files."""
    return hashlib.sha256(np.sort(sums.fingerprints).tobytes()).hexdigest()[:16]
