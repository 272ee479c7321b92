"""Running a rule on-line, on experience of the behaviour policy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from saddleback import _validate
from saddleback._typing import RNG, ArrayLike
from saddleback.engine import (
    Experience,
    Learners,
    Pieces,
    Source,
    StepSize,
    as_source,
)
from saddleback.errors import InvalidParameter
from saddleback.learning.run import Batch, Metric, Run, record_points
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.system import System


def learn(
    rule: Rule,
    problem: Problem | Source,
    *,
    alpha: StepSize,
    beta: StepSize | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    rng: RNG = None,
    experience: Experience | None = None,
    theta0: ArrayLike = 0.0,
    omega0: ArrayLike = 0.0,
    record: int | ArrayLike | None = None,
    metrics: Mapping[str, Metric] | None = None,
    bound: float | None = None,
    threads: int = 1,
    dtype: npt.DTypeLike = np.float64,
) -> Run:
    """Run a rule on-line on experience of the behaviour policy.

    Parameters
    ----------
    rule
        What to run.
    problem
        Where: a finite problem, or a simulation such as ``problems.mountain_car()``.
    alpha, beta
        Step sizes of θ and ω: numbers, arrays that broadcast together, or schedules
        (`inverse_sqrt`, `inverse`). Every setting learns from the same experience. A rule without
        ω (semi-gradient) makes no use of beta.
    steps, episodes, rng
        How many steps or whole episodes to sample, and from which seed or generator; `Run.seed`
        keeps the seed.
    experience
        Given experience, in place of sampling.
    theta0, omega0
        First weights, broadcast to (settings, p).
    record
        When to measure: every so many updates, or at the update counts listed. About a hundred
        times, evenly, if not given; always at the end. Counted in episodes if those are given.
    metrics
        Functions of θ [..., p] by name, one value (or array) for each setting. The MSPBE and
        absolute MSE of the rule's own exact system if not given and the problem is finite.
    bound
        A learner with |δ| + |φᵀω| + |αu|, or αδ or βδ, beyond this has diverged; it is frozen as
        it was before that update and the rest go on. If not given, a million times the largest
        of 1, |θ_0| and, on a finite problem, the weights of the rule's exact fixed point.
    threads
        Over how many threads to spread the settings; the result is the same to the bit.
    dtype
        float64, or float32 to halve the memory of many settings with many features.

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
    """
    source = as_source("learn", problem)
    streamer = source.streamer(rule)
    system = System.exact(problem, rule) if isinstance(problem, Problem) else None
    expected = np.zeros(1) if system is None else system.fixed_point
    batch = Batch(rule, source.p, alpha, beta, theta0, omega0, bound, expected, dtype)
    seed = None
    if experience is not None:
        if steps is not None or episodes is not None or rng is not None:
            raise InvalidParameter("learn: give either experience, or steps and rng, not both.")
        _validate.instance("learn", "experience", experience, Experience)
        if not isinstance(problem, Problem):
            raise InvalidParameter(
                "learn: experience of states and actions needs a finite problem."
            )
        experience.check(problem)
        total, orders = len(experience), Pieces(Replay(experience)).steps
    else:
        generator, seed = _validate.generator(rng)
        pieces = Pieces(source.sampler(generator))
        if (steps is None) == (episodes is None):
            raise InvalidParameter("learn: say how many to sample, either steps=… or episodes=…")
        if steps is not None:
            total, orders = _validate.count("learn", "steps", steps), pieces.steps
        else:
            if isinstance(problem, Problem) and not problem.mdp.episodic:
                raise InvalidParameter("learn: this problem has no episodes; give steps instead.")
            total, orders = _validate.count("learn", "episodes", episodes), pieces.episodes
    learners = Learners(
        rule.form, batch.alpha, batch.beta, batch.theta, batch.omega, batch.bound,
        _validate.count("learn", "threads", threads),
    )  # fmt: skip

    def advance(count: int) -> None:
        learners.advance(streamer(piece) for piece in orders(count))

    if metrics is None:
        metrics = {} if system is None else system.objectives
    return batch.follow(record_points(total, record), metrics, learners, advance, seed)


class Replay:
    """Given experience, handed out as if it were sampled."""

    def __init__(self, experience: Experience) -> None:
        self._experience, self._done = experience, 0

    def take(self, steps: int) -> Experience:
        """Return the next ``steps`` steps."""
        piece = self._experience[self._done : self._done + steps]
        self._done += steps
        return piece
