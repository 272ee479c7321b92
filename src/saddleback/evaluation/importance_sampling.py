"""Importance sampling: the value of a policy as a weighted mean over the episodes of a log.

Weights are products of ρ_t = π(A_t|S_t)/μ(A_t|S_t) (Precup, Sutton & Singh 2000). IS and PDIS are
unbiased: a ratio has mean 1 given the past, so E[w_{T−1} R_t] = E[w_t R_t] = E_π[R_t]. WIS and
PDWIS are consistent, and vary less. In PDWIS an episode that ended before step t keeps its last
weight, with R = 0: it goes on without reward in a state that it never leaves. (Left out instead,
each step would be a mean over longer episodes only.)

Every row counts, also the last of a truncated episode. Nothing is bootstrapped: with truncated
episodes all these estimate the value of as many steps as were logged, and say so.

Intervals: Student's t for IS and PDIS, which are means over independent episodes; for WIS and PDWIS
the delta method over episodes, which is Student's t for the mean of the scores

    ψ_i = n (w_i/Σw)(G_i − WIS)    and    ψ_i = Σ_t γ^t n (w_t/Σw_t)(R_t − PDWIS_t).

The estimates come from one pass over the log; the scores of PDWIS need its value at each step, so
they are found in a second.
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
from saddleback.evaluation import confidence_bounds
from saddleback.evaluation.cumulative_weights import GAIN, LOG, MASS, PEAK, TOTAL, Walk
from saddleback.evaluation.episode_weights import Trajectories
from saddleback.evaluation.log_counts import Coverage
from saddleback.log import Log, Piece, Target, as_target
from saddleback.log.diagnostics import refuse


class Values(NamedTuple):
    """Q(S_t, A_t), V(S_t), and what is to be added to R_t − Q, for each row, [n]."""

    q: FloatArray
    v: FloatArray
    extra: FloatArray


@dataclass(frozen=True, eq=False)
class Job:
    """A target policy, and the Q that is to help, if any.

    ``values`` takes the next piece, and π where its actions were taken [n, K].
    """

    target: Target
    values: Callable[[Piece, FloatArray], Values] | None = None
    beyond: bool = False
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
        The log; it must hold the probabilities of its actions.
    targets
        A target policy (see `saddleback.log.as_target`), or several by name in a dict.
    gamma
        Discount.
    allow_uncovered
        Go on where π takes actions that the log never takes; estimates are biased then.
    progress
        Called with the fraction of the work that is done, and its phase.

    Returns
    -------
    dict
        `Trajectories` by the name of the target; their ``estimates()`` are the numbers.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=500, rng=0)
    >>> found = importance_sampling(log, "pump:0.8", gamma=0.99)["pump:0.8"]
    >>> found.estimate("PDIS")  # the truth is −79.83
    Weighted(PDIS of pump:0.8: -20.06 [-28.46, -11.67], V^π, ESS 2.3 of 500, k-hat 1.69)
    """
    jobs = [Job(each) for each in policies(log, targets)]
    found = walk(log, jobs, gamma, allow_uncovered, progress)
    return {each.target: each for each in found}


def policies(log: Log, targets: Any) -> list[Target]:
    """Return target policies, however they are given."""
    _validate.instance("importance sampling", "log", log, Log)
    named = targets if isinstance(targets, Mapping) else {None: targets}
    if not named:
        raise InvalidParameter("there is no target policy to evaluate: give at least one.")
    for name in named:
        if name is not None and not isinstance(name, str):
            raise InvalidParameter(f"names of target policies must be text, got {name!r}.")
    found = [as_target(given, log, name) for name, given in named.items()]
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise InvalidParameter(f"target policies need different names, got {names}.")
    return found


