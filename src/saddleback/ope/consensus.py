"""The consensus of many candidates: one estimate, and how far the candidates contradict it.

A dual in balance has the same estimate V̂_ij for every primal i: its imbalance is how much that
changes over bases, poor ones included. The residual of a primal is the mean of its corrections
|Σ w_j δ_i| over duals in balance. Neither needs the true value. The estimate is the mean of V̂_ij
over all pairs, with weights that fall with the fourth power of residual and imbalance. Candidates
that also see the step, or the history of an episode, do not take part; what they estimate by
themselves tells whether the observation hides something. If their duals find a significant
residual of the estimate, the candidates that see the history give it instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import FloatArray
from saddleback.features import Features
from saddleback.ope.candidates import GIVEN, HISTORY, OBSERVATION, Basis, candidates, given_basis
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.marginal_dr import POOLING, RIDGES, Fits, Rows, fit_basis

QUANTILE = 0.8
"""Quantile of the changes of a dual's estimates over bases that is its imbalance."""

POWER, NOISE = 4.0, 0.02
"""Power of the weights, and the residual, in standard deviations of a return, that is noise."""

CAUTION = 1.5
"""Bias for each unit of contradiction, fitted on families of problems other than those reported."""

SIGNIFICANT = 3.0
"""Standard errors from which duals that see the history contradict the observation."""

MAX_FEATURES = 600
"""Largest number of features over all actions."""


@dataclass(frozen=True)
class CandidateFit:
    """A basis with its penalties.

    Attributes
    ----------
    basis, view
        The features, and what they are functions of.
    ridge, pooling
        The penalties.
    value
        Plug-in estimate, the mean of q(s_0).
    residual, imbalance
        As a primal, and as a dual, among the candidates of the same view.
    primal, dual
        Weights in the estimate.
    """

    basis: str
    view: str
    ridge: float
    pooling: float
    value: float
    residual: float
    imbalance: float
    primal: float = 0.0
    dual: float = 0.0


