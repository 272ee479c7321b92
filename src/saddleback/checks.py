"""Contract checks for rules, shipped so that a rule of your own can be put to the same test.

Each check is a small function with a sentence; `check_rule` runs them all.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from saddleback.errors import SaddlebackError
from saddleback.learning import learn
from saddleback.problem import Problem
from saddleback.problems import random_mdp
from saddleback.rules import NAMED, Rule, terms
from saddleback.system import System

__all__ = ["CheckFailed", "check_rule", "named_rules", "typical_problem"]


class CheckFailed(SaddlebackError):
    """A rule breaks one of the promises every rule makes."""


def check_rule(rule: Rule) -> None:
    """Run every check on a rule; raise `CheckFailed` at the first broken promise.

    Examples
    --------
    >>> from saddleback import GES
    >>> check_rule(GES(0.5))
    """
    for check in (
        it_is_a_value,
        it_prints_its_parts,
        its_trace_is_a_pure_function,
        its_forms_share_a_system,
        its_tabular_fixed_point_is_the_truth,
        its_settings_do_not_disturb_each_other,
        its_runs_repeat,
    ):
        check(rule)


def named_rules() -> list[Rule]:
    """One rule of each name, with cheap parameters, for use in tests.

    Examples
    --------
    >>> [str(rule) for rule in named_rules()[:3]]
    ['GES(0.4)', 'GQ(0.4)', 'ABQ(0.4)']
    """
    parameters = {"GTD": {}, "ABQ": {"zeta": 0.4}}
    return [make(**parameters.get(name, {"lam": 0.4})) for name, make in NAMED.items()]


def typical_problem(rule: Rule, seed: int = 7) -> Problem:
    """Return a random problem on which the rule may be used.

    Examples
    --------
    >>> from saddleback import TD
    >>> typical_problem(TD(0.5)).values
    'state'
    """
    on_policy = rule.bootstrap.on_policy_only
    values = rule.bootstrap.values
    return random_mdp(rng=seed, values=values, off_policy=0.0 if on_policy else 0.7)


def it_is_a_value(rule: Rule) -> None:
    """Hashable, and equal to any rule made of the same parts."""
    copy = dataclasses.replace(rule)
    _require(copy == rule and hash(copy) == hash(rule), rule, "differs from a copy of itself")


def it_prints_its_parts(rule: Rule) -> None:
    """``repr`` shows the composition."""
    for part in (rule.trace, rule.form, rule.bootstrap):
        _require(repr(part) in repr(rule), rule, f"repr does not show {part!r}")


def its_trace_is_a_pure_function(rule: Rule) -> None:
    """κ is finite and ≥ 0, has the shape of the policies, and leaves them as they are."""
    problem = typical_problem(rule)
    pi, mu = problem.target.copy(), problem.behaviour.copy()
    kappa = rule.trace.kappa(pi, mu)
    same = np.array_equal(pi, problem.target) and np.array_equal(mu, problem.behaviour)
    _require(same, rule, "kappa changes the policies it is given")
    sound = np.shape(kappa) == pi.shape and np.isfinite(kappa).all() and (kappa >= 0).all()
    _require(bool(sound), rule, f"kappa must be finite, >= 0 and of shape {list(pi.shape)}")


def its_forms_share_a_system(rule: Rule) -> None:
    """Without emphasis E[γ'x eᵀ] = Aᵀ + M, so every form of a trace has one fixed point."""
    if rule.emphasis is None:
        system = System.exact(typical_problem(rule), rule)
        gap = np.abs(system.C - system.A.T - system.M).max()
        _require(gap < 1e-10, rule, f"E[γ'x eᵀ] differs from Aᵀ + M by {gap:.1e}")


def its_tabular_fixed_point_is_the_truth(rule: Rule) -> None:
    """With a feature for each row, Φθ* = q^π (or v^π, where κ carries the factor ρ)."""
    given = typical_problem(rule)
    rows = given.features.shape[:-1]
    table = np.eye(int(np.prod(rows))).reshape(*rows, -1)
    problem = Problem(given.mdp, table, given.target, given.behaviour)
    if rule.values == "state":
        t = terms(rule, problem)
        kappa, rho = (x.reshape(given.rho.shape) for x in (t.kappa, t.rho))
        scale = (kappa.sum(axis=1) / rho.sum(axis=1))[:, None]
        if not np.allclose(kappa, scale * rho):
            return
    gap = np.abs(System.exact(problem, rule).fixed_point - problem.truth).max()
    _require(gap < 1e-8, rule, f"its tabular fixed point is off the true values by {gap:.1e}")


def its_settings_do_not_disturb_each_other(rule: Rule) -> None:
    """A batch of step sizes gives, to the bit, what each gives alone."""
    problem = typical_problem(rule)
    alphas = np.array([0.001, 0.01, 0.02])
    batch = learn(rule, problem, alpha=alphas, beta=0.05, steps=200, rng=3)
    for k, alpha in enumerate(alphas):
        alone = learn(rule, problem, alpha=alpha, beta=0.05, steps=200, rng=3)
        _require(np.array_equal(alone.theta, batch.theta[k]), rule, "batch and single run differ")


def its_runs_repeat(rule: Rule) -> None:
    """The same seed gives the same bits; a step size of zero changes nothing."""
    problem = typical_problem(rule)
    first, second = (
        learn(rule, problem, alpha=0.01, beta=0.05, steps=200, rng=5) for _ in range(2)
    )
    _require(np.array_equal(first.theta, second.theta), rule, "two runs of one seed differ")
    still = learn(rule, problem, alpha=0.0, beta=0.0, steps=50, rng=5, theta0=1.0)
    _require(bool((still.theta == 1.0).all()), rule, "θ moves with a step size of zero")


def _require(holds: bool, rule: Rule, otherwise: str) -> None:
    if not holds:
        raise CheckFailed(f"{rule}: {otherwise}.")


__all__ = ["CheckFailed", "check_rule", "named_rules", "typical_problem"]
