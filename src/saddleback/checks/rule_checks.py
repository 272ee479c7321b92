"""Contract checks of rules; each is a function that states one property."""

from __future__ import annotations

import dataclasses

import numpy as np

from saddleback.engine import FiniteSource, sample
from saddleback.errors import SaddlebackError
from saddleback.features import OneHot
from saddleback.learning import learn
from saddleback.log import Log
from saddleback.ope import Statistics
from saddleback.problem import Problem
from saddleback.problems import random_mdp
from saddleback.rules import NAMED, Rule, as_rule, make_with, terms
from saddleback.rules.requirements import wrong_declaration
from saddleback.system import System


class CheckFailed(SaddlebackError):
    """A property that saddleback relies on does not hold."""


def check_rule(rule: Rule | str) -> None:
    """Check a rule, on finite problems and on a log.

    Its trace is a pure function and is what it declares; its tabular fixed point is the truth; runs
    repeat bit for bit; and A, b and M of a log are those of the experience in it.

    Examples
    --------
    >>> check_rule("GES:0.5")
    """
    rule = as_rule(rule)
    for check in (
        check_value_semantics,
        check_repr,
        check_trace_is_pure,
        check_declarations,
        check_forms_share_a_system,
        check_tabular_fixed_point,
        check_settings_are_independent,
        check_runs_are_reproducible,
        check_logged_path,
    ):
        check(rule)


def named_rules() -> list[Rule]:
    """Return one rule of each name, for use in tests.

    Examples
    --------
    >>> [str(rule) for rule in named_rules()[:3]]
    ['GES(0.4)', 'GQ(0.4)', 'ABQ(0.4)']
    """
    return [make_with(name, 0.4) for name in NAMED]


def typical_problem(rule: Rule, seed: int = 7) -> Problem:
    """Return a random problem to which the rule applies.

    Examples
    --------
    >>> from saddleback import TD
    >>> typical_problem(TD(0.5)).values
    'state'
    """
    on_policy = rule.bootstrap.on_policy_only
    values = rule.bootstrap.values
    return random_mdp(rng=seed, values=values, off_policy=0.0 if on_policy else 0.7)


def check_value_semantics(rule: Rule) -> None:
    """A rule is hashable, and equal to any rule with the same parts."""
    copy = dataclasses.replace(rule)
    _require(copy == rule and hash(copy) == hash(rule), rule, "differs from a copy of itself")


def check_repr(rule: Rule) -> None:
    """``repr`` shows every part of the rule."""
    for part in (rule.trace, rule.form, rule.bootstrap):
        _require(repr(part) in repr(rule), rule, f"repr does not show {part!r}")


def check_trace_is_pure(rule: Rule) -> None:
    """κ is finite and ≥ 0, has the shape of the policies, and does not modify them."""
    problem = typical_problem(rule)
    pi, mu = problem.target.copy(), problem.behaviour.copy()
    kappa = rule.trace.kappa(pi, mu)
    same = np.array_equal(pi, problem.target) and np.array_equal(mu, problem.behaviour)
    _require(same, rule, "kappa changes the policies it is given")
    valid = np.shape(kappa) == pi.shape and np.isfinite(kappa).all() and (kappa >= 0).all()
    _require(bool(valid), rule, f"kappa must be finite, >= 0 and of shape {list(pi.shape)}")


def check_declarations(rule: Rule) -> None:
    """The properties that a trace and a bootstrap declare hold."""
    wrong = wrong_declaration(rule.trace)
    _require(not wrong, rule, wrong)
    if rule.bootstrap.is_next_phi:
        t = terms(rule, typical_problem(rule))
        failure = "is_next_phi is True, but b differs from the next φ"
        _require(np.array_equal(t.bootstrap, t.phi), rule, failure)


def check_forms_share_a_system(rule: Rule) -> None:
    """E[γ'x eᵀ] = Aᵀ + M, so all forms of a trace have the same fixed point.

    Not with an emphasis, or with a truncated weight, whose mean in a state is not 1.
    """
    if rule.emphasis is None and not rule.bootstrap.weights_error:
        system = System.exact(typical_problem(rule), rule)
        gap = np.abs(system.C - system.A.T - system.M).max()
        _require(gap < 1e-10, rule, f"E[γ'x eᵀ] differs from Aᵀ + M by {gap:.1e}")


