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
from saddleback.ope.number_format import bracket, decimals, distinct, number, short
from saddleback.ope.result_schema import find_damage
from saddleback.ope.text_report import (
    USED,
    answer,
    failed_checks,
    format_result,
    format_result_verbose,
    gate_value,
    limits,
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
def results(few_candidates):
    """Evaluations of all sorts, each made once, when a test asks for it."""

    class Results(dict):
        def __missing__(self, name):
            self[name] = RESULTS[name]()
            return self[name]

    return Results()


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.slow
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
    for result in map(results.__getitem__, RESULTS):
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


# A result made by hand, whose text can be written out.


def gate(code, level, value, doubtful=None, refused=None, good="small", sentence="enough"):
    return {
        "code": code, "level": level, "value": value, "doubtful": doubtful, "refused": refused,
        "good": good, "sentence": sentence,
    }  # fmt: skip


def estimate_of(method, value, low, high, estimand="V^π", ess=None, note="ok", share=None):
    return {
        "target": "new", "method": method, "value": value, "low": low, "high": high,
        "estimand": estimand, "ess": ess, "k_hat": None if ess is None else 0.5, "note": note,
        "max_share": share,
    }  # fmt: skip


def consensus_of(*candidates, **more):
    names = ("view", "basis", "primal", "value")
    return {
        "candidates": [dict(zip(names, one, strict=True), residual=0.5) for one in candidates],
        "dispersion": 0.25, "opinions": {}, "imbalance": 0.125,
    } | more  # fmt: skip


VERDICT = {
    "target": "new", "trust": "usable", "reason": "all is well", "value": 1.25, "low": 1.05,
    "high": 1.45, "gap": 0.1, "interval_with_gap": [0.95, 1.55],
    "improvement": {
        "outcome": "better", "difference": 0.35, "low": 0.15, "high": 0.55,
        "lower_is_better": False,
    },
    "weakest": "action 'a' where x > -1", "evidence": {"mean_weight": None, "coverage": 0.875},
    "gates": [
        gate("EPISODES", "usable", 1234.0, 50.0, 10.0, "large"),
        gate("CEILING", "not checked", None, sentence="no trace grows"),
        gate("GAP", "usable", 0.05, 0.5, 0.5, sentence="a small bias"),
    ],
    "spectrum": None, "consensus": None, "gap_parts": {"self_check": 0.05, "hidden": None},
    "rank": 1000, "condition": 12.345,
    "policy": {"mass": {"a": 0.25, "b": 0.75}, "entropy": 0.8},
}  # fmt: skip

PLAIN = {
    "verdicts": [VERDICT],
    "estimates": [
        estimate_of("LSTD", 1.25, 1.05, 1.45, "TD fixed point of these features"),
        estimate_of("WDR", 1.3, 0.9, 1.7, "V^π (truncated)", ess=40.0, share=0.125),
        estimate_of("IS", 2.13, 0.1, 4.1, ess=19.6),
        estimate_of("FQE", None, None, None, note="it diverged"),
    ],
    "logged": {"value": 0.9, "low": 0.75, "high": 1.05, "estimand": "V^μ", "estimate": 0.91},
    "warnings": [], "paths": {"new": {"lambda": [(0.0, 1.2), (0.5, -1.3)], "ridge": [(1.0, 2.0)]}},
    "lambda_ceiling": {}, "steps": 4321, "episodes": 500, "gamma": 0.9, "p": 1200,
    "features": "Tiles(scaling=Scaling(centre=(1.5,), scale=(2.0,)), width=0.12345)",
    "propensities": "logged", "actions": ["a", "b"],
}  # fmt: skip

TABLE = """\
new              value  95% CI        estimand and notes
  logged policy   0.90  [0.75, 1.05]  observed; our estimator gives 0.91
  LSTD            1.25  [1.05, 1.45]  TD fixed point; the answer
  WDR             1.30  [0.90, 1.70]  V^π; ESS 40
  IS               2.1  [0.1, 4.1]    V^π; ESS 20; unreliable
  FQE             none
  FQE: it diverged"""


def changed(verdict=None, **changes):
    """Return the result with changes of it and of its verdict."""
    return PLAIN | changes | {"verdicts": [VERDICT | (verdict or {})]}


def shown(plain=PLAIN, width=200, verbose=True):
    text = (format_result_verbose if verbose else format_result)(plain, width)
    return text.splitlines()


def test_a_result_made_by_hand_reads_as_written_out():
    assert (
        shown()
        == f"""\
Better: difference +0.35 (95% CI +0.15 to +0.55); the estimate is reliable.

Value of new: 1.25 (95% CI 0.95 to 1.55, including an estimated bias of 0.1).
Logged policy: 0.90 (95% CI 0.75 to 1.05).
Least data: action 'a' where x > −1.

{TABLE}
  value by λ   0: 1.2   0.5: −1.3
  value by ridge   1: 2
  coverage 87.5% | estimated bias 0.1
  policy as evaluated: b 75%, a 25%; stochastic (entropy 80% of uniform)

4,321 steps, 500 episodes, γ = 0.9, closed form with p = 1200:
  Tiles(width=0.123)
actions: 0 = 'a', 1 = 'b'

Checks
  ok    EPISODES     enough. [1,234; doubtful below 50, refused below 10]
  -     CEILING      no trace grows.
  ok    GAP          a small bias. [0.05; refused above 0.5]

  estimated bias, the largest of: self-check 0.05
  episode weights: ESS 40.0 of 500, largest weight 12%, k̂ 0.5
  features: rank 1,000 of 1,200, condition number 12""".splitlines()
    )


def test_the_table_is_stacked_where_it_is_too_wide():
    """Notes have a column of at least 20 characters, or are below; then the values are too."""
    start = len("  logged policy   0.90  [0.75, 1.05]  ")
    broader, narrow = ("\n".join(shown(width=start + notes)) for notes in (20, 19))
    for note in ("observed; our\nestimator gives 0.91", "V^π; ESS 20;\nunreliable"):
        assert note.replace("\n", "\n" + " " * start) in broader
        assert "\n" + " " * 8 + note.replace("\n", " ") in narrow
    assert "  IS               2.1  [0.1, 4.1]\n        V^π; ESS 20; unreliable\n" in narrow
    assert "\nnew              value  95% CI\n  logged" in narrow
    assert "  FQE             none\n  FQE: it diverged\n" in narrow
    cells = len("  LSTD            1.25  [1.05, 1.45]")
    fits, below = ("\n".join(shown(width=width)) for width in (cells, cells - 1))
    for text, lines in (
        (fits, "  LSTD            1.25  [1.05, 1.45]\n        TD fixed point; the answer\n"),
        (below, "  LSTD\n        1.25 [1.05, 1.45]; TD fixed\n        point; the answer\n"),
        (below, "  IS               2.1  [0.1, 4.1]\n        V^π; ESS 20; unreliable\n"),
    ):
        assert lines in text
    assert "  [0.75, 1.05]\n        observed; our estimator\n        gives 0.91\n" in fits
    named = [PLAIN["estimates"][0] | {"method": "LSTD with a long name"}]
    text = "\n".join(shown(changed(estimates=named), 20))
    assert "\nnew\n        value  95%\n        CI\n" in text
    assert "\n  LSTD with a long\n    name\n        1.25 [1.05," in text


def test_lines_have_at_most_79_characters():
    fits, long = "a" * 77, "b " + "b" * 76
    lines = format_result(changed(warnings=[fits, long])).splitlines()
    begin = lines.index(f"  {fits}")
    assert lines[begin + 1] == "  b"


def test_a_target_with_a_longer_name_than_the_column_has_a_line_of_its_own():
    for name, head in (
        ("a name of 15 ch", ["a name of 15 ch  value  95% CI        estimand and notes"]),
        (
            "a name of 16 cha",
            ["a name of 16 cha", " " * 17 + "value  95% CI        estimand and n"],
        ),
    ):
        estimates = [one | {"target": name} for one in PLAIN["estimates"]]
        lines = shown(changed({"target": name}, estimates=estimates))
        at = lines.index("  logged policy   0.90  [0.75, 1.05]  observed; our estimator gives 0.91")
        for line, begin in zip(lines[at - len(head) : at], head, strict=True):
            assert line.startswith(begin)


@pytest.mark.parametrize(
    ("count", "steps"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (9, [1, 3, 5, 9]), (400, [1, 101, 201, 400])],
)
def test_the_effective_size_is_shown_at_the_quarter_half_and_end_of_the_steps(count, steps):
    by_step = {"new": [5000.0 - k for k in range(count)]}
    expected = ", ".join(f"{5001 - step:,} at step {step}" for step in steps)
    assert f"  ESS by step: {expected}" in shown(changed(ess_by_step=by_step))


def test_bandits_have_decisions_and_no_solution():
    many = [f"c{k}" for k in range(9)]
    plain = changed(bandit=True, observations=many, episodes=12345)
    lines = shown(plain)
    assert (
        "12,345 decisions; context: c0, c1, c2, c3, c4, c5, c6, c7, …; "
        "features of the direct model: Tiles(width=0.123)"
    ) in lines
    assert "  decision weights: ESS 40.0 of 12,345, largest weight 12%, k̂ 0.5" in lines
    assert not any(line.startswith("  features: rank") for line in lines)
    assert "context: c0, c1, c2, c3, c4, c5, c6, c7; features" in "\n".join(
        shown(plain | {"observations": many[:8]})
    )


@pytest.mark.parametrize(
    ("actions", "line"),
    [
        (["0", "1", "2"], "0, 1, 2"),
        (["0"], "0"),
        (["dose"], "dose"),
        (["1", "0"], "0 = '1', 1 = '0'"),
        ([str(k) for k in range(12)], "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"),
        ([str(k) for k in range(13)], "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …"),
    ],
)
def test_actions_are_listed_up_to_twelve(actions, line):
    assert shown(changed(actions=actions), verbose=False)[-1] == f"actions: {line}"
    estimated = changed(actions=actions, propensities="estimated by counts")
    assert shown(estimated, verbose=False)[-2] == "propensities were estimated by counts"


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ({"mass": {"a": 1.0}, "entropy": 0.004}, "a 100%; deterministic"),
        ({"mass": {"a": 1.0}, "entropy": 0.005}, "a 100%; stochastic (entropy 0% of uniform)"),
        (
            {"mass": {str(k): k / 21 for k in range(7)}, "entropy": 0.0},
            "6 29%, 5 24%, 4 19%, 3 14%, 2 10%, 1 5%, …; deterministic",
        ),
        (
            {"mass": {str(k): k / 15 for k in range(6)}, "entropy": 0.0},
            "5 33%, 4 27%, 3 20%, 2 13%, 1 7%, 0 0%; deterministic",
        ),
        ({"mass": {}, "entropy": 1.0, "description": "always right"}, "always right"),
    ],
)
def test_policies_are_described(policy, line):
    assert f"  policy as evaluated: {line}" in shown(changed({"policy": policy}))


