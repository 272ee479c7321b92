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

The estimates take one pass over the log; the scores of PDWIS need its value at each step, and take
a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from saddleback import _validate
from saddleback._progress import Progress, part_of
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log import Log, Segment, Target, as_target
from saddleback.log.diagnostics import raise_errors
from saddleback.ope import confidence_bounds
from saddleback.ope.cumulative_weights import (
    LOG,
    MASS,
    PEAK,
    RETURN,
    TOTAL,
    CumulativeWeights,
    WeightedRows,
)
from saddleback.ope.episode_weights import Trajectories
from saddleback.ope.log_counts import ActionSupport


class RowValues(NamedTuple):
    """Q(S_t, A_t), V(S_t), and the term added to R_t − Q, for each row, [n]."""

    q: FloatArray
    v: FloatArray
    extra: FloatArray


@dataclass(frozen=True, eq=False)
class WeightingJob:
    """A target policy, and the Q used as a control variate, if any.

    ``values`` receives the next segment, and π in the states of its rows [n, K].
    """

    target: Target
    values: Callable[[Segment, FloatArray], RowValues] | None = None
    bootstrap_truncated: bool = False
    remark: str = ""


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
    jobs = [WeightingJob(target) for target in resolve_targets(log, targets)]
    weighted = weigh_episodes(log, jobs, gamma, allow_uncovered, progress)
    return {trajectories.target: trajectories for trajectories in weighted}


def resolve_targets(log: Log, targets: Any) -> list[Target]:
    """Return target policies from any accepted form; names must be distinct."""
    _validate.instance("importance sampling", "log", log, Log)
    named = targets if isinstance(targets, Mapping) else {None: targets}
    if not named:
        raise InvalidParameter("no target policy: pass at least one.")
    for name in named:
        if name is not None and not isinstance(name, str):
            raise InvalidParameter(f"names of target policies must be strings, got {name!r}.")
    resolved = [as_target(given, log, name) for name, given in named.items()]
    names = [target.name for target in resolved]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"target policies need different names, got {names}.")
    return resolved


def weigh_episodes(
    log: Log,
    jobs: Sequence[WeightingJob],
    gamma: float,
    allow_uncovered: bool,
    progress: Progress | None = None,
) -> list[Trajectories]:
    """Read a log twice: for the estimates, and for the scores of episodes."""
    discount = _validate.unit("importance sampling", "gamma", gamma)
    if not log.propensity:
        raise InvalidParameter(
            "importance sampling needs propensities, and the log has none: add behavior_prob, or "
            "estimate them: estimate_behaviour(log). Rules without importance ratios, such as "
            "GES(0) or GTB, need no propensities."
        )
    sums = [CumulativeWeights(discount) for _ in jobs]
    supports = [ActionSupport(job.target.name, log.action_names) for job in jobs]
    ids, truncated, smallest, largest = [], 0, np.inf, -np.inf
    for segment, inputs in _rows(log, jobs, part_of(progress, 0.0, 0.5)):
        ids.append(segment.ids)
        truncated += _count_truncated(segment, log.time_limit == "task")
        rewards = segment.rows.rewards
        smallest, largest = min(smallest, rewards.min()), max(largest, rewards.max())
        for total, support, (pi, rows) in zip(sums, supports, inputs, strict=True):
            support.add(segment, pi, segment.tables.get("mu"))
            total.add(rows, segment.continues_in_next)
    uncovered = [support.finding(allow_uncovered) for support in supports]
    raise_errors(finding for finding in uncovered if finding is not None)
    confidence_bounds.require_two_episodes(sum(map(len, ids)))
    for total in sums:
        total.close()
    for segment, inputs in _rows(log, jobs, part_of(progress, 0.5, 1.0)):
        for total, (_, rows) in zip(sums, inputs, strict=True):
            total.add_scores(rows, segment.continues_in_next)
    declared = log.metadata.get("reward_bounds")
    return [
        Trajectories(
            target=job.target.name,
            gamma=discount,
            ids=np.concatenate(ids),
            log_weights=total.episodes[:, LOG].copy(),
            peaks=total.episodes[:, PEAK].copy(),
            lengths=total.lengths,
            returns=total.episodes[:, RETURN].copy(),
            mass=total.episodes[:, MASS].copy(),
            totals=total.episodes[:, TOTAL].copy(),
            normalised=total.value,
            scores=total.scores,
            ess_by_step=total.steps.ess,
            truncated=truncated,
            rewards=(float(smallest), float(largest)),
            declared_rewards=None if declared is None else tuple(declared),
            has_q=job.values is not None,
            bootstrap_truncated=job.bootstrap_truncated,
            remark="; ".join(filter(None, [job.remark, "" if gap is None else gap.message])),
            estimated=log.estimated,
        )
        for job, total, gap in zip(jobs, sums, uncovered, strict=True)
    ]


def _rows(
    log: Log, jobs: Sequence[WeightingJob], progress: Progress | None
) -> Iterator[tuple[Segment, list[tuple[FloatArray, WeightedRows]]]]:
    """Yield segments, and for each job π and the rows with log ρ, Q and V."""
    tables = [table for job in jobs for table in job.target.tables]
    for segment in log.segments(tables, progress):
        rows, probabilities = segment.rows, {}
        assert rows.propensity is not None
        at, zeros = (np.arange(len(rows)), rows.actions), np.zeros(len(rows))
        logs = np.log(rows.propensity)
        inputs = []
        for job in jobs:
            if job.target.name not in probabilities:
                probabilities[job.target.name] = row_probabilities(
                    job.target, segment, log.n_actions
                )
            pi = probabilities[job.target.name]
            with np.errstate(divide="ignore"):
                log_rho = np.log(pi[at]) - logs
            values = RowValues(zeros, zeros, zeros)
            if job.values is not None:
                values = job.values(segment, pi)
            gain = rows.rewards + values.extra
            inputs.append(
                (pi, WeightedRows(rows.starts, log_rho, gain, values.q, values.v, rows.rewards))
            )
        yield segment, inputs


def row_probabilities(target: Target, segment: Segment, n_actions: int) -> FloatArray:
    """Return π [n, K] in the states where actions were taken."""
    if target.table is not None:
        return segment.rows.tables[target.table]
    return target.at(segment.rows.observations, n_actions)


def _count_truncated(segment: Segment, task: bool) -> int:
    """Number of episodes in a segment that stop without terminating."""
    rows = segment.rows
    last = np.append(rows.starts[1:], not segment.continues_in_next)
    ended = rows.terminated | (rows.truncated & task)
    return int((last & ~ended).sum())