def check_tabular_fixed_point(rule: Rule) -> None:
    """Tabular, Φθ* = q^π (or v^π, if κ has the factor w) of the policy that is evaluated."""
    problem = _tabular(typical_problem(rule))
    if rule.values == "state":
        t = terms(rule, problem)
        kappa, weight = (x.reshape(problem.rho.shape) for x in (t.kappa, t.weight))
        scale = (kappa.sum(axis=1) / weight.sum(axis=1))[:, None]
        if not np.allclose(kappa, scale * weight):
            return
    policy = rule.bootstrap.evaluated(problem.target, problem.behaviour)
    truth = Problem(problem.mdp, problem.features, policy, problem.behaviour).truth
    gap = np.abs(System.exact(problem, rule).fixed_point - truth).max()
    _require(gap < 1e-8, rule, f"its tabular fixed point differs from the true values by {gap:.1e}")


def check_settings_are_independent(rule: Rule) -> None:
    """A batch of step sizes gives bit-identical results to one run per step size."""
    problem = typical_problem(rule)
    alphas = np.array([0.001, 0.01, 0.02])
    batch = learn(rule, problem, alpha=alphas, beta=0.05, steps=200, rng=3)
    for k, alpha in enumerate(alphas):
        single = learn(rule, problem, alpha=alpha, beta=0.05, steps=200, rng=3)
        _require(np.array_equal(single.theta, batch.theta[k]), rule, "batch and single run differ")


def check_runs_are_reproducible(rule: Rule) -> None:
    """The same seed gives bit-identical results; a step size of zero changes nothing."""
    problem = typical_problem(rule)
    first, second = (
        learn(rule, problem, alpha=0.01, beta=0.05, steps=200, rng=5) for _ in range(2)
    )
    _require(np.array_equal(first.theta, second.theta), rule, "two runs of one seed differ")
    frozen = learn(rule, problem, alpha=0.0, beta=0.0, steps=50, rng=5, theta0=1.0)
    _require(bool((frozen.theta == 1.0).all()), rule, "θ changes with a step size of zero")


def check_logged_path(rule: Rule) -> None:
    """A, b and M of a log equal those of the same experience on the problem."""
    if rule.bootstrap.on_policy_only or not rule.trace.pointwise:
        return  # refused on logs
    values = rule.bootstrap.values
    problem = _tabular(random_mdp(rng=7, values=values, off_policy=0.7, termination=0.1))
    sampled = sample(problem, 400, rng=5)
    starts = np.flatnonzero(sampled.starts)
    experience = sampled[: int(starts[starts % 2 == 0][-1])]  # complete episodes, two batches
    direct = System.estimate(FiniteSource(problem, experience), rule, batches=2)
    mu = problem.behaviour[experience.states]
    ends = experience.discounts == 0
    log = Log(
        {
            "episode_id": np.cumsum(experience.starts), "obs_0": experience.states.astype(float),
            "action": experience.actions, "reward": experience.rewards, "terminated": ends,
            "truncated": np.zeros(len(ends), dtype=bool),
            "behavior_prob": mu[np.arange(len(mu)), experience.actions],
            **{f"mu_{a}": column for a, column in enumerate(mu.T)},
        }
    )  # fmt: skip
    sums = Statistics.of(
        log, rule, problem.target, features=OneHot(problem.mdp.n_states), gamma=problem.mdp.gamma
    )
    logged = sums.system()
    for name in ("A", "b", "M"):
        gap = np.abs(getattr(logged, name) - getattr(direct, name)).max()
        _require(gap < 1e-10, rule, f"{name} of a log differs from that of its steps by {gap:.1e}")


def _tabular(problem: Problem) -> Problem:
    """Return a problem with one feature for each row of Φ."""
    rows = problem.features.shape[:-1]
    table = np.eye(int(np.prod(rows))).reshape(*rows, -1)
    return Problem(problem.mdp, table, problem.target, problem.behaviour)


def _require(holds: bool, rule: Rule, failure: str) -> None:
    if not holds:
        raise CheckFailed(f"{rule}: {failure}.")
