"""A rule on a problem as tables, which learners and exact systems both use.

All of them are tables over the pairs i = (s, a), in the order of ``Φ``:

    φ_i    b_j    x_j    κ_i    w_i    ρ_i            (j the next pair)

A learner looks them up step by step; `System.exact` takes their expectation. So both use one
definition of a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from saddleback import _validate
from saddleback._typing import BoolArray, FloatArray
from saddleback.errors import InvalidNumbers, InvalidShape, RuleMismatch
from saddleback.policies import ratio
from saddleback.problem import Problem
from saddleback.rules.rule import Rule


@dataclass(frozen=True, eq=False)
class Terms:
    """Per-step numbers of a rule, as tables over n = S·A pairs.

    Attributes
    ----------
    phi, bootstrap, correction
        φ, b and x, [n, p]; b and x are those of the next pair.
    kappa, weight, rho
        κ, w (before any emphasis) and ρ, [n].
    emphasis
        Share of the follow-on trace in the weight: w_t = w (1 − share + share·f_t).

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> terms(GES(0.5), problems.two_state()).phi.shape
    (4, 2)
    """

    phi: FloatArray
    bootstrap: FloatArray
    correction: FloatArray
    kappa: FloatArray
    weight: FloatArray
    rho: FloatArray
    emphasis: float


def terms(rule: Rule, problem: Problem) -> Terms:
    """Tabulate a rule on a problem; incompatible combinations are refused.

    The correction vector is x(s') = E_μ[b | s'] − Σ_a μ(a|s') κ(s',a) φ(s',a).

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> terms(GES(0.5), problems.two_state()).kappa
    array([1., 0., 1., 0.])
    """
    rule = as_rule(rule)
    check(rule, problem)
    phi = problem.features
    if problem.values == "state":
        phi = np.repeat(phi[:, None, :], problem.mdp.n_actions, axis=1)
    return tabulate(rule, phi, problem.target, problem.behaviour, problem.mdp.acting)


def tabulate(
    rule: Rule, phi: FloatArray, pi: FloatArray, mu: FloatArray, acting: BoolArray
) -> Terms:
    """Tabulate a rule on features φ [n, A, p] and policies π, μ [n, A] of n kinds of state.

    Examples
    --------
    >>> from saddleback import GTB
    >>> pi, mu = np.array([[0.2, 0.8]]), np.array([[0.5, 0.5]])
    >>> tabulate(GTB(0.5), np.eye(2)[None], pi, mu, np.array([True])).kappa
    array([0.1, 0.4])
    """
    for s, a in np.argwhere(np.abs(pi - mu)[acting] > 1e-12)[: int(rule.bootstrap.on_policy_only)]:
        s = np.flatnonzero(acting)[s]
        raise RuleMismatch(
            f"{rule} evaluates the behaviour policy, so it needs target = behaviour; here "
            f"π({a}|{s}) = {pi[s, a]:g} and μ({a}|{s}) = {mu[s, a]:g}. Use ExpectedSarsa or GES to "
            "evaluate another policy."
        )
    kappa = np.zeros_like(pi)
    result = np.asarray(rule.trace.kappa(pi[acting], mu[acting]), dtype=np.float64)
    if result.shape != pi[acting].shape:
        raise InvalidShape(
            f"{rule.trace!r}.kappa must return the shape of the policies, "
            f"{list(pi[acting].shape)}, got {list(result.shape)}."
        )
    for s, a in np.argwhere(~(np.isfinite(result) & (result >= 0)))[:1]:
        raise InvalidNumbers(
            f"{rule.trace!r}.kappa[{np.flatnonzero(acting)[s]}, {a}] is {result[s, a]:g}; it must "
            "be finite and >= 0."
        )
    kappa[acting] = result
    rho = ratio(pi, mu)
    b = rule.bootstrap.rows(phi, pi)
    x = np.einsum("sa,sap->sp", mu, b - kappa[:, :, None] * phi)
    p = phi.shape[2]
    return Terms(
        phi=phi.reshape(-1, p),
        bootstrap=np.ascontiguousarray(b).reshape(-1, p),
        correction=np.repeat(x, phi.shape[1], axis=0),
        kappa=kappa.ravel(),
        weight=rule.bootstrap.weight(rho).ravel(),
        rho=rho.ravel(),
        emphasis=0.0 if rule.emphasis is None else rule.emphasis.share,
    )


def check(rule: Rule, problem: Problem) -> None:
    """Refuse a rule that cannot be applied to ``problem``."""
    _validate.instance(str(rule), "problem", problem, Problem)
    if rule.values != problem.values:
        shape = "[s, a, p]" if rule.values == "action" else "[s, p]"
        raise RuleMismatch(
            f"{rule} learns {rule.values} values but the problem's features describe "
            f"{problem.values} values; give features of shape {shape}, or use another rule."
        )


def as_rule(rule: object) -> Rule:
    """Return a rule, or the one that a text describes; anything else is refused.

    Examples
    --------
    >>> print(as_rule("GES:0.5"))
    GES(0.5)
    """
    if isinstance(rule, str):
        return Rule.parse(rule)
    if not isinstance(rule, Rule):
        name = getattr(rule, "__name__", "")
        hint = f" Call it first: {name}(...)." if callable(rule) else ""
        raise RuleMismatch(f"rule must be a Rule, got {rule!r}.{hint}")
    return rule


def as_rules(rules: object) -> list[Rule]:
    """Return one rule or several as a list; anything else, and an empty list, is refused.

    Examples
    --------
    >>> from saddleback import GES
    >>> [str(rule) for rule in as_rules([GES(0.5), "GQ:0.5"])]
    ['GES(0.5)', 'GQ(0.5)']
    """
    listed: list[Any] = list(rules) if isinstance(rules, (list, tuple)) else [rules]
    if not listed:
        raise RuleMismatch("the list of rules is empty; give at least one rule.")
    return [as_rule(rule) for rule in listed]
