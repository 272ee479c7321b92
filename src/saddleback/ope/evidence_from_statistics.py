"""The evidence that statistics provide, with or without the log, and the verdict without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from saddleback._progress import Progress, split_progress
from saddleback._threads import thread_pool
from saddleback.ope.approximation_gap import Gap, gap_allowance, trace_gap, unvisited_gap
from saddleback.ope.baseline import Baseline
from saddleback.ope.calibration import calibration, uncovered
from saddleback.ope.coverage import MIN_REGION_SHARE, MIN_ROWS, Coverage
from saddleback.ope.evidence import Evidence
from saddleback.ope.log_counts import LogCounts, PolicyCounts
from saddleback.ope.policy_summary import PolicySummary
from saddleback.ope.sandwich import ESTIMAND, Interval, block_scores, student_interval
from saddleback.ope.spectrum import Spectrum, spectrum
from saddleback.ope.statistics import Statistics
from saddleback.ope.verdict import Verdict
from saddleback.rules import Rule

SMALL_RIDGES = (1e-6, 1e-5, 1e-4)
"""Ridges to which the value should not be sensitive."""

ROUNDING = 1e-9
"""Share of the range of values that is attributed to rounding."""

DRAWS, MAX_RESAMPLED_FEATURES = 20, 1000
"""Default number of resamples, and the largest number of features with resamples by default."""

NOTES = {
    "SUPPORT": "the log has no propensities",
    "PROPENSITIES": "the log has no propensities",
    "CEILING": "the rule has no importance trace, or the log has no propensities",
    "STABILITY": "skipped: too few blocks of episodes, or too many features (--bootstrap 20)",
}
"""Why a check is not applicable."""

NEEDS_LOG = {"AGREEMENT": "not available from statistics: evaluate the log itself"}
"""Why a check is not applicable without the log."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Verdict and diagnostics for one target.

    Attributes
    ----------
    verdict
        The verdict.
    interval
        Confidence interval of the closed form.
    policy, support
        The policy as evaluated, and its coverage by the data; None without the log.
    spectrum, gap
        Eigenvalues of Â, and the estimated bias of the fixed point.
    condition, rank
        Of M̂ on the span of the active features.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> result = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> result.diagnoses[0].rank, result.diagnoses[0].verdict.trust
    (78, 'usable')
    """

    verdict: Verdict
    interval: Interval
    policy: PolicySummary
    support: Coverage | None
    spectrum: Spectrum | None
    gap: Gap
    condition: float
    rank: int

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain data for JSON."""
        cloud = self.spectrum
        return self.verdict.as_dict() | {
            "policy": asdict(self.policy),
            "support": None if self.support is None else asdict(self.support),
            "gap_parts": asdict(self.gap),
            "spectrum": None if cloud is None else cloud.as_dict(),
            "condition": self.condition, "rank": self.rank,
        }  # fmt: skip


PendingSpectra = dict[str, Callable[[], Spectrum]]
"""Spectra being computed, by target; calling one waits for it."""


def start_spectra(
    sums: Statistics,
    rule: Rule,
    targets: Sequence[str],
    pool: Executor,
    ridge: float,
    draws: int | None,
    progress: Progress | None = None,
) -> PendingSpectra:
    """Start computing the spectra of all targets; very large ones only on request."""
    count = resample_count(len(sums.span.active), draws)
    if int((sums.steps > 0).sum()) < 2 or not count:
        return {}
    parts = split_progress(progress, [("", 1.0)] * len(targets))
    return {
        name: spectrum(sums, rule, name, pool, ridge=ridge, draws=count, progress=part)
        for name, part in zip(targets, parts, strict=True)
    }


def resample_count(active: int, draws: int | None) -> int:
    """Return the number of block resamples for a number of active features."""
    return draws if draws is not None else DRAWS if active <= MAX_RESAMPLED_FEATURES else 0


def shared_evidence(
    sums: Statistics,
    rule: Rule,
    target: str,
    interval: Interval,
    ridge: float,
    spectra: PendingSpectra,
    policy_counts: PolicyCounts,
) -> tuple[Spectrum | None, dict[str, Any]]:
    """Return the spectrum, and the evidence that does not need the log."""
    cloud = spectra[target]() if target in spectra else None
    episodes = int(sums.episodes.sum())
    steps = int(sums.steps.sum())
    limit, share = sums.counts.time_limit
    miscalibration = calibration(policy_counts, steps)
    return cloud, {
        "limit": limit,
        "limit_share": share,
        "episodes": episodes,
        "steps": steps,
        "uncovered": None if miscalibration is None else uncovered(policy_counts) / steps,
        "calibration_z": None if miscalibration is None else miscalibration[0],
        "miscalibrated": None if miscalibration is None else miscalibration[1],
        "trace_ratio": sums.trace_ratio(rule, target),
        "unique": sums.factorised(rule, target, ridge).unique,
        "stable": None if cloud is None else cloud.stable_draws / len(cloud.cloud),
        "sensitivity": _sensitivity(sums, rule, target, interval.value, ridge),
        "truncated_weight": float(sums.counts.truncated_weight[0]) / max(1, episodes),
        "outside": _outside(interval, sums.counts, sums.setting.gamma, steps),
    }


