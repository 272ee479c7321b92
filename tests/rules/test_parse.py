"""A rule as text means the same in Python, on the command line and in files."""

import contextlib
import string
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import saddleback as sb
from helpers.user_rules import USER_MODULE
from saddleback import Rule, errors
from saddleback.rules import NAMED, make, make_with, named_rule
from saddleback.rules.parse import rule_files, stored_rule

UNIT = st.floats(0.0, 1.0)
TRACES = st.one_of(
    st.builds(sb.Importance, UNIT), st.builds(sb.Retrace, UNIT), st.builds(sb.TreeBackup, UNIT),
    st.builds(sb.Constant, UNIT), st.just(sb.NoTrace()), st.builds(sb.ActionDependent, UNIT),
    st.builds(sb.ActionDependent, UNIT, st.tuples(st.floats(0.1, 0.4), st.floats(0.5, 1.0))),
)  # fmt: skip
FORMS = st.one_of(
    st.sampled_from([sb.Saddle(), sb.Correction(), sb.SemiGradient(), sb.UpdateNorm()]),
    st.builds(sb.RegularisedCorrection, st.floats(0.0, 1e6)),
)
BOOTSTRAPS = st.sampled_from([sb.Expected(), sb.Sampled(), sb.State()])
COMPOSED = st.builds(Rule, TRACES, FORMS, BOOTSTRAPS)
EMPHATIC = st.builds(Rule, TRACES, FORMS, st.just(sb.State()), st.builds(sb.FollowOn, UNIT))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(USER_MODULE)
    return tmp_path


@given(st.one_of(COMPOSED, EMPHATIC))
def test_the_text_of_every_combination_is_read_back(rule):
    assert Rule.parse(rule.spec) == rule
    assert stored_rule(rule.spec) == rule


@given(st.sampled_from(list(NAMED)), UNIT)
def test_the_text_of_every_named_rule_is_read_back(name, value):
    rule = make_with(name, value)
    assert rule.spec.partition("(")[0] == name
    assert Rule.parse(rule.spec) == rule
    assert Rule.parse(f"{name}:{value!r}" if rule.spec != "GTD()" else name) == rule
    assert Rule.parse(str(sb.GES(0.25))) == sb.GES(0.25)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("GES", sb.GES(0.0)),
        ("GES:", sb.GES(0.0)),
        ("GES:.5", sb.GES(0.5)),
        (" GES ( lam = 0.5 ) ", sb.GES(0.5)),
        ("TDRC:0.5,eta=2", sb.TDRC(0.5, eta=2.0)),
        ("TDRC(eta=2)", sb.TDRC(0.0, eta=2.0)),
        ("ABQ:0.5", sb.ABQ(0.5)),
        ("ABQ(0.5, extrema=(0.1, 0.9))", sb.ABQ(0.5, extrema=(0.1, 0.9))),
        ("Retrace:0.5", sb.GRetrace(0.5)),
        ("Retrace:0.5+Correction", Rule(sb.Retrace(0.5), sb.Correction(), sb.Expected())),
        ("Correction + Retrace(lam=5e-1)", Rule(sb.Retrace(0.5), sb.Correction(), sb.Expected())),
        ("NoTrace+RegularisedCorrection:1e+1+State",
         Rule(sb.NoTrace(), sb.RegularisedCorrection(10.0), sb.State())),
    ],
)  # fmt: skip
def test_texts(text, rule):
    assert Rule.parse(text) == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("GEZ:0.5", "unknown rule 'GEZ'. Did you mean 'GES'?"),
        ("Retrac:0.5+Saddle", "unknown part of a rule 'Retrac'. Did you mean 'Retrace'?"),
        ("Form+Retrace:0.5", "unknown part of a rule 'Form'"),
        ("GES:x", "rule 'GES:x': 'x' is not a number"),
        ("GES:0.5,0.6", "too many positional arguments; write GES(lam)."),
        ("GES(lma=0.5)", "got an unexpected keyword argument 'lma'; write GES(lam)."),
        ("GTD:0.5", "too many positional arguments; write GTD()."),
        ("GES:1.5", "lam must be a number in [0, 1], got 1.5"),
        ("GES:0.5+Correction", "GES:0.5 is a complete rule"),
        ("Retrace:0.5+TreeBackup:0.5", "has two parts of one kind, trace"),
        ("Correction", "has no trace: add one, such as Retrace:0.5+Correction."),
        ("Retrace+Saddle", "missing a required argument: 'lam'; write Retrace(lam)."),
        ("", "write NAME, NAME:0.5 or NAME(0.5, eta=2)."),
        ("GES(0.5", "write NAME, NAME:0.5 or NAME(0.5, eta=2)."),
        ("mine.py", "write NAME, NAME:0.5 or NAME(0.5, eta=2)."),
        ("mine.py:Cappd(0.5)", "Did you mean 'Capped'?"),
        ("mine.py:number", "mine.py:number is 3; it must be a Rule, or a trace"),
        ("mine.py:fixed(1)", "mine.py:fixed takes no parameters"),
        ("mine.py:broken(1)", "ZeroDivisionError: division by zero."),
        ("other.py:Capped(1)", "other.py is not a file"),
    ],
)  # fmt: skip
def test_errors_in_texts(text, message, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(errors.SaddlebackError) as caught:
        Rule.parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["GES(__import__('os').getpid())", "GES(lam=1-1)", "GES(*[0.5])", "GES(**{'lam': 0.5})",
     "GES(0.5)(0.5)", "GES:0.5)(0.5", "GES([0.5 for _ in 'a'])", "GES(lam)"],
)  # fmt: skip
def test_parameters_are_literals(text):
    with pytest.raises(errors.InvalidParameter, match=r"is not a number|write NAME"):
        Rule.parse(text)


