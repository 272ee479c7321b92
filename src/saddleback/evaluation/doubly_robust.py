"""Doubly robust estimates: importance sampling of what a linear Q does not explain.

DR is that of Jiang & Li 2016, with weights by decision, WDR of Thomas & Brunskill 2016. DR is
unbiased for any Q that does not depend on the episode, and varies the less the better Q is; WDR is
consistent. So Q is cross-fitted: episodes are dealt into folds by their ids, and the Q of a fold is
the fixed point of the other folds' sums, Σ_{g≠f} A_g θ + Σ_{g≠f} b_g = 0, all from one pass. (M =
Σφφᵀ is not kept by folds. It only says in which directions θ is sought and in which units a ridge
is meant.)

On truncated episodes Q is a control variate like elsewhere, and the estimand an H-step value; or,
with ``beyond``, Q stands for what was not logged, and the estimand is V^π as far as Q is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._jit import compiled
from saddleback._progress import Progress
from saddleback._typing import FloatArray, IndexArray, IntArray
from saddleback.engine import copies_of
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.evaluation.base import default_rule
from saddleback.evaluation.episode_weights import Trajectories
from saddleback.evaluation.importance_sampling import Job, Values, policies, walk
from saddleback.evaluation.statistics import Statistics
from saddleback.features import Features
from saddleback.log import Log, Piece, Target
from saddleback.rules import Rule, is_rule

RIDGE = 1e-6
"""Of the Q of a fold: the features that the other folds met are seldom independent."""

QFunction = Callable[[FloatArray], Any]
"""From observations [n, d] to action values [n, K]."""


def doubly_robust(
    log: Log,
    targets: Any,
    *,
    gamma: float,
    features: Features | None = None,
    rule: Rule | None = None,
    shared: bool = False,
    ridge: float = RIDGE,
    folds: int = 5,
    q: QFunction | Mapping[str, QFunction] | None = None,
    beyond: bool = False,
    allow_uncovered: bool = False,
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[str, Trajectories]:
    """Weigh the episodes of a log for target policies with the help of Q: DR and WDR.

    With w_t = ρ_0 ⋯ ρ_t, V(s) = Σ_a π(a|s)Q(s,a), and V = 0 past the end of an episode,

        DR  = 1/n Σ_i [V(S_0) + Σ_t γ^t w_t y_t]        y_t = R_t − Q(S_t,A_t) + γV(S_{t+1})
        WDR = 1/n Σ_i V(S_0) + Σ_t γ^t (Σ_i w_t y_t / Σ_i w_t)

    Parameters
    ----------
    log, targets, gamma, allow_uncovered, progress
        As for `importance_sampling`.
    features, shared, rule, ridge
        Of the linear Q, as for `LSTD`; one more pass. The ridge makes Q unique where the features
        that a fold leaves are not independent; whatever Q is, DR stays unbiased.
    folds
        Into how many folds episodes are dealt.
    q
        Q itself, instead of features: a function from observations [n, d] to values [n, K], or
        several by the name of the target. It must not have been fitted to this log.
    beyond
        Whether Q stands for what truncated episodes leave out.
    threads
        For the sums behind Q.

    Returns
    -------
    dict
        `Trajectories` by the name of the target; their ``estimates()`` are DR and WDR.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = problems.mountain_car()
    >>> log = collect(car, episodes=500, rng=0)
    >>> found = doubly_robust(log, "pump:0.8", features=car.features, gamma=0.99)["pump:0.8"]
    >>> found.estimate("DR")  # the truth is −79.83
    Weighted(DR of pump:0.8: -75.1 [-77.07, -73.12], V^π, ESS 2.3 of 500, k-hat 1.69)
    """
    chosen = policies(log, targets)
    if (features is None) == (q is None):
        raise InvalidParameter("doubly_robust needs either features, to fit Q with, or q itself.")
    fits: Sequence[CrossFitted | _Given]
    if q is not None:
        fits = [_given(q, each, log) for each in chosen]
    else:
        assert features is not None
        wanted = default_rule() if rule is None else rule
        is_rule(wanted)
        if wanted.values != "action":
            raise RuleMismatch(
                f"{wanted} learns state values, and doubly robust estimates need action values: "
                f"use {default_rule()}, GES(0) or GTB."
            )
        count = _validate.count("doubly_robust", "folds", folds)
        if count < 2:
            raise InvalidParameter(
                "doubly_robust: folds must be at least 2, or Q is fitted to the very episodes that "
                f"it is to help with; got {folds}."
            )
        sums = Statistics.of(
            log, wanted, {each.name: each for each in chosen}, features=features, gamma=gamma,
            shared=shared, blocks=count, allow_uncovered=allow_uncovered, threads=threads,
        )  # fmt: skip
        fits = [CrossFitted(sums, t, features, ridge, count) for t in range(len(chosen))]
    jobs = helped(log, chosen, fits, gamma, beyond)
    found = walk(log, jobs, gamma, allow_uncovered, progress)
    return {each.target: each for each in found}


def helped(
    log: Log,
    targets: Sequence[Target],
    fits: Sequence[CrossFitted | _Given],
    gamma: float,
    beyond: bool = False,
) -> list[Job]:
    """Return what is to be walked through with the Q of each target."""
    return [
        Job(each, _Values(each, fit, log.n_actions, gamma, beyond), beyond, fit.remark)
        for each, fit in zip(targets, fits, strict=True)
    ]


class CrossFitted:
    """A linear Q for each fold of episodes, fitted to the other folds.

    Attributes
    ----------
    theta
        Weights, [folds, p].
    remark
        What stands in the way of a unique Q, or empty.
    """

    def __init__(
        self,
        sums: Statistics,
        target: int,
        features: Features,
        ridge: float,
        folds: int,
        progress: Progress | None = None,
    ) -> None:
        _validate.non_negative("doubly_robust", "ridge", ridge)
        self._features = features
        setting = sums.setting
        self._copies = copies_of(len(setting.actions), setting.values, setting.shared)
        dealt = np.arange(setting.blocks) % folds
        A, b = sums.A[target, 0], sums.b[target, 0]
        self.theta = np.zeros((folds, sums.p))
        outcomes = []
        whole, steps = (A.sum(axis=0), b.sum(axis=0)), int(sums.steps.sum())
        for fold in range(folds):
            mine = dealt == fold
            count = steps - int(sums.steps[mine].sum())
            if not count:
                continue
            left, right = (
                (every - each[mine].sum(axis=0)) / count
                for every, each in zip(whole, (A, b), strict=True)
            )
            found = sums.span.factor(left, ridge).solve(right)
            outcomes += [found.outcome] * (found.outcome != "ok")
            self.theta[fold] = found.theta
            if progress is not None:
                progress((fold + 1) / folds)
        self.remark = f"Q of {len(outcomes)} folds {outcomes[0]}" if outcomes else ""

    def __call__(self, observations: FloatArray, fold: IntArray) -> FloatArray:
        """Return Q [n, K] of observations [n, d] in episodes of these folds [n]."""
        index, value = self._features.encode(observations)
        none = np.ones((0, 0))
        out = np.empty((len(observations), len(self._copies)))
        part = np.empty(self._copies.shape[1])
        read_values(
            index, none if value is None else value, self.theta, fold, self._copies, part, out
        )
        return out


class _Given:
    """A Q that was given."""

    remark = ""

    def __init__(self, function: QFunction, name: str, n_actions: int) -> None:
        self._function, self._name, self._n_actions = function, name, n_actions

    def __call__(self, observations: FloatArray, fold: IntArray) -> FloatArray:
        """Return Q [n, K] of observations [n, d]."""
        found = np.asarray(self._function(observations), dtype=np.float64)
        if found.shape != (len(observations), self._n_actions):
            raise InvalidParameter(
                f"q of {self._name!r} must return one value for each row and action, "
                f"({len(observations)}, {self._n_actions}); got shape {found.shape}."
            )
        _validate.finite(f"q of {self._name!r}", found)
        return found


def _given(q: Any, target: Target, log: Log) -> _Given:
    """Return the Q that is given for a target."""
    if isinstance(q, Mapping):
        if target.name not in q:
            raise InvalidParameter(f"q has no entry for target {target.name!r}: {', '.join(q)}.")
        q = q[target.name]
    if not callable(q):
        raise InvalidParameter(
            "q must be a function from observations [n, d] to values [n, K], got "
            f"{type(q).__name__}."
        )
    return _Given(q, target.name, log.n_actions)


class _Values:
    """Q and V in the rows of consecutive pieces."""

    def __init__(
        self, target: Target, fit: CrossFitted | _Given, n_actions: int, gamma: float, beyond: bool
    ) -> None:
        self._target, self._fit, self._n_actions = target, fit, n_actions
        self._gamma, self._beyond, self._now = gamma, beyond, 0
        self._folds = np.uint64(len(fit.theta) if isinstance(fit, CrossFitted) else 1)

    def __call__(self, piece: Piece, pi: FloatArray) -> Values:
        """Return Q(S_t, A_t), V(S_t) and what is to be added to R_t − Q, of the next piece."""
        rows = piece.rows
        mine = (piece.ids % self._folds).astype(np.int64)
        fold = np.concatenate([[self._now], mine])[np.cumsum(rows.starts)]
        self._now = int(fold[-1])
        table = self._fit(rows.observations, fold)
        q = table[np.arange(len(rows)), rows.actions]
        extra = np.zeros(len(rows))
        if self._beyond:
            used = np.zeros(len(rows), dtype=np.bool_)
            used[piece.index] = True
            extra[~used] = q[~used] - rows.rewards[~used]
            cut = np.flatnonzero(piece.continues & (piece.following >= len(rows)))
            if piece.goes_on:
                cut = cut[:-1]
            there, at = piece.following[cut], piece.index[cut]
            if len(cut):
                states = piece.observations[there]
                then = self._target.probabilities(piece, self._n_actions)[there]
                extra[at] = self._gamma * (then * self._fit(states, fold[at])).sum(axis=1)
        return Values(q, (pi * table).sum(axis=1), extra)


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
    """Q of rows [n] and all actions, with the weights of each row's fold."""
    actions, many = copies.shape
    for i in range(len(index)):
        for c in range(many):
            part[c] = 0.0
        for j in range(index.shape[1]):
            size = value[i, j] if len(value) else 1.0
            first = np.int64(index[i, j]) * many
            for c in range(many):
                part[c] += size * theta[fold[i], first + c]
        for a in range(actions):
            total = 0.0
            for c in range(many):
                total += copies[a, c] * part[c]
            out[i, a] = total
