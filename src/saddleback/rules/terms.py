"""A rule as tables of per-step numbers, which all streams and exact systems use.

All of them are tables over the pairs i = (s, a), in the order of ``Φ``:

    φ_i    b_j    x_j    κ_i    w_i    ρ_i    l_i            (j the next pair)

The trace is e_t = γ_t l_{t-1} κ_t e_{t-1} + w_t φ_t. l is 1 unless w is a weight of the TD error.

A learner looks them up step by step, on a problem, a simulation or a log; `System.exact` takes
their expectation. So all use one definition of a rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddleback import _validate
from saddleback._typing import BoolArray, FloatArray, IntArray
from saddleback.errors import InvalidNumbers, InvalidShape, RuleMismatch
from saddleback.policies import ratio
from saddleback.problem import Problem
from saddleback.rules.rule import Rule
from saddleback.rules.traces import Trace


class Terms(NamedTuple):
    """Per-step numbers of a rule, as tables over n = S·A pairs.

    Attributes
    ----------
    phi, bootstrap, correction
        φ, b and x, [n, p]; b and x are those of the next pair.
    kappa, weight, rho
        κ, w (before any emphasis) and ρ, [n].
    lead
        The factor of the trace that depends on the pair before, l, [n].
    emphasis
        Share of the follow-on trace in the weight: w_t = w (1 − share + share·f_t).
    cap
        Cap on the products of ratios, with κ as at the start of a history.
    kappa_mu
        κ with μ in place of π, for a second trace, [n]; empty for rules without one.
    follow
        β of the follow-on trace, f_t = βρ_{t-1}f_{t-1} + 1; NaN for the discount.

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
    lead: FloatArray
    kappa_mu: FloatArray
    cap: float = np.inf
    emphasis: float = 0.0
    follow: float = np.nan

    def follow_decay(self, gamma: float) -> float:
        """Factor of ρ_{t-1}f_{t-1} in the follow-on trace of a problem with discount γ."""
        return gamma if np.isnan(self.follow) or gamma == 0.0 else self.follow


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
    kappa[acting] = _kappa(rule.trace, pi[acting], mu[acting], np.flatnonzero(acting))
    kappa_mu = np.zeros(0)
    if rule.form.coefficients.hybrid:
        kappa_mu = np.zeros_like(pi)
        kappa_mu[acting] = _kappa(rule.trace, mu[acting], mu[acting], np.flatnonzero(acting))
    rho = ratio(pi, mu)
    weight = rule.bootstrap.weight(rho)
    kappa, lead = _leave(rule, kappa, weight)
    b = rule.bootstrap.rows(phi, pi)
    p = phi.shape[2]
    return Terms(
        phi=phi.reshape(-1, p),
        bootstrap=np.ascontiguousarray(b).reshape(-1, p),
        correction=np.repeat(_correction(b, kappa, phi, mu), phi.shape[1], axis=0),
        kappa=kappa.ravel(),
        weight=weight.ravel(),
        rho=rho.ravel(),
        lead=lead.ravel(),
        kappa_mu=kappa_mu.ravel(),
        cap=rule.trace.product_cap,
        **_emphasis(rule),
    )


