"""A rule of one's own works wherever a rule of the library does."""

import json
import sys
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import saddleback as sb
from helpers.user_rules import USER_MODULE
from saddleback import Rule, errors, system
from saddleback.cli.completion import rule_names
from saddleback.cli.group import group
from saddleback.log.callable_fingerprint import _members
from saddleback.ope import Statistics, evaluate_statistics
from saddleback.report import read_results
from saddleback.rules import NAMED, named_rule
from saddleback.sweep import read_study

CAPPED = "mine.py:Capped(0.5, cap=3)"
TILES = sb.features.Tiles((-1.2, -0.07), (0.6, 0.07), bins=2, tilings=1)
STUDY = """
steps = 200
rules = ["GES:0.5", "mine.py:Capped(0.5, cap=3)", "Retrace:0.5+SemiGradient"]
[grid]
alpha = [0.1, 0.05]
ratio = [1.0, 2.0]
[[problem]]
name = "two_state"
gamma = 0.9
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of rules, one of policies and a log, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(USER_MODULE)
    log = sb.collect(sb.problems.mountain_car(), episodes=30, rng=0)
    pq.write_table(log.data, tmp_path / "log.parquet")
    return tmp_path


def run(*arguments, status=0):
    result = CliRunner().invoke(group, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in np.atleast_1d(status), result.output + result.stderr
    return " ".join((result.stdout if status != 2 else result.stderr).split())


def forget():
    """Forget the user's module, as in a new process."""
    sys.modules.pop("mine", None)


LOG = ("--gamma", 0.99, "--target", "pump:0.8")
BOX = ("--features", "tiles:2x2", "--low=-1.2,-0.07", "--high=0.6,0.07")


@pytest.mark.slow
def test_logs_and_statistics_on_the_command_line(folder):
    direct = json.loads(
        run("evaluate", "log.parquet", *LOG, *BOX, "--rule", CAPPED, "--json", status=(0, 3, 4))
    )
    assert direct["estimates"][0]["method"] == "LSTD, Capped(lam=0.5, cap=3) + Saddle"
    run("stats", "log.parquet", *LOG, *BOX, "--rule", CAPPED, "--out", "a.stats")
    forget()
    for command in ("evaluate", "rank"):
        message = run(command, "a.stats", status=2)
        assert "the rule Capped(0.5, cap=3)+Saddle is not one of saddleback's" in message
        assert "no code is imported from a data file" in message
    for rule in (CAPPED, "mine.py:Capped:.5,cap=3+Saddle"):
        saved = json.loads(run("evaluate", "a.stats", "--rule", rule, "--json", status=(0, 3, 4)))
        assert saved["estimates"][0]["value"] == direct["estimates"][0]["value"]
    assert "is not one of saddleback's" in run("evaluate", "a.stats", "--rule", "GES", status=2)
    merge = run("merge", "a.stats", "--out", "b.stats", status=2)
    assert "Give the rule: --rule 'path/to/module.py:Name(0.5)'" in merge
    other = "mine.py:Capped(0.7, cap=3)"
    assert "is not in these statistics" in run("evaluate", "a.stats", "--rule", other, status=2)


def test_statistics_and_systems_are_read_with_the_rule_only(folder):
    log = sb.Log("log.parquet")
    rule = Rule.parse(CAPPED)
    sums = Statistics.of(log, [rule, "GES:0.2"], "pump:0.8", features=TILES, gamma=0.99)
    sb.save_statistics(sums, "a.stats")
    with pytest.raises(errors.RuleRequired):
        sb.load_statistics("a.stats")
    with pytest.raises(errors.RuleRequired):
        sb.load_statistics("a.stats", "GES:0.2")
    loaded = sb.load_statistics("a.stats", CAPPED)
    assert loaded.setting.rules == (rule, sb.GES(0.2))
    assert sb.load_statistics("a.stats", [rule]).setting == sums.setting
    values = [evaluate_statistics(s, CAPPED).estimates[0].value for s in (sums, loaded)]
    assert values[0] == values[1]

    exact = sb.System.exact(sb.problems.two_state(gamma=0.9), rule)
    system.save(exact, "a.npz")
    with pytest.raises(errors.RuleRequired, match=r"Capped\(0.5, cap=3\)\+Saddle is not one of"):
        system.load("a.npz")
    assert system.load("a.npz", CAPPED).rule == rule
    with pytest.raises(errors.InvalidParameter, match=r"is the system of .*, not of Rule"):
        system.load("a.npz", "mine.py:Capped(0.5, cap=4)")
    assert "is not one of saddleback's" in run("analyse", "a.npz", "--json", status=2)
    assert json.loads(run("analyse", "a.npz", "--json", "--rule", CAPPED))["p"] == 2


