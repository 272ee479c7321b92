"""Importance sampling: the value of a policy as a weighted mean over the episodes of a log.

Weights are products of ρ_t = π(A_t|S_t)/μ(A_t|S_t) (Precup, Sutton & Singh 2000). IS and PDIS are
unbiased: a ratio has mean 1 given the past, so E[w_{T−1} R_t] = E[w_t R_t] = E_π[R_t]. WIS and
PDWIS are consistent, with lower variance. In PDWIS an episode that ended before step t keeps its
last weight, with R = 0, as if it stayed in an absorbing state without reward. (If it were left out,
each step would average over longer episodes only.)

Every row counts, including the last of a truncated episode. Nothing is bootstrapped: with truncated
episodes the estimand is the value over the logged steps, and it is labelled so.

Intervals: Student's t for IS and PDIS, which are means over independent episodes; for WIS and PDWIS
the delta method over episodes, which is Student's t for the mean of the scores

    ψ_i = n (w_i/Σw)(G_i − WIS)    and    ψ_i = Σ_t γ^t n (w_t/Σw_t)(R_t − PDWIS_t).

All take one pass over the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress, part_of
from saddleback._typing import FloatArray, OffsetArray
from saddleback.errors import ESTIMATE_PROPENSITIES, InvalidParameter
from saddleback.features import Features
from saddleback.log import Finding, Log, Segment, Target
from saddleback.log.diagnostics import raise_errors
from saddleback.log.target_policies import as_targets
from saddleback.ope import confidence_bounds
from saddleback.ope.cumulative_weights import (
    FIRST,
    LOG,
    MASS,
    PEAK,
    RETURN,
    TOTAL,
    CumulativeWeights,
)
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.log_counts import ActionSupport
from saddleback.ope.log_pass import EncodeOnce, Job, SegmentBatch, read_log


class RowValues(NamedTuple):
    """Q(S_t, A_t), V(S_t), and the term added to R_t − Q, for each row, [n]."""

    q: FloatArray
    v: FloatArray
    extra: FloatArray


class ControlVariate(Protocol):
    """A Q used as a control variate."""

    remark: str
    bootstrap_truncated: bool

    def values(self, batch: SegmentBatch, pi: FloatArray) -> RowValues:
        """Return Q and V in the rows of the next segment, given π there, [n, K]."""


def importance_sampling(
    log: Log,
    targets: Any,
    *,
    gamma: float,
    allow_uncovered: bool = False,
    progress: Progress | None = None,
) -> dict[str, Trajectories]:
    """Weigh the episodes of a log for target policies: IS, PDIS, WIS and PDWIS.

    With w_t = ρ_0 ⋯ ρ_t, means over the n episodes or means weighted by w:

        IS   = 1/n Σ_i w_{T−1} Σ_t γ^t R_t        WIS   = Σ_i w_{T−1} Σ_t γ^t R_t / Σ_i w_{T−1}
        PDIS = 1/n Σ_i Σ_t γ^t w_t R_t            PDWIS = Σ_t γ^t (Σ_i w_t R_t / Σ_i w_t)

    Parameters
    ----------
    log
        The log; it must have propensities.
    targets
        A target policy (see `saddleback.log.as_target`), or several by name in a dict.
    gamma
        Discount.
    allow_uncovered
        Continue where π takes actions that the log never takes; estimates are then biased.
    progress
        Called with the fraction of the work done and its phase.

    Returns
    -------
    dict
        `Trajectories` by target name; ``estimates()`` gives the numbers.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=500, rng=0)
    >>> weighted = importance_sampling(log, "pump:0.8", gamma=0.99)["pump:0.8"]
    >>> weighted.estimate("PDIS")  # the true value is −79.83
    WeightedEstimate(PDIS of pump:0.8: -20.06 [-28.46, -11.67], V^π, ESS 2.3 of 500, k-hat 1.69)
    """
    check_weighting(log, gamma)
    jobs = [WeightReducer(log, target, gamma) for target in as_targets(targets, log)]
    return weigh_episodes(log, jobs, allow_uncovered, progress=progress)


def check_weighting(log: Log, gamma: float) -> None:
    """Raise if the episodes of a log cannot be weighted."""
    _validate.instance("importance sampling", "log", log, Log)
    _validate.unit("importance sampling", "gamma", gamma)
    if not log.propensity:
        raise InvalidParameter(
            "importance sampling needs propensities, and the log has none. Rules without "
            "importance ratios, such as GES(0) or GTB, need none.",
            ESTIMATE_PROPENSITIES,
        )


def weigh_episodes(
    log: Log,
    reducers: Sequence[WeightReducer],
    allow_uncovered: bool,
    features: Features | None = None,
    progress: Progress | None = None,
) -> dict[str, Trajectories]:
    """Read a log once, and return its weighted episodes by target."""
    targets = [reducer.target for reducer in reducers]
    once = None if features is None else EncodeOnce(features)
    read_log(log, reducers, targets, once, progress=part_of(progress, 0.0, 1.0))
    uncovered = [reducer.uncovered(allow_uncovered) for reducer in reducers]
    raise_errors(finding for finding in uncovered if finding is not None)
    return {reducer.target.name: reducer.result(allow_uncovered) for reducer in reducers}


class WeightReducer:
    """Weighs the episodes of a log for one target policy."""

    def __init__(
        self, log: Log, target: Target, gamma: float, q: ControlVariate | None = None
    ) -> None:
        self.target = target
        self._log, self._gamma, self._q = log, float(gamma), q
        self._weights = CumulativeWeights(self._gamma)
        self._support = ActionSupport(target.name, log.action_names)
        self._numbers: list[OffsetArray] = []
        self._truncated, self._rewards = 0, (np.inf, -np.inf)

    def add(self, batch: SegmentBatch) -> Iterable[Job]:
        """Return the work of adding the next segment."""
        if not len(batch.segment.rows):
            return ()
        return [partial(self._weigh, batch, batch.row_pi(self.target))]

    def _weigh(self, batch: SegmentBatch, pi: FloatArray) -> None:
        """Add the next segment, with π on its rows."""
        segment, rows = batch.segment, batch.segment.rows
        assert rows.propensity is not None
        self._numbers.append(batch.block_numbers[1:])
        self._truncated += _count_truncated(segment, self._log.time_limit == "task")
        low, high = self._rewards
        self._rewards = min(low, rows.rewards.min()), max(high, rows.rewards.max())
        zeros = np.zeros(len(rows))
        self._support.add(segment, pi, segment.tables.get("mu"))
        values = RowValues(zeros, zeros, zeros) if self._q is None else self._q.values(batch, pi)
        with np.errstate(divide="ignore"):
            log_rho = np.log(pi[np.arange(len(rows)), rows.actions]) - np.log(rows.propensity)
        self._weights.add(segment, log_rho, rows.rewards + values.extra, values.q, values.v)

    def uncovered(self, allowed: bool) -> Finding | None:
        """Return a warning or an error if some of π's probability is not covered."""
        return self._support.finding(allowed)

    def result(self, allow_uncovered: bool) -> Trajectories:
        """Return the weighted episodes, after the last segment."""
        ids = np.concatenate([np.zeros(0, dtype=np.uint64), *self._numbers])
        confidence_bounds.require_two_episodes(len(ids))
        weights = self._weights
        weights.close()
        gap, declared = self.uncovered(allow_uncovered), self._log.metadata.get("reward_bounds")
        remarks = ["" if self._q is None else self._q.remark, "" if gap is None else gap.message]
        return Trajectories(
            target=self.target.name,
            gamma=self._gamma,
            ids=ids,
            log_weights=weights.episodes[:, LOG].copy(),
            peaks=weights.episodes[:, PEAK].copy(),
            lengths=weights.lengths,
            returns=weights.episodes[:, RETURN].copy(),
            mass=weights.episodes[:, MASS].copy(),
            totals=weights.episodes[:, TOTAL].copy(),
            starts=weights.episodes[:, FIRST].copy(),
            normalised=weights.value,
            scores=weights.scores,
            ess_by_step=weights.steps.ess,
            truncated=self._truncated,
            rewards=(float(self._rewards[0]), float(self._rewards[1])),
            declared_rewards=None if declared is None else tuple(declared),
            has_q=self._q is not None,
            bootstrap_truncated=self._q is not None and self._q.bootstrap_truncated,
            remark="; ".join(filter(None, remarks)),
            estimated=self._log.estimated,
        )


def _count_truncated(segment: Segment, task: bool) -> int:
    """Number of episodes in a segment that stop without terminating."""
    rows = segment.rows
    last = np.append(rows.starts[1:], not segment.continues_in_next)
    ended = rows.terminated | (rows.truncated & task)
    return int((last & ~ended).sum())
