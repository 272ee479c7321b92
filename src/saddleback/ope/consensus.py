"""The consensus of many candidates: one estimate, and how far the candidates contradict it.

The residual of a primal is the median of its corrections |Σ w_j δ_i| over the better half of duals,
and the imbalance of a dual is the median change of its estimate over primals: neither needs the true
value, and the median is robust to ill-conditioned candidates. The estimate is the mean of V̂_ij over
all pairs, with weights that fall with the fourth power of residual and imbalance.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.ope.candidates import HISTORY, OBSERVATION, STEP, Basis, candidates
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.marginal_dr import POOLING, RIDGES, Fits, Rows, fit_basis

QUANTILE = 0.8
"""Quantile of the changes of a dual's estimates over bases that is its imbalance."""

POWER, FLOOR = 4.0, 0.02
"""Power of the weights, and the residual, in standard deviations of a return, that is noise."""

MAX_FEATURES = 600
"""Largest number of features over all actions."""


@dataclass(frozen=True, eq=False)
class Consensus:
    """The estimate of many candidates.

    Attributes
    ----------
    value, error
        The estimate, and its standard error over episodes.
    scores
        Terms of the estimate by episode, [E]; their mean is the value.
    dispersion
        Standard deviation of the estimates of single pairs, with the same weights.
    tests
        By view, Σ w δ of the chosen primals under the duals of that view, and its standard error:
        what the estimate misses, as these duals see it.
    names, views
        The candidates, [N], and the views they are functions of.
    values, residuals, imbalances
        Plug-in value of each candidate, residual as a primal, imbalance as a dual, [N].
    primal, dual
        Weights of the candidates, [N].
    """

    value: float
    error: float
    scores: FloatArray
    dispersion: float
    tests: dict[str, tuple[float, float]]
    names: list[str]
    views: list[str]
    values: FloatArray
    residuals: FloatArray
    imbalances: FloatArray
    primal: FloatArray
    dual: FloatArray
    estimates: FloatArray


def find_consensus(
    sample: EpisodeSample,
    target: str,
    gamma: float,
    horizon: int | None,
    spread: float,
    folds: IntArray,
    pool: Executor | None = None,
) -> Consensus:
    """Fit all candidates on a sample of episodes, each with its fold, and weigh them."""
    rows = Rows.of(sample, target, folds, gamma)
    bases = list(candidates(sample, (60, 200), max(4, MAX_FEATURES // sample.n_actions)))

    def fit(basis: Basis) -> Fits:
        if basis.view.name == OBSERVATION:
            return fit_basis(basis, rows, horizon)
        return fit_basis(basis, rows, horizon, RIDGES[1:-1], POOLING[1:])

    fits = list(map(fit, bases) if pool is None else pool.map(fit, bases))
    names, views = [], []
    for basis, fitted in zip(bases, fits, strict=True):
        names += [basis.name] * len(fitted.start)
        views += [basis.view.name] * len(fitted.start)
    together = _Together.of(fits, sample.episode, folds)
    return _weigh(together, names, views, spread)


@dataclass(frozen=True, eq=False)
class _Together:
    """All candidates that could be solved: starts [N, E], δ and w [N, n, H], corrections [N, N]."""

    solved: BoolArray
    start: FloatArray
    delta: FloatArray
    ratio: FloatArray
    correction: FloatArray
    episode: IntArray

    @classmethod
    def of(cls, fits: Iterable[Fits], episode: IntArray, folds: IntArray) -> _Together:
        start = np.concatenate([fitted.start for fitted in fits])
        delta = np.concatenate([fitted.delta for fitted in fits])
        ratio = np.concatenate([fitted.ratio for fitted in fits])
        solved = np.isfinite(start).all(axis=1)
        solved &= np.isfinite(delta).all(axis=(1, 2)) & np.isfinite(ratio).all(axis=(1, 2))
        if not solved.all():
            start, delta, ratio = start[solved], delta[solved], ratio[solved]
        N = len(start)
        correction = delta.reshape(N, -1) @ ratio.reshape(N, -1).T / len(folds)
        return cls(solved, start, delta, ratio, correction.astype(float), episode)

    def by_episode(self, primal: FloatArray, dual: FloatArray) -> FloatArray:
        """Return Σ w δ of each episode, for weighted means of primals and of duals, [E]."""
        delta = np.tensordot(primal, self.delta, 1)
        ratio = np.tensordot(dual, self.ratio, 1)
        products = np.einsum("nh,nh->n", delta, ratio)
        return np.bincount(self.episode, products, minlength=self.start.shape[1])


def _weigh(together: _Together, names: list[str], views: list[str], spread: float) -> Consensus:
    kept = np.flatnonzero(together.solved)
    names, views = [names[k] for k in kept], [views[k] for k in kept]
    view = np.array(views)
    values, correction = together.start.mean(axis=1), together.correction
    own = view == OBSERVATION
    estimates = values[:, None] + correction
    floor = FLOOR * spread
    imbalance = _imbalances(estimates[own], [name for name, o in zip(names, own) if o])
    trusted = _normalised(np.where(own, (imbalance + floor) ** -2.0, 0.0))
    residual = np.abs(correction) @ trusted
    primal = _normalised(np.where(own, (residual + floor) ** -POWER, 0.0))
    dual = _normalised(np.where(own, (imbalance + floor) ** -POWER, 0.0))
    scores = primal @ together.start + together.by_episode(primal, dual)
    value = float(scores.mean())
    tests = {}
    for name in (OBSERVATION, STEP, HISTORY):
        if (view == name).any():
            instrument = np.where(view == name, (imbalance + FLOOR * spread) ** -POWER, 0.0)
            seen = together.by_episode(primal, _normalised(instrument))
            tests[name] = float(seen.mean()), _standard_error(seen)
    dispersion = float(np.sqrt(primal @ (estimates - value) ** 2 @ dual))
    return Consensus(
        value, _standard_error(scores), scores, dispersion, tests, names, views, values, residual,
        imbalance, primal, dual, estimates,
    )  # fmt: skip


def _imbalances(estimates: FloatArray, names: list[str]) -> FloatArray:
    """Return how much the estimates of each dual change over the bases of the primals, [N].

    Every basis counts once, whatever the number of its ridges, and poor ones count, too: a dual in
    balance has the same estimate for all of them. A fifth of the bases may be left out.
    """
    label = np.array(names)
    medians = [np.median(estimates[label == name], axis=0) for name in dict.fromkeys(names)]
    deviations = np.abs(np.array(medians) - np.median(medians, axis=0))
    return np.asarray(np.quantile(deviations, QUANTILE, axis=0))


def _normalised(weights: FloatArray) -> FloatArray:
    return weights / weights.sum()


def _standard_error(scores: FloatArray) -> float:
    return float(scores.std(ddof=1) / np.sqrt(len(scores)))
