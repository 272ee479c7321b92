"""`Statistics`: the sums that a log is to linear evaluation, and that add up across logs.

    A = Σ_t e_t (γ'b_t − φ_t)ᵀ   b = Σ_t R_t e_t   M = Σ_t φ_t φ_tᵀ   x = Σ_episodes E_π φ(S_0, ·)

for every rule and target policy, in one pass. A, b and x are kept in blocks of episodes, chosen by
the episode's id: the blocks of two logs add up one by one, and their spread is that of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._typing import BoolArray, FloatArray, IntArray, OffsetArray
from saddleback.engine import (
    BackwardSums,
    LoggedStreamer,
    check_logged,
    copies_of,
)
from saddleback.errors import InvalidParameter
from saddleback.evaluation.coverage import Coverage
from saddleback.evaluation.setting import Setting
from saddleback.features import Features
from saddleback.log import Finding, Log, as_target
from saddleback.log.card import undiscounted
from saddleback.log.findings import refuse
from saddleback.log.log import Progress
from saddleback.log.prints import Prints, overlap
from saddleback.rules import Rule, each_rule
from saddleback.system import LARGEST, System

MEMORY = 8 * 2**30
"""Most bytes of sums that are held."""


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
        chosen = each_rule(rules)
        named = targets if isinstance(targets, Mapping) else {None: targets}
        policies = [as_target(given, log, name) for name, given in named.items()]
        setting = Setting.of(log, chosen, policies, features, gamma, shared, blocks)
        known = "mu" in log.layout.tables or log.behaviour is not None
        for rule in chosen:
            check_logged(rule, setting.values, bool(log.propensity), known)
        p, count = setting.p, len(chosen) * len(policies)
        _room(p, count, setting.blocks)
        copies = copies_of(log.n_actions, setting.values, shared)
        streamers = [LoggedStreamer(features, chosen, copies, setting.gamma) for _ in policies]
        shape = (len(policies), len(chosen), setting.blocks, p)
        A, b, M = np.zeros((*shape, p)), np.zeros(shape), np.zeros((p, p))
        sums = [
            [BackwardSums(A[t, r], b[t, r], M if t == r == 0 else M[:0]) for r in range(shape[1])]
            for t in range(shape[0])
        ]
        starts = np.zeros((len(policies), setting.blocks, p))
        steps, episodes = (np.zeros(setting.blocks, dtype=np.int64) for _ in range(2))
        squares = np.zeros(len(policies))
        prints, now, cut = Prints(), 0, 0
        coverage = [Coverage(each.name, log.action_names) for each in policies]
        tables = [table for each in policies for table in each.tables]
        with ThreadPoolExecutor(_validate.count("Statistics", "threads", threads)) as pool:
            for piece in log.pieces(tables, progress):
                prints.add(piece)
                mine = (piece.ids % np.uint64(setting.blocks)).astype(np.int64)
                each = np.concatenate([[now], mine])[np.cumsum(piece.rows.starts)][piece.index]
                now = int(mine[-1]) if len(mine) else now
                steps += np.bincount(each, minlength=setting.blocks)
                begins = piece.starts.copy()
                begins[:1] = True
                block = each[begins]
                last = np.append(piece.starts[1:], not piece.goes_on)[: len(piece)]
                cut += int((last & piece.continues).sum())
                episodes += np.bincount(mine, minlength=setting.blocks)
                mu = piece.tables.get("mu")
                jobs = []
                for t, policy in enumerate(policies):
                    pi = policy.probabilities(piece, log.n_actions)
                    coverage[t].add(piece, pi, mu)
                    streams = streamers[t](piece, pi, piece.propensity, mu)
                    if piece.propensity is not None:
                        at = (piece.here, piece.actions)
                        ratio = pi[at] / piece.propensity
                        # One by one, so that it does not matter how the log comes in pieces.
                        squares[t] = np.cumsum(np.append(squares[t], ratio * ratio))[-1]
                    first = piece.first_states
                    active = features.encode(piece.observations[first])
                    add_start(active, pi[first] @ copies, mine, starts[t])
                    jobs += [
                        pool.submit(each.add, stream, piece.starts, block, piece.goes_on)
                        for each, stream in zip(sums[t], streams, strict=True)
                    ]
                for job in jobs:
                    job.result()
        if setting.gamma == 1.0 and cut:
            refuse([undiscounted(cut / episodes.sum())])
        found = [each.finding(allow_uncovered) for each in coverage]
        findings = tuple(each for each in found if each is not None)
        refuse(findings)
        if not steps.sum():
            raise InvalidParameter("Statistics: the log has no transition that can be used.")
        return cls(
            setting, A, b, M, starts, steps, episodes, squares, *prints.arrays(),
            estimated=log.estimated, findings=findings,
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
        if (self.estimated is None) != (other.estimated is None):
            raise InvalidParameter(
                "merge: propensities were estimated for one of them and logged for the other; "
                "estimate them for both, or for none."
            )
        return Statistics(
            self.setting, self.A + other.A, self.b + other.b, self.M + other.M,
            self.starts + other.starts, self.steps + other.steps, self.episodes + other.episodes,
            self.squares + other.squares, np.concatenate([self.ids, other.ids]),
            np.concatenate([self.prints, other.prints]),
            np.concatenate([self.unfinished, other.unfinished]),
            self.estimated, tuple(dict.fromkeys(self.findings + other.findings)),
        )  # fmt: skip

    def system(self, rule: Rule | int = 0, target: str | int = 0) -> System:
        """Return the linear system of a rule and a target policy: means over transitions."""
        t, r = self.place(rule, target)
        n = int(self.steps.sum())
        A, M = self.A[t, r].sum(axis=0) / n, self.M / n
        return System(A, self.b[t, r].sum(axis=0) / n, M, A.T + M, self.setting.rules[r])

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

    @property
    def p(self) -> int:
        """Number of features."""
        return len(self.M)

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


def add_start(active: Any, weights: FloatArray, block: IntArray, total: FloatArray) -> None:
    """Add E_π φ(S_0, ·) of episodes to their blocks."""
    which, value = active
    copies = weights.shape[1]
    size = np.ones(which.shape) if value is None else value
    index = which[:, :, None] * np.uint32(copies) + np.arange(copies, dtype=np.uint32)
    np.add.at(total, (block[:, None, None], index), size[:, :, None] * weights[:, None, :])


def _room(p: int, count: int, blocks: int) -> None:
    """Refuse sums that would not fit, before anything is read."""
    need = 8.0 * p * p * (count * blocks + 1)
    if p > LARGEST or need > MEMORY:
        raise InvalidParameter(
            f"Statistics: {p:,} features, {blocks} blocks and {count} pairs of rule and target "
            f"need {need / 2**30:.1f} GB of sums, more than {MEMORY / 2**30:.0f} GB (and at most "
            f"{LARGEST:,} features). Use fewer blocks (blocks=1), rules or features; or solve "
            "without matrices, method 'svrg'."
        )
