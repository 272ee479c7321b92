"""Advice on step sizes: by the mean update, by Theorem 2, or by the expected error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import minimize

from saddleback import _registry, _validate
from saddleback._typing import FloatArray
from saddleback.errors import Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule
from saddleback.system import System
from saddleback.system.system import as_system
from saddleback.theory import moment_model
from saddleback.theory.covariance import noise_covariance
from saddleback.theory.mean_square import MeanSquare
from saddleback.theory.mean_stability import MeanStability
from saddleback.theory.noise_chain import Noise, noise_chain
from saddleback.theory.theorem2 import theorem2

NODES, MOMENTS = 150, 20_000
"""Largest number of nodes of a noise chain, and of its second moments over all nodes."""

MAX_CHECKED_MOMENTS = 10_000
"""Largest number of second moments for which the chain confirms each stability check."""

MAX_LOG_RATIO = 4 * np.log(8.0)
"""Largest |log β/α| in the search."""

METHODS = ("mean", "theorem2", "mean-square")


@dataclass(frozen=True)
class Advice:
    """Step sizes, with their expected performance and the reason for them.

    Attributes
    ----------
    alpha, beta
        The step sizes; beta is 0 for a rule without a dual variable.
    method
        The method that chose them.
    radius
        Asymptotic factor per step: of the mean error, or of its second moments for "mean-square".
    error
        Expected E‖θ_n − θ*‖² after the budget of steps, if there is one.
    reason
        How the step sizes were chosen, as a sentence.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> advice = step_sizes(problems.random_mdp(0.9, rng=0), GES(0.0), steps=1000)
    >>> advice.method, advice.error is not None
    ('mean-square', True)
    """

    alpha: float
    beta: float
    method: str
    radius: float
    error: float | None
    reason: str


def step_sizes(
    source: Problem | System,
    rule: Rule | str | None = None,
    method: Literal["mean", "theorem2", "mean-square"] = "mean-square",
    *,
    steps: int | None = None,
) -> Advice:
    """Advise on constant step sizes for a rule, started from weights of 0 (of 1 if θ* = 0).

    Parameters
    ----------
    source
        A finite problem with a rule, or a system, which has one. Mean-square advice needs the
        noise, which for a system means its batches (``System.estimate(…, keep_batches=True)``).
    rule
        The rule, for a problem.
    method
        "mean-square": the pair with the smallest expected error after ``steps`` steps, or without
        a budget the pair whose mean square error decreases fastest. "mean": the pair whose
        *expected* iteration converges fastest; far too large for single samples. "theorem2": the
        pair prescribed by Theorem 2 of the paper, for the expected iteration of the saddle form.
    steps
        Budget of steps.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
    >>> advice = step_sizes(problem, GES(0.4), steps=1000)
    >>> f"{advice.alpha:.2g} {advice.beta:.2g} {advice.error:.2g}"
    '0.0074 0.0056 0.0055'
    """
    _registry.check_name("method", method, METHODS)
    if steps is not None:
        _validate.count("step_sizes", "steps", steps)
    system = as_system("step_sizes", source, rule)
    if method == "theorem2":
        constants = theorem2(system)
        radius = float(MeanStability(system).radius(constants.alpha, constants.beta))
        return Advice(
            constants.alpha, constants.beta, method, radius, None, "prescribed by Theorem 2."
        )
    if method == "mean":
        best = MeanStability(system).best()
        return Advice(
            best.alpha, best.beta, method, best.radius, None,
            "the expected iteration converges fastest with these; single samples may diverge.",
        )  # fmt: skip
    if isinstance(source, System):
        return _search(moment_model.of_batches(source), system, None, steps)
    noise = affordable_chain(source, system.rule)
    return _search(quick_model(source, noise), system, noise, steps)


def affordable_chain(problem: Problem, rule: Rule) -> Noise:
    """Return the noise chain with as many nodes as repeated evaluation allows."""
    n = problem.p * (2 if rule.form.has_dual else 1)
    return noise_chain(problem, rule, max(problem.mdp.n_states, min(NODES, MOMENTS // n**2)))


def quick_model(problem: Problem, noise: Noise) -> moment_model.StepModel:
    """Return the smallest model of a problem's noise: independent steps, or the chain itself."""
    if noise.system.rule.emphasis is not None:  # the emphasis has memory
        return moment_model.of_chain(noise)
    return moment_model.of_independent(noise, noise_covariance(problem, noise.system.rule))


