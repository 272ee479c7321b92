"""The verdicts of an analysis, each against the function that it summarises."""

import dataclasses
import re
import sys

import pytest

import saddleback as sb
from saddleback import System, mean_square, problems, theorem2
from saddleback.theory import MeanStability, analyse, lambda_ceiling, small_step_floor

PROBLEM = problems.two_state(gamma=0.5, rewards=[[1, -1], [0.5, 2]])


def numbers(sentence):
    """Return the numbers of a sentence."""
    return [float(text) for text in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?", sentence)]


@pytest.mark.parametrize("rule", [sb.GES(0.4), sb.ExpectedSarsa(0.0)], ids=str)
def test_verdicts_state_the_limits_and_the_advice(rule):
    verdicts = dict(analyse(PROBLEM, rule, steps=100).verdicts)
    system, dual = System.exact(PROBLEM, rule), rule.form.has_dual
    mean = MeanStability(system)
    _, limit = numbers(verdicts["mean"])
    assert mean.radius(0.999 * limit, 0.999 * limit) < 1 < mean.radius(1.001 * limit, 1.001 * limit)
    best, alpha, *beta = numbers(verdicts["fastest expected rate"])
    assert len(beta) == dual
    assert mean.radius(alpha, *beta) == pytest.approx(best, abs=0.01)
    _, limit = numbers(verdicts["mean square"])
    stable = [
        mean_square(PROBLEM, rule, alpha=a, beta=a if dual else None).stable
        for a in (0.99 * limit, 1.01 * limit)
    ]
    # With a trace the limit is that of steps treated as independent.
    assert stable == [True, False] or rule.trace.lam > 0
    assert verdicts["λ ceiling"] == f"{lambda_ceiling(PROBLEM, rule):.3f}"
    words = verdicts["advice, 100 steps"].partition(";")[0]
    alpha, *beta, error = numbers(words)
    assert len(beta) == dual
    sizes = {"alpha": alpha, "beta": beta[0] if dual else None}
    exact = mean_square(PROBLEM, rule, **sizes).curve(100)
    assert error == pytest.approx(exact, rel=0.2 if rule.trace.lam else 0.005)
    floor, *_ = numbers(verdicts["error floor"])
    assert floor == pytest.approx(small_step_floor(PROBLEM, rule, **sizes), rel=0.02)
    if dual:
        constants = theorem2(system)
        _, rate, alpha, beta = numbers(verdicts["Theorem 2"])
        assert (rate, alpha, beta) == pytest.approx(
            (constants.rate, constants.alpha, constants.beta), rel=0.01
        )
    else:
        assert verdicts["Theorem 2"].startswith("– theorem2: ")


def test_a_trace_above_its_ceiling_has_no_mean_square():
    verdicts = dict(analyse(problems.two_state(), sb.GES(0.95), steps=100).verdicts)
    assert verdicts["λ ceiling"].endswith(", exceeded: E‖e‖² is infinite")
    assert verdicts["mean square"].startswith("– GES(0.95) is above the λ ceiling")
    assert verdicts["advice, 100 steps"] == "– none, for the reason above"
    assert "error floor" not in verdicts


def test_an_unstable_mean_is_told():
    verdicts = dict(analyse(problems.two_state(gamma=0.99), sb.ExpectedSarsa(0.0)).verdicts)
    assert verdicts["mean"] == "unstable for every α"
    assert "fastest expected rate" not in verdicts


@pytest.fixture(scope="module")
def traced():
    """An analysis of a rule with a trace."""
    return analyse(PROBLEM, sb.GES(0.4), steps=100)


@pytest.fixture(scope="module")
def plain():
    """An analysis of a rule without a trace, and without a dual variable."""
    return analyse(PROBLEM, sb.ExpectedSarsa(0.0), steps=1000)


def test_a_small_chain_checks_stability_if_there_is_a_trace(monkeypatch, traced, plain):
    module = sys.modules[analyse.__module__]
    assert traced.has_trace_memory
    assert not plain.has_trace_memory  # a node for each state
    assert plain.small_chain is None
    moments = len(traced.noise.weight) * 4**2
    monkeypatch.setattr(module, "MAX_MAPPED_MOMENTS", moments)
    assert traced.small_chain is traced.noise
    monkeypatch.setattr(module, "MAX_MAPPED_MOMENTS", moments - 1)
    assert traced.small_chain is None
    without = dataclasses.replace(traced, noise="no chain", model="no model")
    assert not without.has_trace_memory
    assert without.small_chain is None
    assert not without.stable(1e-6, 1e-6)
    limit = traced.square_limit
    assert traced.stable(0.9 * limit, 0.9 * limit)
    assert not traced.stable(1.1 * limit, 1.1 * limit)


def test_numbers_of_an_analysis(traced, plain):
    exact = System.exact(PROBLEM, sb.GES(0.4))
    values = traced.as_dict()
    assert (values["rule"], values["p"], values["rank"]) == ("GES(0.4)", 2, 2)
    assert values["steps"] == 100
    assert values["fixed_point"] == exact.fixed_point.tolist()
    assert [complex(*pair) for pair in values["spectrum"]] == exact.spectrum.tolist()
    assert values["offline"]["max_step_size"] == exact.stability.max_step_size
    assert values["mean"]["max_step_size_at_ratio_1"] == MeanStability(exact).max_step_size()
    assert values["mean"]["best"] == MeanStability(exact).best()._asdict()
    assert values["theorem2"]["nu"] == theorem2(exact).nu
    assert values["lambda_ceiling"] == lambda_ceiling(PROBLEM, sb.GES(0.4))
    assert values["advice"]["alpha"] == traced.advice.alpha
    assert isinstance(plain.as_dict()["theorem2"], str)
    endless = dataclasses.replace(traced, mean_limit=float("inf"), ceiling=float("inf"))
    assert endless.as_dict()["mean"]["max_step_size_at_ratio_1"] is None
    assert endless.as_dict()["lambda_ceiling"] is None


def test_rows_of_an_analysis(traced):
    changed = dataclasses.replace(traced, ceiling=float("inf"), floor="unknown", steps=7)
    columns = changed._columns()
    rows = {name: (value, note) for name, value, note in zip(*columns.values(), strict=True)}
    assert list(columns) == ["quantity", "value", "note"]
    assert rows["steps"] == (7.0, "")
    assert rows["lambda_ceiling"] == (float("inf"), "")
    assert rows["floor"] == (pytest.approx(float("nan"), nan_ok=True), "unknown")
    assert rows["advice.alpha"] == (traced.advice.alpha, "")
    assert "mean.note" not in rows  # empty
    assert "fixed_point" not in rows  # no single number


def test_the_text_is_a_table(traced):
    lines = traced.text.splitlines()
    assert lines[0] == f"Analysis of {traced.system.rule.display_name}, p = 2"
    width = max(len(subject) for subject, _ in traced.verdicts) + 2
    assert max(map(len, lines)) <= 98
    subjects = [line[:width].strip() for line in lines[1:]]
    assert [s for s in subjects if s] == [subject for subject, _ in traced.verdicts]
    words = " ".join(line[width:] for line in lines[1:]).split()
    assert words == " ".join(sentence for _, sentence in traced.verdicts).split()
    assert all(line[width - 2 : width] == "  " for line in lines[1:])


def test_verdicts_of_results_at_their_limits(traced):
    changed = dataclasses.replace(
        traced, mean_limit=0.0, trace_radius=1.0, square_limit="too large", advice="too large"
    )
    verdicts = dict(changed.verdicts)
    assert verdicts["mean"] == "unstable for every α at β = α"
    assert verdicts["λ ceiling"].endswith(", exceeded: E‖e‖² is infinite")
    assert verdicts["mean square"] == "– too large"
    assert verdicts["advice, 100 steps"] == "– none, for the reason above"
    assert "fastest expected rate" not in verdicts
    assert "error floor" not in verdicts
    below = dict(dataclasses.replace(traced, trace_radius=0.99).verdicts)
    assert "exceeded" not in below["λ ceiling"]
    unknown = dict(dataclasses.replace(traced, trace_radius="unknown").verdicts)
    assert unknown["λ ceiling"] == below["λ ceiling"]


def test_a_system_has_no_problem_to_analyse():
    system = System.estimate(PROBLEM, sb.GES(0.0), steps=400, rng=0, batches=4, keep_batches=True)
    analysis = analyse(system, steps=50)
    reason = "available only for a problem, not for a system."
    assert analysis.trace_radius == analysis.ceiling == analysis.noise == reason
    assert analysis.advice.method == "mean-square"
    assert analysis.floor == pytest.approx(
        small_step_floor(system, alpha=analysis.advice.alpha, beta=analysis.advice.beta)
    )
    exact = analyse(System.exact(PROBLEM, sb.GES(0.0)), steps=50)
    assert "needs the noise" in exact.advice
    assert exact.floor == exact.square_limit == exact.advice
