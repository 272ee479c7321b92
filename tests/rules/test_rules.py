"""Rules are values; adding one is one record."""

import dataclasses
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import saddleback as sb
from helpers.problems import rule_named
from saddleback import Rule, System, learn, problems
from saddleback.checks import CheckFailed, check_rule, named_rules
from saddleback.rules import NAMED, Coefficients, Form, Trace

PACKAGE = Path(sb.__file__).parent


@pytest.mark.parametrize("rule", named_rules(), ids=str)
def test_every_named_rule_keeps_the_contract(rule):
    check_rule(rule)


def test_every_name_is_exported_and_documented():
    assert {"GES", "GQ", "ABQ", "GTB", "ExpectedSarsa", "TD", "TrueOnlineETD"} < set(NAMED)
    for name in NAMED:
        assert getattr(sb, name) is getattr(sb.rules, name) is NAMED[name]
        text = NAMED[name].__doc__
        assert "←" in text
        assert "ixed point" in text or "evaluates μ" in text


NEW_RULE = '''

@named_rule
def GTBCorrected(lam: float) -> Rule:
    """The correction form of `GTB`."""
    return Rule(TreeBackup(lam), Correction(), Expected())
'''


@pytest.mark.slow
def test_a_new_rule_of_the_library_is_one_function_in_one_file(tmp_path):
    """In a copy of the package, with nothing else changed."""
    shutil.copytree(PACKAGE, tmp_path / "saddleback", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "saddleback/rules/named.py").open("a", encoding="utf-8") as file:
        file.write(NEW_RULE)
    code = """if True:
        import saddleback as sb
        from saddleback.cli.cite import sources_by_name
        from saddleback.cli.completion import rule_names
        from saddleback.rules import GTBCorrected
        assert sb.GTBCorrected is GTBCorrected is sb.rules.NAMED["GTBCorrected"]
        assert "GTBCorrected" in {*dir(sb)} & {*sb.rules.__all__} & {*rule_names()}
        assert sb.Rule.parse("GTBCorrected:0.5") == sb.GTBCorrected(0.5)
        assert not sources_by_name()["GTBCorrected"]
        print(sb.System.exact(sb.problems.two_state(), "GTBCorrected:0.5").rule)
    """
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("GTBCorrected(0.5)\n", "")


def test_adding_a_trace_is_one_record():
    @dataclass(frozen=True)
    class Clipped(Trace):
        """κ = λ·min(c, ρ)."""

        lam: float
        c: float

        def kappa(self, pi, mu):
            return self.lam * np.minimum(self.c, pi / mu)

    rule = Rule(Clipped(0.5, c=2.0), sb.Saddle(), sb.Expected())
    check_rule(rule)
    assert "trace=" in repr(rule)
    assert "Clipped(lam=0.5, c=2.0)" in repr(rule)
    problem = problems.random_mdp(rng=1)
    star = System.exact(problem, rule).fixed_point
    run = learn(
        rule, problem, alpha=sb.inverse_sqrt(0.1), beta=sb.inverse_sqrt(1), steps=10**5, rng=1
    )
    assert np.linalg.norm(run.theta - star) < 0.1 * np.linalg.norm(star)


def test_adding_a_form_is_one_record():
    @dataclass(frozen=True)
    class Half(Form):
        """Halfway between TD and TDC."""

        @property
        def coefficients(self):
            return Coefficients(td=1.0, correction=0.5, dual=1.0, gram=1.0)

    check_rule(Rule(sb.Retrace(0.5), Half(), sb.Expected()))


def test_the_checks_can_fail():
    @dataclass(frozen=True)
    class Meddling(Trace):
        def kappa(self, pi, mu):
            pi *= 0.5
            return pi

    @dataclass(frozen=True)
    class Negative(Trace):
        def kappa(self, pi, mu):
            return pi - mu

    @dataclass(frozen=True)
    class Endless(Trace):
        def kappa(self, pi, mu):
            return np.full_like(pi, 2.0)

    @dataclass(frozen=True)
    class Wrong(sb.Bootstrap):
        def rows(self, phi, pi):
            return 0.9 * sb.Expected().rows(phi, pi)

    for trace, complaint in (
        (Meddling(), "changes the policies"),
        (Negative(), "finite, >= 0"),
    ):
        with pytest.raises(CheckFailed, match=complaint):
            check_rule(Rule(trace, sb.Saddle(), sb.Expected()))
    with pytest.raises(CheckFailed, match="differs from the true values"):
        check_rule(Rule(sb.NoTrace(), sb.Saddle(), Wrong()))
    with pytest.raises(sb.errors.Undefined, match="the expected trace is infinite"):
        check_rule(Rule(Endless(), sb.Saddle(), sb.Expected()))
    with pytest.raises(sb.errors.InvalidNumbers, match=r"Negative.*kappa\[0, 1\] is -0.5"):
        System.exact(problems.two_state(), Rule(Negative(), sb.Saddle(), sb.Expected()))


