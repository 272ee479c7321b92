"""The evidence behind a verdict, gathered in one more pass over the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.evaluation.intervals import ESTIMAND, Interval, of_scores, student
from saddleback.evaluation.second import Scored, second_pass
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.trajectories import Trajectories
from saddleback.evaluation.weighted import threshold
from saddleback.features import Features
from saddleback.log import Log, Observed, Piece, Target
from saddleback.log.log import Progress
from saddleback.rules import Importance, Rule
from saddleback.verdict.cells import Cells, Column, sample_states
from saddleback.verdict.evidence import Evidence
from saddleback.verdict.gap import Gap, Residual, unmet
from saddleback.verdict.looks import Portrait, RowLook, TargetLook
from saddleback.verdict.spectrum import Spectrum, spectrum
from saddleback.verdict.support import Support, support
from saddleback.verdict.verdict import Improvement, Verdict

CELLS, ROWS = 64, 40
"""Most cells, and rows for each action in one of them."""

NEARBY = (1e-6, 1e-5, 1e-4)
"""Ridges that must not matter."""

DRAWS, LARGEST = 20, 1000
"""Resamples if nothing is said, with at most so many features."""

ROUNDING = 1e-9
"""Share of the range of values that is nothing but rounding."""

FEWEST = 20.0
"""Effective episodes from which a doubly robust estimate is heard."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """All that was looked at for one target.

    Attributes
    ----------
    verdict
        What comes of it.
    interval
        Of the closed form.
    portrait
        The policy that was really evaluated.
    support, spectrum, gap
        Coverage, eigenvalues of Â, and how far the fixed point may be from V^π.
    condition, rank
        Of M̂ on the span of the features that were met.
    """

    verdict: Verdict
    interval: Interval
    portrait: Portrait
    support: Support
    spectrum: Spectrum | None
    gap: Gap
    condition: float
    rank: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        cloud = self.spectrum
        return self.verdict.as_dict() | {
            "policy": asdict(self.portrait),
            "support": asdict(self.support),
            "gap_parts": asdict(self.gap),
            "spectrum": None if cloud is None else cloud.as_dict(),
            "condition": self.condition, "rank": self.rank,
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Logged:
    """The logged policy: what it returned, and what the pipeline says of it.

    Attributes
    ----------
    returns
        Discounted return of each episode, [n]; what truncated ones leave out is bootstrapped.
    interval
        Of their mean.
    value
        V̂ of the same pipeline.
    off, error
        How far that is off, and the standard error of it.
    """

    returns: FloatArray
    interval: Interval
    value: float
    off: float
    error: float

    @property
    def spread(self) -> float:
        """Standard deviation of the returns: the scale on which gaps are judged.

        If they do not vary, a millionth of their size, so that rounding is nothing beside it.
        """
        size = float(np.abs(self.returns).max(initial=0.0))
        return max(float(self.returns.std(ddof=1)), 1e-6 * size)

    @classmethod
    def of(cls, scored: Scored) -> Logged:
        """Compare what was returned with what was foreseen."""
        returns = scored.first + scored.beyond
        mean = float(returns.mean())
        interval = student(mean, returns - mean, 0.95, "V^μ", "Student t")
        off = student(0.0, scored.each - (returns - mean), 0.95, ESTIMAND, "paired")
        return cls(returns, interval, scored.value, scored.value - mean, off.error)


def diagnose(
    log: Log,
    sums: Statistics,
    policies: Sequence[Target],
    observed: Observed,
    *,
    features: Features,
    rule: Rule,
    ridge: float,
    robust: Mapping[str, Trajectories],
    draws: int | None,
    lower_is_better: bool,
    threads: int = 1,
    progress: Progress | None = None,
) -> tuple[list[Diagnosis], Logged]:
    """Look at the solutions for all targets, and judge them."""
    setting, K = sums.setting, log.n_actions
    sample = sample_states(log)
    columns = [Column.of(n, sample[:, k]) for k, n in enumerate(log.layout.observations)]
    cells = Cells.of(sample, int(np.clip(log.rows // (ROWS * K), 1, CELLS)))
    looks = [TargetLook(log.action_names, cells) for _ in policies]
    rows = RowLook(K, columns, log.time_limit == "task")
    residuals = [Residual(cells, K, setting.gamma, setting.blocks) for _ in policies]

    def look(piece: Piece, k: int, pi: FloatArray, deltas: FloatArray) -> None:
        if k == len(policies):
            rows.add(piece)
            return
        looks[k].add(piece, pi)
        if setting.values == "action":
            residuals[k].add(piece, pi, deltas)

    every = second_pass(
        log, sums, [*policies, observed], features=features, rule=rule, ridge=ridge, look=look,
        progress=progress,
    )  # fmt: skip
    logged = Logged.of(every[-1])
    span = sums.span
    found = []
    for policy, scored, seen, residual in zip(policies, every, looks, residuals, strict=False):
        interval = of_scores(scored)
        covered = support(
            features,
            sums,
            (seen.kept.rows[0], seen.kept.rows[1]),
            columns,
            rows.taken,
            log.action_names,
        )
        cloud = None
        if draws is not None or len(sums.span.active) <= LARGEST:
            often = DRAWS if draws is None else draws
            cloud = spectrum(sums, rule, policy.name, ridge=ridge, draws=often, threads=threads)
        agreed = _agreement(scored, robust.get(policy.name))
        gap = Gap(
            unmet=unmet(sums, rule, policy.name, scored.theta, ridge),
            residual=abs(residual.value()[0]) if setting.values == "action" else None,
            self_check=float(np.maximum(0.0, abs(logged.off) - 2.0 * logged.error)),
            agreement=None
            if agreed is None
            else float(np.maximum(0.0, abs(agreed[0]) - agreed[1])),
        )
        z, share = seen.calibration
        limit, ending = rows.limit()
        notes = NOTES | {"AGREEMENT": _unheard(robust.get(policy.name))}
        evidence = Evidence(
            episodes=len(logged.returns), steps=int(sums.steps.sum()), value=scored.value,
            error=interval.error, spread=logged.spread,
            uncovered=seen.uncovered / max(1, seen.rows) if log.propensity else None,
            coverage=covered.coverage, unmet=covered.unmet,
            miscalibrated=share if log.propensity else None,
            calibration_z=z if log.propensity else None,
            trace_ratio=_trace_ratio(sums, rule, policy.name),
            self_check=logged.off, self_check_error=logged.error,
            unique=sums.factored(rule, policy.name, ridge).unique,
            stable=None if cloud is None else cloud.agree / len(cloud.cloud),
            agreement=None if agreed is None else agreed[0],
            agreement_error=None if agreed is None else agreed[1],
            gap=gap.value, sensitivity=_sensitivity(sums, rule, policy.name, scored),
            limit=limit, limit_share=ending, beyond=rows.beyond(setting.gamma),
            outside=_outside(scored.value, rows, setting.gamma), notes=notes,
        )  # fmt: skip
        difference = student(
            0.0, scored.each - (logged.returns - logged.interval.value), 0.95, ESTIMAND, "paired"
        )
        ahead = scored.value - logged.interval.value
        improvement = Improvement.of(
            (logged.interval.value, logged.interval.low, logged.interval.high),
            (ahead, ahead + difference.low, ahead + difference.high), gap.value, lower_is_better,
        )  # fmt: skip
        verdict = Verdict.of(
            policy.name, (interval.value, interval.low, interval.high), evidence, improvement,
            covered.words,
        )  # fmt: skip
        found.append(
            Diagnosis(
                verdict, interval, seen.portrait, covered, cloud, gap, span.condition, span.rank
            )
        )
    return found, logged


def _agreement(scored: Scored, robust: Trajectories | None) -> tuple[float, float] | None:
    """Return V̂ less WDR and its standard error, if WDR is to be heard."""
    if robust is None or not robust.comparable or not np.isfinite(robust.normalised):
        return None
    heavy = not robust.k_hat <= threshold(robust.n)
    if heavy or robust.ess < FEWEST:
        return None
    both = student(0.0, scored.each - robust.scores, 0.95, ESTIMAND, "paired")
    return scored.value - robust.normalised, both.error


NOTES = {
    "SUPPORT": "the log has no probabilities of its actions",
    "PROPENSITIES": "the log has no probabilities of its actions",
    "CEILING": "no ceiling: the trace of this rule is bounded",
    "STABILITY": "left out with so many features; draws=20 (--bootstrap 20) finds it",
}
"""Why a gate could not be checked."""


def _unheard(robust: Trajectories | None) -> str:
    """Say why no doubly robust estimate is heard."""
    if robust is None:
        return "no weighted doubly robust estimate was made"
    if not robust.comparable:
        return "on truncated episodes doubly robust estimates are of another value"
    return (
        f"the doubly robust estimate cannot be trusted: {robust.ess:.0f} effective episodes, k-hat "
        f"{robust.k_hat:.2f}"
    )


def _trace_ratio(sums: Statistics, rule: Rule, target: str) -> float | None:
    if not isinstance(rule.trace, Importance):
        return None
    ceiling = float(sums.ceilings[sums.place(rule, target)[0]])
    return rule.trace.lam / ceiling if np.isfinite(ceiling) else None


def _sensitivity(sums: Statistics, rule: Rule, target: str, scored: Scored) -> float:
    """Return the largest change of V̂ over small ridges, and with λ = 0."""
    others = [(rule, eta) for eta in NEARBY]
    if hasattr(rule.trace, "lam"):
        trace: Any = replace(rule.trace, **{"lam": 0.0})
        others.append((replace(rule, trace=trace), 0.0))
    values = [
        sums.solve(each, target, eta).theta @ sums.start(target)
        for each, eta in others
        if each in sums.setting.rules
    ]
    return float(np.abs(np.array(values) - scored.value).max(initial=0.0))


def _outside(value: float, rows: RowLook, gamma: float) -> float:
    """Return by how much a value leaves what rewards can add up to, over the range of that."""
    longest = max([*rows.ends, *rows.cuts], default=1)
    total = 1.0 / (1.0 - gamma) if gamma < 1.0 else float(longest)
    low, high = min(0.0, rows.rewards[0] * total), max(0.0, rows.rewards[1] * total)
    if high <= low:
        return 0.0 if value == 0.0 else float("inf")
    beyond = float(max(low - value, value - high) / (high - low))
    return 0.0 if beyond <= ROUNDING else beyond