def test_diagnostics_name_what_there_is():
    def line(**verdict):
        lines = shown(changed(verdict, lambda_ceiling={"new": 0.8765}))
        return next(text for text in lines if "estimated bias 0.1" in text and "|" in text)

    grows = [gate("CEILING", "usable", 0.5, 1.0, 1.1)]
    assert line() == "  λ ceiling of GES 0.88 | coverage 87.5% | estimated bias 0.1"
    assert line(gates=grows) == "  λ ceiling 0.88 | coverage 87.5% | estimated bias 0.1"
    weights = {"mean_weight": 1.0625, "coverage": 0.5}
    assert " | mean weight 1.062 | " in line(evidence=weights)
    assert " | mean weight 1.062 | " in line(evidence=weights, consensus=consensus_of())
    assert " | out of balance by 0.12 | " in line(consensus=consensus_of())
    assert not any("ceiling" in text for text in shown(changed()) if "|" in text)


@pytest.mark.parametrize("draws", [99, 100])
def test_the_bootstrap_is_shown_with_enough_draws(draws):
    cloud = {"outcome": "stable", "stable": draws - 1, "draws": draws, "bootstrap": [1.0, 1.5]}
    lines = shown(changed({"spectrum": cloud}))
    bias = "  coverage 87.5% | estimated bias 0.1"
    assert f"{bias} | Â stable ({draws - 1}/{draws} resamples)" in lines
    text = f"  bootstrap 95% CI 1.00 to 1.50 of the fixed point, {draws} block resamples"
    assert (text in lines) == (draws >= 100)