@dataclass(frozen=True, eq=False)
class Consensus:
    """The estimate of many candidates.

    Attributes
    ----------
    view
        What the features of the estimate are functions of: the observation, or, where duals that
        see the history of an episode find a residual, the history.
    value, error
        The estimate, and its standard error over episodes.
    scores
        Terms of the estimate by episode, [E]; their mean is the value.
    dispersion
        Standard deviation of the estimates of single pairs, with the same weights.
    imbalance
        Weighted mean of the imbalances of the duals.
    opinions
        Estimates by the candidates of other views alone, by view.
    candidates
        All candidates.
    horizon
        Number of steps of the value, if the task has a limit.
    """

    view: str
    value: float
    error: float
    scores: FloatArray
    dispersion: float
    imbalance: float
    opinions: dict[str, float]
    candidates: tuple[CandidateFit, ...]
    horizon: int | None = None

    def contradiction(self, value: float) -> float:
        """Return how far the candidates contradict a value: the largest of their differences.

        If the observation is known to hide something, views that see less are no evidence.
        """
        others = [] if self.view == HISTORY else self.opinions.values()
        differences = [abs(other - value) for other in (self.value, *others)]
        return CAUTION * max(self.dispersion, *differences)

    @property
    def correction(self) -> float | None:
        """How far the estimate moved because the history contradicts the observation, if so."""
        if self.view != HISTORY:
            return None
        return CAUTION * abs(self.opinions[OBSERVATION] - self.value)

    @property
    def hidden(self) -> tuple[str, float] | None:
        """The view that changes the estimate most, and by how much; None if there is no other."""
        changes = {
            HISTORY if self.view == HISTORY else view: abs(value - self.value)
            for view, value in sorted(
                self.opinions.items(), key=lambda item: abs(item[1] - self.value)
            )
            if view != OBSERVATION or self.view == HISTORY
        }
        return max(changes.items(), key=lambda item: item[1], default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return the consensus as plain data for JSON."""
        return {
            "view": self.view, "value": self.value, "error": self.error,
            "dispersion": self.dispersion,
            "imbalance": self.imbalance, "opinions": self.opinions,
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }  # fmt: skip


def find_consensus(
    sample: EpisodeSample,
    target: str,
    gamma: float,
    horizon: int | None = None,
    *,
    given: Features | None = None,
    bases: Sequence[Basis] | None = None,
    thorough: bool = True,
    pool: Executor | None = None,
    progress: Progress | None = None,
) -> Consensus:
    """Fit all candidates on a sample of episodes, and weigh them.

    Parameters
    ----------
    sample, target
        The episodes, and the name of the target policy.
    gamma, horizon
        Discount, and the number of steps of the task, if it has a limit.
    given
        Features of the estimate; the candidates are other opinions then.
    bases
        The bases to fit, by default the candidates of the sample.
    thorough
        Whether to try larger bases and more penalties, for an estimate, not for an opinion.
    pool, progress
        Threads for the bases, on which the result does not depend; and a function that is called
        with the fraction of bases done.
    """
    rows = Rows.of(sample, target, gamma)
    if bases is None:
        sizes, limit = ((60, 200), MAX_FEATURES) if thorough else ((60,), MAX_FEATURES // 4)
        bases = list(candidates(sample, sizes, max(4, limit // sample.n_actions)))
        if given is not None:
            bases.insert(0, given_basis(given, sample))
    pooling = POOLING if sample.n_actions > 1 else POOLING[1:]  # of one action it has no effect

    def fit(basis: Basis) -> Fits:
        if thorough and basis.view.name in (GIVEN, OBSERVATION):
            return fit_basis(basis, rows, horizon, pooling=pooling)
        return fit_basis(basis, rows, horizon, RIDGES[1:-1], POOLING[1:])

    fits = []
    for fitted in map(fit, bases) if pool is None else pool.map(fit, bases):
        fits.append(fitted)
        if progress is not None:
            progress(len(fits) / len(bases))
    returns = sample.returns(gamma)
    noise = NOISE * max(float(returns.std()), 0.01 * abs(float(returns.mean())))
    by_view, means = {}, {}
    for view in dict.fromkeys(basis.view.name for basis in bases):
        own = [
            (basis, fit) for basis, fit in zip(bases, fits, strict=True) if basis.view.name == view
        ]
        by_view[view], *means[view] = _weigh(own, sample, noise)
    main = next(iter(by_view))
    if HISTORY in by_view and main == OBSERVATION:
        seen = _corrections(means[OBSERVATION][0], means[HISTORY][1], sample)
        if abs(seen.mean()) > SIGNIFICANT * seen.std(ddof=1) / np.sqrt(len(seen)):
            main = HISTORY
    others = {view: other for view, other in by_view.items() if view != main}
    return replace(
        by_view[main],
        opinions={view: other.value for view, other in others.items()},
        horizon=horizon,
        candidates=sum((other.candidates for other in others.values()), by_view[main].candidates),
    )


def _weigh(
    fitted: Sequence[tuple[Basis, Fits]], sample: EpisodeSample, noise: float
) -> tuple[Consensus, FloatArray, FloatArray]:
    """Weigh the candidates of one view; return also δ and w of their weighted means, [n, H]."""
    start, delta, ratio = (
        np.concatenate(parts)
        for parts in zip(*((fits.start, fits.delta, fits.ratio) for _, fits in fitted), strict=True)
    )
    labels = [(basis, *penalty) for basis, fits in fitted for penalty in fits.penalties]
    solved = np.isfinite(start).all(axis=1)
    solved &= np.isfinite(delta).all(axis=(1, 2)) & np.isfinite(ratio).all(axis=(1, 2))
    if not solved.all():
        start, delta, ratio = start[solved], delta[solved], ratio[solved]
        labels = [label for label, kept in zip(labels, solved, strict=True) if kept]
    N, E = start.shape
    values = start.mean(axis=1)
    correction = (delta.reshape(N, -1) @ ratio.reshape(N, -1).T).astype(float) / E
    estimates = values[:, None] + correction
    groups = [id(basis) if len(fitted) > 1 else k for k, (basis, *_) in enumerate(labels)]
    imbalance = _imbalances(estimates, groups)
    residual = np.abs(correction) @ _weights(imbalance + noise, 2.0)
    primal = _weights(residual + noise, POWER)
    dual = _weights(imbalance + noise, POWER)
    mean_delta, mean_ratio = np.tensordot(primal, delta, 1), np.tensordot(dual, ratio, 1)
    scores = primal @ start + _corrections(mean_delta, mean_ratio, sample)
    value = float(scores.mean())
    columns = zip(labels, values, residual, imbalance, primal, dual, strict=True)
    consensus = Consensus(
        view=labels[0][0].view.name,
        value=value,
        error=float(scores.std(ddof=1) / np.sqrt(E)),
        scores=scores,
        dispersion=float(np.sqrt(primal @ (estimates - value) ** 2 @ dual)),
        imbalance=float(dual @ imbalance),
        opinions={},
        candidates=tuple(
            CandidateFit(basis.name, basis.view.name, ridge, pooling, *map(float, numbers))
            for (basis, pooling, ridge), *numbers in columns
        ),
    )
    return consensus, mean_delta, mean_ratio


def _corrections(delta: FloatArray, ratio: FloatArray, sample: EpisodeSample) -> FloatArray:
    """Return Σ w δ of each episode, [E]."""
    products = np.einsum("nh,nh->n", delta, ratio)
    return np.bincount(sample.episode, products, minlength=len(sample.starts)).astype(float)


def _imbalances(estimates: FloatArray, bases: list[int]) -> FloatArray:
    """Return how much the estimates of each dual change over the bases of the primals, [N].

    Every basis counts once, whatever the number of its ridges, and poor ones count, too: a dual in
    balance has the same estimate for all of them. A fifth of the bases may be left out.
    """
    label = np.array(bases)
    medians = [np.median(estimates[label == basis], axis=0) for basis in dict.fromkeys(bases)]
    deviations = np.abs(np.array(medians) - np.median(medians, axis=0))
    return np.asarray(np.quantile(deviations, QUANTILE, axis=0))


def _weights(sizes: FloatArray, power: float) -> FloatArray:
    """Return weights of sum 1 that fall with a power of sizes; all on sizes of 0, if there are."""
    smallest = float(sizes.min())
    weights = (sizes / smallest) ** -power if smallest > 0 else (sizes == 0).astype(float)
    return np.asarray(weights / weights.sum())