def stable(model: moment_model.StepModel, noise: Noise | None, alpha: float, beta: float) -> bool:
    """Whether step sizes are stable in mean square, by the model and by a small chain."""
    if not model.radius(alpha, beta) < 1.0:
        return False
    if noise is None or len(noise.weight) * noise.n**2 > MAX_CHECKED_MOMENTS:
        return True
    try:
        return MeanSquare(noise, alpha, beta).stable
    except Undefined:  # too close to 1 to compute: fall back to the model
        return True


def _search(
    quick: moment_model.StepModel, system: System, noise: Noise | None, steps: int | None
) -> Advice:
    """Search a coarse grid with a quick model, then refine with the best available model."""
    mean = MeanStability(system)
    dual = system.rule.form.has_dual

    def cost(model: moment_model.StepModel) -> Callable[[FloatArray], float]:
        def value(logs: FloatArray) -> float:
            if dual and abs(logs[1]) > MAX_LOG_RATIO:
                return np.inf
            alpha, beta = np.exp(logs[0]), np.exp(logs.sum()) if dual else 0.0
            if steps is None:
                return model.radius(alpha, beta)
            return float(np.log(max(model.error(alpha, beta, steps), 1e-300)))

        return value

    grid = []
    for ratio in 8.0 ** np.arange(-4, 5) if dual else [1.0]:
        limit = mean.max_step_size(ratio)
        logs = np.log(limit) - np.log(4.0) * np.arange(0.5, 10.5) if limit > 0 else []
        grid += [np.array([log, np.log(ratio)])[: 1 + dual] for log in logs]
    if not grid:
        raise Undefined(
            f"no step size is stable: the mean of {system.rule} diverges for every pair. Use a "
            "gradient form such as GES."
        )
    first = min(grid, key=cost(quick))
    best = _refine(cost(quick), first)
    exact = _exact(noise)
    if exact is not None:
        best = _refine(cost(exact), best)
    alpha, beta = float(np.exp(best[0])), float(np.exp(best.sum())) if dual else 0.0
    chosen = exact or quick
    for _ in range(20):
        if stable(chosen, noise, alpha, beta):
            break
        alpha, beta = alpha / 2, beta / 2
    else:
        raise Undefined(
            f"no step sizes of {system.rule} are stable in mean square, down to "
            f"α = {alpha:.3g}. Use a smaller λ, or another form."
        )
    error = None if steps is None else chosen.error(alpha, beta, steps)
    criterion = (
        "fastest in mean square"
        if steps is None
        else f"smallest expected error after {steps} steps"
    )
    accuracy = (
        "exact" if exact else "steps treated as independent, with the long-run noise covariance"
    )
    if noise is not None and noise.truncation_loss > 0.01:
        accuracy += f"; {noise.truncation_loss:.0%} of the trace truncated"
    return Advice(
        alpha, beta, "mean-square", chosen.radius(alpha, beta), error, f"{criterion} ({accuracy})."
    )


def _refine(cost: Callable[[FloatArray], float], first: FloatArray) -> FloatArray:
    """Minimise the cost from a point of the grid, in logarithms."""
    simplex = first + np.vstack([np.zeros(len(first)), np.log(2.0) * np.eye(len(first))])
    result = minimize(
        cost, first, method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.02, "fatol": 1e-9, "maxfev": 60},
    )  # fmt: skip
    return np.asarray(result.x if np.isfinite(result.fun) else first)


def _exact(noise: Noise | None) -> moment_model.StepModel | None:
    """Return the exact model if it is small enough for repeated evaluation."""
    if (
        noise is None
        or len(noise.weight) * (noise.n + 1) * (noise.n + 2) // 2 > moment_model.LARGEST
    ):
        return None
    return moment_model.of_chain(noise)
