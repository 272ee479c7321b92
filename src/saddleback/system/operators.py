"""The operators of the paper, on values for the rows of Φ: pairs (s, a), or states.

    B^π q = r + γP^π q                                           (Bellman)
    B_λ q = q + E_μ[Σ_k (γλ)^k ρ_1…ρ_k δ_k] = q + (I − γλP^π)⁻¹ (B^π q − q)
    Π = Φ (ΦᵀΞΦ)⁺ ΦᵀΞ                                            (projection)

The λ-operator is defined for any trace, with κ in place of λρ: the discounted kernel of a trace is
P_κ(s,a; s',a') = l(s,a) p(s'|s,a) μ(a'|s') κ(s',a'), with l = 1 except for V-trace. Exact systems,
too, need z = (I − γP_κ)⁻¹ y for functions y of pairs. Since P_κ factors through the next state,

    z = y + l Γ n,        n(s') = Σ_a μ(a|s') κ(s',a) z(s',a),

this takes one solve with one unknown per state instead of per pair. Γ is γP without the transitions
that end an episode, so episodic problems need no special case.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from saddleback import _registry, _validate, markov_chain
from saddleback._typing import ArrayLike, BoolArray, FloatArray
from saddleback.errors import Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule, Terms, terms
from saddleback.system.linear_stability import pseudo_inverse


def bellman(problem: Problem, values: ArrayLike) -> FloatArray:
    """B^π q = r + γP^π q, the Bellman operator, on values q for each row of Φ.

    Examples
    --------
    >>> from saddleback import problems
    >>> walk = problems.random_walk()
    >>> np.allclose(bellman(walk, walk.truth), walk.truth)
    True
    """
    y = _rows(problem, values)
    errors = _pair_errors(problem, y)
    if problem.values == "state":
        return y + average(problem.target, errors)[:, 0]
    return y + errors[:, 0]


def lambda_operator(
    problem: Problem,
    rule: Rule,
    values: ArrayLike,
    *,
    form: Literal["resolvent", "series"] = "resolvent",
) -> FloatArray:
    """B_κ q = q + (I − γP_κ)⁻¹ (B^π q − q) of the rule's trace, on values for each row of Φ.

    Parameters
    ----------
    problem, rule
        The problem, and the rule whose trace is used.
    values
        One value for each row of Φ.
    form
        ``"series"`` sums the paper's expectation term by term, until a term is below 1e-16 of the
        sum; ``"resolvent"`` is its closed form. They agree.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> problem = problems.two_state(rewards=[[1, -1], [0.5, 2]])
    >>> forms = [lambda_operator(problem, GES(0.9), np.ones(4), form=f)
    ...          for f in ("series", "resolvent")]
    >>> np.allclose(*forms)
    True
    """
    _registry.check_name("form", form, ("resolvent", "series"))
    y = _rows(problem, values)
    t = terms(rule, problem)
    if t.cap < np.inf:
        raise Undefined(f"{rule} has a memory, so it has no operator on values of states or pairs.")
    delta = _pair_errors(problem, y)
    z = (resolvent if form == "resolvent" else _series)(problem, t, delta)
    if problem.values == "state":
        return y + average(problem.behaviour * t.weight.reshape(problem.rho.shape), z)[:, 0]
    return y + z[:, 0]


def projection(problem: Problem) -> FloatArray:
    """Π = Φ(ΦᵀΞΦ)⁺ΦᵀΞ, the weighted projection onto the span of the features.

    Examples
    --------
    >>> from saddleback import problems
    >>> Pi = projection(problems.two_state())
    >>> np.allclose(Pi @ Pi, Pi)
    True
    """
    weighted = problem.Phi.T * problem.weights
    return problem.Phi @ pseudo_inverse(weighted @ problem.Phi) @ weighted


def _rows(problem: Problem, values: ArrayLike) -> FloatArray:
    y = _validate.floats("values", values)
    _validate.shape("values", y, (len(problem.Phi),))
    _validate.finite("values", y)
    return y


def _pair_errors(problem: Problem, y: FloatArray) -> FloatArray:
    """Expected TD error δ(s,a) = r + γE[value of s'] − value, a column over pairs."""
    mdp = problem.mdp
    if problem.values == "state":
        current, successor = np.repeat(y, mdp.n_actions), y[:, None]
    else:
        current, successor = y, average(problem.target, y[:, None])
    return mdp.R.reshape(-1, 1) + backward(problem, successor) - current[:, None]


def _series(problem: Problem, t: Terms, delta: FloatArray) -> FloatArray:
    """Σ_k (γP_κ)^k δ, where term k is the credit that flows back k steps."""
    flow = problem.behaviour * t.kappa.reshape(problem.behaviour.shape)
    term, total = delta, delta.copy()
    while np.abs(term).max() > 1e-16 * np.abs(total).max():
        term = t.lead[:, None] * backward(problem, average(flow, term))
        total += term
    return total


def average(weights: FloatArray, pairs: FloatArray) -> FloatArray:
    """Σ_a weights(s,a) pairs(s,a): from pairs [S·A, k] to states [S, k]."""
    return np.asarray(np.einsum("sa,sak->sk", weights, pairs.reshape(*weights.shape, -1)))


def backward(problem: Problem, states: FloatArray) -> FloatArray:
    """Γ applied to a function of the next state: from states [S, k] to pairs [S·A, k]."""
    mdp = problem.mdp
    return (mdp.discounted.reshape(-1, mdp.n_states)) @ states


def resolvent(
    problem: Problem, t: Terms, y: FloatArray, states: BoolArray | None = None
) -> FloatArray:
    """(I − γP_κ)⁻¹ y for columns y [S·A, k] and the trace of some terms.

    ``states`` restricts the sum to a set of states that μ does not leave; z is valid only there.
    """
    mdp = problem.mdp
    flow = problem.behaviour * t.kappa.reshape(mdp.n_states, mdp.n_actions)
    lead = t.lead.reshape(flow.shape)
    inside = slice(None) if states is None else states
    K = np.einsum("sa,sat->st", flow * lead, mdp.discounted)[inside][:, inside]
    n = np.zeros((mdp.n_states, y.shape[1]))
    n[inside] = markov_chain.total(K, average(flow, y)[inside], "the expected trace")
    return y + t.lead[:, None] * backward(problem, n)


def expected_products(problem: Problem, t: Terms) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A, b and C of a rule with some terms, from long-run expectations; see `System`."""
    p, visited = problem.p, problem.visits > 0
    r = problem.mdp.R.reshape(-1, 1)
    expected_b = backward(problem, average(problem.behaviour, t.bootstrap))
    kept = expected_b - backward(problem, average(problem.behaviour, t.correction))
    expected_x = expected_b - t.lead[:, None] * kept
    z = resolvent(problem, t, np.hstack([expected_b - t.phi, r, expected_x]), visited)
    products = (t.phi.T * (problem.pair_visits.ravel() * _expected_weight(problem, t))) @ z
    return products[:, :p], products[:, p], products[:, p + 1 :].T


def _expected_weight(problem: Problem, t: Terms) -> FloatArray:
    """Long-run mean of the trace weight w_t given the pair, [S·A].

    With an emphasis of share c: w̄ = w (1 − c + c f(s)/d(s)), f = d + βP_πᵀ f; β is γ unless given.
    """
    if t.emphasis == 0.0:
        return t.weight
    mdp, d = problem.mdp, problem.visits
    visited = d > 0
    stay = t.follow_decay(mdp.gamma) * mdp.staying
    Gamma_pi = np.einsum("sa,sat->st", problem.target, stay)[visited][:, visited]
    m = np.ones(mdp.n_states)
    f = markov_chain.total(Gamma_pi.T, d[visited], "the expected emphasis")
    m[visited] += t.emphasis * (f / d[visited] - 1.0)
    return t.weight * np.repeat(m, mdp.n_actions)