@pytest.mark.parametrize("name", list(NAMED))
def test_rules_are_values(name):
    rule = rule_named(name)
    assert rule == rule_named(name)
    assert len({rule, rule_named(name)}) == 1
    assert rule == eval(repr(rule), vars(sb) | {n: getattr(sb, n) for n in sb.__all__})
    assert str(rule).startswith(name)
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.trace = sb.NoTrace()


def test_names_are_compositions():
    assert sb.GES(0.9) == Rule(sb.Importance(0.9), sb.Saddle(), sb.Expected())
    assert sb.GES(0.9) != sb.GQ(0.9)
    assert str(Rule(sb.NoTrace(), sb.Saddle(), sb.Expected())).startswith("Rule(trace=NoTrace()")
    assert repr(sb.ETD(0.5)).endswith("emphasis=FollowOn(lam=0.5, beta=None))")
    assert str(sb.TDRC(0.5, eta=2.0)) == "TDRC(0.5, eta=2)"
    assert str(sb.TDRC(0.5)) == "TDRC(0.5)"
    assert str(sb.GTD()) == "GTD()"
    assert str(dataclasses.replace(sb.GES(0.5), form=sb.Correction())) == "GQ(0.5)"
    mixed = dataclasses.replace(sb.ETD(0.5), emphasis=sb.FollowOn(0.2))
    assert str(mixed) == repr(mixed)


def test_traces_agree_in_known_special_cases():
    """Known special cases: on-policy Retrace is constant; two-state GTB and GRetrace agree."""
    pi = np.array([[0.3, 0.7]])
    np.testing.assert_allclose(sb.Retrace(0.6).kappa(pi, pi), sb.Constant(0.6).kappa(pi, pi))
    np.testing.assert_allclose(sb.Importance(0.6).kappa(pi, pi), sb.Constant(0.6).kappa(pi, pi))
    mu = np.array([[0.5, 0.5]])
    for sigma, end in ((1.0, sb.Importance(0.6)), (0.0, sb.TreeBackup(0.6))):
        np.testing.assert_allclose(sb.Sigma(0.6, sigma).kappa(pi, mu), end.kappa(pi, mu))
    assert (sb.ActionDependent(0.0).kappa(pi, mu) == 0).all()
    # ζ = 1: ν = 1/max(μ, π), the least bootstrapping the action-dependent trace allows.
    np.testing.assert_allclose(sb.ActionDependent(1.0).kappa(pi, mu), pi / np.maximum(pi, mu))


def test_v_trace_without_truncation_is_td():
    problem = problems.random_mdp(rng=3, values="state")
    most = float(problem.rho.max())
    free, td = sb.VTrace(0.7, rho_bar=most, c_bar=most), sb.TD(0.7)
    np.testing.assert_allclose(
        System.exact(problem, free).A, System.exact(problem, td).A, rtol=1e-12, atol=1e-14
    )
    runs = [learn(r, problem, alpha=0.05, steps=300, rng=1).theta for r in (free, td)]
    np.testing.assert_allclose(*runs, rtol=1e-10)


def test_v_trace_evaluates_a_policy_between_the_two():
    """Tabular, with any λ and c̄: v of π_ρ̄ ∝ min(ρ̄μ, π)."""
    base = problems.random_mdp(rng=3, values="state")
    problem = sb.Problem(base.mdp, np.eye(base.mdp.n_states), base.target, base.behaviour)
    between = np.minimum(0.7 * base.behaviour, base.target)
    truth = base.mdp.v(between / between.sum(axis=1, keepdims=True))
    for lam, c_bar in ((0.0, 1.0), (0.9, 0.5), (0.5, 3.0)):
        rule = sb.VTrace(lam, rho_bar=0.7, c_bar=c_bar)
        np.testing.assert_allclose(System.exact(problem, rule).fixed_point, truth, rtol=1e-9)
        np.testing.assert_allclose(sb.system.lambda_operator(problem, rule, truth), truth)
    assert np.abs(truth - problem.truth).max() > 0.01


def test_a_weight_of_the_error_needs_a_trace_and_a_form_that_allow_it():
    with pytest.raises(sb.errors.InvalidParameter, match="weights δ"):
        Rule(sb.Retrace(0.5), sb.Correction(), sb.TruncatedState())
    walk = problems.random_walk(target_right=1.0)  # ρ = 0 to the left
    with pytest.raises(sb.errors.RuleMismatch, match="κ must be 0 where ρ is"):
        System.exact(walk, Rule(sb.Constant(0.5), sb.SemiGradient(), sb.TruncatedState()))