CONSENSUS = consensus_of(
    ("observation", "linear", 0.25, 1.0), ("observation", "linear", 0.125, 2.0),
    ("observation", "cells", 0.4, 3.0), ("observation", "cells", None, None),
    ("observation", "waves", 0.05, 0.5), ("observation", "none", 0.04, None),
    ("step", "linear", 0.9, 7.0), ("observation", "cubic", 0.0625, 4.0),
    ("observation", "fifth", 0.0375, 4.5), ("observation", "degree 3", 0.0525, 6.0),
    opinions={"step": 1.75, "observation": 1.5},
)  # fmt: skip


def test_candidates_are_listed_by_weight():
    lines = shown(changed({"consensus": CONSENSUS}))
    assert (
        "  candidates: 10, most weight on cells 40%, linear 38%, cubic 6%, degree 3 5%; they "
        "differ by 0.25 (SD); with the step 1.8."
    ) in lines
    begin = lines.index("  candidate features: weight, and values over their ridges")
    assert lines[begin + 1 : begin + 8] == [
        "    40%  cells: 3 to 3", "    38%  linear: 1 to 2", "     6%  cubic: 4 to 4",
        "     5%  degree 3: 6 to 6", "     5%  waves: 0.5 to 0.5", "     4%  fifth: 4.5 to 4.5",
        "      –  linear and the step: 7 to 7",
    ]  # fmt: skip
    assert lines[begin + 8].startswith("  features: rank")
    narrow = shown(changed({"consensus": CONSENSUS}), 26)
    at = narrow.index("      –  linear and the")
    assert narrow[at + 1] == " " * 10 + "step: 7 to 7"
    few = consensus_of(
        ("observation", "just", 0.05, 1.0), ("observation", "below", 0.0499, 1.0),
        ("observation", "most", 0.9, 1.0), ("history", "past", 1.0, 1.0),
    )  # fmt: skip
    dual = {
        "view": "observation",
        "basis": "weighted",
        "primal": 0.0,
        "value": 1.0,
        "residual": None,
    }
    only_dual = few | {"candidates": [*few["candidates"], dual]}
    assert not any("weighted" in line for line in shown(changed({"consensus": only_dual})))
    assert "  candidates: 4, most weight on most 90%, just 5%; they differ by 0.25 (SD)." in shown(
        changed({"consensus": few})
    )


