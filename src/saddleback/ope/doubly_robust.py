"""Doubly robust estimates: importance sampling of the residuals of a linear Q.

DR is the estimator of Jiang & Li 2016, with per-decision weights; WDR that of Thomas & Brunskill
2016. DR is unbiased for any Q that does not depend on the episode, and its variance falls as Q
improves; WDR is consistent. Therefore Q is cross-fitted: episodes are assigned to folds by their
rows, and the Q of a fold is the fixed point of the other folds' sums, Σ_{g≠f} A_g θ + Σ_{g≠f} b_g =
0, all from one pass. (M = Σφφᵀ is kept for all folds together: it only determines the span of θ
and the units of the ridge.)

On truncated episodes Q is a control variate as elsewhere, and the estimand is a finite-horizon
value; or, with ``bootstrap_truncated``, Q replaces the missing tails, and the estimand is V^π to
the extent that Q is accurate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled
from saddleback._progress import Progress
from saddleback._typing import FloatArray, IndexArray, IntArray
from saddleback._user_functions import Recheck, call, check_rows
from saddleback.engine import copies_of
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.features import Features
from saddleback.log import Log, Target
from saddleback.log.target_policies import as_targets
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.estimator import default_rule
from saddleback.ope.importance_sampling import (
    RowValues,
    WeightReducer,
    check_weighting,
    weigh_episodes,
)
from saddleback.ope.log_pass import SegmentBatch
from saddleback.ope.statistics import Statistics
from saddleback.rules import Rule, as_rule

FOLD_RIDGE = 1e-6
"""Ridge of the Q of a fold: the active features of the other folds are seldom independent."""

QFunction = Callable[[FloatArray], Any]
"""From observations [n, d] to action values [n, K]."""


def doubly_robust(
    log: Log,
    targets: Any,
    *,
    gamma: float,
    features: Features | None = None,
    rule: Rule | str | None = None,
    shared: bool = False,
    ridge: float = FOLD_RIDGE,
    folds: int = 5,
    q: QFunction | Mapping[str, QFunction] | None = None,
    bootstrap_truncated: bool = False,
    allow_uncovered: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[str, Trajectories]:
    """Weigh the episodes of a log for target policies with Q as control variate: DR and WDR.

    With w_t = ρ_0 ⋯ ρ_t, V(s) = Σ_a π(a|s)Q(s,a), and V = 0 past the end of an episode,

        DR  = 1/n Σ_i [V(S_0) + Σ_t γ^t w_t y_t]        y_t = R_t − Q(S_t,A_t) + γV(S_{t+1})
        WDR = 1/n Σ_i V(S_0) + Σ_t γ^t (Σ_i w_t y_t / Σ_i w_t)

    Parameters
    ----------
    log, targets, gamma, allow_uncovered, progress
        As for `importance_sampling`.
    features, shared, rule, ridge
        Of the linear Q, as for `LSTD`; this takes one more pass. The ridge makes Q unique where
        the features of the remaining folds are not independent; DR stays unbiased for any Q.
    folds
        Number of folds of episodes.
    q
        Q itself, instead of features: a function from observations [n, d] to values [n, K], or
        several in a dict by target name. It must not have been fitted to this log.
    bootstrap_truncated
        Whether Q replaces the missing tails of truncated episodes.
    threads
        Threads for the statistics that Q is fitted to.

    Returns
    -------
    dict
        `Trajectories` by target name; ``estimates()`` gives DR and WDR.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=500, rng=0)
    >>> weighted = doubly_robust(log, "pump:0.8", features=car.features, gamma=0.99)["pump:0.8"]
    >>> weighted.estimate("DR")  # the true value is −79.83
    WeightedEstimate(DR of pump:0.8: -72.11 [-75.95, -68.28], V^π, ESS 2.3 of 500, k-hat 1.69)
    """
    check_weighting(log, gamma)
    chosen = as_targets(targets, log)
    if (features is None) == (q is None):
        raise InvalidParameter("doubly_robust needs either features to fit Q with, or q itself.")
    own = [] if q is None else [_user_q(q, target, log) for target in chosen]
    fits: Sequence[QFit] = own
    if q is None:
        q_rule = default_rule() if rule is None else as_rule(rule)
        if q_rule.values != "action":
            raise RuleMismatch(
                f"{q_rule} learns state values, but doubly robust estimates need action values: "
                f"use {default_rule()}, GES(0) or GTB."
            )
        count = _validate.count("doubly_robust", "folds", folds)
        if count < 2:
            raise InvalidParameter(
                "doubly_robust: folds must be at least 2, otherwise Q would be fitted to the "
                f"episodes it is evaluated on; got {folds}."
            )
        assert features is not None
        sums = Statistics.of(
            log, q_rule, {target.name: target for target in chosen}, features=features, gamma=gamma,
            shared=shared, blocks=count, allow_uncovered=allow_uncovered, threads=threads,
        )  # fmt: skip
        fits = [CrossFitted(sums, t, ridge, count) for t in range(len(chosen))]
    reducers = [
        WeightReducer(log, target, gamma, QValues(target, fit, gamma, bootstrap_truncated))
        for target, fit in zip(chosen, fits, strict=True)
    ]
    weighed = weigh_episodes(log, reducers, allow_uncovered, features, progress)
    for fit in own:
        fit.recheck()
    return weighed


class QFit(Protocol):
    """A Q, perhaps one for each fold of episodes."""

    remark: str

    def __call__(self, batch: SegmentBatch, states: Any, episode: IntArray) -> FloatArray:
        """Return Q [n, K] of some states of a segment, given the number of their episode, [n]."""


class CrossFitted:
    """A linear Q for each fold of episodes, with weights ``theta`` [folds, p] of the other folds.

    Where the other folds have few rows, a solution can be any number: it is clipped to the returns
    that the logged rewards can add up to. ``remark`` tells why Q is not unique, or is empty.
    """

    def __init__(
        self,
        sums: Statistics,
        target: int,
        ridge: float,
        folds: int,
        progress: Progress | None = None,
    ) -> None:
        _validate.non_negative("doubly_robust", "ridge", ridge)
        setting = sums.setting
        self.folds = folds
        self._copies = copies_of(len(setting.actions), setting.values, setting.shared)
        fold_of_block = np.arange(setting.blocks) % folds
        A, b = sums.A[target, 0], sums.b[target, 0]
        self.theta = np.zeros((folds, sums.p))
        outcomes = []
        totals, steps = (A.sum(axis=0), b.sum(axis=0)), int(sums.steps.sum())
        for fold in range(folds):
            left_out = fold_of_block == fold
            count = steps - int(sums.steps[left_out].sum())
            if not count:
                continue
            left, right = (
                (total - blocks[left_out].sum(axis=0)) / count
                for total, blocks in zip(totals, (A, b), strict=True)
            )
            solution = sums.span.factor(left, ridge).solve(right)
            outcomes += [solution.outcome] * (solution.outcome != "ok")
            self.theta[fold] = solution.theta
            if progress is not None:
                progress((fold + 1) / folds)
        self.remark = f"Q of {len(outcomes)} folds {outcomes[0]}" if outcomes else ""
        self._range = sums.counts.attainable_returns(setting.gamma)

    def within(self, active: IntArray, p: int) -> Self:
        """Return the same Q, fitted to the active ones of p features, as a function of all."""
        theta = np.zeros((len(self.theta), p))
        theta[:, active] = self.theta
        self.theta = theta
        return self

    def __call__(self, batch: SegmentBatch, states: Any, episode: IntArray) -> FloatArray:
        """Return Q [n, K] of some states of a segment."""
        fold = batch.blocks(self.folds)[episode]
        index, value = batch.active
        out = np.empty((len(fold), len(self._copies)))
        read_values(
            index[states], np.ones((0, 0)) if value is None else value[states], self.theta, fold,
            self._copies, np.empty(self._copies.shape[1]), out,
        )  # fmt: skip
        return np.clip(out, *self._range, out=out)


class _UserQ:
    """A Q supplied by the user."""

    remark = ""

    def __init__(self, function: QFunction, name: str, n_actions: int) -> None:
        self._function, self._name, self._n_actions = function, f"q of {name!r}", n_actions
        self._recheck: Recheck | None = None

    def __call__(self, batch: SegmentBatch, states: Any, episode: IntArray) -> FloatArray:
        """Return Q [n, K] of some states of a segment; the first are those that are rechecked."""
        observations = batch.segment.observations[states]
        if self._recheck is None:
            self._recheck = check_rows(self._name, self._values, observations, self._function)
        return self._values(observations)

    def recheck(self) -> None:
        """Raise if the function answers otherwise than at first."""
        if self._recheck is not None:
            self._recheck()

    def _values(self, observations: FloatArray) -> FloatArray:
        returned = call(self._name, self._function, observations)
        values = np.array(returned, dtype=np.float64)  # it may return one array again
        if values.shape != (len(observations), self._n_actions):
            raise InvalidParameter(
                f"{self._name} must return one value for each row and action, "
                f"({len(observations)}, {self._n_actions}); got shape {values.shape}."
            )
        _validate.finite(self._name, values)
        return values


def _user_q(q: Any, target: Target, log: Log) -> _UserQ:
    """Return the user's Q for a target."""
    if isinstance(q, Mapping):
        if target.name not in q:
            raise InvalidParameter(f"q has no entry for target {target.name!r}: {', '.join(q)}.")
        q = q[target.name]
    if not callable(q):
        raise InvalidParameter(
            "q must be a function from observations [n, d] to values [n, K], got "
            f"{type(q).__name__}."
        )
    return _UserQ(q, target.name, log.n_actions)


