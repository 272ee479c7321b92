"""Everything the theory has to say about one rule on one problem, or on an estimate of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from saddleback import _validate
from saddleback.errors import SaddlebackError, Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.system import System
from saddleback.theory import model
from saddleback.theory.advice import Advice, affordable_chain, quick_model, stable, step_sizes
from saddleback.theory.floor import small_step_floor
from saddleback.theory.given import system_of
from saddleback.theory.mean import MeanStability, Pair
from saddleback.theory.noise import Noise
from saddleback.theory.rate import Theorem2, theorem2
from saddleback.theory.squares import largest_stable
from saddleback.theory.traces import lambda_ceiling, trace_radius

MAPPED = 2500
"""Most second moments over all nodes for which the chain is asked at every point of a map."""

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Analysis:
    """Verdicts on a rule. Where one cannot be had, the sentence that says why stands for it.

    Attributes
    ----------
    system
        The linear system, with `System.stability` for the off-line semi-gradient update.
    mean
        Stability of the mean of the rule's own update.
    mean_limit, mean_best
        Largest α at β = α for which the mean converges, and the pair with which it does so fastest.
    theorem2
        Constants of Theorem 2.
    trace_radius, ceiling
        Growth of E‖e‖² a step, and the largest λ for which it is less than 1.
    square_limit
        Largest α at β = α that is stable in mean square.
    advice
        Step sizes for a budget of steps.
    floor
        E‖θ − θ*‖² in the long run with the advised step sizes, to first order.
    model
        Expected error for any step sizes and numbers of steps, for drawing.
    noise
        The chain behind it, where there is a problem.
    steps
        The budget.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> found = analyse(problems.two_state(gamma=0.9), GES(0.4), steps=1000)
    >>> found.system.stable, round(found.ceiling, 3)
    (False, 0.786)
    """

    system: System
    mean: MeanStability
    mean_limit: float
    mean_best: Pair | str
    theorem2: Theorem2 | str
    trace_radius: float | str
    ceiling: float | str
    square_limit: float | str
    advice: Advice | str
    floor: float | str
    model: model.StepModel | str
    noise: Noise | str
    steps: int

    @property
    def traced(self) -> bool:
        """Whether the noise remembers more than the state: steps are then far from independent."""
        problem = self.system.problem
        if isinstance(self.noise, str) or problem is None:
            return False
        return len(self.noise.weight) > problem.mdp.n_states

    @property
    def small_chain(self) -> Noise | None:
        """The chain, if there is a trace and it is small enough to ask at every point of a map."""
        if isinstance(self.noise, str) or not self.traced:
            return None
        return self.noise if len(self.noise.weight) * self.noise.n**2 <= MAPPED else None

    def stable(self, alpha: float, beta: float) -> bool:
        """Whether single samples are stable in mean square; by the small chain too, if any."""
        if isinstance(self.model, str):
            return False
        return stable(self.model, self.small_chain, alpha, beta)

    def as_dict(self) -> dict[str, Any]:
        """Return the verdicts as numbers and sentences, for JSON; infinity is null."""
        stability = self.system.stability
        found: dict[str, Any] = {
            "rule": str(self.system.rule),
            "p": self.system.p,
            "rank": self.system.rank,
            "outcome": self.system.outcome,
            "fixed_point": self.system.fixed_point.tolist(),
            "spectrum": [[z.real, z.imag] for z in self.system.spectrum.tolist()],
            "offline": {
                "stable": stability.stable,
                "max_step_size": _finite(stability.max_step_size),
                "reason": stability.reason,
            },
            "mean": {
                "note": self.mean.note,
                "max_step_size_at_ratio_1": _finite(self.mean_limit),
                "best": _plain(self.mean_best, ("alpha", "beta", "radius")),
            },
            "theorem2": _plain(
                self.theorem2, ("alpha", "beta", "nu", "contraction", "contraction_tight")
            ),
            "trace_radius": _finite(self.trace_radius),
            "lambda_ceiling": _finite(self.ceiling),
            "mean_square": {"max_step_size_at_ratio_1": _finite(self.square_limit)},
            "steps": self.steps,
            "advice": _plain(self.advice, ("alpha", "beta", "radius", "error", "reason")),
            "floor": _finite(self.floor),
        }
        return found


def _plain(found: Any, names: tuple[str, ...]) -> Any:
    return found if isinstance(found, str) else {name: getattr(found, name) for name in names}


def _finite(value: float | str) -> float | str | None:
    return None if value == float("inf") else value


def analyse(source: Problem | System, rule: Rule | None = None, *, steps: int = 10_000) -> Analysis:
    """Ask everything at once: is it stable, how fast, down to what error, with which step sizes?

    Parameters
    ----------
    source, rule
        A finite problem with a rule, or a system, exact or estimated (which knows its rule).
    steps
        The budget for which step sizes are advised.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> found = analyse(problem, GES(0.4), steps=1000)
    >>> round(found.ceiling, 3), found.advice.method, found.system.stable
    (1.414, 'mean-square', True)
    """
    _validate.count("analyse", "steps", steps)
    system = system_of("analyse", source, rule)
    problem = source if isinstance(source, Problem) else None
    mean = MeanStability(system)
    advice = _try(lambda: step_sizes(source, system.rule, steps=steps))
    unknown = "only known for a problem, not for a system."

    @cache
    def chain() -> Noise:
        return affordable_chain(_needed(problem, unknown), system.rule)

    def square_limit() -> float:
        of = drawn()
        noise = None if isinstance(source, System) else chain()
        return largest_stable(lambda a: stable(of, noise, a, a), mean.max_step_size(), 1e-3)

    def floor() -> float:
        if isinstance(advice, str):
            raise Undefined(advice)
        given = None if isinstance(source, System) else system.rule
        return small_step_floor(source, given, alpha=advice.alpha, beta=advice.beta or None)

    @cache
    def drawn() -> model.StepModel:
        if isinstance(source, System):
            return model.of_batches(source)
        return quick_model(source, chain())

    return Analysis(
        system=system,
        mean=mean,
        mean_limit=mean.max_step_size(),
        mean_best=_try(mean.best),
        theorem2=_try(lambda: theorem2(system)),
        trace_radius=_try(lambda: trace_radius(_needed(problem, unknown), system.rule)),
        ceiling=_try(lambda: lambda_ceiling(_needed(problem, unknown), system.rule)),
        square_limit=_try(square_limit),
        advice=advice,
        floor=_try(floor),
        model=_try(drawn),
        noise=_try(chain),
        steps=steps,
    )


def _try(ask: Callable[[], Found]) -> Found | str:
    """Return an answer, or the sentence that says why there is none."""
    try:
        return ask()
    except SaddlebackError as error:
        return str(error)


def _needed(problem: Problem | None, why: str) -> Problem:
    if problem is None:
        raise Undefined(why)
    return problem
