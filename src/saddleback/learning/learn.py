"""Running rules on-line, on experience of the behaviour policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from saddleback import _validate
from saddleback._progress import Progress, shared_progress
from saddleback._threads import thread_pool
from saddleback._typing import RNG, ArrayLike
from saddleback.engine import (
    Chunker,
    Experience,
    FiniteSource,
    Learners,
    Source,
    StepSize,
    Workers,
    as_source,
    record_points,
)
from saddleback.errors import InvalidParameter
from saddleback.learning.run import Batch, Metric, Run, follow, stack
from saddleback.problem import Problem
from saddleback.rules import Rule, as_rules
from saddleback.system import System
from saddleback.theory import step_sizes

SAMPLE, MOST_FEATURES = 100_000, 16
"""Steps behind the advice on step sizes where there is no finite problem, and most features."""


@overload
def learn(
    rule: Rule,
    problem: Problem | Source,
    *,
    alpha: StepSize | None = ...,
    beta: StepSize | None = ...,
    steps: int | None = ...,
    episodes: int | None = ...,
    rng: RNG = ...,
    runs: int | None = ...,
    experience: Experience | None = ...,
    theta0: ArrayLike = ...,
    omega0: ArrayLike = ...,
    record: int | ArrayLike | None = ...,
    metrics: Mapping[str, Metric] | Callable[[Rule], Mapping[str, Metric]] | None = ...,
    bound: float | None = ...,
    threads: int = ...,
    dtype: npt.DTypeLike = ...,
    progress: Progress | None = ...,
) -> Run: ...


@overload
def learn(
    rule: Sequence[Rule],
    problem: Problem | Source,
    *,
    alpha: StepSize | None = ...,
    beta: StepSize | None = ...,
    steps: int | None = ...,
    episodes: int | None = ...,
    rng: RNG = ...,
    runs: int | None = ...,
    experience: Experience | None = ...,
    theta0: ArrayLike = ...,
    omega0: ArrayLike = ...,
    record: int | ArrayLike | None = ...,
    metrics: Mapping[str, Metric] | Callable[[Rule], Mapping[str, Metric]] | None = ...,
    bound: float | None = ...,
    threads: int = ...,
    dtype: npt.DTypeLike = ...,
    progress: Progress | None = ...,
) -> list[Run]: ...


def learn(
    rule: Rule | Sequence[Rule],
    problem: Problem | Source,
    *,
    alpha: StepSize | None = None,
    beta: StepSize | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    rng: RNG = None,
    runs: int | None = None,
    experience: Experience | None = None,
    theta0: ArrayLike = 0.0,
    omega0: ArrayLike = 0.0,
    record: int | ArrayLike | None = None,
    metrics: Mapping[str, Metric] | Callable[[Rule], Mapping[str, Metric]] | None = None,
    bound: float | None = None,
    threads: int = 1,
    dtype: npt.DTypeLike = np.float64,
    progress: Progress | None = None,
) -> Run | list[Run]:
    """Run one rule or several on-line, on experience of the behaviour policy.

    At each step, for every setting of the step sizes, from the old θ and ω,

        θ ← θ + Δθ(α, δ_t, e_t, ω)        ω ← ω + Δω(β, δ_t, e_t, ω)

    with Δθ and Δω of the rule's form (`Coefficients`).

    Parameters
    ----------
    rule
        What to run. Several rules learn from the same experience, simulated once.
    problem
        Where: a finite problem, a simulation such as ``problems.mountain_car()``, or a `Stream`.
    alpha, beta
        Step sizes of θ and ω: numbers, arrays that broadcast together, or schedules
        (`inverse_sqrt`, `inverse`). Every setting learns from the same experience. A rule without
        ω (semi-gradient) makes no use of beta. Without either, what `step_sizes` advises for so
        many steps from weights of 0, on a finite problem or from a sample of few features.
    steps, episodes, rng
        How many steps or whole episodes to sample, and from which seed or generator; `Run.seed`
        keeps the seed. A `Stream` is learned from whole.
    runs
        Repeat it all so many times with seeds spawned from ``rng``; results get an axis for them.
    experience
        Given experience, in place of sampling.
    theta0, omega0
        First weights, broadcast to (settings, p).
    record
        When to measure: every so many updates, or at the update counts listed. About a hundred
        times, evenly, if not given; always at the end. Counted in episodes if those are given.
    metrics
        Functions of θ [..., p] by name, one value (or array) for each setting; or a function that
        returns them for each rule. The MSPBE and absolute MSE of the rule's own exact system if not
        given and the problem is finite.
    bound
        A learner with |δ| + |φᵀω| + |αu|, or αδ or βδ, beyond this has diverged; it is frozen as
        it was before that update and the rest go on. If not given, a million times the largest
        of 1, |θ_0| and, on a finite problem, the weights of the rule's exact fixed point.
    threads
        Over how many threads to spread runs, rules and settings; the result is the same to the bit.
    dtype
        float64, or float32 to halve the memory of many settings with many features.
    progress
        Called with the fraction of the work that is done, whenever something is recorded.

    Examples
    --------
    Expected Sarsa diverges where GES does not:

    >>> from saddleback import GES, ExpectedSarsa, problems
    >>> problem = problems.two_state(gamma=0.999)
    >>> for rule in (ExpectedSarsa(0.0), GES(0.0)):
    ...     run = learn(rule, problem, alpha=0.1, beta=0.1, theta0=1.0, steps=5000, rng=0)
    ...     print(rule, run.outcome, run.curves["mspbe"][-1] < 1e-3)
    ExpectedSarsa(0) diverged at step 630 False
    GES(0) ok True

    Two rules on the same experience, three times over:

    >>> small = problems.two_state(gamma=0.9)
    >>> options = dict(alpha=[0.05, 0.1], beta=0.1, steps=200, theta0=1.0)
    >>> for run in learn([GES(0.5), ExpectedSarsa(0.5)], small, runs=3, rng=0, **options):
    ...     print(run.rule, run.theta.shape, run.curves["mspbe"].shape)
    GES(0.5) (3, 2, 2) (101, 3, 2)
    ExpectedSarsa(0.5) (3, 2, 2) (101, 3, 2)
    """
    rules = as_rules(rule)
    source = _source(problem, experience)
    source.streamer(rules)  # refuses rules that do not fit
    if source.steps is not None and (steps, episodes, rng, runs) != (None,) * 4:
        raise InvalidParameter(
            "learn: what is given is learned from whole, and nothing is sampled: leave out steps, "
            "episodes, rng and runs."
        )
    total, cut = _length(source, steps, episodes)
    points = record_points(total, record)
    systems = [System.exact(problem, r) if isinstance(problem, Problem) else None for r in rules]
    if alpha is None:
        sizes = _advised(rules, problem, beta, total, cut is Chunker.episodes)
    else:
        sizes = [(alpha, beta)] * len(rules)
    threads = _validate.count("learn", "threads", threads)

    def single(
        generator: np.random.Generator,
        seed: np.random.SeedSequence | None,
        threads: int,
        progress: Progress | None = progress,
    ) -> list[Run]:
        batches, groups = [], []
        for r, system, (a, b) in zip(rules, systems, sizes, strict=True):
            target = np.zeros(1) if system is None else system.fixed_point
            batch = Batch(r, source.p, a, b, theta0, omega0, bound, target, dtype)
            learners = Learners(
                r.form, batch.alpha, batch.beta, batch.theta, batch.omega, batch.bound, threads
            )
            own = {} if system is None else system.objectives
            asked = metrics(r) if callable(metrics) else metrics
            batches.append(batch.watch(learners, own if asked is None else asked))
            groups.append(learners)
        workers, streams = Workers(groups, threads), source.streamer(rules)
        pieces = Chunker(source.sampler(generator))
        return follow(
            batches, points, lambda count: workers.advance(map(streams, cut(pieces, count))), seed,
            progress,
        )  # fmt: skip

    generator, seed = _validate.generator(rng)
    if source.steps is not None:
        found = single(generator, None, threads)
    elif runs is None:
        found = single(generator, seed, threads)
    else:
        generators = _spawn(generator, seed, _validate.count("learn", "runs", runs))
        alone = getattr(source, "one_at_a_time", False)
        at_once = 1 if alone else min(runs, threads)
        with thread_pool(at_once) as pool:
            parts = shared_progress(progress, runs)
            each = pool.map(
                lambda g, part: single(g, None, threads // at_once, part), generators, parts
            )
            found = [stack(same, seed) for same in zip(*each, strict=True)]
    return found[0] if isinstance(rule, Rule) else found


def _source(problem: Problem | Source, experience: Experience | None) -> Source:
    """Return what to learn from, refusing experience that does not fit."""
    if experience is None:
        return as_source("learn", problem)
    _validate.instance("learn", "experience", experience, Experience)
    if not isinstance(problem, Problem):
        raise InvalidParameter("learn: experience of states and actions needs a finite problem.")
    experience.check(problem)
    return FiniteSource(problem, experience)


def _advised(
    rules: Sequence[Rule],
    problem: Problem | Source,
    beta: StepSize | None,
    total: int,
    in_episodes: bool,
) -> list[tuple[StepSize, StepSize | None]]:
    """Return the step sizes that are advised where none are given."""
    if beta is not None:
        raise InvalidParameter("learn: give alpha too, or neither alpha nor beta.")
    if isinstance(problem, Problem):
        if in_episodes:
            ends = (problem.mdp.P * problem.mdp.ends).sum(axis=2)
            total = max(1, round(total / float((problem.pair_visits * ends).sum())))
        known: Sequence[Any] = [problem] * len(rules)
    elif in_episodes or problem.p > MOST_FEATURES:
        raise InvalidParameter(
            f"learn: give {rules[0]} a step size, alpha=…; without a finite problem one is found "
            f"for you (step_sizes) only for a number of steps and up to {MOST_FEATURES} features, "
            f"here {problem.p}."
        )
    else:  # from a sample, the given one or one of its own
        steps = problem.steps or SAMPLE
        options: dict[str, Any] = {} if problem.steps else {"rng": 0}
        known = System.estimate(
            problem, rules, steps=steps, batches=min(200, steps), keep_batches=True, **options
        )
    advice = [step_sizes(one, r, steps=total) for one, r in zip(known, rules, strict=True)]
    return [(each.alpha, each.beta) for each in advice]


def _length(
    source: Source, steps: int | None, episodes: int | None
) -> tuple[int, Callable[[Chunker, int], Iterator[Any]]]:
    """Return how much to learn from, and in what it is counted."""
    if source.steps is not None:
        return source.steps, Chunker.steps
    if (steps is None) == (episodes is None):
        raise InvalidParameter("learn: say how many to sample, either steps=… or episodes=…")
    if steps is not None:
        return _validate.count("learn", "steps", steps), Chunker.steps
    if isinstance(source, FiniteSource) and not source.problem.mdp.episodic:
        raise InvalidParameter("learn: this problem has no episodes; give steps instead.")
    return _validate.count("learn", "episodes", episodes), Chunker.episodes


def _spawn(
    generator: np.random.Generator, seed: np.random.SeedSequence | None, runs: int
) -> list[np.random.Generator]:
    """Return one generator for each run; the same seed gives the same ones, again and again."""
    if seed is None:
        return generator.spawn(runs)
    fresh = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    return [np.random.default_rng(child) for child in fresh.spawn(runs)]
