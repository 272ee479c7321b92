"""The λ ceiling, above which the second moment of a trace is infinite.

E‖e_t‖² stays bounded iff the spectral radius of γ²[p(s'|s,a) μ(a'|s') κ(s',a')²] is less than 1.
For κ = λκ_1 that radius is λ² times that of κ_1, so the ceiling is 1/√radius(κ_1). Where
E_μ[ρ²|s] is the same in every state it is 1/(γ√E[ρ²]). Above it a few terms dominate averages over
any amount of data, and no constant step size keeps E‖θ_t‖² bounded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine import Simulation
from saddleback.errors import InvalidParameter, InvalidShape, RuleMismatch
from saddleback.policies import ratio
from saddleback.problem import Problem
from saddleback.rules import Rule, as_rule
from saddleback.system.trace_history import unroll


def trace_radius(problem: Problem | Simulation, rule: Rule | str) -> float:
    """Spectral radius of γ²[p μ κ²]: E‖e‖² stays bounded iff it is less than 1.

    With an emphasis it is the larger of that and the same radius with ρ in place of κ, and the β of
    the emphasis, if it has one, in place of γ. For a simulation it is the largest γ² Σ_a μκ² over
    its kinds of state, an upper bound on the radius that is exact if all kinds agree.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> round(trace_radius(problems.two_state(gamma=0.99), GES(0.99)), 4)
    1.9212
    """
    rule = as_rule(rule)
    if isinstance(problem, Simulation):
        kappa = np.asarray(rule.trace.kappa(problem.target, problem.behaviour))
        if rule.trace.product_cap < np.inf:  # without the ratios, whose products are bounded
            capped = np.minimum(ratio(problem.target, problem.behaviour), rule.trace.product_cap)
            share = np.divide(kappa, capped, out=np.zeros_like(kappa), where=capped > 0)
            return float((problem.gamma * share.max()) ** 2)
        square = kappa**2
        return float(problem.gamma**2 * (problem.behaviour * square).sum(axis=1).max())
    _validate.instance("trace_radius", "problem", problem, Problem)
    problem, t, _ = unroll(problem, rule)
    mdp = problem.mdp
    visited = problem.visits > 0

    def growth(factor: FloatArray, discount: float) -> float:
        flow = problem.behaviour * factor.reshape(problem.behaviour.shape) ** 2
        K = discount**2 * np.einsum("sa,sat->st", flow, mdp.staying)
        return _radius(K[np.ix_(visited, visited)])

    # An emphasis grows by γρ (or βρ) per step, for any λ.
    emphasis = growth(t.rho, t.follow_decay(mdp.gamma)) if t.emphasis else 0.0
    return max(growth(t.kappa * t.lead, mdp.gamma), emphasis)


def above_ceiling(rule: Rule) -> str:
    """The message for a rule whose second moments are infinite."""
    return (
        f"{rule} is above the λ ceiling of this problem: E‖e‖² grows without bound, and so does "
        "the mean square error for every constant step size. Use a smaller λ (lambda_ceiling)."
    )


def _radius(K: FloatArray) -> float:
    return float(np.abs(np.linalg.eigvals(K)).max())


def lambda_ceiling(problem: Problem | Simulation, rule: Rule | str) -> float:
    """Return the λ ceiling: below it the trace of the rule has a finite second moment.

        λ_max = 1/√radius of γ²[p μ κ²] at λ = 1        (`trace_radius`)

    Parameters
    ----------
    problem
        A finite problem, or a simulation such as ``problems.mountain_car()``.
    rule
        A rule whose κ is proportional to λ, such as ``GES(lam)``; its own λ is ignored. The ceiling
        is infinite if every λ is below it.

    Examples
    --------
    >>> from saddleback import GES, GRetrace, problems
    >>> two = problems.two_state(gamma=0.99)
    >>> round(lambda_ceiling(two, GES(0.5)), 3), round(lambda_ceiling(two, GRetrace(0.5)), 3)
    (0.714, 1.428)
    >>> round(lambda_ceiling(problems.mountain_car(), GES(0.5)), 3)
    0.62
    """
    rule = as_rule(rule)
    longest, shortest = rule.with_lambda(1.0), rule.with_lambda(0.0)
    if longest is None or shortest is None:
        raise RuleMismatch(
            f"lambda_ceiling: the trace of {rule} has no λ. Use trace_radius, which is below 1 if "
            "its second moment is finite."
        )
    grows = rule.emphasis is not None and trace_radius(problem, rule) >= 1.0
    if grows and trace_radius(problem, shortest) >= 1.0:
        return 0.0
    radius = trace_radius(problem, replace(longest, emphasis=None))
    return float("inf") if radius == 0.0 else radius**-0.5


def lambda_ceiling_of_log(
    ratios: ArrayLike, gamma: float, states: ArrayLike | None = None, starts: ArrayLike = False
) -> float:
    """Estimate the λ ceiling of importance traces from the ratios ρ_t of a log, in order.

    Parameters
    ----------
    ratios
        ρ_t = π/μ of each logged step, [T].
    gamma
        The discount.
    states
        Labels of the states, [T], whole numbers. Without them E[ρ²|s] is assumed to be the same in
        every state, which gives 1/(γ√mean ρ²); with them the radius is that of the logged
        transitions.
    starts
        Which steps begin an episode, [T].

    Examples
    --------
    >>> lambda_ceiling_of_log([2.0, 0.0, 0.0, 2.0], gamma=0.99).__round__(3)
    0.714
    """
    rho = _validate.floats("ratios", ratios)
    _validate.shape("ratios", rho, ("T",))
    _validate.finite("ratios", rho)
    discount = _validate.unit("lambda_ceiling_of_log", "gamma", gamma)
    if not len(rho) or (rho < 0).any():
        raise InvalidParameter("ratios must not be empty, and all must be >= 0.")
    if states is None:
        radius = discount**2 * float(np.mean(rho**2))
    else:
        label = np.asarray(states)
        if label.shape != rho.shape or label.dtype.kind not in "iu":
            raise InvalidShape(f"states must be whole numbers, one for each of {len(rho)} ratios.")
        labels, at = np.unique(label, return_inverse=True)
        begins = np.asarray(starts, dtype=bool)
        if begins.shape not in ((), rho.shape):
            raise InvalidShape(f"starts must have one entry for each of {len(rho)} ratios.")
        continues = ~np.broadcast_to(begins, rho.shape)[1:]
        K = np.zeros((len(labels), len(labels)))
        np.add.at(K, (at[:-1][continues], at[1:][continues]), rho[:-1][continues] ** 2)
        radius = discount**2 * _radius(
            K / np.maximum(np.bincount(at, minlength=len(K)), 1)[:, None]
        )
    return float("inf") if radius == 0.0 else radius**-0.5