class QValues:
    """Q as a control variate, in the rows of consecutive segments."""

    def __init__(
        self, target: Target, fit: QFit, gamma: float, bootstrap_truncated: bool = False
    ) -> None:
        self.remark, self.bootstrap_truncated = fit.remark, bootstrap_truncated
        self._target, self._fit, self._gamma = target, fit, gamma

    def values(self, batch: SegmentBatch, pi: FloatArray) -> RowValues:
        """Return Q(S_t, A_t), V(S_t) and the term added to R_t − Q, for the next segment."""
        segment, rows = batch.segment, batch.segment.rows
        table = self._fit(batch, slice(len(rows)), segment.row_episode)
        q = table[np.arange(len(rows)), rows.actions]
        extra = np.zeros(len(rows))
        if self.bootstrap_truncated:
            used = np.zeros(len(rows), dtype=np.bool_)
            used[segment.index] = True
            extra[~used] = q[~used] - rows.rewards[~used]
            at_end = np.flatnonzero(segment.continues & (segment.next_states >= len(rows)))
            if segment.continues_in_next:
                at_end = at_end[:-1]
            next_state, at = segment.next_states[at_end], segment.index[at_end]
            if len(at_end):
                next_pi = batch.pi(self._target)[next_state]
                next_q = self._fit(batch, next_state, segment.row_episode[at])
                extra[at] = self._gamma * (next_pi * next_q).sum(axis=1)
        return RowValues(q, (pi * table).sum(axis=1), extra)


@compiled
def read_values(
    index: IndexArray,
    value: FloatArray,
    theta: FloatArray,
    fold: IntArray,
    copies: FloatArray,
    part: FloatArray,
    out: FloatArray,
) -> None:
    """Compute Q of rows [n] for all actions, with the weights of each row's fold."""
    actions, n_copies = copies.shape
    for i in range(len(index)):
        for c in range(n_copies):
            part[c] = 0.0
        for j in range(index.shape[1]):
            size = value[i, j] if len(value) else 1.0
            first = np.int64(index[i, j]) * n_copies
            for c in range(n_copies):
                part[c] += size * theta[fold[i], first + c]
        for a in range(actions):
            total = 0.0
            for c in range(n_copies):
                total += copies[a, c] * part[c]
            out[i, a] = total
