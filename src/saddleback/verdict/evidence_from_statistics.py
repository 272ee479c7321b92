"""What statistics tell of an answer, with the log or without it; and the verdict without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from saddleback._progress import Progress, planned
from saddleback._threads import thread_pool
from saddleback.evaluation.log_counts import Portrait, Tally
from saddleback.evaluation.sandwich import ESTIMAND, Interval, block_scores, student
from saddleback.evaluation.statistics import Statistics
from saddleback.rules import Importance, Rule
from saddleback.verdict.approximation_gap import Gap, of_trace, unmet, unseen
from saddleback.verdict.baseline import Logged
from saddleback.verdict.calibration import calibration, uncovered
from saddleback.verdict.coverage import ENOUGH, SMALLEST, Support
from saddleback.verdict.evidence import Evidence
from saddleback.verdict.policy_summary import Policy
from saddleback.verdict.spectrum import Spectrum, spectrum
from saddleback.verdict.verdict import Verdict

NEARBY = (1e-6, 1e-5, 1e-4)
"""Ridges that must not matter."""

ROUNDING = 1e-9
"""Share of the range of values that is nothing but rounding."""

DRAWS, LARGEST = 20, 1000
"""Resamples if nothing is said, with at most so many features."""

NOTES = {
    "SUPPORT": "the log has no probabilities of its actions",
    "PROPENSITIES": "the log has no probabilities of its actions",
    "CEILING": "this rule has no importance trace, or the log no ratios: no ceiling",
    "STABILITY": "left out: too few blocks of episodes, or too many features (--bootstrap 20)",
}
"""Why a gate could not be checked."""

NEEDS_LOG = {"AGREEMENT": "statistics do not keep it: evaluate the log itself"}
"""Why a gate could not be checked without the log."""


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """All that was looked at for one target.

    Attributes
    ----------
    verdict
        What comes of it.
    interval
        Of the closed form.
    policy, support
        The policy that was really evaluated, and how the data cover it; None without the log.
    spectrum, gap
        Eigenvalues of Â, and how far the fixed point may be from V^π.
    condition, rank
        Of M̂ on the span of the features that were met.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> found.diagnoses[0].rank, found.diagnoses[0].verdict.trust
    (78, 'usable')
    """

    verdict: Verdict
    interval: Interval
    policy: Policy
    support: Support | None
    spectrum: Spectrum | None
    gap: Gap
    condition: float
    rank: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        cloud = self.spectrum
        return self.verdict.as_dict() | {
            "policy": asdict(self.policy),
            "support": None if self.support is None else asdict(self.support),
            "gap_parts": asdict(self.gap),
            "spectrum": None if cloud is None else cloud.as_dict(),
            "condition": self.condition, "rank": self.rank,
        }  # fmt: skip


Waiting = dict[str, Callable[[], Spectrum]]
"""Spectra that are being found, by target."""


def begin_spectra(
    sums: Statistics,
    rule: Rule,
    targets: Sequence[str],
    pool: Executor,
    ridge: float,
    draws: int | None,
    progress: Progress | None = None,
) -> Waiting:
    """Begin to find the spectra of all targets; too large ones only if they were asked for."""
    often = resamples(len(sums.span.active), draws)
    if int((sums.steps > 0).sum()) < 2 or not often:
        return {}
    parts = planned(progress, [("", 1.0)] * len(targets))
    return {
        name: spectrum(sums, rule, name, pool, ridge=ridge, draws=often, progress=part)
        for name, part in zip(targets, parts, strict=True)
    }


def resamples(active: int, draws: int | None) -> int:
    """How often blocks are drawn, with so many active features."""
    return draws if draws is not None else DRAWS if active <= LARGEST else 0


def known(
    sums: Statistics,
    rule: Rule,
    target: str,
    interval: Interval,
    ridge: float,
    spectra: Waiting,
    portrait: Portrait,
) -> tuple[Spectrum | None, dict[str, Any]]:
    """Return the spectrum, and evidence that statistics give, with or without cells."""
    cloud = spectra[target]() if target in spectra else None
    episodes = int(sums.episodes.sum())
    steps = int(sums.steps.sum())
    limit, share = sums.tally.limit
    wrong = calibration(portrait, steps)
    return cloud, {
        "limit": limit,
        "limit_share": share,
        "episodes": episodes,
        "steps": steps,
        "uncovered": None if wrong is None else uncovered(portrait) / steps,
        "calibration_z": None if wrong is None else wrong[0],
        "miscalibrated": None if wrong is None else wrong[1],
        "trace_ratio": _trace_ratio(sums, rule, target),
        "unique": sums.factored(rule, target, ridge).unique,
        "stable": None if cloud is None else cloud.agree / len(cloud.cloud),
        "sensitivity": _sensitivity(sums, rule, target, interval.value, ridge),
        "beyond": float(sums.tally.beyond[0]) / max(1, episodes),
        "outside": _outside(interval, sums.tally, sums.setting.gamma, steps),
    }


def judge_sums(
    sums: Statistics,
    rule: Rule,
    targets: Sequence[str],
    *,
    ridge: float = 0.0,
    draws: int | None = None,
    lower_is_better: bool = False,
    threads: int = 1,
) -> tuple[list[Diagnosis], Logged | None]:
    """Judge the closed form by statistics alone."""
    logged = Logged.of_sums(sums, rule, ridge)
    found = []
    with thread_pool(threads) as pool:
        spectra = begin_spectra(sums, rule, targets, pool, ridge, draws)
    for name in targets:
        value, each = block_scores(sums, rule, name, ridge)
        interval = student(value, each, 0.95, ESTIMAND, "sandwich over blocks of episodes")
        theta = sums.solve(rule, name, ridge).theta
        idle = unmet(sums, rule, name, theta, ridge)
        trace = of_trace(sums, rule, name, value, ridge)
        off = None if logged is None else logged.off
        gap = Gap(
            unmet=idle, trace=trace, self_check=None if logged is None else logged.gap,
            unseen=unseen(idle, trace, off),
        )  # fmt: skip
        t = sums.place(rule, name)[0]
        portrait = sums.tally.portraits[t]
        cloud, evidence = known(sums, rule, name, interval, ridge, spectra, portrait)
        spread = interval.error * float(np.sqrt(evidence["episodes"]))
        mass = sums.tally.mass[t]
        total = max(float(mass.sum()), 1e-300)
        judged = Evidence(
            value=value, error=interval.error, spread=spread if logged is None else logged.spread,
            coverage=float(mass[sums.tally.visits >= ENOUGH].sum()) / total,
            unmet=float(mass[sums.tally.visits == 0].sum()) / total,
            self_check=off,
            self_check_error=None if logged is None else logged.error,
            gap=gap.value, notes=NOTES | NEEDS_LOG, **evidence,
        )  # fmt: skip
        improvement = None
        if logged is not None:
            improvement = logged.against(value, each, gap.value, lower_is_better)
        thin = np.where(mass > SMALLEST * total / len(mass), sums.tally.visits, np.inf)
        least = int(np.argmin(thin))
        weakest = f"feature {least}, active on {sums.tally.visits[least]:,.0f} steps"
        verdict = Verdict.of(
            name, (interval.value, interval.low, interval.high), judged, improvement, weakest
        )
        span = sums.span
        policy = Policy.of(portrait, sums.setting.actions, evidence["steps"])
        found.append(
            Diagnosis(verdict, interval, policy, None, cloud, gap, span.condition, span.rank)
        )
    return found, logged


def _trace_ratio(sums: Statistics, rule: Rule, target: str) -> float | None:
    if not isinstance(rule.trace, Importance):
        return None
    ceiling = float(sums.ceilings[sums.place(rule, target)[0]])
    return rule.trace.lam / ceiling if np.isfinite(ceiling) else None


def _sensitivity(sums: Statistics, rule: Rule, target: str, value: float, ridge: float) -> float:
    """Return the largest change of V̂ over small ridges, and with λ = 0."""
    start = sums.start(target)
    values = [float(sums.solve(rule, target, ridge + eta).theta @ start) for eta in NEARBY]
    changes = [abs(each - value) for each in values]
    return max(*changes, of_trace(sums, rule, target, value, ridge) or 0.0)


def _outside(interval: Interval, tally: Tally, gamma: float, steps: int) -> float:
    """Return by how much a value leaves what rewards can add up to, over the range of that.

    Two standard errors are allowed for.
    """
    value, error = interval.value, interval.error
    total = 1.0 / (1.0 - gamma) if gamma < 1.0 else float(steps)
    low, high = min(0.0, tally.rewards[0] * total), max(0.0, tally.rewards[1] * total)
    if high <= low:
        return 0.0 if value == 0.0 else float("inf")
    beyond = float((max(low - value, value - high) - 2.0 * error) / (high - low))
    return 0.0 if beyond <= ROUNDING else beyond
