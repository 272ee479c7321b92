"""How far may the fixed point of these features be from V^π? Looks at the gap.

unmet       weights of features that were never active are 0; what if they were worth as much as the
            same feature with the other actions?
residual    with Q = φᵀθ̂, V^π − V̂ is the value of a problem whose rewards are the TD errors
            δ_t(θ̂). It is solved in cells of the observation, which may see what features miss.
trace       features that can say V^π have one fixed point whatever λ: how far is that of λ = 0?
self-check  the same pipeline says V̂_μ of the logged policy, and the log what was returned.
agreement   weighted doubly robust estimates are of V^π itself, where ratios can be trusted.
unseen      statistics of a log have neither residual nor agreement: twice the sum of the others
            stands for them.

None of them sees everything (the residual sees nothing finer than its cells, nor what is not in the
observation), so the largest of them is taken; self-check and agreement less what chance explains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from saddleback._typing import FloatArray
from saddleback.engine import BackwardSums, LoggedStreamer, copies_of
from saddleback.evaluation.fqe import ONE_STEP
from saddleback.evaluation.lstd_solve import Range
from saddleback.evaluation.statistics import Statistics
from saddleback.evaluation.statistics_pass import add_start, first_of_each
from saddleback.log import Piece
from saddleback.rules import Rule
from saddleback.verdict.partition import Cells

RIDGE = 1e-4
"""Of the residual in cells: a cell that was hardly met says nothing."""


@dataclass(frozen=True)
class Gap:
    """Estimates of |V^π − fixed point|; None where one cannot be had.

    Attributes
    ----------
    unmet, residual, trace, self_check, agreement, unseen
        See the module.
    """

    unmet: float | None = None
    residual: float | None = None
    trace: float | None = None
    self_check: float | None = None
    agreement: float | None = None
    unseen: float | None = None

    @property
    def value(self) -> float:
        """The largest of them, and not a number if one is not."""
        known = [each for each in self.parts.values() if each is not None]
        return float(np.max(known, initial=0.0))

    @property
    def parts(self) -> dict[str, float | None]:
        """All of them by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def unmet(sums: Statistics, rule: Rule, target: str, theta: FloatArray, ridge: float) -> float:
    """Return by how much V̂ changes if never active features are worth what others are."""
    setting = sums.setting
    idle = np.diag(sums.M) == 0
    if setting.values != "action" or not idle.any():
        return 0.0
    K = len(setting.actions)
    weight = np.diag(sums.M).reshape(-1, K + setting.shared)[:, :K]
    mine = theta.reshape(-1, K + setting.shared)
    with np.errstate(invalid="ignore"):
        usual = (weight * mine[:, :K]).sum(axis=1) / weight.sum(axis=1)
    filled = np.zeros_like(mine)
    filled[:, :K] = np.where(weight == 0, np.nan_to_num(usual)[:, None], 0.0)
    z = filled.ravel()
    system = sums.system(rule, target)
    changed = sums.factored(rule, target, ridge).solve(system.b + system.A @ z).theta + z
    return float(abs((changed - theta) @ sums.start(target)))


def unseen(unmet: float, trace: float | None, off: float | None) -> float:
    """Return what is allowed for what statistics do not show, by all that they do."""
    return 2.0 * (unmet + (trace or 0.0) + abs(off or 0.0))


def of_trace(sums: Statistics, rule: Rule, target: str, value: float, ridge: float) -> float | None:
    """Return by how much V̂ changes with λ = 0; None where that was not summed up."""
    other = without_trace(rule)
    if other is None or other == rule or other not in sums.setting.rules:
        return None
    return abs(float(sums.solve(other, target, ridge).theta @ sums.start(target)) - value)


def without_trace(rule: Rule) -> Rule | None:
    """Return the rule with λ = 0; None if its trace has no λ."""
    if not hasattr(rule.trace, "lam"):
        return None
    trace: Any = replace(rule.trace, **{"lam": 0.0})
    return replace(rule, trace=trace, label="")


class Residual:
    """Sums of the problem whose rewards are TD errors, in cells."""

    def __init__(self, cells: Cells, n_actions: int, gamma: float) -> None:
        self._cells, self._copies = cells, copies_of(n_actions, "action", False)
        p = cells.size * n_actions
        self._A, self._b, self._M = np.zeros((1, p, p)), np.zeros((1, p)), np.zeros((p, p))
        self._starts, self._episodes, self._steps = np.zeros((1, p)), 0, 0
        self._streamer = LoggedStreamer(cells, [ONE_STEP], self._copies, gamma)
        self._sums = BackwardSums(self._A, self._b, self._M)

    def add(self, piece: Piece, pi: FloatArray, deltas: FloatArray) -> None:
        """Take in the next piece."""
        stream = self._streamer(piece, pi, None, None)[0]._replace(reward=deltas)
        block = np.zeros(len(piece), dtype=np.int64)
        self._sums.add(stream, piece.starts, first_of_each(piece, block), piece.goes_on)
        first = piece.first_states
        self._steps += len(piece)
        self._episodes += len(first)
        active = self._cells.encode(piece.observations[first])
        add_start(active, pi[first] @ self._copies, np.zeros(len(first), np.int64), self._starts)

    def value(self) -> float:
        """Return the value of that problem in the start states."""
        span = Range(self._M / self._steps)
        eta = span.solve(self._A[0] / self._steps, self._b[0] / self._steps, RIDGE).theta
        return float(eta @ self._starts[0]) / self._episodes
