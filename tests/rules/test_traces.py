"""What traces say of themselves, and κ by their formulas."""

import numpy as np
import pytest

import saddleback as sb
from saddleback import rules
from saddleback.errors import InvalidParameter, RuleMismatch
from saddleback.rules.requirements import (
    check_log_requirements,
    correction_uses_mu,
    needs_propensities,
    wrong_declaration,
)

PI, MU = np.random.default_rng(0).dirichlet(np.ones(3), (2, 6))
RHO = PI / MU

TRACES = [
    # trace, κ, whether κ depends on μ, whether μκ does, the largest κ
    (sb.Importance(0.6), 0.6 * RHO, True, False, None),
    (sb.Importance(0.0), 0 * RHO, False, False, None),
    (sb.Constant(0.6), np.full((6, 3), 0.6), False, True, 0.6),
    (sb.TreeBackup(0.6), 0.6 * PI, False, True, 0.6),
    (sb.Retrace(0.6), 0.6 * np.minimum(1, RHO), True, True, 0.6),
    (sb.Retrace(0.0), 0 * RHO, False, True, 0.0),
    (rules.TruncatedImportance(0.6, 1.5), 0.6 * np.minimum(1.5, RHO), True, True, 0.9),
    (rules.TruncatedImportance(0.0, 1.5), 0 * RHO, False, True, 0.0),
    (sb.CappedImportance(0.6, 1.5), 0.6 * np.minimum(1.5, RHO), True, True, 0.9),
    (sb.CappedImportance(0.0, 1.5), 0 * RHO, False, True, 0.0),
    (sb.Sigma(0.6, 0.25), 0.6 * (0.25 * RHO + 0.75 * PI), True, True, None),
    (sb.Sigma(0.6, 1.0), 0.6 * RHO, True, False, None),
    (sb.Sigma(0.6, 0.0), 0.6 * PI, False, True, 0.6),
    (sb.Sigma(0.0, 0.5), 0 * RHO, False, False, 0.0),
    (sb.NoTrace(), 0 * RHO, False, False, 0.0),
]


@pytest.mark.parametrize("case", TRACES, ids=lambda case: repr(case[0]))
def test_kappa_and_what_it_depends_on(case):
    trace, kappa, uses_mu, flow_uses_mu, bound = case
    np.testing.assert_allclose(trace.kappa(PI, MU), kappa, rtol=1e-12)
    assert (trace.uses_mu, trace.flow_uses_mu) == (uses_mu, flow_uses_mu)
    assert trace.bound == (None if bound is None else pytest.approx(bound))
    capped = isinstance(trace, sb.CappedImportance)
    assert trace.may_grow == (not capped and (bound is None or bound > 1))
    assert trace.product_cap == (1.5 if capped else np.inf)
    assert wrong_declaration(trace) == ""
    assert trace.pointwise
    assert trace.elementwise


def test_only_bounds_above_1_let_a_trace_grow():
    for lam, grows in ((1.0, True), (0.5, False), (0.4, False)):
        assert rules.TruncatedImportance(lam, 2.0).may_grow == grows
    assert not sb.Constant(1.0).may_grow


@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("extrema", [None, (0.3, 0.8)])
def test_action_dependent_bootstrapping(zeta, extrema):
    """ψ_ζ rises from 0 over ψ_0 at ½ to ψ_max at 1, and ν never exceeds 1/max(μ, π)."""
    pi, mu = PI.copy(), MU.copy()
    pi[0], mu[0] = [0.4, 0.6, 0.0], [0.7, 0.3, 0.0]
    larger = np.maximum(pi, mu)
    smallest, largest = extrema or (larger[larger > 0].min(), larger.max())
    psi = np.interp(zeta, [0.0, 0.5, 1.0], [0.0, 1 / largest, 1 / smallest])
    with np.errstate(divide="ignore"):
        nu = np.where(larger > 0, np.minimum(psi, 1 / larger), 0.0)
    trace = sb.ActionDependent(zeta, extrema)
    np.testing.assert_allclose(trace.kappa(pi, mu), nu * pi, atol=1e-15)
    assert trace.uses_mu == (zeta > 0)
    assert trace.pointwise == trace.elementwise == (extrema is not None)
    assert trace.bound == 1.0


