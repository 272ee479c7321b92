"""Discounted sums along the behaviour chain, weighted by the trace.

The discounted kernel of a trace is P_κ(s,a; s',a') = p(s'|s,a) μ(a'|s') κ(s',a'). Exact systems
need z = (I − γP_κ)⁻¹ y for functions y of pairs. Since P_κ factors through the next state,

    z = y + Γ n,        n(s') = Σ_a μ(a|s') κ(s',a) z(s',a),

this takes one solve with one unknown per state instead of per pair. Γ is γP without the transitions
that end an episode, so episodic problems need no special case.
"""

from __future__ import annotations

import numpy as np

from saddleback import markov_chain
from saddleback._typing import BoolArray, FloatArray
from saddleback.problem import Problem


def average(weights: FloatArray, pairs: FloatArray) -> FloatArray:
    """Σ_a weights(s,a) pairs(s,a): from pairs [S·A, k] to states [S, k]."""
    return np.asarray(np.einsum("sa,sak->sk", weights, pairs.reshape(*weights.shape, -1)))


def backward(problem: Problem, states: FloatArray) -> FloatArray:
    """Γ applied to a function of the next state: from states [S, k] to pairs [S·A, k]."""
    mdp = problem.mdp
    return (mdp.discounted.reshape(-1, mdp.n_states)) @ states


def resolvent(
    problem: Problem, kappa: FloatArray, y: FloatArray, states: BoolArray | None = None
) -> FloatArray:
    """(I − γP_κ)⁻¹ y for columns y [S·A, k] and trace coefficients κ [S·A].

    ``states`` restricts the sum to a set of states that μ does not leave; z is valid only there.
    """
    mdp = problem.mdp
    flow = problem.behaviour * kappa.reshape(mdp.n_states, mdp.n_actions)
    inside = slice(None) if states is None else states
    K = np.einsum("sa,sat->st", flow, mdp.discounted)[inside][:, inside]
    n = np.zeros((mdp.n_states, y.shape[1]))
    n[inside] = markov_chain.total(K, average(flow, y)[inside], "the expected trace")
    return y + backward(problem, n)