def walk(
    log: Log,
    jobs: Sequence[Job],
    gamma: float,
    allow_uncovered: bool,
    progress: Progress | None = None,
) -> list[Trajectories]:
    """Read a log twice: for estimates, and for scores."""
    discount = _validate.unit("importance sampling", "gamma", gamma)
    if not log.propensity:
        raise InvalidParameter(
            "importance sampling needs the probabilities of the logged actions, and the log has "
            "none: add behavior_prob, or estimate them, estimate_behaviour(log). Rules without "
            "ratios, such as GES(0) or GTB, do without."
        )
    walks = [Walk(discount) for _ in jobs]
    coverage = [Coverage(job.target.name, log.action_names) for job in jobs]
    ids, truncated, least, greatest = [], 0, np.inf, -np.inf
    for piece, each in _rows(log, jobs, part_of(progress, 0.0, 0.5)):
        ids.append(piece.ids)
        truncated += _cut_short(piece, log.time_limit == "task")
        rewards = piece.rows.rewards
        least, greatest = min(least, rewards.min()), max(greatest, rewards.max())
        for one, covered, (pi, log_rho, values) in zip(walks, coverage, each, strict=True):
            covered.add(piece, pi, piece.tables.get("mu"))
            gain = rewards + values.extra
            one.add(piece.rows.starts, log_rho, gain, values.q, values.v, rewards, piece.goes_on)
    uncovered = [each.finding(allow_uncovered) for each in coverage]
    refuse(each for each in uncovered if each is not None)
    confidence_bounds.enough(sum(map(len, ids)))
    for one in walks:
        one.close()
    for piece, each in _rows(log, jobs, part_of(progress, 0.5, 1.0)):
        for one, (_, log_rho, values) in zip(walks, each, strict=True):
            gain = piece.rows.rewards + values.extra
            one.add_scores(piece.rows.starts, log_rho, gain, values.q, values.v, piece.goes_on)
    declared = log.metadata.get("reward_bounds")
    return [
        Trajectories(
            target=job.target.name,
            gamma=discount,
            ids=np.concatenate(ids),
            log_weights=one.episodes[:, LOG].copy(),
            peaks=one.episodes[:, PEAK].copy(),
            lengths=one.lengths,
            gains=one.episodes[:, GAIN].copy(),
            mass=one.episodes[:, MASS].copy(),
            totals=one.episodes[:, TOTAL].copy(),
            normalised=one.value,
            scores=one.scores,
            ess_by_step=one.ess,
            truncated=truncated,
            rewards=(float(least), float(greatest)),
            declared=None if declared is None else tuple(declared),
            robust=job.values is not None,
            beyond=job.beyond,
            remark="; ".join(filter(None, [job.remark, "" if none is None else none.message])),
            estimated=log.estimated,
        )
        for job, one, none in zip(jobs, walks, uncovered, strict=True)
    ]


def _rows(
    log: Log, jobs: Sequence[Job], progress: Progress | None
) -> Iterator[tuple[Piece, list[tuple[FloatArray, FloatArray, Values]]]]:
    """Return pieces, and for each job π and log ρ of their rows, with the values that help."""
    tables = [table for job in jobs for table in job.target.tables]
    for piece in log.pieces(tables, progress):
        rows, asked = piece.rows, {}
        assert rows.propensity is not None
        at, none = (np.arange(len(rows)), rows.actions), np.zeros(len(rows))
        logs = np.log(rows.propensity)
        found = []
        for job in jobs:
            if job.target.name not in asked:
                asked[job.target.name] = in_rows(job.target, piece, log.n_actions)
            pi = asked[job.target.name]
            with np.errstate(divide="ignore"):
                log_rho = np.log(pi[at]) - logs
            values = Values(none, none, none) if job.values is None else job.values(piece, pi)
            found.append((pi, log_rho, values))
        yield piece, found


def in_rows(target: Target, piece: Piece, n_actions: int) -> FloatArray:
    """Return π [n, K] where actions were taken; what truncated rows lead to does not matter."""
    if target.table is not None:
        return piece.rows.tables[target.table]
    return target.at(piece.rows.observations, n_actions)


def _cut_short(piece: Piece, task: bool) -> int:
    """How many episodes end here without having come to their end."""
    rows = piece.rows
    last = np.append(rows.starts[1:], not piece.goes_on)
    ended = rows.terminated | (rows.truncated & task)
    return int((last & ~ended).sum())
