"""The diagnosis of a target: evidence from a log or from statistics, assembled and judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from saddleback._progress import Progress, split_progress
from saddleback._typing import FloatArray
from saddleback.ope.approximation_gap import Gap, gap_allowance, ridge_gap, trace_gap, unvisited_gap
from saddleback.ope.baseline import Baseline, excess_over
from saddleback.ope.consensus import NOISE, Consensus
from saddleback.ope.coverage import MIN_REGION_SHARE, MIN_ROWS, Coverage
from saddleback.ope.evidence import Evidence
from saddleback.ope.gates import BANDIT_CHECKS, CHECKS
from saddleback.ope.log_counts import LogCounts
from saddleback.ope.policy_counts import PolicyCounts, PolicySummary, calibration, uncovered
from saddleback.ope.sandwich import (
    ESTIMAND,
    NEGLIGIBLE_ERROR,
    Interval,
    block_scores,
    concentration,
    student_interval,
)
from saddleback.ope.spectrum import Spectrum, spectrum
from saddleback.ope.statistics import Statistics
from saddleback.ope.verdict import Verdict
from saddleback.rules import Rule

SMALL_RIDGES = (1e-6, 1e-5, 1e-4)
"""Ridges to which the value should not be sensitive."""

ROUNDING = 1e-5
"""Share of the range of values that is attributed to rounding and to small ridges."""

DRAWS, MAX_RESAMPLED_FEATURES = 20, 400
"""Default number of resamples, and the largest number of features with resamples by default."""

NOTES = {
    "SUPPORT": "the log has no propensities",
    "PROPENSITIES": "the log has no propensities",
    "CEILING": "the rule has no importance trace, or the log has no propensities",
    "WEIGHTS": "the estimate does not use the logged propensities",
    "RIDGE": "there is no ridge",
    "ENDS": "the horizon is given",
    "STABILITY": "skipped without a bootstrap: too few blocks of episodes, or too many features",
}
"""Why a check is not applicable."""

CLOSED_FORM_NOTES = dict.fromkeys(
    ("CEILING", "SELF-CHECK", "SOLUTION", "STABILITY", "SENSITIVITY", "RIDGE"),
    "it concerns the closed form, which is not the estimate",
)
"""The same where the estimate is the consensus of candidates."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Verdict and diagnostics for one target.

    Attributes
    ----------
    verdict
        The verdict.
    interval
        Confidence interval of the estimate.
    policy, support
        The policy as evaluated, and its coverage by the data; None without the log.
    spectrum, gap
        Eigenvalues of Â, and the estimated bias of the fixed point.
    condition, rank
        Of M̂ on the span of the active features.
    consensus
        Estimates of many candidate features; None without the log.

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
    consensus: Consensus | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain data for JSON."""
        cloud = self.spectrum
        return self.verdict.as_dict() | {
            "policy": asdict(self.policy),
            "support": None if self.support is None else asdict(self.support),
            "gap_parts": asdict(self.gap),
            "spectrum": None if cloud is None else cloud.as_dict(),
            "condition": self.condition, "rank": self.rank,
            "consensus": None if self.consensus is None else self.consensus.as_dict(),
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
    count = resample_count(sums.setting.p, draws)
    if int((sums.steps > 0).sum()) < 2 or not count:
        return {}
    parts = split_progress(progress, [("", 1.0)] * len(targets))
    return {
        name: spectrum(sums, rule, name, pool, ridge=ridge, draws=count, progress=part)
        for name, part in zip(targets, parts, strict=True)
    }


def resample_count(p: int, draws: int | None) -> int:
    """Return the number of block resamples for p features over all actions."""
    return draws if draws is not None else DRAWS if p <= MAX_RESAMPLED_FEATURES else 0


@dataclass(frozen=True, eq=False)
class Measurements:
    """What the data say of one target; None where they cannot tell."""

    name: str  # of the target
    theta: FloatArray  # the solution θ̂
    # Confidence interval of V̂, and the influence of each episode, or block of them, on it.
    interval: Interval
    influence: FloatArray
    # Number of rows of each episode, or block of them, and its name by its number.
    rows: FloatArray
    unit: Callable[[int], str]
    counts: PolicyCounts
    # Shares of π's probability with at least 10 effective rows, and with none; and the region with
    # the least data.
    coverage: float
    unvisited: float
    weakest: str
    support: Coverage | None = None  # coverage by region; None without the log
    # Value of the residual problem; None without the log, or for state values.
    residual: float | None = None
    # Confidence interval with a ridge of 0; None if that is the ridge.
    without_ridge: Interval | None = None
    # V̂ minus WDR and its standard error; None where there is no reliable WDR.
    agreement: tuple[float, float] | None = None
    # Why there is no agreement.
    no_agreement: str = "not available from statistics: evaluate the log itself"
    # Smaller distance to DR and WDR, if both are on one side of V̂, even if they are noisy.
    weighted: float = 0.0
    # Whether the weights of DR and WDR have a mean near 1. If not, rare large ones are missing from
    # the log, and what DR and WDR contradict is doubtful, but not refused.
    weights_are_complete: bool = True
    # Whether they come from the log itself; without it the gap has an allowance.
    from_log: bool = False
    # The consensus of many candidate features, and whether it is V̂, not the closed form.
    consensus: Consensus | None = None
    is_consensus: bool = False
    # Whether the episodes are single decisions; and, if V̂ is doubly robust with their logged
    # propensities, the mean of the importance weights and its standard error.
    is_bandit: bool = False
    mean_weight: tuple[float, float] | None = None
    # For continuous actions, of which there are no counts: the share of π's probability outside the
    # logged actions; the miscalibration of propensities, as `calibration` gives it; and the policy
    # in words.
    uncovered: float | None = None
    miscalibration: tuple[float, float] | None = None
    policy: PolicySummary | None = None


def diagnose(
    sums: Statistics,
    rule: Rule,
    ridge: float,
    measured: Measurements,
    baseline: Baseline | None,
    spectra: PendingSpectra,
    lower_is_better: bool,
) -> Diagnosis:
    """Assemble the evidence on one target, from a log or from statistics, and judge it."""
    name, interval, counts = measured.name, measured.interval, measured.counts
    value, error = interval.value, interval.error
    cloud = spectra[name]() if name in spectra else None
    episodes, steps = int(sums.episodes.sum()), int(sums.steps.sum())
    limit, limit_share = sums.counts.time_limit
    altered = sums.counts.altered_rows
    miscalibration = measured.miscalibration or calibration(counts, steps)
    outside = measured.uncovered
    if outside is None:
        mass = uncovered(counts) if miscalibration is not None else _mass_never_taken(sums, counts)
        outside = None if mass is None else mass / steps
    agreed, plain, others = measured.agreement, measured.without_ridge, measured.consensus
    horizon = None if others is None else others.horizon
    gap = Gap(agreement=None if agreed is None else excess_over(*agreed, 1.0))
    closed: dict[str, Any] = {}
    if not measured.is_consensus:  # what is known of the closed form
        unvisited = unvisited_gap(sums, rule, name, measured.theta, ridge)
        trace = trace_gap(sums, rule, name, value, ridge)
        self_check = None if baseline is None else baseline.self_check
        gap = replace(
            gap, unvisited=unvisited, residual=measured.residual, trace=trace,
            ridge=None if plain is None else ridge_gap(interval, plain),
            self_check=None if baseline is None else baseline.gap,
            allowance=None if measured.from_log else gap_allowance(unvisited, trace, self_check),
        )  # fmt: skip
        closed = {
            "trace_ratio": sums.trace_ratio(rule, name),
            "self_check": self_check,
            "self_check_error": None if baseline is None else baseline.self_check_error,
            "unique": sums.factorised(rule, name, ridge).unique,
            "stable": None if cloud is None else cloud.stable_draws / len(cloud.cloud),
            "sensitivity": _sensitivity(sums, rule, name, value, ridge, trace),
            "ridge_shift": None if plain is None else abs(value - plain.value),
            "error_without_ridge": None if plain is None else plain.error,
        }
    spread = error * float(np.sqrt(episodes)) if baseline is None else baseline.spread
    hidden, balance = None, measured.mean_weight
    opinion = None  # of a consensus on its own estimate, by evidence that can refuse it
    if others is not None and balance is None:
        besides = float(np.hypot(measured.weighted, NOISE * spread))
        contradiction = others.contradiction(value, besides)
        gap = replace(gap, consensus=contradiction, hidden=others.correction)
        hidden = others.hidden
        if measured.is_consensus:
            if not measured.weights_are_complete:
                besides = NOISE * spread
            opinion = others.contradiction(value, besides)
    refusing = replace(gap, hidden=None, consensus=opinion)
    checks = BANDIT_CHECKS if measured.is_bandit else CHECKS
    notes = NOTES | (CLOSED_FORM_NOTES if measured.is_consensus else {})
    notes |= {"AGREEMENT": measured.no_agreement}
    if balance is not None:
        notes |= {"COVERAGE": "the estimate uses the logged propensities"}
    unit, outcome = ("decisions", "reward") if measured.is_bandit else ("episodes", "return")
    negligible = error <= NEGLIGIBLE_ERROR * spread
    rests = concentration(measured.influence, measured.rows, negligible)
    evidence = Evidence(
        episodes=episodes,
        steps=steps,
        value=value,
        error=error,
        spread=spread,
        uncovered=outside,
        coverage=measured.coverage,
        unvisited=measured.unvisited,
        imbalance=None if others is None or balance is not None else others.imbalance,
        mean_weight=None if balance is None else balance[0],
        mean_weight_error=None if balance is None else balance[1],
        miscalibrated=None if miscalibration is None else miscalibration[1],
        calibration_z=None if miscalibration is None else miscalibration[0],
        agreement=None if agreed is None else agreed[0],
        agreement_error=None if agreed is None else agreed[1],
        gap=gap.value,
        refusing_gap=refusing.value,
        hidden=None if hidden is None else hidden[1],
        hidden_in=None if hidden is None else hidden[0],
        hidden_remedy="add it to the observations"
        + (", or give the horizon" if others is not None and horizon is None else ""),
        limit=limit,
        limit_share=None if horizon else limit_share,
        truncated_weight=float(sums.counts.truncated_weight[0]) / max(1, episodes),
        outside=_outside(interval, sums.counts, sums.setting.gamma, steps, horizon),
        dropped=altered.dropped,
        imputed=altered.imputed,
        clipped=altered.clipped / altered.rows,
        outside_box=altered.outside / altered.rows,
        outlying=altered.outlying / altered.rows,
        outliers="; ".join(one.message.rstrip(".") for one in sums.findings if one.code == "W155"),
        influential=rests.units,
        most_influential=measured.unit(rests.largest),
        units=f"{len(measured.rows):,} {unit if measured.from_log else 'blocks of episodes'}",
        unit=unit,
        outcome=outcome,
        other="Marginal DR" if measured.is_bandit else "the doubly robust estimate",
        notes={check.code: notes[check.code] for check in checks if check.code in notes},
        **closed,
    )
    improvement = None
    if baseline is not None:
        influence = measured.influence
        improvement = baseline.improvement(value, influence, gap.value, lower_is_better)
    verdict = Verdict.of(
        name, (value, interval.low, interval.high), evidence, improvement, measured.weakest,
        checks,
    )  # fmt: skip
    policy = measured.policy or PolicySummary.of(counts, sums.setting.actions, steps)
    span = sums.span
    return Diagnosis(
        verdict, interval, policy, measured.support, cloud, gap, span.condition, span.rank, others
    )


def measure_statistics(sums: Statistics, rule: Rule, name: str, ridge: float) -> Measurements:
    """Measure one target by statistics alone."""
    how = "sandwich over blocks of episodes"
    value, influence = block_scores(sums, rule, name, ridge)
    interval, plain = student_interval(value, influence, ESTIMAND, how), None
    if ridge:
        plain = student_interval(*block_scores(sums, rule, name, 0.0), ESTIMAND, how)
    t = sums.index_of(rule, name)[0]
    mass, visits = sums.counts.mass[t], sums.counts.visits
    total = max(float(mass.sum()), 1e-300)
    thin = np.where(mass > MIN_REGION_SHARE * total / len(mass), visits, np.inf)
    rarest = int(np.argmin(thin))
    return Measurements(
        name=name,
        theta=sums.solve(rule, name, ridge).theta,
        interval=interval,
        influence=influence,
        rows=sums.steps[sums.episodes > 0].astype(np.float64),
        unit=lambda k: f"block {np.flatnonzero(sums.episodes > 0)[k]}",
        counts=sums.counts.by_target[t],
        coverage=float(mass[visits >= MIN_ROWS].sum()) / total,
        unvisited=float(mass[visits == 0].sum()) / total,
        weakest=f"feature {rarest}, active on {visits[rarest]:,.0f} steps",
        without_ridge=plain,
    )


def _mass_never_taken(sums: Statistics, counts: PolicyCounts) -> float | None:
    """Return Σ of π on actions that the log never takes, from features never active.

    Without propensities nothing else is known of the support: None if every action is taken.
    """
    if sums.setting.values != "action":
        return None
    K = len(sums.setting.actions)  # copies of a feature, besides a shared one
    taken = sums.counts.visits.reshape(-1, K + sums.setting.shared)[:, :K].any(axis=0)
    return float(counts.action_mass[~taken].sum()) or None


def _sensitivity(
    sums: Statistics, rule: Rule, target: str, value: float, ridge: float, trace: float | None
) -> float:
    """Return the largest change of V̂ over small ridges, and with λ = 0, ``trace``."""
    start = sums.start(target)
    values = [float(sums.solve(rule, target, ridge + eta).theta @ start) for eta in SMALL_RIDGES]
    changes = [abs(other - value) for other in values]
    return max(*changes, trace or 0.0)


def _outside(
    interval: Interval, counts: LogCounts, gamma: float, steps: int, horizon: int | None
) -> float:
    """Return the distance of a value from the attainable range, relative to that range.

    Two standard errors are subtracted.
    """
    value, error = interval.value, interval.error
    total = 1.0 / (1.0 - gamma) if gamma < 1.0 else float(steps)
    if horizon is not None:
        total = float((gamma ** np.arange(horizon)).sum())
    low, high = min(0.0, counts.rewards[0] * total), max(0.0, counts.rewards[1] * total)
    if high <= low:
        return 0.0 if value == 0.0 else float("inf")
    excess = float((max(low - value, value - high) - 2.0 * error) / (high - low))
    return 0.0 if excess <= ROUNDING else excess