def test_a_trace_named_like_one_of_the_library_is_not_replaced(folder):
    (folder / "mine.py").write_text(USER_MODULE.replace("Capped", "Retrace"))
    rule = Rule.parse("mine.py:Retrace(0.5)")
    both = [rule, rule.with_lambda(0.25)]
    sums = Statistics.of(sb.Log("log.parquet"), both, "pump:0.8", features=TILES, gamma=0.99)
    sb.save_statistics(sums, "a.stats")
    with pytest.raises(errors.RuleRequired):
        sb.load_statistics("a.stats")
    assert sb.load_statistics("a.stats", rule).setting == sums.setting


def test_a_data_file_cannot_name_code(folder):
    """A text with a path in a file is refused like any unknown rule: nothing is imported."""
    (folder / "evil.py").write_text("raise SystemExit('imported')")

    class Evil(Rule):
        spec = "evil.py:Capped(0.5)"

    problem = sb.problems.two_state(gamma=0.9)
    exact = sb.System.exact(problem, Evil(sb.Importance(0.5), sb.Saddle(), sb.Expected()))
    system.save(exact, "evil.npz")
    with pytest.raises(errors.RuleRequired):
        system.load("evil.npz")


def test_analyse_takes_any_rule(folder):
    title = json.loads(run("analyse", "two_state", "--rule", CAPPED, "--json"))["title"]
    assert title.startswith("Capped(lam=0.5, cap=3)")
    run("analyse", "two_state", "--rule", "Retrace:0.5+Correction", "--json")
    run("analyse", "two_state", "--rule", "GES:0.5", "--json")
    message = run("analyse", "two_state", "--rule", "GES:0.5", "--lam", "0.5", status=2)
    assert "GES:0.5 takes no --lam: it has its parameters already" in message


