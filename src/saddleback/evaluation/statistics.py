"""`Statistics`: the sums that a log is to linear evaluation, and that add up across logs.

    A = Σ_t e_t (γ'b_t − φ_t)ᵀ   b = Σ_t R_t e_t   M = Σ_t φ_t φ_tᵀ   x = Σ_episodes E_π φ(S_0, ·)

for every rule and target policy, in one pass. A, b and x are kept in blocks of episodes, chosen by
the episode's id: the blocks of two logs add up one by one, and their spread is that of the data.
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
from saddleback.evaluation.log_counts import Tally
from saddleback.evaluation.lstd_solve import Factored, Range, Solution
from saddleback.evaluation.statistics_key import Setting
from saddleback.evaluation.statistics_pass import accumulate
from saddleback.features import Features
from saddleback.log import Finding, Log
from saddleback.log.fingerprints import overlap
from saddleback.rules import Importance, Rule, as_rules
from saddleback.system import System

UNMET = 0.001
"""Share of the start features that may never have been active without a warning."""


@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """Sums over a log, for several rules and target policies.

    Attributes
    ----------
    setting
        What they are sums of: γ, rules, targets, features; equal for all that is merged.
    A, b
        For each target and rule, in that order, blocks [T, R, B, p, p] and [T, R, B, p].
    M
        Σφφᵀ, [p, p].
    starts
        Σ over episodes of E_π φ in their first state, [T, B, p].
    steps, episodes
        Transitions and episodes of each block, [B].
    squares
        Σρ² of the logged actions for each target, [T].
    ids, prints, unfinished
        For each episode its id and the fingerprint of its rows, and whether it simply stops and
        may go on in another file.
    tally
        Counts that a verdict needs.
    estimated
        How propensities were estimated, if they were.
    findings
        Warnings met on the way.

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
    ...     Statistics.of(each, [GES(0.0), GES(0.5)], "pump:0.8", features=tiles, gamma=0.99)
    ...     for each in half
    ... )
    >>> np.allclose(one.merge(other).system().A, sums.system().A)
    True
    """

    setting: Setting
    A: FloatArray
    b: FloatArray
    M: FloatArray
    starts: FloatArray
    steps: IntArray
    episodes: IntArray
    squares: FloatArray
    ids: OffsetArray
    prints: OffsetArray
    unfinished: BoolArray
    tally: Tally
    estimated: str | None = None
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(
        cls,
        log: Log,
        rules: Rule | Sequence[Rule],
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
        """Read a log once and sum up.

        Parameters
        ----------
        log
            The log.
        rules
            One or several; only their traces and bootstraps matter here.
        targets
            A target policy (see `saddleback.log.as_target`), or several by name in a dict.
        features, shared
            Features of an observation. For action values each comes once for each action, and with
            ``shared`` once more for all of them.
        gamma
            Discount.
        blocks
            In how many blocks of episodes sums are kept, for intervals.
        allow_uncovered
            Warn rather than refuse where π takes actions that the log never takes.
        threads
            Over how many threads to spread rules and targets; the result is the same to the bit.
        """
        return cls(
            **accumulate(
                log, as_rules(rules), targets, features=features, gamma=gamma, shared=shared,
                blocks=blocks, allow_uncovered=allow_uncovered, threads=threads, progress=progress,
            )
        )  # fmt: skip

    def merge(self, other: Statistics) -> Statistics:
        """Return the statistics of both logs together, refusing what does not belong together."""
        self.setting.same(other.setting)
        both = overlap((self.ids, self.prints), (other.ids, other.prints))
        if both:
            raise InvalidParameter(
                f"merge: {both:,} episode{'s are' if both > 1 else ' is'} in both, row for row: "
                "the same file twice, or files that overlap. Leave one of them out."
            )
        for one, two in ((self, other), (other, self)):
            torn = np.intersect1d(one.ids[one.unfinished], two.ids)
            if len(torn):
                raise InvalidParameter(
                    f"merge: {len(torn):,} episode{'s' if len(torn) > 1 else ''} simply stop in "
                    "one and go on in the other: split between files? Compute the statistics of "
                    "both files together: saddleback stats ONE OTHER. If they are different "
                    "episodes, give them different ids."
                )
        return Statistics(
            self.setting, self.A + other.A, self.b + other.b, self.M + other.M,
            self.starts + other.starts, self.steps + other.steps, self.episodes + other.episodes,
            self.squares + other.squares, np.concatenate([self.ids, other.ids]),
            np.concatenate([self.prints, other.prints]),
            np.concatenate([self.unfinished, other.unfinished]), self.tally.merge(other.tally),
            self.estimated, tuple(dict.fromkeys(self.findings + other.findings)),
        )  # fmt: skip

    def system(self, rule: Rule | int = 0, target: str | int = 0) -> System:
        """Return the linear system of a rule and a target policy: means over transitions."""
        t, r = self.place(rule, target)
        if (t, r) not in self._systems:
            n, M = int(self.steps.sum()), self.span.M
            A = self.A[t, r].sum(axis=0) / n
            b = self.b[t, r].sum(axis=0) / n
            self._systems[t, r] = System(A, b, M, A.T + M, self.setting.rules[r])
        return self._systems[t, r]

    @cached_property
    def _systems(self) -> dict[tuple[int, int], System]:
        return {}

    def factored(self, rule: Rule | int = 0, target: str | int = 0, ridge: float = 0.0) -> Factored:
        """Return the system of a rule and a target policy, ready to be solved with."""
        pair = self.place(rule, target)
        if pair not in self._reduced:
            self._reduced[pair] = self.span.reduced(self.system(rule, target).A)
        if (*pair, ridge) not in self._factored:
            found = self.span.factor_reduced(self._reduced[pair], ridge)
            self._factored[*pair, ridge] = found
        return self._factored[*pair, ridge]

    def solve(self, rule: Rule | int = 0, target: str | int = 0, ridge: float = 0.0) -> Solution:
        """Return the fixed point of a rule for a target policy."""
        return self.factored(rule, target, ridge).solve(self.system(rule, target).b)

    @cached_property
    def _reduced(self) -> dict[tuple[int, int], FloatArray]:
        return {}

    @cached_property
    def _factored(self) -> dict[tuple[int, int, float], Factored]:
        return {}

    @cached_property
    def span(self) -> Range:
        """The span of the features that were met."""
        return Range(self.M / int(self.steps.sum()))

    def start(self, target: str | int = 0) -> FloatArray:
        """E_π φ over the start states of the log, [p]: θᵀ of it is the value of π there."""
        t = self.place(0, target)[0]
        return np.asarray(self.starts[t].sum(axis=0) / max(1, int(self.episodes.sum())))

    def place(self, rule: Rule | int, target: str | int) -> tuple[int, int]:
        """Return the numbers of a target and a rule."""
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
            found = 1.0 / (self.setting.gamma * np.sqrt(mean))
        return np.where(self.squares > 0, found, np.nan)

    def warnings(self, rule: Rule) -> list[Finding]:
        """What is to be said of an estimate with a rule, besides what the log itself has wrong."""
        found = [*self.findings]
        if len(self.M):
            if self.span.note:
                found.append(Finding("W171", self.span.note + "."))
            idle = np.diag(self.M) == 0
            for name, blocks in zip(self.setting.targets, self.starts, strict=True):
                start = np.abs(blocks.sum(axis=0))
                share = float(start[idle].sum() / max(start.sum(), 1e-300))
                if share > UNMET:
                    found.append(
                        Finding(
                            "W172",
                            f"{share:.1%} of what {name} does in the start states was never met in "
                            "the log: it counts as worth 0.",
                        )
                    )
        lam = getattr(rule.trace, "lam", 0.0)
        for name, ceiling in zip(self.setting.targets, self.ceilings, strict=True):
            if isinstance(rule.trace, Importance) and lam > ceiling:
                found.append(
                    Finding(
                        "W170",
                        f"lambda={lam:g} exceeds {ceiling:.2f}, above which the trace second "
                        f"moment grows without bound on this log (target {name}).",
                    )
                )
        return found

    @property
    def p(self) -> int:
        """Number of features."""
        return self.setting.p

    def __repr__(self) -> str:
        def some(count: int, what: str) -> str:
            return f"{count:,} {what}{'' if count == 1 else 's'}"

        stamp = ", propensities estimated" if self.estimated else ""
        return (
            f"Statistics({some(int(self.steps.sum()), 'step')}, "
            f"{some(int(self.episodes.sum()), 'episode')}, p={self.p}, "
            f"{some(len(self.setting.rules), 'rule')}, {some(len(self.setting.targets), 'target')}"
            f"{stamp})"
        )
