"""Propensities that were not logged: estimated from the log itself, and said to be.

An estimated μ̂(a|s) makes every ratio an estimate too. So the log is stamped, and the stamp is on
all that is computed from it; and the calibration table says how well μ̂ fits: among rows to which
it gives an action probability q, the action should be taken in a share q of them.
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
from saddleback.log.log import Log
from saddleback.policies import Policy

BINS = 10
"""Rows of the calibration table."""

MOST_ROWS = 2_000_000
"""Rows that are held in memory to fit a classifier; of a longer log every so-manieth is used."""


@dataclass(frozen=True, eq=False)
class Behaviour:
    """An estimated behaviour policy.

    Attributes
    ----------
    policy
        μ̂ as a function from observations [n, d] to probabilities [n, K].
    log
        The log with these propensities, stamped as estimated.
    calibration
        Arrow table: for each range of μ̂, how many (row, action) pairs are in it, the mean μ̂ there
        and the share in which the action was taken. Each half of the episodes is judged by what was
        fitted to the other half.
    how
        The stamp.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> found = estimate_behaviour(collect(problems.mountain_car(), episodes=50, rng=0), bins=20)
    >>> found.policy(np.array([[-0.5, 0.03]])).round(2)
    array([[0.03, 0.08, 0.89]])
    """

    policy: Policy
    log: Log
    calibration: Any
    how: str


def estimate_behaviour(
    log: Log,
    method: Literal["counts", "logistic"] = "counts",
    *,
    bins: int = 10,
    prior: float = 1.0,
) -> Behaviour:
    """Estimate μ from the actions of a log whose propensities are missing.

    By counts, with n(s, a) of the cell that s is in, and q(a) the share of a in the log,

        μ̂(a|s) = (n(s, a) + prior·q(a)) / (n(s) + prior)

    Parameters
    ----------
    log
        The log; propensities it has are not used.
    method
        "counts": shares of actions within cells of the observation, a grid of ``bins`` along each
        entry that takes more values than that. "logistic": multinomial logistic regression, from
        scikit-learn (``pip install 'saddleback[sklearn]'``).
    bins
        Cells along each entry.
    prior
        Counted for each action in every cell besides the data, in proportion to how often it is
        taken in the whole log, so that none has probability 0.

    Examples
    --------
    >>> from saddleback import problems
    >>> from saddleback.log import collect
    >>> car = collect(problems.mountain_car(), episodes=50, rng=0)
    >>> found = estimate_behaviour(car, bins=20)
    >>> found.how
    'counts in a grid of 20 cells along each of 2 entries'
    >>> found.log
    Log(rows=6,142, observation=2, actions=3, propensities estimated)
    """
    _registry.check_name("method", method, ("counts", "logistic"))
    _validate.instance("estimate_behaviour", "log", log, Log)
    fresh = log.but(
        behaviour=None, estimated=None, ignore_propensities=True, actions=log.action_names
    )
    every = max(1, -(-log.rows // MOST_ROWS))
    seen, taken, number, skip, begun = [], [], [], 0, 0
    for piece in fresh.pieces():
        seen.append(piece.rows.observations[skip::every].copy())
        taken.append(piece.rows.actions[skip::every].copy())
        number.append((begun + np.cumsum(piece.rows.starts))[skip::every])
        begun += len(piece.first_states)
        skip = (skip - len(piece.rows)) % every
    if not seen:
        raise InvalidParameter("estimate_behaviour: the log has no row that can be used.")
    observations, actions = np.concatenate(seen), np.concatenate(taken)
    episode = np.concatenate(number)
    cells = _validate.count("estimate_behaviour", "bins", bins)
    weight = _validate.non_negative("estimate_behaviour", "prior", prior)

    def fitted(rows: Any) -> tuple[Policy, str]:
        some = observations[rows], actions[rows]
        if method == "counts":
            return _counts(*some, log.n_actions, cells, weight)
        return _logistic(*some, log.n_actions)

    policy, how = fitted(slice(None))
    folds = [fitted(episode % 2 != k)[0] if (episode % 2 != k).any() else policy for k in (0, 1)]
    if every > 1:
        how += f", from one row in {every}"
    stamped = fresh.but(behaviour=policy, estimated=how)
    return Behaviour(policy, stamped, _calibration(folds, observations, actions, episode), how)


def _counts(
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
            f"estimate_behaviour: {len(sizes)} entries make too many cells; use fewer bins, or "
            'method="logistic".'
        )

    def cell(given: FloatArray) -> Any:
        places = [np.searchsorted(e, c, side="right") for e, c in zip(edges, given.T, strict=True)]
        return np.ravel_multi_index(places, sizes)

    overall = np.bincount(actions, minlength=n_actions) / len(actions)
    known, at = np.unique(cell(observations), return_inverse=True)
    table = np.zeros((len(known) + 1, n_actions))
    np.add.at(table, (at, actions), 1.0)
    table += max(prior, 1e-300) * overall
    table /= table.sum(axis=1, keepdims=True)

    def policy(given: FloatArray) -> FloatArray:
        which = cell(np.asarray(given, dtype=np.float64))
        place = np.minimum(np.searchsorted(known, which), len(known) - 1)
        return table[np.where(known[place] == which, place, len(known))]

    plural = "entry" if len(sizes) == 1 else "entries"
    return policy, f"counts in a grid of {bins} cells along each of {len(sizes)} {plural}"


def _logistic(observations: FloatArray, actions: Any, n_actions: int) -> tuple[Policy, str]:
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

    def policy(given: FloatArray) -> FloatArray:
        found = np.zeros((len(given), n_actions))
        found[:, model.classes_] = model.predict_proba(given)
        return found

    return policy, "multinomial logistic regression"


def _calibration(
    folds: Sequence[Policy], observations: FloatArray, actions: Any, episode: Any
) -> Any:
    """Compare probabilities with shares, in bins of equal width, episodes not seen in fitting."""
    halves = [(policy, np.flatnonzero(episode % 2 == k)) for k, policy in enumerate(folds)]
    parts = [(np.asarray(policy(observations[rows])), rows) for policy, rows in halves if len(rows)]
    said = np.concatenate([each for each, _ in parts])
    taken = np.eye(said.shape[1])[np.concatenate([actions[rows] for _, rows in parts])]
    place = np.minimum((said * BINS).astype(np.int64), BINS - 1).ravel()
    count = np.bincount(place, minlength=BINS)
    some = np.maximum(count, 1)
    return pa.table(
        {
            "from": np.arange(BINS) / BINS,
            "to": (np.arange(BINS) + 1) / BINS,
            "pairs": count,
            "estimated": np.bincount(place, weights=said.ravel(), minlength=BINS) / some,
            "taken": np.bincount(place, weights=taken.ravel(), minlength=BINS) / some,
        }
    )