def tabulate_steps(
    rule: Rule,
    phi: FloatArray,
    pi: FloatArray,
    mu: FloatArray,
    steps: tuple[IntArray, IntArray],
    correction: bool,
) -> Terms:
    """Tabulate a rule on steps (states, actions) of a log, each state with its own π and μ [m, A].

    ``phi`` [A, p] is the same in all states. κ, w and ρ are those of the steps, [n]. b and x are
    tables over the states, [m, p], if b does not depend on the next action, else over all pairs
    [m·A, p]; x is empty without ``correction``. Where κ of an action depends only on its own π and
    μ, no other entries of μ are read, except for x.

    Examples
    --------
    >>> from saddleback import GTB
    >>> pi, mu = np.array([[0.2, 0.8], [0.5, 0.5]]), np.full((2, 2), 0.5)
    >>> taken = np.array([0, 1, 0]), np.array([1, 0, 0])
    >>> tabulate_steps(GTB(0.5), np.eye(2), pi, mu, taken, correction=False).kappa
    array([0.4 , 0.25, 0.1 ])
    """
    target, behaviour = pi[steps], mu[steps]
    if rule.trace.elementwise:
        kappa = _kappa(rule.trace, target[:, None], behaviour[:, None])[:, 0]
    else:
        kappa = _kappa(rule.trace, pi, mu)[steps]
    kappa_mu = np.zeros(0)
    if rule.form.coefficients.hybrid:
        if rule.trace.elementwise:
            kappa_mu = _kappa(rule.trace, behaviour[:, None], behaviour[:, None])[:, 0]
        else:
            kappa_mu = _kappa(rule.trace, mu, mu)[steps]
    rho = ratio(target, behaviour)
    weight = rule.bootstrap.weight(rho)
    kappa, lead = _leave(rule, kappa, weight)
    everywhere = np.broadcast_to(phi, (len(pi), *phi.shape))
    b, x = rule.bootstrap.rows(everywhere, pi), np.zeros((0, phi.shape[1]))
    by_state = b.strides[1] == 0 or bool((b == b[:, :1]).all())
    if correction:
        # Rows of μ need not add up to 1 where propensities were clipped; the mean of b must.
        mean = b[:, 0]
        if not by_state:
            mean = np.einsum("sa,sap->sp", mu, b) / mu.sum(axis=1, keepdims=True)
        x = mean - (mu * _kappa(rule.trace, pi, mu)) @ phi
        x = x if by_state else np.repeat(x, len(phi), axis=0)
    b = b[:, 0] if by_state else b
    return Terms(
        phi=phi,
        bootstrap=np.ascontiguousarray(b).reshape(-1, phi.shape[1]),
        correction=x,
        kappa=kappa,
        weight=weight,
        rho=rho,
        lead=lead,
        kappa_mu=kappa_mu,
        cap=rule.trace.product_cap,
        **_emphasis(rule),
    )


def _leave(rule: Rule, kappa: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return κ and l: if w is a weight of the TD error, w and κ/w in place of κ and 1."""
    if not rule.bootstrap.weights_error:
        return kappa, np.ones_like(kappa)
    if ((weight == 0) & (kappa > 0)).any():
        raise RuleMismatch(
            f"{rule}: a TD error of weight 0 ends the trace, so κ must be 0 where ρ is, as in "
            "TruncatedImportance(…)."
        )
    return weight, np.divide(kappa, weight, out=np.zeros_like(kappa), where=weight > 0)


def _emphasis(rule: Rule) -> dict[str, float]:
    """The share of the follow-on trace in the weight, and its β."""
    if rule.emphasis is None:
        return {}
    beta = rule.emphasis.beta
    return {"emphasis": rule.emphasis.share, "follow": np.nan if beta is None else beta}


def _kappa(
    trace: Trace, pi: FloatArray, mu: FloatArray, states: IntArray | None = None
) -> FloatArray:
    """κ of tables π and μ, checked; an error names the state if the rows are known states."""
    kappa = np.asarray(trace.kappa(pi, mu), dtype=np.float64)
    if kappa.shape != pi.shape:
        raise InvalidShape(
            f"{trace!r}.kappa must return the shape of the policies, {list(pi.shape)}, got "
            f"{list(kappa.shape)}."
        )
    for s, a in np.argwhere(~(np.isfinite(kappa) & (kappa >= 0)))[:1]:
        at = "" if states is None else f"[{states[s]}, {a}]"
        raise InvalidNumbers(
            f"{trace!r}.kappa{at} is {kappa[s, a]:g}, where π = {pi[s, a]:g} and μ = {mu[s, a]:g}; "
            "it must be finite and >= 0."
        )
    return kappa


def _correction(b: FloatArray, kappa: FloatArray, phi: FloatArray, mu: FloatArray) -> FloatArray:
    """x(s') = Σ_a μ(a|s') (b(s',a) − κ(s',a) φ(s',a)), [m, p]."""
    return np.asarray(np.einsum("sa,sap->sp", mu, b - kappa[:, :, None] * phi))


def check(rule: Rule, problem: Problem) -> None:
    """Refuse a rule that cannot be applied to ``problem``."""
    _validate.instance(rule, "problem", problem, Problem)
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