@given(st.text(string.ascii_letters + string.digits + "():+,=.[]{}'\"\\ \n-*", max_size=40))
def test_any_text_gives_a_rule_or_an_error_of_the_library(text):
    with contextlib.suppress(errors.SaddlebackError):
        assert isinstance(stored_rule(text), Rule)


def test_parts_of_a_file(folder):
    rule = Rule.parse("mine.py:Capped(0.5, cap=3)+mine.py:Half", folder)
    assert rule == Rule.parse("mine.py:Half+mine.py:Capped:0.5,cap=3", folder)
    for path in (f"{folder}/mine.py", "./mine.py", f"../{folder.name}/mine.py"):
        assert rule == Rule.parse(f"{path}:Capped(0.5, cap=3)+{path}:Half", folder)
    assert rule.spec == "Capped(0.5, cap=3)+Half"
    assert rule_files("mine.py:Capped(0.5)+a/b.py:Half+Expected") == ["mine.py", "a/b.py"]
    assert Rule.parse("mine.py:Capped:0.5", folder).form == sb.Saddle()
    assert Rule.parse("mine.py:composed(0.25)", folder) == Rule.parse("mine.py:fixed", folder)
    assert Rule.parse(f"{folder}/mine.py:Capped(0.5, inf)").trace.cap == np.inf
    before = Rule.parse("mine.py:Capped(0.5)", folder)
    (folder / "mine.py").write_text(USER_MODULE.replace("cap: float = 2.0", "cap: float = 12.0"))
    assert Rule.parse("mine.py:Capped(0.5)", folder) != before


@pytest.mark.parametrize("cap", [np.inf, -np.inf, (0.1, np.inf), [(-np.inf, 1.0)]])
def test_infinite_parameters_are_read_back(folder, cap):
    rule = Rule.parse("mine.py:Capped(0.5)", folder)
    rule = replace(rule, trace=replace(rule.trace, cap=cap))
    assert stored_rule(rule.spec, [Rule.parse("mine.py:Capped(0.5)", folder)]) == rule


@pytest.mark.parametrize("text", ["GES(lam=0.1,lam=0.2)", "GES(lam=infinite)", "GES(inf())"])
def test_a_repeated_parameter_or_an_expression_is_refused(text):
    with pytest.raises(errors.InvalidParameter, match="is not a number or a list such as"):
        Rule.parse(text)


def test_a_text_from_a_file_imports_nothing(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "evil.py").write_text("raise SystemExit('imported')")
    for text in ("evil.py:Capped(0.5)", "evil.py:Capped(0.5)+Saddle", "Capped(0.5)+Saddle"):
        with pytest.raises(errors.RuleRequired, match="no code is imported from a data file"):
            stored_rule(text)
    rule = Rule.parse("mine.py:Capped(0.5)")
    assert stored_rule("Capped(0.5)+Saddle", [rule]) == rule
    assert stored_rule("Capped(0.0)+Saddle", [rule]) == rule.with_lambda(0.0)


