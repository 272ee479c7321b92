"""The consensus of many candidates: one estimate, and how far the candidates contradict it.

A dual in balance has the same estimate V̂_ij for every primal i: its imbalance is how much that
changes over bases, poor ones included unless their value is impossible. The residual of a primal is
the mean of its corrections |Σ w_j δ_i| over duals in balance, and at least the distance of its
value from what is possible. Where points are so few that each can have a feature, what it predicts
less well than others adds to it (``backup_loss``). None of this needs the true value. The estimate
is the mean of V̂_ij over all pairs, with weights that fall with the fourth power of residual and
imbalance. Candidates that also see the step, or the history of an episode, do not take part. What
their duals make of all primals tells whether the observation hides something: if so, primals of the
observation have large residuals there. If the history finds a significant residual of the estimate,
or predicts backups clearly better, its estimate replaces it, or part of it (``hidden_state``). So
does the estimate by windowed ratios, which use the logged propensities. Other views are corrected
by their own. Only if the history leads, the observation gets the share that the history has, so
that what it hides stays visible.

Weights and errors come from fits to other folds. Where each point has a feature of its own, the
estimate is then that of fits to all folds with the same weights: rare points are in few episodes,
so that leaving out a fold loses some of them. Where points are few or actions many, ratios of
states times the logged ratio of the action are additional duals (``state_candidates``).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from saddleback._progress import Progress
from saddleback._typing import FloatArray, IntArray
from saddleback.errors import InvalidParameter
from saddleback.features import Features
from saddleback.ope.backup_loss import common_goals, excess, value_range
from saddleback.ope.candidates import (
    GIVEN,
    HISTORY,
    OBSERVATION,
    STEP,
    Basis,
    candidates,
    given_basis,
)
from saddleback.ope.consensus_q import MIN_WEIGHT, ConsensusQ
from saddleback.ope.episode_sample import EpisodeSample
from saddleback.ope.fold_sums import Rows
from saddleback.ope.hidden_state import relative_loss, share_of_history
from saddleback.ope.marginal_dr import POOLING, RIDGES, Fits, fit_basis
from saddleback.ope.shared_candidates import shared_candidates
from saddleback.ope.state_candidates import state_candidates
from saddleback.ope.windowed_ratios import share_of_change, windowed_weights

QUANTILE = 0.8
"""Quantile of the changes of a dual's estimates over bases that is its imbalance."""

POWER, NOISE = 4.0, 0.02
"""Power of the weights, and the residual, in standard deviations of a return, that is noise."""

EXACT = 0.1
"""Share of that noise where each point can have a feature, so that some candidates may be exact."""

LOSS = 0.15
"""Error of the value for each unit of a root mean square error of backups at every step; where
points are too many for a feature each, such errors are mostly local and cancel."""

CAUTION = 1.5
"""Bias for each unit of contradiction, fitted on families of problems other than those reported."""

OWN_SHARE = 0.1
"""Share of the squared difference to what candidates of another view estimate by themselves."""

SHARED_WAVES = (100, 300)
"""Waves of features shared by all actions, for an opinion and for an estimate."""

LAMBDA = 0.9
"""λ of the candidates that are fitted with traces; a task with a horizon has none."""

MAX_FEATURES = 600
"""Largest number of features over all actions; also at most half of the rows."""


@dataclass(frozen=True)
class CandidateFit:
    """A basis with its penalties."""

    # The features, and what they are functions of.
    basis: str
    view: str
    # The penalties.
    ridge: float
    pooling: float
    value: float  # plug-in estimate, the mean of q(s_0)
    # As a primal, and as a dual, in the estimate of its view.
    residual: float
    imbalance: float
    # Weights in that estimate.
    primal: float = 0.0
    dual: float = 0.0


