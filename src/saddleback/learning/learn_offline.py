"""The off-line update of the paper: full λ-returns, with θ fixed within each target."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping

from saddleback import _validate
from saddleback._typing import RNG, ArrayLike
from saddleback.engine import (
    CHUNK,
    Chunker,
    Metric,
    OfflineLearners,
    StepSize,
    TransitionSampler,
    record_points,
)
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.learning.run import Batch, Run, run_batches
from saddleback.problem import Problem
from saddleback.rules import Rule, SemiGradient, as_rule, terms
from saddleback.system import System


def learn_offline(
    rule: Rule | str,
    problem: Problem,
    *,
    alpha: StepSize,
    episodes: int | None = None,
    steps: int | None = None,
    horizon: int | None = None,
    rng: RNG = None,
    theta0: ArrayLike = 0.0,
    record: int | ArrayLike | None = None,
    metrics: Mapping[str, Metric] | None = None,
    bound: float | None = None,
) -> Run:
    """Run the off-line update, whose target is the full λ-return with θ fixed at θ_t.

        θ_{t+1} = θ_t + α (Σ_{k≥t} (γλ)^{k−t} ρ_{t+1}…ρ_k δ_k(θ_t)) φ_t

    for the trace κ = λρ of Expected Sarsa(λ), and likewise for any other. Its expectation is
    θ + α(Aθ + b), which `iterate` runs exactly.

    Parameters
    ----------
    rule
        A semi-gradient rule without emphasis, such as ``ExpectedSarsa(lam)``.
    problem, alpha, rng, theta0, metrics
        As in `learn`, on a finite problem.
    bound
        As in `learn`, but applied to the weights θ themselves.
    episodes
        Number of complete episodes to learn from.
    steps
        Number of updates, instead of episodes; requires a horizon.
    horizon
        Truncate each λ-return after this number of steps; required for a continuing problem.
    record
        When to record metrics, as in `learn`; counted in episodes if those are given.

    Examples
    --------
    >>> from saddleback import TD, problems
    >>> walk = problems.random_walk()
    >>> run = learn_offline(TD(0.5), walk, alpha=0.05, episodes=500, rng=0)
    >>> run.theta.round(1)
    array([0.2, 0.4, 0.5, 0.7, 0.9])
    """
    rule = as_rule(rule)
    t = terms(rule, problem)
    plain = rule.form.coefficients == SemiGradient().coefficients and not rule.form.true_online
    if not plain or rule.emphasis is not None:
        raise RuleMismatch(
            f"learn_offline: {rule} is not a plain semi-gradient rule; the off-line update exists "
            "for ExpectedSarsa, Sarsa and TD, and any trace with SemiGradient()."
        )
    system = System.exact(problem, rule)
    batch = Batch(rule, problem.p, alpha, None, theta0, 0.0, bound, system.fixed_point)
    if horizon is not None:
        _validate.count("learn_offline", "horizon", horizon)
    if (episodes is None) == (steps is None):
        raise InvalidParameter("learn_offline: give either episodes, or steps and a horizon.")
    generator, seed = _validate.generator(rng)
    sampler = TransitionSampler(problem, generator)
    learners = OfflineLearners(t, problem.mdp.n_actions, batch.alpha, batch.theta, batch.bound)

    if episodes is not None:
        total = _validate.count("learn_offline", "episodes", episodes)
        if not problem.mdp.episodic:
            raise InvalidParameter(
                "learn_offline: this problem has no episodes; give steps and a horizon instead."
            )
        pieces = Chunker(sampler)

        def advance(count: int) -> None:
            for _ in range(count):
                episode = functools.reduce(operator.add, pieces.episodes(1))
                learners.advance(episode, len(episode), horizon or len(episode))
    else:
        total = _validate.count("learn_offline", "steps", steps)
        if horizon is None:
            raise InvalidParameter(
                "learn_offline: steps need a horizon, the length of the λ-return: horizon=…"
            )
        ahead = sampler.take(horizon - 1)

        def advance(count: int) -> None:
            nonlocal ahead
            for begin in range(0, count, CHUNK):
                size = min(CHUNK, count - begin)
                experience = ahead + sampler.take(size)
                learners.advance(experience, size, horizon)
                ahead = experience[size:]

    batch.attach(learners, system.objectives if metrics is None else metrics)
    return run_batches([batch], record_points(total, record), advance, seed)[0]
