"""A result as text: the same from a result and from its JSON, within any width."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import mixed
from helpers.verdicts import (
    GOOD,
    TARGET,
    always,
    difference_interval,
    verdict_on,
    walk_log,
    without_propensities,
)
from saddleback._json import json_text
from saddleback.features import Fourier, OneHot
from saddleback.ope import Improvement, Verdict
from saddleback.ope.number_format import decimals, distinct, number
from saddleback.ope.result_schema import find_damage
from saddleback.ope.text_report import (
    USED,
    answer,
    failed_checks,
    format_result,
    format_result_verbose,
    result_lines,
)

FOURIER = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)
LONG = "a policy with a very long name that nobody would want to read in a table " * 2


def uneven(seen):
    z = np.column_stack([seen[:, 0], -seen[:, 1], np.zeros(len(seen))])
    return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)


def sure():
    """Always to the right: no choice is ever seen."""
    return walk_log(mu=(0.0, 1.0), episodes=60)


RESULTS = {
    "usable": lambda: sb.evaluate(walk_log(), TARGET, features=OneHot(5), gamma=0.95),
    "doubtful": lambda: sb.evaluate(walk_log(episodes=30), TARGET, features=OneHot(5), gamma=0.95),
    "refused": lambda: sb.evaluate(
        sure(), TARGET, features=OneHot(5), gamma=0.95, allow_uncovered=True
    ),
    "no propensities": lambda: sb.evaluate(
        without_propensities(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GES(0.0)
    ),
    "state values": lambda: sb.evaluate(
        walk_log(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GTD2(0.3)
    ),
    "path and all methods": lambda: sb.evaluate(
        walk_log(), TARGET, features=OneHot(5), gamma=0.95, path=True,
        methods=["fqe", "streamed", "svrg", "is", "pdis", "wis", "pdwis", "dr", "wdr"],
    ),
    "costs": lambda: sb.evaluate(
        walk_log(), TARGET, features=OneHot(5), gamma=0.95, lower_is_better=True
    ),
    "several, and long names": lambda: sb.evaluate(
        sb.Log(mixed(0)), {LONG: uneven, "x" * 120: always(0.2, 0.3, 0.5)}, features=FOURIER,
        gamma=0.9, methods=["wdr", "pdis"],
    ),
    "the same policy": lambda: sb.evaluate(
        walk_log(), always(0.5, 0.5), features=OneHot(5), gamma=0.95
    ),
    "weights that vanish": lambda: sb.evaluate(
        walk_log(episodes=40, mu=(0.9, 0.1)), always(0.0, 1.0), features=OneHot(5), gamma=0.95,
        methods=["is", "wis", "pdwis", "wdr"],
    ),
    "big numbers": lambda: sb.evaluate(
        walk_log(reward=1e9 * np.asarray(walk_log().data["reward"]) - 123456.789), TARGET,
        features=OneHot(5), gamma=0.95, path=True, ridge=1e-5,
    ),
    "nothing varies": lambda: sb.evaluate(
        walk_log(reward=np.zeros(walk_log().rows)), TARGET, features=OneHot(5), gamma=0.95
    ),
    "statistics alone": lambda: sb.ope.evaluate_statistics(
        sb.Statistics.of(walk_log(), sb.GES(0.0), TARGET, features=OneHot(5), gamma=0.95), path=True
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def results():
    """Evaluations of all sorts, each made once."""
    return {name: make() for name, make in RESULTS.items()}


@pytest.mark.parametrize("name", RESULTS)
def test_lines_fit_a_terminal(results, name):
    text = format_result_verbose(results[name].as_dict())
    assert max(map(len, text.splitlines())) <= 80
    assert "{" not in text
    assert "None" not in text


@pytest.mark.parametrize("name", RESULTS)
def test_text_is_the_same_from_a_result_and_from_its_json(results, name):
    live = results[name].as_dict()
    for saved in (json.loads(json.dumps(live)), json.loads(json_text(live))):
        assert format_result(saved) == format_result(live)
        assert format_result_verbose(saved) == format_result_verbose(live)
        assert find_damage(saved) is None
    for plain, verdict in zip(live["verdicts"], results[name].verdicts, strict=True):
        loaded = Verdict.from_dict(json.loads(json_text(plain)))
        assert loaded.trust == verdict.trust
        assert loaded.gates == verdict.gates


@pytest.mark.parametrize("name", RESULTS)
def test_verbose_text_lists_all_checks(results, name):
    result = results[name].as_dict()
    text = format_result_verbose(result)
    for verdict in result["verdicts"]:
        for gate in verdict["gates"]:
            assert gate["code"] in text
    assert text.startswith(format_result(result))


def test_verdicts_are_as_constructed(results):
    planned = {
        "usable": "usable", "doubtful": "doubtful", "refused": "refused", "costs": "usable",
        "no propensities": "usable",
    }  # fmt: skip
    assert {name: results[name].verdicts[0].trust for name in planned} == planned


def answer_of(result):
    """The first line of a result as text."""
    plain = result.as_dict()
    first = format_result(plain, width=10_000).splitlines()[0]
    assert first == answer(plain["verdicts"][0]).text
    return first


def test_the_answer_comes_first(results):
    for name, label, costs in (("usable", "Better", ""), ("costs", "Worse", "; lower is better")):
        text = format_result(results[name].as_dict())
        assert re.match(
            rf"{label}: difference [+−][\d.]+ \(95% CI [+−][\d.]+ to [+−][\d.]+{costs}\); "
            r"the estimate is reliable\.",
            answer_of(results[name]),
        )
        assert text.index("Value of ") < text.index("Least data: action '") < text.index("  LSTD, ")


def test_a_doubtful_answer_gives_the_reason_and_keeps_its_value(results):
    first = answer_of(results["doubtful"])
    assert first.startswith("Inconclusive: difference ")
    assert "but the estimate is doubtful: 30 episodes: too few to estimate their variance" in first
    text = format_result(results["doubtful"].as_dict())
    assert "\nValue of " in text
    assert "\nWarnings\n" in text
    assert "\n  EPISODES 30 episodes: too few to estimate their variance." in text


def test_colours_are_those_of_the_answer(results):
    """A reliable estimate of something worse is not green."""
    for name, outcome in (
        ("usable", "better"), ("costs", "worse"), ("doubtful", "doubtful"), ("refused", "refused"),
    ):  # fmt: skip
        first, *others = result_lines(results[name].as_dict(), 10_000)
        assert first.outcome == outcome
        assert not any(line.outcome for line in others)


def numbers(*values):
    """The ways in which numbers are written."""
    return {f"{value:{form}}" for value in values for form in (".4g", "+.4g", ".3g", ".2f")}


def test_a_refused_answer_shows_no_value_above_the_table(results):
    plain = results["refused"].as_dict()
    (verdict,) = plain["verdicts"]
    assert answer_of(results["refused"]).startswith("No answer, the estimate is refused: ")
    above, _, table = format_result(plain, 100).partition("  LSTD, ")
    more = verdict["improvement"]
    hidden = numbers(
        verdict["value"], verdict["low"], verdict["high"], *verdict["interval_with_gap"],
        more["difference"], more["low"], more["high"],
    )  # fmt: skip
    words = re.sub(r"[,()\[\]]", " ", above.replace("−", "-")).split()
    assert not hidden & set(words)
    assert not {"better", "worse", "Better:", "Worse:"} & set(words)
    assert "REFUSED, do not use" in table
    assert USED not in table


def test_reasons_for_refusal_come_before_doubts():
    verdict = verdict_on(replace(GOOD, episodes=20, imbalance=3.0))
    assert [code for code, _ in failed_checks(verdict.as_dict())] == ["COVERAGE", "EPISODES"]


def test_undefined_values_are_shown_as_none(results):
    (line,) = [
        line for line in format_result(results["weights that vanish"].as_dict()).splitlines()
        if line.startswith("  WIS ")
    ]  # fmt: skip
    assert line.split()[:2] == ["WIS", "none"]


def test_equal_weights_are_reliable(results):
    plain = json.loads(json_text(results["the same policy"].as_dict()))
    assert "unreliable" not in format_result(plain)


def test_without_a_baseline_there_is_no_difference():
    assert answer(verdict_on(GOOD).as_dict()) == (
        "inconclusive",
        "Inconclusive: no baseline is available; the estimate is reliable.",
    )


def test_a_doubtful_answer_is_inconclusive():
    """What makes an estimate doubtful may reverse it."""
    more = Improvement.of((1.0, 0.9, 1.1), difference_interval(0.5, 0.1, 0.9), 0.05, False)
    outcome, text = answer(verdict_on(replace(GOOD, episodes=30), improvement=more).as_dict())
    assert outcome == "doubtful"
    assert text.startswith(
        "Inconclusive: difference +0.50 (95% CI +0.05 to +0.95), but the estimate is doubtful: "
    )


@pytest.mark.parametrize("width", [40, 79, 100])
def test_text_fits_its_width(results, width):
    for result in results.values():
        text = format_result_verbose(result.as_dict(), width)
        assert all(len(line) <= width for line in text.splitlines())


def test_different_values_look_different():
    """IS and WIS of the small Open Bandit data, within an interval of .004 to each side."""
    records = [
        {"value": 0.0046296, "low": 0.0003, "high": 0.0090},
        {"value": 0.0046493, "low": 0.0004, "high": 0.0091},
    ]
    shown = [number(r["value"], k) for r, k in zip(records, distinct(records), strict=True)]
    assert shown == ["0.00463", "0.00465"]


def test_values_that_no_sensible_digit_tells_apart_get_no_more_digits():
    records = [{"value": value, "low": 19.3, "high": 23.7} for value in (21.51681, 21.51682)]
    assert distinct(records) == [decimals(records[0])] * 2
    same = [{"value": 2.174, "low": None, "high": None}, {"value": 2.174, "low": 2.1, "high": 2.2}]
    assert distinct(same) == [None, decimals(same[1])]


def test_the_logged_policy_is_listed_with_the_estimates(results):
    result = results["usable"]
    (line,) = [
        line
        for line in format_result(result.as_dict(), 100).splitlines()
        if line.startswith("  logged policy")
    ]
    own = result.logged
    words = line.split()
    assert words[:2] == ["logged", "policy"]
    assert float(words[2]) == pytest.approx(own.interval.value, rel=0.01)
    assert words[-5:-1] == ["observed;", "our", "estimator", "gives"]
    assert float(words[-1]) == pytest.approx(own.estimate, rel=0.01)


def test_the_policy_that_was_evaluated_is_described(results):
    assert (
        "policy as evaluated: right 60%, left 40%; stochastic (entropy 97% of uniform)"
        in format_result(results["usable"].as_dict())
    )


def test_large_values_keep_the_digits_that_their_interval_supports():
    record = {"value": 123456789.0, "low": 123456000.0, "high": 123457000.0}
    assert number(record["value"], decimals(record)) == "123,456,789"
    assert number(-0.0, None, sign=True) == "+0"