@dataclass(frozen=True, eq=False)
class Consensus:
    """The estimate of many candidates."""

    # What the features of the estimate are functions of: the observation, or, where that hides
    # something (`hidden_state`), the history.
    view: str
    # The estimate, and its standard error over episodes.
    value: float
    error: float
    # Terms of the estimate by episode, [E], whose mean is the value; and q(s_0) without the
    # correction.
    scores: FloatArray
    plug_in: FloatArray
    dispersion: float  # standard deviation of the estimates of single pairs, with the same weights
    imbalance: float  # weighted mean of the imbalances of the duals
    # Estimates by the duals of other views, and without the primals of the observation, by view.
    opinions: dict[str, float]
    separate: dict[str, float]
    candidates: tuple[CandidateFit, ...]
    q: ConsensusQ  # the action values of the candidates, weighted
    horizon: int | None = None  # number of steps of the value, if the task has a limit
    # How much windowed ratios change the estimate, and the standard error of that. None where they
    # are not used: without logged propensities, for continuous actions, or with a horizon.
    windowed: tuple[float, float] | None = None
    # Whether that is significant; if so, the estimate includes a share of it.
    is_windowed: bool = False
    # Share of the view in the estimate; the rest is that of the observation.
    share: float = 1.0

    def contradiction(self, value: float, besides: float = 0.0) -> float:
        """Return how far a value is contradicted: the root of a sum of squares.

        These are the larger one of its difference to the consensus, which may include what windowed
        ratios change, and of that change beyond a standard error; the differences of the consensus
        to other views; the dispersion; and what is known ``besides``. If the observation is known
        to hide something, views that see less are no evidence.
        """
        difference = abs(self.value - value)
        if self.windowed is not None:
            change, error = self.windowed
            difference = max(difference, abs(change) - error)
        squares = self.dispersion**2 + difference**2 + besides**2
        others = [value for view, value in self.opinions.items() if view != OBSERVATION]
        if self.view != HISTORY:
            others = list(self.opinions.values())
        seen = sum((other - self.value) ** 2 for other in others)
        seen += OWN_SHARE * sum((own - self.value) ** 2 for own in self.separate.values())
        squares += seen if self.view != HISTORY else (1.0 - self.share) * seen
        return CAUTION * float(np.sqrt(squares))

    def mixed(self, other: Consensus, share: float) -> Consensus:
        """Return the consensus with this share of its estimate, and the rest of another one.

        The distance to the pure estimate counts as dispersion. What both are judged by is that of
        the worse one.
        """
        scores = share * self.scores + (1.0 - share) * other.scores
        moved = (1.0 - share) * (self.value - other.value)
        return replace(
            self,
            value=self.value - moved,
            error=float(scores.std(ddof=1) / np.sqrt(len(scores))),
            scores=scores,
            plug_in=share * self.plug_in + (1.0 - share) * other.plug_in,
            dispersion=float(np.hypot(max(self.dispersion, other.dispersion), moved)),
            imbalance=max(self.imbalance, other.imbalance),
            share=share,
        )

    def changed(self, changes: FloatArray) -> Consensus:
        """Return the consensus with what windowed ratios change in each episode, [E].

        The share of it that counts is that of `share_of_change`.
        """
        change, n = float(changes.mean()), len(changes)
        error = float(changes.std(ddof=1) / np.sqrt(n))
        share = share_of_change(change, error)
        if not share:
            return replace(self, windowed=(change, error))
        scores = self.scores + share * changes
        return replace(
            self,
            value=self.value + share * change,
            error=float(scores.std(ddof=1) / np.sqrt(n)),
            scores=scores,
            windowed=(change, error),
            is_windowed=True,
        )

    @property
    def correction(self) -> float | None:
        """How far the estimate moved because the observation hides something, if so."""
        if self.view != HISTORY:
            return None
        return CAUTION * abs(self.opinions[OBSERVATION] - self.value)

    @property
    def hidden(self) -> tuple[str, float] | None:
        """The view that changes the estimate most, and by how much; None if there is no other."""
        value = self.value
        if self.share < 1.0:  # of the history alone
            value -= (1.0 - 1.0 / self.share) * (value - self.opinions[OBSERVATION])
        changes = {
            HISTORY if self.view == HISTORY else view: abs(other - value)
            for view, other in sorted(self.opinions.items(), key=lambda item: abs(item[1] - value))
            if view != OBSERVATION or self.view == HISTORY
        }
        return max(changes.items(), key=lambda item: item[1], default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return the consensus as plain data for JSON."""
        return {
            "view": self.view, "value": self.value, "error": self.error,
            "dispersion": self.dispersion,
            "imbalance": self.imbalance, "opinions": self.opinions, "separate": self.separate,
            "windowed": self.windowed, "is_windowed": self.is_windowed, "share": self.share,
            "candidates": [asdict(candidate) for candidate in self.candidates],
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Means:
    """Weighted means of the candidates of a view, [n, H]: δ of the cross-fits and final, and w."""

    delta: FloatArray
    final_delta: FloatArray
    ratio: FloatArray


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

    If features of the estimate are ``given``, the candidates are other opinions. By default the
    ``bases`` are the candidates of the sample; ``thorough`` tries larger ones and more penalties,
    for an estimate, not for an opinion. The result does not depend on the ``pool`` of threads.
    """
    rows = Rows.of(sample, target, gamma)
    if bases is None:
        sizes, limit = ((60, 200), MAX_FEATURES) if thorough else ((60,), MAX_FEATURES // 4)
        limit = min(limit, len(sample.rewards) // 2)
        bases = list(candidates(sample, sizes, max(4, limit // sample.n_actions)))
        if sample.n_actions > 1:
            lam = LAMBDA if horizon is None and sample.step.any() else 0.0
            bases += shared_candidates(sample, target, limit, SHARED_WAVES[thorough], lam=lam)
        bases += state_candidates(sample, target, bases)
        if given is not None:
            bases.insert(0, given_basis(given, sample))
    shared_rows = Rows.shared(sample, target, gamma)
    names, exact = {basis.view.name for basis in bases}, any(basis.is_exact for basis in bases)
    compared = names if exact else set()
    if HISTORY in names and GIVEN not in names:
        compared = compared | {OBSERVATION, HISTORY}
    goals, with_goals = None, {False: rows, True: shared_rows}
    if compared:
        goals = common_goals(rows, shared_rows, bases, sample, gamma, horizon, pool)
        with_goals = {
            is_shared: replace(own, goals=goals[own.order]) for is_shared, own in with_goals.items()
        }
    pooling = POOLING if sample.n_actions > 1 else POOLING[1:]  # of one action it has no effect

    def fit(basis: Basis) -> Fits:
        own = shared_rows if basis.is_shared else rows
        if basis.view.name in compared:
            own = with_goals[basis.is_shared]
        if basis.is_shared:
            ridges = RIDGES if thorough and basis.view.name == OBSERVATION else RIDGES[1:]
            return fit_basis(basis, own, horizon, ridges, POOLING[1:])
        if thorough and basis.view.name in (GIVEN, OBSERVATION):
            return fit_basis(basis, own, horizon, pooling=pooling)
        return fit_basis(basis, own, horizon, RIDGES[1:], POOLING[1:])

    fits = []
    for fitted in map(fit, bases) if pool is None else pool.map(fit, bases):
        fits.append(fitted.finite())
        if progress is not None:
            progress(len(fits) / len(bases))
    returns = sample.returns(gamma)
    noise = NOISE * max(float(returns.std()), 0.01 * abs(float(returns.mean())))
    noise *= EXACT if exact else 1.0
    possible = value_range(sample, gamma, horizon)
    weigh = partial(_weigh, sample=sample, noise=noise, possible=possible)
    by_view: dict[str, list[tuple[Basis, Fits]]] = {}
    for basis, fitted in zip(bases, fits, strict=True):
        if fitted.penalties:
            by_view.setdefault(basis.view.name, []).append((basis, fitted))
    by_view = {
        view: own for view, own in by_view.items() if any(not one.is_weighted for one, _ in own)
    }
    if not by_view or (OBSERVATION not in by_view and by_view.keys() & {STEP, HISTORY}):
        raise InvalidParameter(
            "no candidate features give finite estimates: rewards are too large or too different "
            "in size. Rescale them."
        )
    parts, own_parts = {}, {}
    for view, own in by_view.items():
        seen = own
        if view in (STEP, HISTORY):
            own_parts[view] = weigh(own, own)
            seen = [*by_view[OBSERVATION], *own]
        parts[view] = weigh(seen, own)
    main = next(iter(parts))
    if HISTORY in parts and main == OBSERVATION and goals is not None:
        history, observation = (
            np.concatenate([fits.loss for _, fits in by_view[view]])
            for view in (HISTORY, OBSERVATION)
        )
        residuals = _corrections(parts[OBSERVATION][1].delta, parts[HISTORY][1].ratio, sample)
        by_history = parts[HISTORY][0]
        share = share_of_history(
            residuals, parts[OBSERVATION][0].scores, by_history.scores, by_history.dispersion,
            relative_loss(history, observation, goals),
        )  # fmt: skip
        if share:
            main = HISTORY
        if 0.0 < share < 1.0:
            mixed = by_history.mixed(parts[OBSERVATION][0], share)
            parts[HISTORY] = mixed, *parts[HISTORY][1:]

    def changes(mean: Means) -> FloatArray | None:
        """Return what windowed ratios change in each episode, around that of the final δ."""
        weights = windowed_weights(sample, target, gamma, mean.ratio[:, 0])
        if weights is None:
            return None
        other = weights[:, None] - mean.ratio
        by_episode = _corrections(mean.delta, other, sample)
        final = _corrections(mean.final_delta, other, sample)
        by_episode += final.mean() - by_episode.mean()
        return by_episode

    estimate, mean = parts.pop(main)
    by_episode = changes(mean) if horizon is None else None
    if by_episode is not None and estimate.share < 1.0:
        rest = changes(parts[OBSERVATION][1])
        by_episode = (
            None if rest is None else estimate.share * by_episode + (1.0 - estimate.share) * rest
        )
    if by_episode is not None:
        estimate = estimate.changed(by_episode)

    def value(view: str, other: Consensus, mean: Means) -> float:
        own = None if estimate.windowed is None else changes(mean)
        if own is None or estimate.windowed is None:
            return other.value
        if (estimate.view, view) == (HISTORY, OBSERVATION):  # what it hides must stay visible
            return other.value + share_of_change(*estimate.windowed) * float(own.mean())
        return other.changed(own).value

    return replace(
        estimate,
        opinions={view: value(view, *part) for view, part in parts.items()},
        separate={view: value(view, *part) for view, part in own_parts.items()},
        horizon=horizon,
        candidates=sum((other.candidates for other, *_ in parts.values()), estimate.candidates),
    )


def _weigh(
    primals: Sequence[tuple[Basis, Fits]],
    duals: Sequence[tuple[Basis, Fits]],
    sample: EpisodeSample,
    noise: float,
    possible: tuple[float, float],
) -> tuple[Consensus, Means]:
    """Weigh the candidates of one view; return also their weighted means.

    ``primals`` are those of the observation, too, and end with those of the view. ``possible`` is
    the range of values.
    """
    labels = [(basis, *penalty) for basis, fits in primals for penalty in fits.penalties]
    start = np.concatenate([fits.start for _, fits in primals])
    E = start.shape[1]
    correction = np.block(
        [[_products(left.delta, right.ratio) for _, right in duals] for _, left in primals]
    )
    correction /= E
    thetas = [theta for _, fits in primals for theta in fits.theta]
    values = start.mean(axis=1)
    estimates = values[:, None] + correction
    groups = np.array(
        [id(basis) if len(primals) > 1 else k for k, (basis, *_) in enumerate(labels)]
    )
    impossible = np.abs(values - np.clip(values, *possible))
    only_dual = np.array([basis.is_weighted for basis, *_ in labels])
    plausible = (impossible <= noise) & ~only_dual
    if len(set(groups[plausible])) < 2:
        plausible[:] = ~only_dual
    imbalance = _imbalances(estimates[plausible], groups[plausible])
    residual = np.abs(correction) @ _weights(imbalance + noise, 2.0)
    if any(basis.is_exact for basis, _ in primals):
        mass = np.concatenate([fits.ratio.sum(axis=(1, 2)) / E for _, fits in duals])
        loss = np.concatenate([fits.loss for _, fits in primals])
        residual += LOSS * max(1.0, float(np.median(mass))) * excess(loss)
    residual = np.maximum(residual, impossible)
    residual[only_dual] = np.inf
    primal = _weights(residual + noise, POWER)
    dual = _weights(imbalance + noise, POWER)
    mean_delta = _mean(primal, [fits.delta for _, fits in primals])
    mean_ratio = _mean(dual, [fits.ratio for _, fits in duals])
    plug_in = primal @ start
    scores = plug_in + _corrections(mean_delta, mean_ratio, sample)
    final_delta = mean_delta
    if any(fits.full is not None for _, fits in primals):  # the same scores around another mean
        starts, deltas = zip(*(fits.final for _, fits in primals), strict=True)
        final_delta = _mean(primal, deltas)
        final = primal @ np.concatenate(starts) + _corrections(final_delta, mean_ratio, sample)
        scores += final.mean() - scores.mean()
    value = float(scores.mean())
    own = slice(len(labels) - len(dual), None)
    columns = zip(
        labels[own], values[own], residual[own], imbalance, primal[own], dual, strict=True
    )
    consensus = Consensus(
        view=labels[-1][0].view.name,
        value=value,
        error=float(scores.std(ddof=1) / np.sqrt(E)),
        scores=scores,
        plug_in=plug_in,
        dispersion=float(np.sqrt(primal @ (estimates - value) ** 2 @ dual)),
        imbalance=float(dual @ imbalance),
        opinions={},
        separate={},
        candidates=tuple(
            CandidateFit(basis.name, basis.view.name, ridge, pooling, *map(float, numbers))
            for (basis, pooling, ridge), *numbers in columns
        ),
        q=_weighted_q([basis for basis, *_ in labels], primal, thetas, sample),
    )
    return consensus, Means(mean_delta, final_delta, mean_ratio)


def _products(delta: FloatArray, ratio: FloatArray) -> FloatArray:
    """Return Σ w δ of all rows for each pair, [R, R']."""
    return (delta.reshape(len(delta), -1) @ ratio.reshape(len(ratio), -1).T).astype(float)


def _mean(weights: FloatArray, parts: Sequence[FloatArray]) -> FloatArray:
    """Return the weighted mean of arrays [R, n, H] side by side, [n, H]."""
    ends = np.cumsum([len(part) for part in parts])
    return sum(
        np.tensordot(weights[end - len(part) : end], part, 1)
        for part, end in zip(parts, ends, strict=True)
    )  # type: ignore[return-value]


def _weighted_q(
    bases: list[Basis], weights: FloatArray, thetas: list[FloatArray], sample: EpisodeSample
) -> ConsensusQ:
    """Return the weighted sum of the candidates' Q, without bases of little weight."""
    owner = np.array([id(basis) for basis in bases])
    shares = {key: float(weights[owner == key].sum()) for key in owner.tolist()}
    kept = [key for key in shares if shares[key] >= MIN_WEIGHT] or list(shares)
    total, parts = sum(shares[key] for key in kept), []
    for key in kept:
        own = np.flatnonzero(owner == key)
        theta = sum(weights[i] / total * thetas[i] for i in own)
        basis = bases[own[0]]
        parts.append((basis.encode, basis.by_action(np.asarray(theta), sample.n_actions)))
    return ConsensusQ(parts, sample.priorities)


def _corrections(delta: FloatArray, ratio: FloatArray, sample: EpisodeSample) -> FloatArray:
    """Return Σ w δ of each episode, [E]."""
    products = np.einsum("nh,nh->n", delta, ratio)
    return np.bincount(sample.episode, products, minlength=len(sample.starts)).astype(float)


def _imbalances(estimates: FloatArray, bases: IntArray) -> FloatArray:
    """Return how much the estimates of each dual change over the bases of the primals, [N].

    Every basis counts once, whatever the number of its ridges, and poor ones count, too, if their
    value is possible: a dual in balance has the same estimate for all of them. A fifth of the bases
    may be left out.
    """
    medians = [np.median(estimates[bases == basis], axis=0) for basis in dict.fromkeys(bases)]
    deviations = np.abs(np.array(medians) - np.median(medians, axis=0))
    return np.asarray(np.quantile(deviations, QUANTILE, axis=0))


def _weights(sizes: FloatArray, power: float) -> FloatArray:
    """Return weights of sum 1 that fall with a power of sizes; all on sizes of 0, if there are."""
    smallest = float(sizes.min())
    weights = (sizes / smallest) ** -power if smallest > 0 else (sizes == 0).astype(float)
    return np.asarray(weights / weights.sum())
