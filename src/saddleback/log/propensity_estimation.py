"""Estimate propensities that were not logged.

An estimated μ̂(a|s) makes every ratio an estimate too. So the log records how μ̂ was estimated, and
all results computed from it repeat that. The calibration table shows how well μ̂ fits: among the
rows in which μ̂ gives an action probability q, the action should be taken in a share q of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from saddleback import _registry, _validate
from saddleback._typing import FloatArray, IntArray, OffsetArray
from saddleback.errors import InvalidParameter
from saddleback.log.arrow_decode import as_floats
from saddleback.log.episode_hashes import BlockNumbers
from saddleback.log.log import Log
from saddleback.log.propensity_checks import TOLERANCE
from saddleback.log.propensity_models import (
    FOLDS,
    MAX_CELLS,
    CrossFittedPolicy,
    cells_of,
    fit_boosting,
    fit_counts,
    fit_logistic,
    grid_edges,
)
from saddleback.policies import Policy

BINS = 10
"""Number of rows of the calibration table."""

BIN_CHOICES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
"""Numbers of cells along each entry to choose from."""

CLASSIFIERS = {
    "logistic": (fit_logistic, "multinomial logistic regression"),
    "boosting": (fit_boosting, "gradient-boosted trees"),
}
METHODS = ("counts", *CLASSIFIERS)

MAX_ROWS = 2_000_000
"""Largest number of rows to fit to; a longer log contributes only every n-th row."""


@dataclass(frozen=True, eq=False)
class Behaviour:
    """An estimated behaviour policy.

    Attributes
    ----------
    policy
        μ̂ fitted to all rows, as a function from observations [n, d] to probabilities [n, K].
    log
        The log with estimated propensities, each from a fit to other episodes.
    calibration
        Arrow table: for each range of μ̂, the number of (row, action) pairs in it, their mean μ̂, and
        the share in which the action was taken. Each fifth of the episodes is compared with a fit
        to the others.
    description
        How μ was estimated; recorded as ``Log.estimated``.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> log = collect(problems.mountain_car(), episodes=50, rng=0)
    >>> estimate_behaviour(log, bins=20).policy(np.array([[-0.5, 0.03]])).round(2)
    array([[0.03, 0.08, 0.89]])
    """

    policy: Policy
    log: Log
    calibration: Any
    description: str


def estimate_behaviour(
    log: Log,
    method: Literal["counts", "logistic", "boosting"] = "counts",
    *,
    bins: int | None = None,
    prior: float = 1.0,
) -> Behaviour:
    """Estimate μ from the logged actions, for logs without propensities.

    By counts, where n(s, a) is the count of a in the cell of s, and q(a) the share of a in the log,

        μ̂(a|s) = (n(s, a) + prior·q(a)) / (n(s) + prior)

    μ̂ is cross-fitted: the rows of each fifth of the episodes get the fit to the others. Folds
    depend on what episodes contain, not on their ids.

    Parameters
    ----------
    log
        The log. If only some of its rows have propensities, these are kept, and the others
        estimated; if all have one, or one is no probability, all are replaced.
    method
        "counts": shares of actions within cells of the observation, a grid of ``bins`` along each
        entry with more distinct values than that. "logistic": multinomial logistic regression,
        "boosting": gradient-boosted trees on histograms; both from scikit-learn
        (``pip install 'saddleback[sklearn]'``).
    bins
        Number of cells along each entry. By default it is chosen by the likelihood of held-out
        episodes, where a finer grid must be better by two standard errors.
    prior
        Pseudo-counts added to every cell, or to the rows of another model, distributed over the
        actions in proportion to their share in the log, so that no logged action has probability 0.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = collect(problems.mountain_car(), episodes=50, rng=0)
    >>> behaviour = estimate_behaviour(car, bins=20)
    >>> behaviour.description
    'counts in a grid of 20 cells along each of 2 entries'
    >>> behaviour.log
    Log(rows=6,142, observation=2, actions=3, propensities estimated)
    """
    _registry.check_name("method", method, METHODS)
    _validate.instance("estimate_behaviour", "log", log, Log)
    if log.has_continuous_actions:
        raise InvalidParameter(
            "estimate_behaviour: the log has continuous actions, whose densities are not "
            "estimated. The marginal estimates of evaluate need none."
        )
    pseudo_count = _validate.non_negative("estimate_behaviour", "prior", prior)
    if bins is not None:
        bins = _validate.count("estimate_behaviour", "bins", bins)
    named = {"actions": log.action_names} if "mu" in log.roles.tables else {}
    bare = log.with_options(behaviour=None, estimated=None, ignore_propensities=True, **named)
    stride = max(1, -(-log.rows // MAX_ROWS))
    decisions = _read_decisions(bare, stride)
    policy, description = _cross_fit(decisions, method, bins, log.n_actions, pseudo_count)
    if stride > 1:
        description += f", from one row in {stride}"
    calibration = _calibration(
        policy.of_episodes(decisions.observations, decisions.ids[decisions.episode]),
        decisions.actions,
    )
    filled = tuple(row for row in calibration.to_pylist() if row["pairs"])
    base = bare
    if _some_missing(log):
        base, description = log, f"{description}, where none was logged"
    estimated = base.with_options(
        behaviour=policy, estimated=description, calibration=filled, **named
    )
    return Behaviour(policy, estimated, calibration, description)


class _Decisions(NamedTuple):
    """Rows to fit to; their episodes, and the hash of the id and the fold of every episode."""

    observations: FloatArray
    actions: IntArray
    episode: IntArray
    ids: OffsetArray
    fold: IntArray

    @property
    def row_fold(self) -> IntArray:
        """Fold of each row."""
        return self.fold[self.episode]


def _read_decisions(log: Log, stride: int) -> _Decisions:
    """Read every ``stride``-th row of a log."""
    observations, actions, episodes, ids, numbers = [], [], [], [], []
    blocks, skip, n_episodes = BlockNumbers(mergeable=False), 0, 0
    for segment in log.segments():
        rows = segment.rows
        observations.append(rows.observations[skip::stride].copy())
        actions.append(rows.actions[skip::stride].copy())
        episodes.append((n_episodes - 1 + np.cumsum(rows.starts))[skip::stride])
        ids.append(segment.ids)
        numbers.append(blocks.of(segment.contents))
        n_episodes += len(segment.first_states)
        skip = (skip - len(rows)) % stride
    if not observations:
        raise InvalidParameter("estimate_behaviour: the log has no usable rows.")
    fold = (np.concatenate(numbers) % np.uint64(FOLDS)).astype(np.int64)
    return _Decisions(
        np.concatenate(observations), np.concatenate(actions), np.concatenate(episodes),
        np.concatenate(ids), fold,
    )  # fmt: skip


def _cross_fit(
    data: _Decisions, method: str, bins: int | None, n_actions: int, prior: float
) -> tuple[CrossFittedPolicy, str]:
    """Fit a model to all rows, and to those outside each fold; return them and a description."""
    shares = np.bincount(data.actions, minlength=n_actions) / len(data.actions)
    if method != "counts" and (shares > 0).sum() < 2:
        raise InvalidParameter(
            "estimate_behaviour: every row has the same action; there is nothing to estimate."
        )
    if method == "counts":
        edges, bins = _choose_grid(data, bins, shares, prior)
        fit = partial(fit_counts, shares=shares, prior=prior, edges=edges)
        d = data.observations.shape[1]
        cells = "1 cell" if bins == 1 else f"{bins} cells"
        entries = "1 entry" if d == 1 else f"{d} entries"
        description = f"counts in a grid of {cells} along each of {entries}"
    else:
        model, description = CLASSIFIERS[method]
        fit = partial(model, shares=shares, prior=prior)
    policy = fit(data.observations, data.actions)
    others = _fit_others(data, fit, policy)
    used = np.unique(data.episode)  # others were not seen, so that the fit to all rows will do
    order = np.argsort(data.ids[used], kind="stable")
    return CrossFittedPolicy(
        policy, others, data.ids[used][order], data.fold[used][order]
    ), description


def _fit_others(
    data: _Decisions, fit: Callable[..., Policy], otherwise: Policy
) -> tuple[Policy, ...]:
    """Return a fit to the rows outside each fold; ``otherwise`` where there are none."""
    policies = []
    for k in range(FOLDS):
        rows = data.row_fold != k
        some = rows.any() and not rows.all()
        policies.append(fit(data.observations[rows], data.actions[rows]) if some else otherwise)
    return tuple(policies)


def _choose_grid(
    data: _Decisions, bins: int | None, shares: FloatArray, prior: float
) -> tuple[list[FloatArray], int]:
    """Return the grid with the given number of bins, or with the largest held-out likelihood."""
    if bins is not None:
        edges = grid_edges(data.observations, bins)
        if cells_of(edges) > MAX_CELLS:
            raise InvalidParameter(
                f"estimate_behaviour: a grid over {len(edges)} entries has too many cells; use "
                'fewer bins, or method="logistic" or "boosting".'
            )
        return edges, bins
    best: FloatArray | None = None
    chosen: tuple[list[FloatArray], int] = ([], 1)
    for candidate in BIN_CHOICES:
        edges = grid_edges(data.observations, candidate)
        if cells_of(edges) > MAX_CELLS or cells_of(edges) == cells_of(chosen[0]) > 1:
            continue
        fit = partial(fit_counts, shares=shares, prior=max(prior, 1e-3), edges=edges)
        likelihood = np.empty(len(data.actions))
        for k, policy in enumerate(_fit_others(data, fit, fit(data.observations, data.actions))):
            rows = np.flatnonzero(data.row_fold == k)
            if len(rows):
                mu = np.asarray(policy(data.observations[rows]))
                likelihood[rows] = np.log(mu[np.arange(len(rows)), data.actions[rows]])
        gain = likelihood if best is None else likelihood - best
        if best is None or gain.sum() > 2.0 * np.sqrt((gain**2).sum()):
            best, chosen = likelihood, (edges, candidate)
    return chosen


def _some_missing(log: Log) -> bool:
    """Whether some rows, but not all, have a logged propensity, and all these are valid."""
    names = log.roles.names
    role = next((role for role in names if role.startswith("behavior_")), None)
    if role is None:
        return False
    low, high = (-np.inf, 0.0) if role == "behavior_logp" else (0.0, 1.0)
    missing = 0
    for source in log.sources:
        for batch in source.batches([names[role]]):
            values = as_floats(batch.column(0))
            if ((values < low) | (values > high + TOLERANCE)).any():
                return False
            missing += int(np.isnan(values).sum())
    return 0 < missing < log.rows


def _calibration(predicted: FloatArray, actions: IntArray) -> Any:
    """Compare probabilities [n, K] with frequencies in bins of equal width."""
    taken = np.eye(predicted.shape[1])[actions]
    bin_index = np.minimum((predicted * BINS).astype(np.int64), BINS - 1).ravel()
    count = np.bincount(bin_index, minlength=BINS)
    divisor = np.maximum(count, 1)
    return pa.table(
        {
            "from": np.arange(BINS) / BINS,
            "to": (np.arange(BINS) + 1) / BINS,
            "pairs": count,
            "estimated": np.bincount(bin_index, predicted.ravel(), minlength=BINS) / divisor,
            "taken": np.bincount(bin_index, taken.ravel(), minlength=BINS) / divisor,
        }
    )