@pytest.mark.parametrize("name", ["Retrace", "GES"])
def test_a_part_with_the_name_of_a_library_part_or_rule_stays_the_users(folder, name):
    (folder / "mine.py").write_text(USER_MODULE.replace("Capped", name))
    rule = Rule.parse(f"mine.py:{name}(0.5)", folder)
    texts = [rule.spec, rule.with_lambda(0.25).spec]
    assert texts == [f"own:{name}(0.5)+Saddle", f"own:{name}(0.25)+Saddle"]
    for text in texts:
        assert rule_files(text) == []
        for given_rules in ([], [sb.GRetrace(0.5)]):
            with pytest.raises(errors.RuleRequired):
                stored_rule(text, given_rules)
    assert [stored_rule(text, [rule]) for text in texts] == [rule, rule.with_lambda(0.25)]
    assert stored_rule("Retrace(0.25)+Correction", [rule]).trace == sb.Retrace(0.25)
    with pytest.raises(errors.InvalidParameter, match="own is not a file"):
        Rule.parse(texts[0])


def test_a_named_rule_is_one_function():
    try:

        @named_rule
        def Corrected(lam: float, eta: float = 0.5) -> Rule:
            return Rule(sb.Retrace(lam), sb.RegularisedCorrection(eta), sb.Expected())

        assert str(Corrected(0.5)) == "Corrected(0.5)"
        assert str(Corrected(0.5, eta=2.0)) == "Corrected(0.5, eta=2)"
        assert make("Corrected", lam=0.5) == Rule.parse("Corrected:0.5") == Corrected(0.5)
        assert sb.System.exact(sb.problems.two_state(), "Corrected:0.5").rule == Corrected(0.5)
    finally:
        NAMED.pop("Corrected", None)
    with pytest.raises(errors.InvalidParameter, match="GES is a rule of saddleback"):

        @named_rule
        def GES(lam: float) -> Rule:
            return sb.GQ(lam)

    with pytest.raises(errors.InvalidParameter, match="Retrace is a part of the rules of saddle"):

        @named_rule
        def Retrace(lam: float) -> Rule:
            return sb.GQ(lam)

    assert "Retrace" not in NAMED


def test_a_label_is_not_part_of_the_text():
    rule = replace(sb.GES(0.5), label="mine")
    assert rule.spec == "GES(0.5)"


def test_with_lambda():
    @dataclass(frozen=True)
    class Fading(sb.Trace):
        strength: float

        def kappa(self, pi, mu):
            return self.strength * pi

        def with_lambda(self, lam):
            return Fading(lam)

    rule = Rule(Fading(0.5), sb.Saddle(), sb.Expected(), label="mine")
    assert rule.with_lambda(0.0) == Rule(Fading(0.0), sb.Saddle(), sb.Expected())
    assert rule.with_lambda(0.0).label == ""
    assert np.isfinite(sb.lambda_ceiling(sb.problems.two_state(), rule))
    assert rule.trace.parameter == 0.5
    assert sb.ABQ(0.5).trace.parameter == 0.5
    assert sb.ABQ(0.5).with_lambda(0.0) is None
    assert sb.NoTrace().parameter is None


@pytest.mark.parametrize("values", ["action", "state"])
@pytest.mark.slow
def test_texts_are_rules_wherever_one_is_expected(values):
    problem = sb.problems.random_mdp(rng=0, states=2, actions=2, features=1, values=values)
    text = "GES:0.2" if values == "action" else "GTD2:0.2"
    rule = Rule.parse(text)
    assert (sb.System.exact(problem, text).A == sb.System.exact(problem, rule).A).all()
    one, two = (sb.learn(r, problem, alpha=0.01, beta=0.01, steps=50, rng=0) for r in (text, rule))
    assert (one.theta == two.theta).all()
    assert one.rule == rule
    assert sb.lambda_ceiling(problem, text) == sb.lambda_ceiling(problem, rule)
    assert sb.theory.trace_radius(problem, text) == sb.theory.trace_radius(problem, rule)
    assert sb.step_sizes(problem, text).alpha == sb.step_sizes(problem, rule).alpha
    assert sb.theory.analyse(problem, text).system.rule == rule
    assert sb.mean_square(problem, text, alpha=0.01, beta=0.01).alpha == 0.01