def test_parameters_at_the_ends_of_their_ranges():
    assert sb.ActionDependent(0.5, (0.5, 0.5)).extrema == (0.5, 0.5)
    assert sb.ActionDependent(0.5, (1e-9, 1.0)).pointwise
    for extrema in ((0.0, 0.5), (0.6, 0.5), (0.5, 1.1)):
        with pytest.raises(InvalidParameter, match="0 < smallest <= largest <= 1"):
            sb.ActionDependent(0.5, extrema)
    assert sb.CappedImportance(0.5, 1.0).cap == 1.0
    with pytest.raises(InvalidParameter, match="cap must be at least 1"):
        sb.CappedImportance(0.5, 0.99)
    assert (sb.CappedImportance(0.5).cap, rules.TruncatedImportance(0.5).c_bar) == (20.0, 1.0)
    assert sb.Sigma(0.5).sigma == 0.5
    assert [sb.Constant(0.7).parameter, sb.ActionDependent(0.3).parameter] == [0.7, 0.3]
    assert sb.NoTrace().parameter is None
    assert sb.Constant(0.7).with_lambda(0.2) == sb.Constant(0.2)
    assert sb.ActionDependent(0.3).with_lambda(0.2) is None


class Declared(rules.Trace):
    """κ of a function, with declarations that may be wrong."""

    def __init__(self, function, **declared):
        self.function, self.declared = function, declared

    pointwise = property(lambda self: self.declared.get("pointwise", True))
    elementwise = property(lambda self: self.declared.get("elementwise", True))
    uses_mu = property(lambda self: self.declared.get("uses_mu", True))
    flow_uses_mu = property(lambda self: self.declared.get("flow_uses_mu", True))
    bound = property(lambda self: self.declared.get("bound"))

    def kappa(self, pi, mu):
        return self.function(pi, mu)


@pytest.mark.parametrize(
    ("message", "function", "declared"),
    [
        ("κ of an action depends on the other actions", lambda pi, mu: pi / pi.max(1)[:, None], {}),
        ("", lambda pi, mu: pi / pi.max(1)[:, None], {"elementwise": False}),
        ("uses_mu is False, but κ depends on μ", lambda pi, mu: mu, {"uses_mu": False}),
        ("", lambda pi, mu: pi, {"uses_mu": False}),
        ("but μκ depends on μ", lambda pi, mu: pi, {"flow_uses_mu": False}),
        ("", lambda pi, mu: pi / mu, {"flow_uses_mu": False}),
        ("bound is 0.4, but κ can be 0.5", lambda pi, mu: 0 * pi + 0.5, {"bound": 0.4}),
        ("", lambda pi, mu: 0 * pi + 0.5, {"bound": 0.5}),
        ("", lambda pi, mu: mu, {"uses_mu": False, "pointwise": False}),
    ],
)  # fmt: skip
def test_wrong_declarations_are_named(message, function, declared):
    wrong = wrong_declaration(Declared(function, **declared))
    assert message in wrong
    assert bool(wrong) == bool(message)


class Boosted(sb.Importance):
    """κ that is not λρ, so that μκ depends on μ."""

    def kappa(self, pi, mu):
        return self.lam * np.sqrt(pi / mu)


def test_what_rules_need_of_a_log():
    """Ratios need propensities, and corrections of most traces μ of every action."""
    expected = sb.rules.Expected()
    for rule, propensities, full in (
        (sb.GES(0.5), True, False), (sb.GES(0.0), False, False), (sb.GTB(0.5), False, False),
        (sb.GQ(0.5), True, False), (sb.ETD(0.0), True, False), (sb.HTD(0.0), True, False),
        (sb.TD(0.0), True, False), (sb.GQ(0.0), False, False),
        (sb.Rule(sb.TreeBackup(0.5), sb.Correction(), expected), False, True),
        (sb.Rule(Boosted(0.5), sb.Correction(), expected), True, True),
        (sb.Rule(Boosted(0.5), sb.Saddle(), expected), True, False),
    ):  # fmt: skip
        assert needs_propensities(rule) == propensities, rule
        assert correction_uses_mu(rule) == full, rule
        known_mu = {"propensity": True, "behaviour": True}
        check_log_requirements(rule, rule.values, **known_mu)
        taken_only = known_mu | {"behaviour": False}
        if full:
            with pytest.raises(RuleMismatch, match="needs the full behaviour policy"):
                check_log_requirements(rule, rule.values, **taken_only)
        else:
            check_log_requirements(rule, rule.values, **taken_only)
        neither = {"propensity": False, "behaviour": False}
        if propensities:
            with pytest.raises(InvalidParameter, match="needs the probabilities of the logged"):
                check_log_requirements(rule, rule.values, **neither)
        elif not full:
            check_log_requirements(rule, rule.values, **neither)
        other = "state" if rule.values == "action" else "action"
        with pytest.raises(RuleMismatch, match=f"learns {rule.values} values, other rules here"):
            check_log_requirements(rule, other, **known_mu)
