"""Traces with a memory: a chain of states and histories, on which they are traces like all others.

The cap of `saddleback.CappedImportance` depends on H, the largest product of ratios so far:

    H_t = max(1, min(ρ_t H_{t-1}, c))        κ_t = λ min(ρ_t, c/H_{t-1})

so (S_t, H_{t-1}) is a Markov chain, on which κ is a function of the node and the action. If few
products occur, the chain has them all and is exact. Otherwise H is kept on a grid: between two
levels it takes one or the other, with the probabilities that keep log H in the mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddleback._typing import FloatArray
from saddleback.errors import Undefined
from saddleback.finite_mdp import FiniteMDP
from saddleback.policies import ratio
from saddleback.problem import Problem
from saddleback.rules import Rule, Terms, terms

NODES = 1500
"""Largest number of pairs (s, H), unless there are many states."""

LARGEST = 3000
"""Largest number of pairs (s, H) in any case, for dense matrices."""

LEVELS = 64
"""Largest number of levels of a grid."""

ROUNDING = 1e-9
"""Products that differ by less than this share are the same."""


class Unrolled(NamedTuple):
    """A problem whose states include the memory of a trace, with the terms of the rule on it.

    ``levels`` is the size of the grid; None if the chain is exact.
    """

    problem: Problem
    terms: Terms
    levels: int | None


def unroll(
    problem: Problem, rule: Rule, t: Terms | None = None, levels: int | None = None
) -> Unrolled:
    """Return a problem on which a rule has no memory: the problem itself for most rules.

    ``t`` are the terms of the rule on the problem, if they are known.

    Examples
    --------
    >>> from saddleback import CappedImportance, Expected, Saddle, problems
    >>> rule = Rule(CappedImportance(0.9, cap=8.0), Saddle(), Expected())
    >>> chain = unroll(problems.two_state(), rule)  # ρ is 2 or 0, so H is 1, 2, 4 or 8
    >>> chain.problem.mdp.n_states, chain.levels
    (10, None)
    """
    t = terms(rule, problem) if t is None else t
    if np.isinf(t.cap):
        return Unrolled(problem, t, None)
    mdp = problem.mdp
    largest = np.minimum(ratio(problem.target, problem.behaviour), t.cap)
    products = _products(np.unique(largest[mdp.acting]), t.cap, NODES // mdp.n_states)
    if products is not None and levels is None:
        grid = products
    else:
        levels = levels or int(np.clip(NODES // mdp.n_states - 2, 8, LEVELS))
        grid = np.geomspace(1.0, t.cap, levels)
    history = np.append(0.0, grid)  # 0: no history, after a start
    m, (states, actions) = len(history), largest.shape

    # From the history before a pair to the one after it, and the cap on κ.
    product = largest[:, None, :] * history[:, None]
    allowed = np.minimum(product, t.cap)
    share = np.divide(allowed, product, out=np.ones_like(product), where=product > 0)
    after = _on_grid(np.maximum(allowed, 1.0), grid)
    nodes = states * m
    if nodes > LARGEST:
        raise Undefined(
            f"{rule} has a memory, and with it the {states} states of this problem are {nodes}, "
            f"more than {LARGEST}. Use System.estimate."
        )
    P = np.einsum("sat,sjak->sjatk", mdp.P, after).reshape(nodes, actions, nodes)
    start = np.zeros((states, m))
    start[:, 0] = mdp.start

    def by_node(table: FloatArray) -> FloatArray:
        return np.repeat(table, m, axis=0)

    def by_pair(table: FloatArray) -> FloatArray:
        pairs = by_node(table.reshape(states, actions, *table.shape[1:]))
        return pairs.reshape(nodes * actions, *table.shape[1:])

    rewards, ends = (np.repeat(by_node(table), m, axis=2) for table in (mdp.rewards, mdp.ends))
    terminal = ends if mdp.episodic else None
    unrolled = Problem(
        FiniteMDP(P, rewards, mdp.gamma, start=start.ravel(), terminal=terminal),
        by_node(problem.features), by_node(problem.target), by_node(problem.behaviour),
    )  # fmt: skip
    repeated = ("phi", "bootstrap", "weight", "rho", "lead")
    tables: dict[str, Any] = {name: by_pair(getattr(t, name)) for name in repeated}
    kappa = by_pair(t.kappa) * share.reshape(-1)
    surplus = tables["bootstrap"] - kappa[:, None] * tables["phi"]
    mean = np.einsum("na,nap->np", unrolled.behaviour, surplus.reshape(nodes, actions, -1))
    x = np.repeat(mean, actions, axis=0)
    return Unrolled(unrolled, t._replace(kappa=kappa, correction=x, **tables), levels)


def _products(ratios: FloatArray, cap: float, limit: int) -> FloatArray | None:
    """Return all values of H, in order; None if there are more than ``limit``."""
    products, new = np.ones(1), np.ones(1)
    while len(new):
        reached = np.clip(np.outer(new, ratios).ravel(), 1.0, cap)
        products, before = np.sort(np.append(products, reached)), products
        products = products[np.append(True, np.diff(products) > ROUNDING * products[1:])]
        if len(products) >= limit:
            return None
        near = np.abs(products[:, None] - before).min(axis=1)
        new = products[near > ROUNDING * products]
    return products


def _on_grid(values: FloatArray, grid: FloatArray) -> FloatArray:
    """Return the probabilities of no history and of the levels, in a last axis."""
    position = np.interp(np.log(values), np.log(grid), np.arange(len(grid)))
    nearest = np.round(position)
    position = np.where(np.abs(position - nearest) < 1e-6, nearest, position)
    below = np.minimum(position.astype(np.int64), max(len(grid) - 2, 0))
    probabilities = np.zeros((*values.shape, len(grid) + 1))
    upper = np.minimum(position - below, 1.0)
    np.put_along_axis(probabilities, below[..., None] + 1, (1.0 - upper)[..., None], axis=-1)
    if len(grid) > 1:
        np.put_along_axis(probabilities, below[..., None] + 2, upper[..., None], axis=-1)
    return probabilities
