"""A complete analysis of one rule on one problem, or on an estimated system."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from saddleback import _validate
from saddleback._display import Tabular, card_html, shorten
from saddleback.errors import SaddlebackError, Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.system import System
from saddleback.system.system import as_system
from saddleback.theory import moment_model
from saddleback.theory.covariance import small_step_floor
from saddleback.theory.mean_square import largest_stable
from saddleback.theory.mean_stability import MeanStability, Pair
from saddleback.theory.noise_chain import Noise
from saddleback.theory.step_size_advice import (
    Advice,
    affordable_chain,
    quick_model,
    stable,
    step_sizes,
)
from saddleback.theory.theorem2 import Theorem2, theorem2
from saddleback.theory.trace_ceiling import lambda_ceiling, trace_radius

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_MAPPED_MOMENTS = 2500
"""Largest number of second moments for which the chain is evaluated at every point of a map."""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, repr=False)
class Analysis(Tabular):
    """Verdicts on a rule. An unavailable quantity is replaced by a sentence with the reason.

    `to_pandas` and `to_polars` return one row per quantity of `as_dict`, with the columns
    ``quantity``, ``value`` (NaN if unavailable) and ``note``, the reason.

    Attributes
    ----------
    system
        The linear system, with `System.stability` for the off-line semi-gradient update.
    mean
        Stability of the mean of the rule's own update.
    mean_limit, mean_best
        Largest α at β = α for which the mean converges, and the pair for which it does so fastest.
    theorem2
        Constants of Theorem 2.
    trace_radius, ceiling
        Growth of E‖e‖² per step, and the largest λ for which it is less than 1.
    square_limit
        Largest α at β = α that is stable in mean square.
    advice
        Step sizes for a budget of steps.
    floor
        E‖θ − θ*‖² in the long run with the advised step sizes, to first order.
    model
        Expected error for any step sizes and numbers of steps, for plots.
    noise
        The noise chain of the model, if there is a problem.
    steps
        The budget.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> analysis = analyse(problems.two_state(gamma=0.9), GES(0.4), steps=1000)
    >>> analysis.system.stable, round(analysis.ceiling, 3)
    (False, 0.786)
    >>> table = analysis.to_pandas().set_index("quantity")
    >>> print(round(table.value["lambda_ceiling"], 3))
    0.786
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
    model: moment_model.StepModel | str
    noise: Noise | str
    steps: int

    @property
    def has_trace_memory(self) -> bool:
        """Whether the noise depends on more than the state, so that steps are dependent."""
        problem = self.system.problem
        if isinstance(self.noise, str) or problem is None:
            return False
        return len(self.noise.weight) > problem.mdp.n_states

    @property
    def small_chain(self) -> Noise | None:
        """The chain, if there is a trace and it is small enough to evaluate over a map."""
        if isinstance(self.noise, str) or not self.has_trace_memory:
            return None
        return (
            self.noise if len(self.noise.weight) * self.noise.n**2 <= MAX_MAPPED_MOMENTS else None
        )

    def stable(self, alpha: float, beta: float) -> bool:
        """Whether step sizes are stable in mean square, by the model and by a small chain."""
        if isinstance(self.model, str):
            return False
        return stable(self.model, self.small_chain, alpha, beta)

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        """Every verdict as text, as pairs of subject and sentence."""
        system, dual = self.system, self.system.rule.form.has_dual
        rows = [] if system.outcome == "ok" else [("system", system.outcome)]
        rows.append(("without ω" if dual else "off-line update", system.stability.reason))

        def add(subject: str, value: Any, render: Callable[[Any], str]) -> None:
            rows.append((subject, f"– {value}" if isinstance(value, str) else render(value)))

        if self.mean.note:
            rows.append(("scope", self.mean.note))
        at = " at β = α" if dual else ""

        def below(limit: float) -> str:
            return f"stable for 0 < α < {limit:.4g}{at}" if limit else f"unstable for every α{at}"

        rows.append(("mean", below(self.mean_limit)))
        if self.mean_limit:
            add(
                "fastest expected rate",
                self.mean_best,
                lambda b: f"{b.radius:.6g} per step, {_pair(b, dual)}",
            )
        add(
            "Theorem 2",
            self.theorem2,
            lambda t: f"contraction 1 − {t.rate:.3g} per step, α = {t.alpha:.3g}, β = {t.beta:.3g}",
        )
        above = not isinstance(self.trace_radius, str) and self.trace_radius >= 1
        infinite = ", exceeded: E‖e‖² is infinite" if above else ""
        add("λ ceiling", self.ceiling, lambda c: f"{c:.3f}{infinite}")
        add("mean square", self.square_limit, below)
        same = self.advice == self.square_limit
        add(
            f"advice, {self.steps:,} steps",
            "none, for the reason above" if same else self.advice,
            lambda a: f"{_pair(a, dual)}: expected error {a.error:.3g}; {a.reason}",
        )
        if not isinstance(self.advice, str):
            order = "to first order in the step sizes"
            add("error floor", self.floor, lambda floor: f"{floor:.3g}, {order}")
        return rows

    @property
    def text(self) -> str:
        """The verdicts as a text table."""
        rows = self.verdicts
        width = max(len(subject) for subject, _ in rows) + 2
        lines = [f"Analysis of {self.system.rule.display_name}, p = {self.system.p}"]
        for subject, sentence in rows:
            first, *rest = textwrap.wrap(sentence, 98 - width) or [""]
            lines += [f"{subject:{width}}{first}", *(" " * width + line for line in rest)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return shorten(self.text, "analysis.text")

    def _repr_html_(self) -> str:
        system = self.system
        return card_html(f"Analysis of {system.rule.display_name}, p = {system.p}", self.verdicts)

    def plot(self) -> npt.NDArray[np.object_]:
        """Draw eigenvalues, stable step sizes and the expected error; return the three axes.

        Examples
        --------
        >>> from saddleback import GES, problems
        >>> analyse(problems.two_state(gamma=0.5), GES(0.0), steps=1000).plot().shape
        (3,)
        """
        from saddleback.plots.result_plots import analysis  # matplotlib is loaded to draw

        return analysis(self)

    def _columns(self) -> dict[str, Any]:
        rows = [
            (name, value)
            for name, value in _flat(self.as_dict())
            if value is None or (isinstance(value, (int, float, str)) and value != "")
        ]
        numbers = [
            float("inf") if value is None else float("nan") if isinstance(value, str) else value
            for _, value in rows
        ]
        return {
            "quantity": [name for name, _ in rows],
            "value": [float(number) for number in numbers],
            "note": [value if isinstance(value, str) else "" for _, value in rows],
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the verdicts as numbers and text, for JSON; infinity is null."""
        stability = self.system.stability
        return {
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
                "best": _fields(self.mean_best, ("alpha", "beta", "radius")),
            },
            "theorem2": _fields(
                self.theorem2, ("alpha", "beta", "nu", "contraction", "contraction_tight")
            ),
            "trace_radius": _finite(self.trace_radius),
            "lambda_ceiling": _finite(self.ceiling),
            "mean_square": {"max_step_size_at_ratio_1": _finite(self.square_limit)},
            "steps": self.steps,
            "advice": _fields(self.advice, ("alpha", "beta", "radius", "error", "reason")),
            "floor": _finite(self.floor),
        }


def _pair(sizes: Pair | Advice, dual: bool) -> str:
    return f"α = {sizes.alpha:.3g}" + (f", β = {sizes.beta:.3g}" if dual else "")


def _flat(nested: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested data by dotted name."""
    for name, value in nested.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _fields(record: Any, names: tuple[str, ...]) -> Any:
    return record if isinstance(record, str) else {name: getattr(record, name) for name in names}


def _finite(value: float | str) -> float | str | None:
    return None if value == float("inf") else value


def analyse(
    source: Problem | System, rule: Rule | str | None = None, *, steps: int = 10_000
) -> Analysis:
    """Analyse a rule: stability, rate of convergence, error floor and step sizes.

    Parameters
    ----------
    source, rule
        A finite problem with a rule, or a system, exact or estimated, which has a rule.
    steps
        The budget of steps for the advice.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> analysis = analyse(problem, GES(0.4), steps=1000)
    >>> round(analysis.ceiling, 3), analysis.advice.method, analysis.system.stable
    (1.414, 'mean-square', True)
    """
    _validate.count("analyse", "steps", steps)
    system = as_system("analyse", source, rule)
    problem = source if isinstance(source, Problem) else None
    mean = MeanStability(system)
    advice = _try(lambda: step_sizes(source, system.rule, steps=steps))
    unavailable = "available only for a problem, not for a system."

    @cache
    def chain() -> Noise:
        return affordable_chain(_require_problem(problem, unavailable), system.rule)

    def square_limit() -> float:
        model = step_model()
        noise = None if isinstance(source, System) else chain()
        return largest_stable(lambda a: stable(model, noise, a, a), mean.max_step_size(), 1e-3)

    def floor() -> float:
        if isinstance(advice, str):
            raise Undefined(advice)
        chosen = None if isinstance(source, System) else system.rule
        return small_step_floor(source, chosen, alpha=advice.alpha, beta=advice.beta or None)

    @cache
    def step_model() -> moment_model.StepModel:
        if isinstance(source, System):
            return moment_model.of_batches(source)
        return quick_model(source, chain())

    return Analysis(
        system=system,
        mean=mean,
        mean_limit=mean.max_step_size(),
        mean_best=_try(mean.best),
        theorem2=_try(lambda: theorem2(system)),
        trace_radius=_try(
            lambda: trace_radius(_require_problem(problem, unavailable), system.rule)
        ),
        ceiling=_try(lambda: lambda_ceiling(_require_problem(problem, unavailable), system.rule)),
        square_limit=_try(square_limit),
        advice=advice,
        floor=_try(floor),
        model=_try(step_model),
        noise=_try(chain),
        steps=steps,
    )


def _try(compute: Callable[[], Result]) -> Result | str:
    """Return a result, or the reason why it is unavailable."""
    try:
        return compute()
    except SaddlebackError as error:
        return str(error)


def _require_problem(problem: Problem | None, reason: str) -> Problem:
    if problem is None:
        raise Undefined(reason)
    return problem