def judge_statistics(
    sums: Statistics,
    rule: Rule,
    targets: Sequence[str],
    *,
    ridge: float = 0.0,
    draws: int | None = None,
    lower_is_better: bool = False,
    threads: int = 1,
) -> tuple[list[Diagnosis], Baseline | None]:
    """Judge the closed form from statistics alone."""
    logged = Baseline.of_statistics(sums, rule, ridge)
    diagnoses = []
    with thread_pool(threads) as pool:
        spectra = start_spectra(sums, rule, targets, pool, ridge, draws)
    for name in targets:
        value, influence = block_scores(sums, rule, name, ridge)
        interval = student_interval(
            value, influence, 0.95, ESTIMAND, "sandwich over blocks of episodes"
        )
        theta = sums.solve(rule, name, ridge).theta
        unvisited = unvisited_gap(sums, rule, name, theta, ridge)
        trace = trace_gap(sums, rule, name, value, ridge)
        self_check = None if logged is None else logged.self_check
        gap = Gap(
            unvisited=unvisited, trace=trace, self_check=None if logged is None else logged.gap,
            allowance=gap_allowance(unvisited, trace, self_check),
        )  # fmt: skip
        t = sums.index_of(rule, name)[0]
        policy_counts = sums.counts.by_target[t]
        cloud, evidence = shared_evidence(sums, rule, name, interval, ridge, spectra, policy_counts)
        spread = interval.error * float(np.sqrt(evidence["episodes"]))
        mass = sums.counts.mass[t]
        total = max(float(mass.sum()), 1e-300)
        judged = Evidence(
            value=value, error=interval.error, spread=spread if logged is None else logged.spread,
            coverage=float(mass[sums.counts.visits >= MIN_ROWS].sum()) / total,
            unvisited=float(mass[sums.counts.visits == 0].sum()) / total,
            self_check=self_check,
            self_check_error=None if logged is None else logged.self_check_error,
            gap=gap.value, notes=NOTES | NEEDS_LOG, **evidence,
        )  # fmt: skip
        improvement = None
        if logged is not None:
            improvement = logged.improvement(value, influence, gap.value, lower_is_better)
        thin = np.where(mass > MIN_REGION_SHARE * total / len(mass), sums.counts.visits, np.inf)
        rarest = int(np.argmin(thin))
        weakest = f"feature {rarest}, active on {sums.counts.visits[rarest]:,.0f} steps"
        verdict = Verdict.of(
            name, (interval.value, interval.low, interval.high), judged, improvement, weakest
        )
        span = sums.span
        policy = PolicySummary.of(policy_counts, sums.setting.actions, evidence["steps"])
        diagnoses.append(
            Diagnosis(verdict, interval, policy, None, cloud, gap, span.condition, span.rank)
        )
    return diagnoses, logged


def _sensitivity(sums: Statistics, rule: Rule, target: str, value: float, ridge: float) -> float:
    """Return the largest change of V̂ over small ridges and λ = 0."""
    start = sums.start(target)
    values = [float(sums.solve(rule, target, ridge + eta).theta @ start) for eta in SMALL_RIDGES]
    changes = [abs(other - value) for other in values]
    return max(*changes, trace_gap(sums, rule, target, value, ridge) or 0.0)


def _outside(interval: Interval, counts: LogCounts, gamma: float, steps: int) -> float:
    """Return the distance of a value from the attainable range, relative to that range.

    Two standard errors are subtracted.
    """
    value, error = interval.value, interval.error
    total = 1.0 / (1.0 - gamma) if gamma < 1.0 else float(steps)
    low, high = min(0.0, counts.rewards[0] * total), max(0.0, counts.rewards[1] * total)
    if high <= low:
        return 0.0 if value == 0.0 else float("inf")
    excess = float((max(low - value, value - high) - 2.0 * error) / (high - low))
    return 0.0 if excess <= ROUNDING else excess