def test_what_windowed_ratios_changed_is_told():
    few = consensus_of(("observation", "most", 0.9, 1.0), windowed=(-0.5, 0.1), is_windowed=True)
    start = "  candidates: 1, most weight on most 90%; they differ by 0.25 (SD)."
    share = 1 - (2 * 0.1 / 0.5) ** 2
    assert (
        f"{start} Windowed ratios, of the logged propensities, would change the estimate by −0.50 "
        f"(standard error 0.1); {share:.0%} of that is included."
    ) in shown(changed({"consensus": few}))
    for without in ({"is_windowed": False}, {"windowed": None}, {"windowed": (None, None)}):
        assert start in shown(changed({"consensus": few | without}))


def test_values_of_checks_have_three_digits_and_thousands_none():
    assert [gate_value(value) for value in (999.4, 1000.0, -1000.4, -999.0, None)] == [
        "999", "1,000", "-1,000", "-999", ""
    ]  # fmt: skip
    assert limits(gate("A", "usable", 0.0, 1.0, None)) == "doubtful above 1"
    assert limits(gate("A", "usable", 0.0, None, 2.0, "large")) == "refused below 2"
    assert limits(gate("A", "usable", 0.0, 3.0, 2.0)) == "doubtful above 3, refused above 2"


def test_several_targets_are_named():
    other = VERDICT | {"target": "old", "trust": "refused", "gates": [
        gate("GAP", "doubtful", 1.0, sentence="a bias"),
        gate("SUPPORT", "refused", 1.0, sentence="no data"),
    ]}  # fmt: skip
    estimates = [*PLAIN["estimates"], PLAIN["estimates"][0] | {"target": "old"}]
    plain = PLAIN | {"verdicts": [VERDICT, other], "estimates": estimates, "warnings": ["W1 odd"],
                     "altered": ["3 rows were dropped", "2 were clipped"]}  # fmt: skip
    lines = shown(plain)
    assert lines[:13] == [
        "new: Better: difference +0.35 (95% CI +0.15 to +0.55); the estimate is reliable.",
        "old: No answer, the estimate is refused: all is well.",
        "",
        "Value of new: 1.25 (95% CI 0.95 to 1.55, including an estimated bias of 0.1).",
        "Logged policy: 0.90 (95% CI 0.75 to 1.05).",
        "Least data for new: action 'a' where x > −1.",
        "Least data for old: action 'a' where x > −1.",
        "Not used as logged: 3 rows were dropped; 2 were clipped.",
        "",
        "Warnings",
        "  old: SUPPORT no data.",
        "  old: GAP a bias.",
        "  W1 odd",
    ]
    assert {"Checks of new", "Checks of old"} <= set(lines)
    assert sum(line.endswith("TD fixed point; REFUSED, do not use") for line in lines) == 1
    assert sum(line.endswith("TD fixed point; the answer") for line in lines) == 1


