"""Problems, rules and systems for the tests."""

import os

import numpy as np

from oracles import naive
from saddleback import (
    ETD,
    GES,
    CappedImportance,
    Expected,
    Experience,
    Problem,
    QSigma,
    Rule,
    Saddle,
    System,
    VTrace,
    problems,
)
from saddleback.rules import make_with

REWARDED = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])
"""The two-state problem with non-zero rewards."""

VARIANTS = {
    "ETD, own beta": lambda lam: ETD(lam, naive.FOLLOW_BETA),
    "QSigma": lambda lam: QSigma(lam, naive.SIGMA),
    "capped importance": lambda lam: capped(lam, naive.CAP),
    "VTrace": lambda lam: VTrace(lam, naive.RHO_BAR, naive.C_BAR),
}
"""Rules of the oracle with other options than those that the name alone gives."""


def steps_of(compiled, interpreted):
    """Return a number of steps; without the compiler each takes as long as a hundred with it."""
    return interpreted if "NUMBA_DISABLE_JIT" in os.environ else compiled


def capped(lam, cap):
    """Return a rule whose trace caps the products of ratios."""
    return Rule(CappedImportance(lam, cap), Saddle(), Expected())


def rule_named(name, parameter=0.4):
    """Return a rule of that name with the given λ (or ζ)."""
    return VARIANTS[name](parameter) if name in VARIANTS else make_with(name, parameter)


def problem_for(name, seed, *, termination=0.0, gamma=0.9, off_policy=0.7, **sizes):
    """Return a random problem to which the named rule applies."""
    bootstrap = rule_named(name).bootstrap
    return problems.random_mdp(
        gamma,
        rng=seed,
        values=bootstrap.values,
        off_policy=0.0 if bootstrap.on_policy_only else off_policy,
        termination=termination,
        **sizes,
    )


def tables(problem: Problem):
    """Return φ, π, μ for the oracle."""
    return problem.features, problem.target, problem.behaviour


def as_list(experience: Experience):
    """Return experience for the oracle, as a list of tuples."""
    columns = (
        experience.states,
        experience.actions,
        experience.rewards,
        experience.next_states,
        experience.next_actions,
        experience.discounts,
        experience.starts,
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def with_discounts(experience: Experience, rng) -> Experience:
    """Vary the discount from step to step, and truncate some episodes."""
    starts = experience.starts | (rng.random(len(experience)) < 0.05)
    discounts = experience.discounts * rng.uniform(0.3, 1.0, len(experience))
    return Experience(
        experience.states,
        experience.actions,
        experience.rewards,
        experience.next_states,
        experience.next_actions,
        discounts,
        starts,
    )


def trace_radius(problem: Problem, kappa):
    """Spectral radius of γ²[p(s'|s,a) μ(a'|s') κ(s',a')²]: E‖e‖² stays bounded iff it is < 1."""
    mdp = problem.mdp
    flow = problem.behaviour * kappa.reshape(problem.behaviour.shape) ** 2
    K = mdp.gamma * np.einsum("sa,sat->st", flow, mdp.discounted)
    return np.abs(np.linalg.eigvals(K)).max()


def system_from_arrays(A, M, b=None, rule=None):
    """Return a system with the given arrays."""
    A, M = np.atleast_2d(A), np.atleast_2d(M)
    b = np.ones(len(A)) if b is None else b
    return System(A, b, M, A.T + M, rule or GES(0.0))
