"""`Statistics`: the sufficient statistics of a log for linear evaluation, mergeable across logs.

    A = Σ_t e_t (γ'b_t − φ_t)ᵀ   b = Σ_t R_t e_t   M = Σ_t φ_t φ_tᵀ   x = Σ_episodes E_π φ(S_0, ·)

for every rule and target policy, in one pass. A, b and x are kept for blocks of episodes, assigned
by their rows: blocks of two logs are added one by one, and their variation estimates the variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.errors import InvalidParameter
from saddleback.features import Features
from saddleback.log import Finding, Log
from saddleback.log.episode_hashes import overlap
from saddleback.ope.log_counts import LogCounts
from saddleback.ope.lstd_solve import Factorisation, FeatureSpan, LSTDSolution
from saddleback.ope.statistics_key import StatisticsKey
from saddleback.ope.statistics_pass import compute_statistics
from saddleback.rules import Rule, as_rules
from saddleback.system import System

MAX_INACTIVE = 0.001
"""Share of the start features that may be inactive in the log without a warning."""


@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """Sums over a log, for several rules and target policies.

    Attributes
    ----------
    setting
        The setting of the sums: γ, rules, targets, features; must agree for a merge.
    A, b
        By target, rule and block, [T, R, B, p, p] and [T, R, B, p].
    M
        Σφφᵀ, [p, p].
    starts
        Σ over episodes of E_π φ in their first state, [T, B, p].
    steps, episodes
        Transitions and episodes of each block, [B].
    squares, kappa_squares
        Σρ² of the logged actions for each target, [T]; and Σκ² for each target and rule, [T, R],
        of traces that may grow.
    ids, fingerprints, unfinished
        For each episode its id, the fingerprint of its rows, and whether it stops without a flag
        and may continue in another file.
    counts
        Counts for the verdict.
    estimated
        How propensities were estimated, if they were.
    findings
        Warnings about the log.

    Examples
    --------
    >>> from saddleback import GES, features, problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=50, rng=0)
    >>> tiles = features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=4, tilings=2)
    >>> sums = Statistics.of(log, [GES(0.0), GES(0.5)], "pump:0.8", features=tiles, gamma=0.99)
    >>> sums
    Statistics(6,142 steps, 50 episodes, p=150, 2 rules, 1 target)
    >>> half = [Log(log.data.filter(log.data["episode_id"].to_numpy() % 2 == k)) for k in (0, 1)]
    >>> one, other = (
    ...     Statistics.of(part, [GES(0.0), GES(0.5)], "pump:0.8", features=tiles, gamma=0.99)
    ...     for part in half
    ... )
    >>> np.allclose(one.merge(other).system().A, sums.system().A)
    True
    """

    setting: StatisticsKey
    A: FloatArray
    b: FloatArray
    M: FloatArray
    starts: FloatArray
    steps: IntArray
    episodes: IntArray
    squares: FloatArray
    kappa_squares: FloatArray
    ids: OffsetArray
    fingerprints: OffsetArray
    unfinished: BoolArray
    counts: LogCounts
    estimated: str | None = None
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(
        cls,
        log: Log,
        rules: Rule | str | Sequence[Rule],
        targets: Any,
        *,
        features: Features,
        gamma: float,
        shared: bool = False,
        blocks: int = 20,
        allow_uncovered: bool = False,
        threads: int = 1,
        progress: Progress | None = None,
    ) -> Statistics:
        """Compute the statistics of a log in one pass.

        Parameters
        ----------
        log
            The log.
        rules
            One or several; only their traces and bootstraps matter here.
        targets
            A target policy (see `saddleback.log.as_target`), or several by name in a dict.
        features, shared
            Features of an observation. For action values there is one copy per action, and with
            ``shared`` one more that all actions share.
        gamma
            Discount.
        blocks
            Number of blocks of episodes, for intervals.
        allow_uncovered
            Warn, rather than fail, on actions of π that the log never takes.
        threads
            Number of threads; the result is bit-identical for any number.
        """
        return cls(
            **compute_statistics(
                log, as_rules(rules), targets, features=features, gamma=gamma, shared=shared,
                blocks=blocks, allow_uncovered=allow_uncovered, threads=threads, progress=progress,
            )
        )  # fmt: skip

    def merge(self, other: Statistics) -> Statistics:
        """Return the statistics of both logs together; raise if they cannot be merged."""
        self.setting.check_equal(other.setting)
        both = overlap((self.ids, self.fingerprints), (other.ids, other.fingerprints))
        if both:
            raise InvalidParameter(
                f"merge: {both:,} episode{'s are' if both > 1 else ' is'} in both, with identical "
                "rows: the same file twice, or overlapping files. Leave one of them out."
            )
        for one, two in ((self, other), (other, self)):
            split = np.intersect1d(one.ids[one.unfinished], two.ids)
            if len(split):
                several = len(split) > 1
                raise InvalidParameter(
                    f"merge: {len(split):,} episode{'s' if several else ''} without an end flag in "
                    f"one continue{'' if several else 's'} in the other: split between files? "
                    "Compute the statistics of both files together. If they are "
                    "different episodes, give them different ids."
                )
        return Statistics(
            self.setting, self.A + other.A, self.b + other.b, self.M + other.M,
            self.starts + other.starts, self.steps + other.steps, self.episodes + other.episodes,
            self.squares + other.squares, self.kappa_squares + other.kappa_squares,
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.fingerprints, other.fingerprints]),
            np.concatenate([self.unfinished, other.unfinished]), self.counts.merge(other.counts),
            self.estimated, tuple(dict.fromkeys(self.findings + other.findings)),
        )  # fmt: skip

    def system(self, rule: Rule | int = 0, target: str | int = 0) -> System:
        """Return the linear system of a rule and a target policy: means over transitions."""
        A, b = self.means(rule, target)
        M, r = self.span.M, self.index_of(rule, target)[1]
        return System(A, b, M, A.T + M, self.setting.rules[r])

    def means(self, rule: Rule | int = 0, target: str | int = 0) -> tuple[FloatArray, FloatArray]:
        """Return Â and b̂ of a rule and a target policy, means over transitions."""
        t, r = self.index_of(rule, target)
        n = int(self.steps.sum())
        return self.A[t, r].sum(axis=0) / n, self.b[t, r].sum(axis=0) / n

    def factorised(
        self, rule: Rule | int = 0, target: str | int = 0, ridge: float = 0.0
    ) -> Factorisation:
        """Return the factorised system of a rule and a target policy."""
        pair = self.index_of(rule, target)
        if pair not in self._reduced:
            self._reduced[pair] = self.span.reduced(self.means(rule, target)[0])
        if self._factorised.get(pair, (None,))[0] != ridge:  # keep only the last of each pair
            factors = self.span.factor_reduced(self._reduced[pair], ridge)
            self._factorised[pair] = ridge, factors
        return self._factorised[pair][1]

    def solve(
        self, rule: Rule | int = 0, target: str | int = 0, ridge: float = 0.0
    ) -> LSTDSolution:
        """Return the fixed point of a rule for a target policy."""
        t, r = self.index_of(rule, target)
        b = self.b[t, r].sum(axis=0) / int(self.steps.sum())
        return self.factorised(rule, target, ridge).solve(b)

    @cached_property
    def _reduced(self) -> dict[tuple[int, int], FloatArray]:
        return {}

    @cached_property
    def _factorised(self) -> dict[tuple[int, int], tuple[float, Factorisation]]:
        return {}

    @cached_property
    def span(self) -> FeatureSpan:
        """The span of the active features."""
        return FeatureSpan(self.M / int(self.steps.sum()))

    def start(self, target: str | int = 0) -> FloatArray:
        """Mean x̄ of E_π φ over the start states of the log, [p]; θᵀx̄ is the value of π there."""
        t = self.index_of(0, target)[0]
        return np.asarray(self.starts[t].sum(axis=0) / max(1, int(self.episodes.sum())))

    def index_of(self, rule: Rule | int, target: str | int) -> tuple[int, int]:
        """Return the indices of a target and a rule."""
        names, rules = self.setting.targets, self.setting.rules
        if isinstance(target, str) and target not in names:
            raise InvalidParameter(f"no target {target!r} in these statistics: {', '.join(names)}.")
        if isinstance(rule, Rule) and rule not in rules:
            listed = ", ".join(map(str, rules))
            raise InvalidParameter(f"{rule} is not in these statistics: {listed}.")
        t = names.index(target) if isinstance(target, str) else target
        return t, rules.index(rule) if isinstance(rule, Rule) else rule

    @cached_property
    def ceilings(self) -> FloatArray:
        """The λ ceiling of importance traces for each target, 1/(γ√mean ρ²), [T]; NaN without μ."""
        mean = self.squares / self.steps.sum()
        with np.errstate(divide="ignore"):
            ceilings = 1.0 / (self.setting.gamma * np.sqrt(mean))
        return np.where(self.squares > 0, ceilings, np.nan)

    def trace_ratio(self, rule: Rule, target: str) -> float | None:
        """γ√mean κ², which is λ relative to its ceiling; None for a trace that cannot grow."""
        if not rule.trace.may_grow:
            return None
        mean = self.kappa_squares[self.index_of(rule, target)] / self.steps.sum()
        return float(self.setting.gamma * np.sqrt(mean))

    def lambda_ceiling(self, rule: Rule, target: str) -> float | None:
        """λ ceiling of a trace that may grow, and of importance traces for any other rule."""
        ratio, lam = self.trace_ratio(rule, target), rule.trace.parameter
        if ratio is None or not rule.trace.flow_uses_mu:
            ceiling = float(self.ceilings[self.index_of(rule, target)[0]])
            return ceiling if np.isfinite(ceiling) else None
        return lam / ratio if lam and ratio and rule.with_lambda(lam) is not None else None

    def warnings(self, rule: Rule) -> list[Finding]:
        """Return the warnings about an estimate with a rule, after those about the log."""
        findings = [*self.findings]
        if len(self.M):
            if self.span.note:
                findings.append(Finding("W171", self.span.note + "."))
            inactive = np.diag(self.M) == 0
            for name, blocks in zip(self.setting.targets, self.starts, strict=True):
                start = np.abs(blocks.sum(axis=0))
                share = float(start[inactive].sum() / max(start.sum(), 1e-300))
                if share > MAX_INACTIVE:
                    findings.append(
                        Finding(
                            "W172",
                            f"{share:.1%} of the actions of {name} in the start states never occur "
                            "in the log; their value is taken as 0.",
                        )
                    )
        for name in self.setting.targets:
            ratio = self.trace_ratio(rule, name)
            if ratio is not None and ratio > 1.0:
                lam = rule.trace.parameter
                if lam is None or rule.with_lambda(lam) is None:
                    excess = f"γ√E[κ²] = {ratio:.2f} exceeds 1"
                else:
                    excess = f"lambda={lam:g} exceeds {lam / ratio:.2f}"
                findings.append(
                    Finding(
                        "W170",
                        f"{excess}, above which the trace second moment grows without bound on "
                        f"this log (target {name}).",
                    )
                )
        return findings

    @property
    def p(self) -> int:
        """Number of features."""
        return self.setting.p

    def __repr__(self) -> str:
        def plural(count: int, noun: str) -> str:
            return f"{count:,} {noun}{'' if count == 1 else 's'}"

        stamp = ", propensities estimated" if self.estimated else ""
        return (
            f"Statistics({plural(int(self.steps.sum()), 'step')}, "
            f"{plural(int(self.episodes.sum()), 'episode')}, p={self.p}, "
            f"{plural(len(self.setting.rules), 'rule')}, "
            f"{plural(len(self.setting.targets), 'target')}{stamp})"
        )
