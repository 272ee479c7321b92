"""Estimate propensities that were not logged.

An estimated μ̂(a|s) makes every ratio an estimate too. So the log records how μ̂ was estimated, and
all results computed from it repeat that. The calibration table shows how well μ̂ fits: among the
rows in which μ̂ gives an action probability q, the action should be taken in a share q of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from saddleback import _registry, _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.log.arrow_decode import as_floats
from saddleback.log.log import Log
from saddleback.policies import Policy

BINS = 10
"""Number of rows of the calibration table."""

MAX_ROWS = 2_000_000
"""Largest number of rows to fit to; a longer log contributes only every n-th row."""


@dataclass(frozen=True, eq=False)
class Behaviour:
    """An estimated behaviour policy.

    Attributes
    ----------
    policy
        μ̂ as a function from observations [n, d] to probabilities [n, K].
    log
        The log with these propensities, recorded as estimated.
    calibration
        Arrow table: for each range of μ̂, the number of (row, action) pairs in it, their mean μ̂, and
        the share in which the action was taken. μ̂ is cross-fitted: each half of the episodes is
        compared with a fit to the other half.
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
    method: Literal["counts", "logistic"] = "counts",
    *,
    bins: int = 10,
    prior: float = 1.0,
) -> Behaviour:
    """Estimate μ from the logged actions, for logs without propensities.

    By counts, where n(s, a) is the count of a in the cell of s, and q(a) the share of a in the log,

        μ̂(a|s) = (n(s, a) + prior·q(a)) / (n(s) + prior)

    Parameters
    ----------
    log
        The log. If only some of its rows have propensities, these are kept, and the others
        estimated; if all have one, all are replaced.
    method
        "counts": shares of actions within cells of the observation, a grid of ``bins`` along each
        entry with more distinct values than that. "logistic": multinomial logistic regression, from
        scikit-learn (``pip install 'saddleback[sklearn]'``).
    bins
        Number of cells along each entry.
    prior
        Pseudo-counts added to every cell, distributed over the actions in proportion to their share
        in the log, so that no logged action has probability 0.

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
    _registry.check_name("method", method, ("counts", "logistic"))
    _validate.instance("estimate_behaviour", "log", log, Log)
    if log.has_continuous_actions:
        raise InvalidParameter(
            "estimate_behaviour: the log has continuous actions, whose densities are not "
            "estimated. The marginal estimates of evaluate need none."
        )
    named = {"actions": log.action_names} if "mu" in log.roles.tables else {}
    bare = log.with_options(behaviour=None, estimated=None, ignore_propensities=True, **named)
    stride = max(1, -(-log.rows // MAX_ROWS))
    all_observations, all_actions, all_episodes, skip, n_episodes = [], [], [], 0, 0
    for segment in bare.segments():
        rows = segment.rows
        all_observations.append(rows.observations[skip::stride].copy())
        all_actions.append(rows.actions[skip::stride].copy())
        all_episodes.append((n_episodes + np.cumsum(rows.starts))[skip::stride])
        n_episodes += len(segment.first_states)
        skip = (skip - len(rows)) % stride
    if not all_observations:
        raise InvalidParameter("estimate_behaviour: the log has no usable rows.")
    observations, actions = np.concatenate(all_observations), np.concatenate(all_actions)
    episode = np.concatenate(all_episodes)
    n_bins = _validate.count("estimate_behaviour", "bins", bins)
    pseudo_count = _validate.non_negative("estimate_behaviour", "prior", prior)

    def fit(rows: Any) -> tuple[Policy, str]:
        data = observations[rows], actions[rows]
        if method == "counts":
            return _fit_counts(*data, log.n_actions, n_bins, pseudo_count)
        return _fit_logistic(*data, log.n_actions)

    policy, description = fit(slice(None))
    folds = [fit(episode % 2 != k)[0] if (episode % 2 != k).any() else policy for k in (0, 1)]
    if stride > 1:
        description += f", from one row in {stride}"
    calibration = _calibration(folds, observations, actions, episode)
    filled = tuple(row for row in calibration.to_pylist() if row["pairs"])
    base = bare
    if _some_missing(log):
        base, description = log, f"{description}, where none was logged"
    estimated = base.with_options(
        behaviour=policy, estimated=description, calibration=filled, **named
    )
    return Behaviour(policy, estimated, calibration, description)


def _some_missing(log: Log) -> bool:
    """Whether some rows, but not all, have a logged propensity."""
    column = next((c for r, c in log.roles.names.items() if r.startswith("behavior_")), None)
    if column is None:
        return False
    missing = 0
    for source in log.sources:
        for batch in source.batches([column]):
            missing += int(np.isnan(as_floats(batch.column(0))).sum())
    return 0 < missing < log.rows


def _fit_counts(
    observations: FloatArray, actions: Any, n_actions: int, bins: int, prior: float
) -> tuple[Policy, str]:
    edges = []
    for column in observations.T:
        values = np.unique(column)
        if len(values) > bins:
            values = np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1])
            edges.append(np.unique(values))
        else:
            edges.append((values[1:] + values[:-1]) / 2)
    sizes = [len(edge) + 1 for edge in edges]
    if np.prod([float(s) for s in sizes]) > 2**62:
        raise InvalidParameter(
            f"estimate_behaviour: a grid over {len(sizes)} entries has too many cells; use fewer "
            'bins, or method="logistic".'
        )

    def cell(states: FloatArray) -> Any:
        bins = [np.searchsorted(e, c, side="right") for e, c in zip(edges, states.T, strict=True)]
        return np.ravel_multi_index(bins, sizes)

    overall = np.bincount(actions, minlength=n_actions) / len(actions)
    cells, row = np.unique(cell(observations), return_inverse=True)
    table = np.zeros((len(cells) + 1, n_actions))
    np.add.at(table, (row, actions), 1.0)
    table += max(prior, 1e-300) * overall
    table /= table.sum(axis=1, keepdims=True)

    def policy(states: FloatArray) -> FloatArray:
        index = cell(np.asarray(states, dtype=np.float64))
        row = np.minimum(np.searchsorted(cells, index), len(cells) - 1)
        return table[np.where(cells[row] == index, row, len(cells))]

    plural = "entry" if len(sizes) == 1 else "entries"
    return policy, f"counts in a grid of {bins} cells along each of {len(sizes)} {plural}"


def _fit_logistic(observations: FloatArray, actions: Any, n_actions: int) -> tuple[Policy, str]:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        raise InvalidParameter(
            "estimate_behaviour: method='logistic' needs scikit-learn: "
            "pip install 'saddleback[sklearn]'."
        ) from None
    if len(np.unique(actions)) < 2:
        raise InvalidParameter(
            "estimate_behaviour: every row has the same action; there is nothing to estimate."
        )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(observations, actions)

    def policy(states: FloatArray) -> FloatArray:
        probabilities = np.zeros((len(states), n_actions))
        probabilities[:, model.classes_] = model.predict_proba(states)
        return probabilities

    return policy, "multinomial logistic regression"


def _calibration(
    folds: Sequence[Policy], observations: FloatArray, actions: Any, episode: Any
) -> Any:
    """Compare probabilities with frequencies in bins of equal width, on held-out episodes."""
    halves = [(policy, np.flatnonzero(episode % 2 == k)) for k, policy in enumerate(folds)]
    halves = [(policy, rows) for policy, rows in halves if len(rows)]
    predicted = np.concatenate([np.asarray(policy(observations[rows])) for policy, rows in halves])
    taken = np.eye(predicted.shape[1])[np.concatenate([actions[rows] for _, rows in halves])]
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