@pytest.mark.parametrize(
    ("logged", "above", "row"),
    [
        (
            {"estimand": "V^μ", "estimate": None},
            "Logged policy: 0.90 (95% CI 0.75 to 1.05).",
            "  logged policy   0.90  [0.75, 1.05]  observed",
        ),
        (
            {"estimand": "other", "estimate": 0.9},
            "Logged policy: 0.90 (95% CI 0.75 to 1.05, bootstrapped at truncation).",
            "  logged policy   0.90  [0.75, 1.05]  bootstrapped at truncation",
        ),
        (
            {"low": 0.875, "high": 0.925},
            "Logged policy: 0.900 (95% CI 0.875 to 0.925).",
            "  logged policy  0.900  [0.875, 0.925]  observed; our estimator gives 0.910",
        ),
    ],
)
def test_the_logged_policy_says_how_it_was_found(logged, above, row):
    lines = shown(changed(logged=PLAIN["logged"] | logged))
    assert above in lines
    assert row in lines
    without = shown(changed(logged=None))
    assert not any("ogged policy" in line for line in without)
    assert "new     value  95% CI        estimand and notes" in without


def test_an_answer_without_verdict_bias_or_baseline():
    assert answer(None) == ("unjudged", "No verdict: the reliability of the estimate is unknown.")
    costs = VERDICT["improvement"] | {"lower_is_better": True, "outcome": "undecided"}
    assert answer(VERDICT | {"improvement": costs}) == (
        "inconclusive",
        "Inconclusive: difference +0.35 (95% CI +0.15 to +0.55; lower is better); the estimate is "
        "reliable.",
    )
    exact = {"gap": 0.0, "interval_with_gap": [1.05, 1.45]}
    assert "Value of new: 1.25 (95% CI 1.05 to 1.45)." in shown(changed(exact))


def test_digits_are_two_of_half_the_interval():
    for low, high, places in (
        (0.0, 2.0, 1), (0.0, 1.96, 2), (0.0, 20.0, 0), (0.0, 19.0, 1), (0.0, 200.0, 0),
        (-1.0, 1.0, 1), (1.0, 1.0, None), (None, 1.0, None), (1.0, None, None),
        (0.0, np.inf, None),
    ):  # fmt: skip
        assert decimals({"low": low, "high": high}) == places
    assert number(999_999.0, 0) == "999999"
    assert number(1e6, 0) == "1,000,000"
    assert number(-1e6, 1) == "−1,000,000.0"
    assert number(0.5, 12) == "0.500000000000"
    assert number(0.5, 13) == "0.5"
    assert short(1e-12) == "1e−12"
    assert short(-0.99e-12) == "0"
    assert short(-0.0456) == "−0.046"
    assert bracket({"low": None, "high": 1.0}, 1) == "[none, 1.0]"
    assert bracket({"low": 1.0, "high": None}, 1) == "[1.0, none]"


def test_decimals_are_added_one_at_a_time_up_to_a_limit():
    """Two values that differ in the sixth decimal; the intervals support two."""
    records = [{"value": value, "low": 0.0, "high": 1.0} for value in (0.123451, 0.123452)]
    assert distinct(records) == [2, 2]
    assert distinct(records, more=4) == [6, 6]
    third = {"value": 0.127, "low": 0.0, "high": 1.0}
    assert distinct([records[0], third], more=1) == [2, 2]
    first = {"value": 0.123, "low": 0.0, "high": 1.0}
    assert distinct([first, {**first, "value": 0.124}, third]) == [3, 3, 2]
