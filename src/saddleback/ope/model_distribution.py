"""The distribution of the return under a target policy, from the empirical model of a log.

It needs no propensities, and has the whole return where episodes were truncated; but it needs few
states, logged with every action that the target takes, and states that are states: the model must
reproduce the logged returns, those of the first steps where episodes were truncated.

Intervals are from resampled episodes: those of a Bayesian bootstrap, whose weights are exponential,
so that no state and action is lost. With s the standard deviation of F̂ at Q̂(α) over resamples, a
quantile's interval is from the quantiles at α ± t·s (Woodruff 1952); that of CVaR is ± t times its
standard deviation. All resamples use the same random numbers.

References
----------
M. G. Bellemare, W. Dabney, M. Rowland, Distributional Reinforcement Learning, 2023.
D. B. Rubin, The Bayesian bootstrap, Annals of Statistics 9 (1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from saddleback import _validate
from saddleback._typing import FloatArray
from saddleback.errors import InvalidParameter
from saddleback.features import Features
from saddleback.log import Log, Target
from saddleback.log.diagnostics import raise_errors
from saddleback.log.target_policies import as_targets
from saddleback.ope.confidence_bounds import require_two_episodes
from saddleback.ope.empirical_model import (
    ROWS_PER_STATE,
    EmpiricalModel,
    OutOfSteps,
    Simulated,
    StateLabels,
    active_feature,
)
from saddleback.ope.episode_sample import EpisodeSample, sample_episodes
from saddleback.ope.return_distribution import (
    CURVE,
    LEVELS,
    MODEL,
    TAIL,
    Functional,
    ReturnDistribution,
    SortedReturns,
    check_levels,
)

RESAMPLES, MAX_DRAWS, LEAST_DRAWS = 50, 20_000, 200
"""Resamples, and draws: the largest number, a fifth of it for each resample; and the smallest."""

MAX_ROWS = 24_000
"""Largest number of rows of a log that are used."""

MAX_STEPS, PLANNED = 9_000_000, 0.9
"""Largest number of steps simulated for a target, about 0.3 s, and the share of it planned for."""

FEW_ROWS = f"the log has fewer than {ROWS_PER_STATE} rows for each"
TOO_MANY = f"{FEW_ROWS} different observation"
"""Why there is no distribution if there are too many states, and if every observation is one."""

TILES = "Features of which one is active, such as tiles:8x1, would tell fewer states apart"
"""What helps if the observation has one or two entries."""

TOO_LONG = f"episodes are too long to simulate with {MAX_STEPS:,} steps"
"""Why there is no distribution if that is not enough."""

MAX_UNKNOWN, MAX_RARE = 0.01, 0.1
"""Largest share of draws that come to a state and action never logged, and largest share of steps
with a state and action that are rarely logged."""

MAX_LEFT_OUT, LEAST_CHECKED = 0.01, 0.5
"""Largest share of truncated episodes left out of the logged returns, and smallest share of the
logged steps on which the model is checked."""

DIGITS = 12
"""Digits of the largest return to which returns are equal."""

KOLMOGOROV, TOLERATED = 1.63, 0.05
"""Critical value of the Kolmogorov statistic at 1%, and a distance that is always tolerated."""


def model_distributions(
    sample: EpisodeSample,
    targets: Sequence[Target],
    gamma: float,
    horizon: int | None = None,
    *,
    features: Features | None = None,
    levels: Sequence[float] = LEVELS,
    tail: float = TAIL,
    lower_is_better: bool = False,
) -> tuple[dict[str, ReturnDistribution], dict[str, str]]:
    """Return the distributions in the model of the log by target, and why others have none.

    ``features`` tell states apart where exactly one of them is active; otherwise observations do.
    """
    labels, names = StateLabels.of(sample, features), [target.name for target in targets]
    if labels is None:
        return {}, dict.fromkeys(names, _too_many(sample, features))
    setting = _Setting(sample, labels, gamma, horizon)
    try:
        logged = _LoggedReturns.of(setting)
    except OutOfSteps:
        return {}, dict.fromkeys(names, TOO_LONG)
    every = {
        name: _model_distribution(setting, name, logged, levels, tail, lower_is_better)
        for name in names
    }
    models = {name: one for name, one in every.items() if isinstance(one, ReturnDistribution)}
    return models, {name: one for name, one in every.items() if isinstance(one, str)}


def model_return_distribution(
    log: Log,
    target: Any,
    *,
    gamma: float,
    horizon: int | None = None,
    features: Features | None = None,
    levels: Sequence[float] = LEVELS,
    tail: float = TAIL,
    lower_is_better: bool = False,
) -> ReturnDistribution:
    """Return the distribution of the return under a target policy in the model of a log.

    It solves Z(s, a) = R + γ Z(S', A') in distribution, with R and S' of a random row that has s
    and a, and A' ~ π. It needs no propensities, but few states, each with the actions that the
    target takes there; and at most 24,000 rows of a log are used.

    Parameters
    ----------
    log, target
        The log, and a target policy (see `saddleback.log.as_target`).
    gamma
        Discount.
    horizon
        Number of steps after which the task ends, if it has a limit.
    features
        Features of which one is active in each observation, such as tiles of one tiling, which
        then is the state; by default every distinct observation is one.
    levels, tail, lower_is_better
        As for `return_distribution`.

    Examples
    --------
    >>> import saddleback as sb
    >>> log = sb.collect(sb.problems.random_walk(0.9), episodes=500, rng=0)
    >>> shown = model_return_distribution(log, "uniform", gamma=0.9, levels=(0.25, 0.9))
    >>> [round(one.value, 2) for one in shown.quantiles], shown.reliable
    ([0.0, 0.81], True)
    """
    check_levels((*levels, tail))
    gamma = _validate.unit("model_return_distribution", "gamma", gamma)
    if horizon is not None:
        horizon = _validate.count("model_return_distribution", "horizon", horizon)
    targets = as_targets(target, log)
    if len(targets) > 1:
        raise InvalidParameter(
            f"model_return_distribution takes one target policy, got {len(targets)}."
        )
    (named,) = targets
    sample, horizon = sample_episodes(log, targets, MAX_ROWS, horizon)
    require_two_episodes(len(sample.starts))
    if gamma == 1.0 and horizon is None:
        raise_errors(one for one in log.summary(gamma).findings if one.code == "E160")
    models, missing = model_distributions(
        sample, targets, gamma, horizon, features=features, levels=levels, tail=tail,
        lower_is_better=lower_is_better,
    )  # fmt: skip
    for reason in missing.values():
        no_model = reason.startswith(FEW_ROWS)
        lack = "log has no model" if no_model else "model of the log has no distribution"
        raise InvalidParameter(f"the {lack}: {reason}.")
    return models[named.name]


class _Setting(NamedTuple):
    """A sample of episodes with the numbers of their states, the discount and the horizon."""

    sample: EpisodeSample
    labels: StateLabels
    gamma: float
    horizon: int | None

    def budget(self, target: str | None, horizon: int | None) -> _Budget:
        """Return simulations of a target policy, or of the logged one, over some steps."""
        model = EmpiricalModel.of(self.sample, self.labels, target)
        endless = 20 * (int(self.sample.step.max()) + 1)
        return _Budget(model, self.gamma, horizon, endless)

    def simulate_logged(self, horizon: int | None) -> Simulated:
        """Return simulated returns of the logged policy."""
        budget = self.budget(None, horizon)
        draws = PLANNED * MAX_STEPS / (8 * budget.steps_of_a_draw(8))
        return budget.simulate(int(np.clip(draws, LEAST_DRAWS, MAX_DRAWS)), seed=1)


def _model_distribution(
    setting: _Setting,
    target: str,
    logged: _LoggedReturns,
    levels: Sequence[float],
    tail: float,
    lower_is_better: bool,
) -> ReturnDistribution | str:
    """Return the distribution of the return in the model, or why there is none."""
    budget = setting.budget(target, setting.horizon)
    try:
        steps = budget.steps_of_a_draw(RESAMPLES + 1)
        few = int(
            np.clip(PLANNED * MAX_STEPS / (2 * RESAMPLES * steps), LEAST_DRAWS, MAX_DRAWS // 5)
        )
        left = PLANNED * MAX_STEPS - few * RESAMPLES * steps
        simulated = budget.simulate(int(np.clip(left / steps, LEAST_DRAWS, MAX_DRAWS)), seed=1)
        if simulated.unknown > MAX_UNKNOWN:
            return (
                f"{simulated.unknown:.0%} of the simulated returns of the target need an action in "
                "a state in which it was never logged, or do not end"
            )
        rng = np.random.default_rng(2)
        resampled = [
            _equally_weighted(budget.simulate(few, weights=weights).returns, simulated.returns)
            for weights in rng.standard_exponential((RESAMPLES, budget.model.n_episodes))
        ]
    except OutOfSteps:
        return TOO_LONG
    own = _equally_weighted(simulated.returns)
    t = float(scipy.special.stdtrit(RESAMPLES - 1, 0.975))

    def quantile(level: float) -> Functional:
        value = own.quantile(level)
        errors = [
            np.std([below(one.returns, value).mean() for one in resampled], ddof=1)
            for below in (np.less_equal, np.less)
        ]
        width = t * float(max(errors)) + simulated.unknown
        low, high = level - width, level + width
        return Functional(
            level, value, own.quantile(low) if low > 0.0 else -np.inf,
            own.quantile(high) if high < 1.0 else np.inf, logged.returns.quantile(level),
        )  # fmt: skip

    worst, worst_logged = (one.cvar(tail, lower_is_better)[0] for one in (own, logged.returns))
    spread = t * float(np.std([one.cvar(tail, lower_is_better)[0] for one in resampled], ddof=1))
    problems = list(logged.problems)
    if simulated.rare > MAX_RARE:
        problems.append(f"{simulated.rare:.0%} of its steps are rarely logged")
    return ReturnDistribution(
        target=target,
        quantiles=tuple(map(quantile, levels)),
        cvar=Functional(tail, worst, worst - spread, worst + spread, worst_logged),
        standard_deviation=float(simulated.returns.std()),
        reliable=not problems,
        comparable=True,
        ess=None,
        curve=tuple(
            (level, own.quantile(level), logged.returns.quantile(level)) for level in CURVE
        ),
        method=MODEL,
        note="; ".join([*problems, *logged.remarks]),
    )


@dataclass
class _Budget:
    """Simulations of a model that take at most ``MAX_STEPS`` together."""

    model: EmpiricalModel
    gamma: float
    horizon: int | None
    limit: int  # steps after which an undiscounted draw is taken as endless
    left: int = MAX_STEPS

    def simulate(
        self, draws: int, *, seed: int = 0, weights: FloatArray | None = None
    ) -> Simulated:
        """Simulate returns; raises ``OutOfSteps`` if too few steps are left."""
        simulated = self.model.simulate(
            draws, self.gamma, self.horizon, limit=self.limit, seed=seed, weights=weights,
            max_steps=self.left,
        )  # fmt: skip
        self.left -= round(simulated.steps * draws)
        return simulated

    def steps_of_a_draw(self, simulations: int) -> float:
        """Return the mean steps; raises ``OutOfSteps`` if not enough for so many simulations."""
        planned = int(PLANNED * MAX_STEPS / (simulations + 1))
        pilot = replace(self, left=min(self.left, planned)).simulate(LEAST_DRAWS)
        self.left -= round(pilot.steps * LEAST_DRAWS)
        return max(1.0, pilot.steps)


def _too_many(sample: EpisodeSample, features: Features | None) -> str:
    """Return why there are too many states, given the features chosen by hand."""
    if features is not None and active_feature(features, sample.states) is not None:
        return f"{FEW_ROWS} feature that is active. Fewer features would tell fewer states apart"
    numbers = (
        "" if features is None else ", and more than one feature is active, or its value varies"
    )
    hint = f". {TILES}" if sample.states.shape[1] <= 2 else ""
    return f"{TOO_MANY}{numbers}{hint}"


def _equally_weighted(returns: FloatArray, alike: FloatArray | None = None) -> SortedReturns:
    """Sort returns, rounded like others if they are to be compared with these."""
    returns = np.sort(_rounded(returns, _largest(returns if alike is None else alike)))
    return SortedReturns(returns, np.full(len(returns), 1.0 / len(returns)))


@dataclass(frozen=True, eq=False)
class _LoggedReturns:
    """Returns of the logged policy, why the model does not have them, and what they are."""

    returns: SortedReturns
    problems: tuple[str, ...]
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, setting: _Setting) -> _LoggedReturns:
        """Compare the logged returns with those of the model, over steps that nearly all have.

        With more than a few truncated episodes, the returns are those of the model.
        """
        sample, horizon = setting.sample, setting.horizon
        lengths = _known_steps(sample, horizon)
        first = _common_steps(lengths)
        inside = sample.step < first
        returns = np.zeros(len(sample.starts))
        discounted = setting.gamma ** sample.step[inside] * sample.rewards[inside]
        np.add.at(returns, sample.episode[inside], discounted)
        returns, left_out = returns[lengths >= first], int(np.sum(lengths < first))
        complete = first == np.inf
        checked = setting.simulate_logged(horizon if complete else int(first))
        problems, remarks = [], []
        distance = _kolmogorov(checked.returns, returns)
        critical = KOLMOGOROV * np.sqrt(1 / len(returns) + 1 / max(1, len(checked.returns)))
        if distance > max(TOLERATED, critical):
            problems.append(f"it misses the logged returns by {distance:.0%} of the probability")
        if inside.mean() < LEAST_CHECKED:
            problems.append(
                f"since episodes were truncated, only returns of the first steps, up to "
                f"{int(first):,}, could be compared with logged ones"
            )
        if complete:
            if left_out:
                remarks.append(f"logged values leave out truncated episodes ({left_out:,})")
            return cls(_equally_weighted(returns), tuple(problems), tuple(remarks))
        modelled = setting.simulate_logged(horizon)
        if modelled.unknown > MAX_UNKNOWN:
            remarks.append("logged values are unknown, since episodes were truncated")
            none = _equally_weighted(np.full(2, np.nan))
            return cls(none, tuple(problems), tuple(remarks))
        remarks.append("logged values are the model's too, since episodes were truncated")
        return cls(_equally_weighted(modelled.returns), tuple(problems), tuple(remarks))


def _known_steps(sample: EpisodeSample, horizon: int | None) -> FloatArray:
    """Return the steps over which the return of each episode is known, [E]; ∞ if it is all."""
    last = sample.last
    lengths = np.zeros(len(sample.starts))
    ended = ~sample.continues[last]
    if horizon is not None:
        ended |= sample.step[last] + 1 >= horizon
    lengths[sample.episode[last]] = np.where(ended, np.inf, sample.step[last] + 1.0)
    return lengths


def _common_steps(lengths: FloatArray) -> float:
    """Return the most steps that all episodes have but those that may be left out.

    Examples
    --------
    >>> _common_steps(np.append(np.full(199, np.inf), 3.0)), _common_steps(np.array([5.0, 4.0]))
    (inf, 4.0)
    """
    return float(np.sort(lengths)[int(MAX_LEFT_OUT * len(lengths))])


def _kolmogorov(one: FloatArray, other: FloatArray) -> float:
    """Return the largest difference between two empirical distribution functions; 1 of none."""
    if not len(one):
        return 1.0
    largest = max(_largest(one), _largest(other))
    one, other = (np.sort(_rounded(part, largest)) for part in (one, other))
    points = np.concatenate([one, other])
    shares = [np.searchsorted(part, points, side="right") / len(part) for part in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def _largest(returns: FloatArray) -> float:
    return float(np.abs(returns).max(initial=0.0))


def _rounded(returns: FloatArray, largest: float) -> FloatArray:
    """Round returns, so that those of equal rewards in another order are equal.

    Samples that are compared have a ``largest`` return in common.
    """
    if largest == 0.0 or not np.isfinite(largest):
        return returns
    decimals = DIGITS - int(np.ceil(np.log10(largest)))
    if decimals > 300:  # 10**decimals would overflow
        return np.ldexp(_rounded(np.ldexp(returns, 600), float(np.ldexp(largest, 600))), -600)
    return np.asarray(np.round(returns, decimals))