def test_studies(folder):
    (folder / "study.toml").write_text(STUDY)
    run("sweep", "study.toml", "--out", "results", "--json")
    labels = ["GES(0.5)", "Capped(lam=0.5, cap=3) + Saddle", "Retrace(lam=0.5) + SemiGradient"]
    study = read_study(folder / "study.toml")
    assert [study.rule_label(k) for k in range(3)] == labels
    assert [study.has_dual(k) for k in range(3)] == [True, True, False]
    (folder / "mine.py").write_text("raise SystemExit('imported')")  # results need no code
    results = read_results(folder / "results")
    assert [(r.rule, r.lam, r.omega_name) for r in results.rules] == [
        (labels[0], 0.5, "β/α"), (labels[1], 0.5, "β/α"), (labels[2], 0.5, ""),
    ]  # fmt: skip
    with pytest.raises(errors.RuleRequired):
        study.rule(1)
    with pytest.raises(errors.InvalidParameter, match="has changed since the study was read"):
        study.rule(1, folder=folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"GES:0.5"', '"GEZ:0.5"', "3: unknown rule 'GEZ'. Did you mean 'GES'?"),
        ('"GES:0.5"', "3", "3: rules must be a list of texts"),
        ("mine.py:Capped(", "mine.py:Cappd(", "3: unknown name in mine.py 'Cappd'."),
        ("mine.py", "other.py", "3: other.py is not a file"),
        ("GES:0.5", "Retrace:0.5+SemiGradient", "3: duplicate rule Retrace(lam=0.5)"),
        ("GES:0.5", "TD:0.5", "3: TD(0.5) on two_state: TD(0.5) learns state values"),
    ],
)
def test_errors_in_the_rules_of_a_study(old, new, message, folder):
    (folder / "study.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(errors.InvalidParameter) as caught:
        read_study(folder / "study.toml")
    assert message in str(caught.value).replace(f"{folder}/", "").replace("study.toml:", "")


def test_a_table_of_a_study_names_a_file_and_lists_parameters(folder):
    table = '[[rule]]\nname = "mine.py:Capped"\nlam = [0.0, 0.5]\ncap = 4\n'
    text = STUDY.replace('rules = ["GES:0.5", "mine.py:Capped(0.5, cap=3)",', "rules = [")
    (folder / "study.toml").write_text(text + table)
    study = read_study(folder / "study.toml")
    assert study.rule(2, folder=folder) == Rule.parse("mine.py:Capped(0.5, cap=4)")


def test_a_study_file_cannot_say_whether_a_rule_has_a_dual_variable(folder):
    table = '[[rule]]\nname = "mine.py:Capped"\nlam = 0.25\ndual = false\n'
    (folder / "study.toml").write_text(STUDY + table)
    with pytest.raises(errors.InvalidParameter, match=r"13: unknown key 'dual' in \[\[rule\]\]"):
        read_study(folder / "study.toml")


def test_a_table_of_a_study_takes_every_form_of_the_library(folder):
    for form in ("UpdateNorm", "Correction", "Saddle", "SemiGradient", "RegularisedCorrection"):
        table = f'[[rule]]\nname = "GTB"\nlam = 0.25\nform = "{form}"\n'
        (folder / "study.toml").write_text(STUDY + table)
        assert type(read_study(folder / "study.toml").rule(3).form) is getattr(sb.rules, form)


def test_a_named_rule_works_by_its_name(folder):
    try:

        @named_rule
        def CorrectedRetrace(lam: float) -> Rule:
            return Rule(sb.Retrace(lam), sb.Correction(), sb.Expected())

        assert "CorrectedRetrace" in rule_names()
        assert str(CorrectedRetrace(0.5)) == "CorrectedRetrace(0.5)"
        title = json.loads(run("analyse", "two_state", "--rule", "CorrectedRetrace:0.5", "--json"))[
            "title"
        ]
        assert title.startswith("CorrectedRetrace(0.5)")
        (folder / "study.toml").write_text(STUDY.replace("GES:0.5", "CorrectedRetrace:0.25"))
        assert read_study(folder / "study.toml").rule(0) == CorrectedRetrace(0.25)
        (folder / "study.toml").write_text(
            STUDY + '[[rule]]\nname = "CorrectedRetrace"\nlam = [0.0, 0.5]\n'
        )
        assert read_study(folder / "study.toml").rule(4) == CorrectedRetrace(0.5)
    finally:
        NAMED.pop("CorrectedRetrace", None)


@dataclass(frozen=True)
class Doubled(sb.Trace):
    """κ = 2ρ, without a field for λ."""

    def kappa(self, pi, mu):
        return 2.0 * sb.policies.ratio(pi, mu)


@dataclass(frozen=True)
class Grown(sb.Trace):
    """κ = λ·3·π, which needs no μ."""

    lam: float
    uses_mu = False

    def kappa(self, pi, mu):
        return 3.0 * self.lam * pi


@pytest.mark.parametrize(
    ("trace", "warning"),
    [
        (Doubled(), "γ√E[κ²] = 3.16 exceeds 1"),
        (Grown(0.9), "lambda=0.9 exceeds 0.42"),
        (sb.Importance(0.9), "lambda=0.9 exceeds 0.63"),
    ],
    ids=["no λ", "no μ", "importance"],
)
def test_a_trace_that_grows_is_refused_whatever_its_class(trace, warning):
    log = sb.collect(sb.problems.mountain_car(), episodes=60, rng=0)
    rule = Rule(trace, sb.Saddle(), sb.Expected())
    result = sb.evaluate(log, "pump:0.8", rule=rule, features=TILES, gamma=0.99, methods=())
    (gate,) = (gate for gate in result.verdicts[0].gates if gate.code == "CEILING")
    assert gate.value > 1.15
    assert result.verdicts[0].trust == "refused"
    assert warning in " ".join(map(str, result.statistics.warnings(rule)))
    ceiling = result.as_dict()["lambda_ceiling"]["pump:0.8"]
    assert warning.endswith(f"exceeds {ceiling:.2f}" if ceiling else "exceeds 1")


def test_the_ceiling_of_importance_traces_is_that_of_the_ratios():
    log = sb.collect(sb.problems.mountain_car(), episodes=20, rng=0)
    sums = Statistics.of(log, "GES:0.4", "pump:0.8", features=TILES, gamma=0.99)
    expected = 0.4 / sums.ceilings[0]
    assert sums.trace_ratio(sb.GES(0.4), "pump:0.8") == pytest.approx(expected, rel=1e-13)
    bounded = Statistics.of(log, "GRetrace:0.4", "pump:0.8", features=TILES, gamma=0.99)
    assert bounded.trace_ratio(sb.GRetrace(0.4), "pump:0.8") is None


def test_a_bootstrap_declares_that_it_is_the_next_features():
    """A true on-line form takes any bootstrap that says so, and no other."""

    @dataclass(frozen=True)
    class Next(sb.Bootstrap):
        values = "state"

        def rows(self, phi, pi):
            return phi

        def weight(self, rho):
            return rho

    @dataclass(frozen=True)
    class Declared(Next):
        is_next_phi = True

    with pytest.raises(errors.RuleMismatch, match="needs a bootstrap that is the next φ"):
        Rule(sb.Importance(0.5), sb.TrueOnline(), Next())
    chain = sb.problems.boyan_chain()
    options = {"alpha": 0.01, "episodes": 5, "rng": 0}
    own = sb.learn(Rule(sb.Importance(0.5), sb.TrueOnline(), Declared()), chain, **options)
    np.testing.assert_array_equal(own.theta, sb.learn("TrueOnlineTD:0.5", chain, **options).theta)


def test_what_dataclasses_add_is_no_part_of_a_fingerprint():
    """They write these methods differently from one version of Python to the next."""

    @dataclass(frozen=True)
    class Scaled(sb.Importance):
        scale: float = 2.0

        def __len__(self):
            return 1

    assert [name for name, _ in _members(Scaled)] == ["__len__", "scale"]
