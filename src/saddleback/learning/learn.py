"""`learn`: run rules on-line, on experience of the behaviour policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt

from saddleback import _registry, _validate
from saddleback._progress import Progress, shared_progress
from saddleback._threads import thread_pool
from saddleback._typing import RNG, ArrayLike
from saddleback.engine import (
    Chunker,
    Columns,
    Experience,
    FiniteSource,
    Metric,
    Source,
    StepSize,
    as_source,
    mean_length,
    record_points,
)
from saddleback.errors import InvalidParameter
from saddleback.learning.device import DEVICES, DeviceName, choose_device, engine_on
from saddleback.learning.run import Batch, Run, run_batches, stack
from saddleback.problem import Problem
from saddleback.rules import Rule, as_rules
from saddleback.system import System
from saddleback.theory import step_sizes

SAMPLE, MAX_FEATURES = 100_000, 16
"""Steps sampled for advice without a finite problem, and the largest number of features for it."""


class LearnOptions(TypedDict, total=False):
    """Options of `learn`, stated for its two overloads."""

    alpha: StepSize | None
    beta: StepSize | None
    steps: int | None
    episodes: int | None
    rng: RNG
    runs: int | None
    experience: Experience | None
    theta0: ArrayLike
    omega0: ArrayLike
    record: int | ArrayLike | None
    metrics: Mapping[str, Metric] | Callable[[Rule], Mapping[str, Metric]] | None
    bound: float | None
    threads: int
    dtype: npt.DTypeLike
    device: DeviceName
    progress: Progress | None


@overload
def learn(rule: Rule | str, problem: Problem | Source, **options: Unpack[LearnOptions]) -> Run: ...


@overload
def learn(
    rule: Sequence[Rule], problem: Problem | Source, **options: Unpack[LearnOptions]
) -> list[Run]: ...


def learn(
    rule: Rule | str | Sequence[Rule],
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
    device: DeviceName = "cpu",
    progress: Progress | None = None,
) -> Run | list[Run]:
    """Run one or several rules on-line, on experience of the behaviour policy.

    At each step, for every setting of the step sizes, and from the old θ and ω,

        θ ← θ + Δθ(α, δ_t, e_t, ω)        ω ← ω + Δω(β, δ_t, e_t, ω)

    with Δθ and Δω of the rule's form (`Coefficients`).

    Parameters
    ----------
    rule
        The rule, or a list of rules, which learn from the same experience, simulated once.
    problem
        A finite problem, a simulation such as ``problems.mountain_car()``, or a `Stream`.
    alpha, beta
        Step sizes of θ and ω: numbers, arrays that broadcast together, or schedules
        (`inverse_sqrt`, `inverse`). Every setting learns from the same experience. A rule without
        ω (semi-gradient) ignores beta. By default the advice of `step_sizes` for this number of
        steps from weights of 0, on a finite problem or from a sample with few features.
    steps, episodes, rng
        Number of steps or complete episodes to sample, and the seed or generator; `Run.seed`
        records the seed. A `Stream` is always used in full.
    runs
        Number of independent runs, with seeds spawned from ``rng``; adds an axis to the results.
    experience
        Experience to learn from, instead of sampling.
    theta0, omega0
        Initial weights, broadcast to (settings, p).
    record
        When to record metrics: every n-th update, or at the update counts listed. By default about
        a hundred times, evenly spaced; always at the end. Counted in episodes with ``episodes``.
    metrics
        Functions of θ [..., p] by name, each returning one value (or array) per setting; or a
        function that returns them for a rule. By default, on a finite problem, the MSPBE and
        absolute MSE of the rule's own exact system.
    bound
        A learner has diverged when |δ| + |φᵀω| + |αu|, or αδ or βδ, exceeds this bound; its weights
        stay as they were before that update, and the others continue. By default a million times
        the largest of 1, |θ_0| and, on a finite problem, the weights of the exact fixed point.
    threads
        Number of threads for runs, rules and settings; results are bit-identical.
    dtype
        float64, or float32 to halve the memory of many settings with many features.
    device
        "cpu"; "cuda" for a GPU, on which the learners of all runs, rules and settings advance side
        by side (``threads`` then produce the experience), or "auto" for the GPU where it pays.
        Results agree to about 1e-9.
    progress
        Called with the fraction of the work that is done, whenever metrics are recorded.

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

    Two rules on the same experience, in three runs:

    >>> small = problems.two_state(gamma=0.9)
    >>> options = dict(alpha=[0.05, 0.1], beta=0.1, steps=200, theta0=1.0)
    >>> for run in learn([GES(0.5), ExpectedSarsa(0.5)], small, runs=3, rng=0, **options):
    ...     print(run.rule, run.theta.shape, run.curves["mspbe"].shape)
    GES(0.5) (3, 2, 2) (101, 3, 2)
    ExpectedSarsa(0.5) (3, 2, 2) (101, 3, 2)
    """
    rules = as_rules(rule)
    source = _source(problem, experience)
    if source.steps is not None and (steps, episodes, rng, runs) != (None,) * 4:
        raise InvalidParameter(
            "learn: the given experience is used in full and nothing is sampled; omit steps, "
            "episodes, rng and runs."
        )
    total, in_episodes = _length(source, steps, episodes)
    points = record_points(total, record)
    count = 1 if runs is None else _validate.count("learn", "runs", runs)
    streamers = [source.streamer(rules) for _ in range(count)]  # refuse rules that do not apply
    systems = [
        System.exact(problem, r, source.terms(r))
        if isinstance(problem, Problem) and isinstance(source, FiniteSource)
        else None
        for r in rules
    ]
    if alpha is None:
        sizes = _advised(rules, problem, beta, total, in_episodes)
    else:
        sizes = [(alpha, beta)] * len(rules)
    threads = _validate.count("learn", "threads", threads)
    _registry.check_name("device", device, DEVICES)

    def new_batches() -> list[Batch]:
        targets = [np.zeros(1) if system is None else system.fixed_point for system in systems]
        return [
            Batch(r, source.p, *of_rule, theta0, omega0, bound, target, dtype)
            for r, of_rule, target in zip(rules, sizes, targets, strict=True)
        ]

    engine, at_once = engine_on("cpu"), 1 if source.one_at_a_time else count
    if device != "cpu":
        settings = [len(batch.theta) for batch in new_batches()] * at_once
        length = total * mean_length(source) if in_episodes else float(total)
        engine = engine_on(choose_device(device, [(sum(settings), length)], threads))
        engine.check(settings, source.p, np.dtype(dtype), [r.form for r in rules])

    def together(
        streamers: Sequence[Callable[[Any], list[Columns]]],
        generators: Sequence[np.random.Generator],
        seed: np.random.SeedSequence | None,
        threads: int,
        progress: Progress | None,
    ) -> list[list[Run]]:
        """Return the results of runs that advance together, by run and rule."""
        batches = [batch for _ in streamers for batch in new_batches()]
        groups = []
        for batch, system in zip(batches, systems * len(streamers), strict=True):
            learners = engine.learners(
                batch.rule.form, batch.alpha, batch.beta, batch.theta, batch.omega, batch.bound,
                threads,
            )  # fmt: skip
            objectives = {} if system is None else system.objectives
            chosen = metrics(batch.rule) if callable(metrics) else metrics
            batch.attach(learners, objectives if chosen is None else chosen)
            groups.append(learners)
        workers, size = engine.workers(groups, threads), engine.chunk(len(groups))
        measured = in_episodes or progress is not None or any(b.has_metrics for b in batches)
        stops = points if measured else points[-1:]

        def chunks(
            streamer: Callable[[Any], list[Columns]], chunker: Chunker
        ) -> Iterator[list[Columns] | None]:
            """Yield the streams of a run, with a None at each stop."""
            for count in np.diff(stops, prepend=0).tolist():
                if count:
                    yield from map(
                        streamer, chunker.episodes(count) if in_episodes else chunker.steps(count)
                    )
                    yield None

        streams = [
            chunks(streamer, Chunker(source.sampler(g), size))
            for streamer, g in zip(streamers, generators, strict=True)
        ]
        results = run_batches(
            batches, stops, lambda count: workers.advance(*streams), seed, progress
        )
        if not measured:  # nothing stops the threads, and updates are counted in steps
            results = [replace(run, recorded=points, updates=points) for run in results]
        by_rule = iter(results)
        return [[next(by_rule) for _ in rules] for _ in streamers]

    generator, seed = _validate.generator(rng)
    if runs is None:
        seed = seed if source.steps is None else None  # nothing is sampled
        (results,) = together(streamers, [generator], seed, threads, progress)
    else:
        generators = _spawn(generator, seed, runs)
        if engine.runs_together and at_once == runs:
            by_run = together(streamers, generators, None, threads, progress)
        else:
            concurrent = 1 if source.one_at_a_time else min(runs, threads)
            with thread_pool(concurrent) as pool:
                by_run = [
                    *pool.map(
                        lambda s, g, part: together([s], [g], None, threads // concurrent, part)[0],
                        streamers, generators, shared_progress(progress, runs),
                    )
                ]  # fmt: skip
        results = [stack(of_rule, seed) for of_rule in zip(*by_run, strict=True)]
    return results[0] if isinstance(rule, (Rule, str)) else results


def _source(problem: Problem | Source, experience: Experience | None) -> Source:
    """Return the source of experience; refuse experience inconsistent with the problem."""
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
    """Return the step sizes advised for each rule."""
    if beta is not None:
        raise InvalidParameter("learn: give alpha as well, or neither alpha nor beta.")
    if isinstance(problem, Problem):
        if in_episodes:
            ends = (problem.mdp.P * problem.mdp.ends).sum(axis=2)
            total = max(1, round(total / float((problem.pair_visits * ends).sum())))
        bases: Sequence[Any] = [problem] * len(rules)
    elif in_episodes or problem.p > MAX_FEATURES:
        raise InvalidParameter(
            f"learn: {rules[0]} needs a step size, alpha=…; without a finite problem it is chosen "
            f"automatically (step_sizes) only with steps=… and up to {MAX_FEATURES} features, got "
            f"{problem.p}."
        )
    else:  # from the given sample or a new one
        steps = problem.steps or SAMPLE
        options: dict[str, Any] = {} if problem.steps else {"rng": 0}
        bases = System.estimate(
            problem, rules, steps=steps, batches=min(200, steps), keep_batches=True, **options
        )
    advice = [step_sizes(base, r, steps=total) for base, r in zip(bases, rules, strict=True)]
    return [(sizes.alpha, sizes.beta) for sizes in advice]


def _length(source: Source, steps: int | None, episodes: int | None) -> tuple[int, bool]:
    """Return the length of learning, and whether it is counted in episodes."""
    if source.steps is not None:
        return source.steps, False
    if (steps is None) == (episodes is None):
        raise InvalidParameter("learn: give the number to sample, either steps=… or episodes=…")
    if steps is not None:
        return _validate.count("learn", "steps", steps), False
    if isinstance(source, FiniteSource) and not source.problem.mdp.episodic:
        raise InvalidParameter("learn: this problem has no episodes; give steps instead.")
    return _validate.count("learn", "episodes", episodes), True


def _spawn(
    generator: np.random.Generator, seed: np.random.SeedSequence | None, runs: int
) -> list[np.random.Generator]:
    """Return one generator per run; the same seed always gives the same ones."""
    if seed is None:
        return generator.spawn(runs)
    fresh = np.random.SeedSequence(
        seed.entropy, spawn_key=seed.spawn_key, n_children_spawned=seed.n_children_spawned
    )
    return [np.random.default_rng(child) for child in fresh.spawn(runs)]
