"""The verdict: gates, two statements kept apart, and the same words from a result and its JSON."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace

import numpy as np
import pytest

import saddleback as sb
from helpers.logs import mixed
from saddleback.cli.log_options import as_json
from saddleback.errors import SaddlebackError
from saddleback.evaluation.sandwich import Interval
from saddleback.features import Custom, Fourier, OneHot
from saddleback.verdict import Gate, Improvement, Verdict
from saddleback.verdict.evidence import Evidence
from saddleback.verdict.gates import CHECKS
from saddleback.verdict.number_format import decimals, distinct, number
from saddleback.verdict.result_schema import find_damage
from saddleback.verdict.text_report import (
    USED,
    answer,
    failed_checks,
    format_result,
    format_result_verbose,
    result_lines,
)

GOOD = Evidence(
    episodes=500, steps=5000, value=12.3456, error=0.02, spread=1.0, uncovered=0.0, coverage=1.0,
    unvisited=0.0, miscalibrated=0.001, calibration_z=1.0, trace_ratio=0.5, self_check=0.01,
    self_check_error=0.01, unique=True, stable=1.0, agreement=0.01, agreement_error=0.02, gap=0.05,
    sensitivity=0.01, limit=40, limit_share=0.0, truncated_weight=0.1, outside=0.0,
)  # fmt: skip

CODES = (
    "EPISODES", "SUPPORT", "COVERAGE", "PROPENSITIES", "CEILING", "SELF-CHECK", "SOLUTION",
    "STABILITY", "AGREEMENT", "GAP", "PRECISION", "SENSITIVITY", "ENDS", "HORIZON", "RANGE",
)  # fmt: skip

SURE = {"calibration_z": 9.0}

# For each gate what makes an answer doubtful, and what makes it refused, where it ever is.
BAD = {
    "EPISODES": ({"episodes": 49}, {"episodes": 9}),
    "SUPPORT": ({"uncovered": 0.01}, {"uncovered": 0.06}),
    "COVERAGE": ({"coverage": 0.9}, {"coverage": 0.7}),
    "PROPENSITIES": ({"miscalibrated": 0.1} | SURE, {"miscalibrated": 0.3} | SURE),
    "CEILING": ({"trace_ratio": 1.05}, {"trace_ratio": 1.2}),
    "SELF-CHECK": ({"self_check": -0.3}, {"self_check": 0.6}),
    "SOLUTION": ({"unique": False}, None),
    "STABILITY": ({"stable": 0.9}, None),
    "AGREEMENT": ({"agreement": -0.07}, None),
    "GAP": ({"gap": 0.6}, {"gap": 2.1}),
    "PRECISION": ({"error": 0.3}, None),
    "SENSITIVITY": ({"sensitivity": 0.6}, {"sensitivity": 2.1}),
    "ENDS": ({"limit_share": 0.3}, None),
    "HORIZON": ({"truncated_weight": 0.6}, {"truncated_weight": 0.95}),
    "RANGE": (None, {"outside": 0.01}),
}


def judged(evidence, *, improvement=None, target="mine"):
    """Return the verdict on some evidence."""
    value = evidence.value
    interval = (value, value - 2 * evidence.error, value + 2 * evidence.error)
    return Verdict.of(
        target, interval, evidence, improvement, "action 'high' where lactate > 6 (7 rows)"
    )


def gate_of(verdict, code):
    return next(each for each in verdict.gates if each.code == code)


# Gates.


def test_codes_are_stable_and_in_order():
    assert tuple(each.code for each in CHECKS) == CODES == tuple(BAD)


def test_good_evidence_is_usable():
    verdict = judged(GOOD)
    assert verdict.trust == "usable"
    assert not verdict.failed
    assert {each.level for each in verdict.gates} == {"usable"}
    assert verdict.reason == "all 15 applicable checks passed (of 15)"


@pytest.mark.parametrize(
    ("code", "change"), [(code, change) for code, (change, _) in BAD.items() if change]
)
def test_every_gate_can_make_an_answer_doubtful(code, change):
    verdict = judged(replace(GOOD, **change))
    gate = gate_of(verdict, code)
    assert gate.level == "doubtful"
    assert not gate.passed
    assert verdict.trust == "doubtful"
    assert gate in verdict.failed
    assert ": " in gate.sentence
    assert len(gate.sentence) > len(gate_of(judged(GOOD), code).sentence)


@pytest.mark.parametrize(
    ("code", "change"), [(code, change) for code, (_, change) in BAD.items() if change]
)
def test_gates_with_a_second_threshold_can_refuse(code, change):
    verdict = judged(replace(GOOD, **change))
    assert gate_of(verdict, code).level == "refused"
    assert verdict.trust == "refused"
    assert verdict.failed[0].level == "refused"
    assert verdict.reason == verdict.failed[0].sentence


def test_gates_without_a_second_threshold_never_refuse():
    never = {code for code, (_, change) in BAD.items() if change is None}
    assert never == {each.code for each in CHECKS if each.refused is None}


@pytest.mark.parametrize("check", CHECKS, ids=lambda each: each.code)
def test_a_threshold_itself_is_still_passed(check):
    """Doubt begins beyond it, and thresholds are in the right order."""
    at = replace(check, of=lambda evidence: check.doubtful)
    assert at.judge(GOOD).level == "usable"
    worse = np.nextafter(check.doubtful, -np.inf if check.good == "large" else np.inf)
    beyond = replace(check, of=lambda evidence: float(worse))
    assert beyond.judge(GOOD).level in ("doubtful", "refused")
    if check.refused is not None:
        sign = -1 if check.good == "large" else 1
        assert sign * check.refused >= sign * check.doubtful


@pytest.mark.parametrize("check", CHECKS, ids=lambda each: each.code)
def test_what_is_not_a_number_passes_no_gate(check):
    gate = replace(check, of=lambda evidence: math.nan).judge(GOOD)
    assert not gate.passed


NUMBERS = [
    each.name for each in fields(Evidence)
    if isinstance(getattr(GOOD, each.name), float) and each.name not in ("value", "unvisited")
]  # fmt: skip


@pytest.mark.parametrize("name", [each for each in NUMBERS if each != "calibration_z"])
def test_evidence_that_is_not_a_number_is_never_usable(name):
    more = SURE if name == "miscalibrated" else {}
    assert judged(replace(GOOD, **{name: math.nan} | more)).trust != "usable"


def test_what_could_not_be_looked_at_is_said_and_does_not_count():
    little = Evidence(
        episodes=500, steps=5000, value=1.0, error=0.01, spread=1.0,
        notes={"SUPPORT": "the log has no propensities"},
    )  # fmt: skip
    verdict = judged(little)
    unknown = {each.code for each in verdict.gates if each.level == "not checked"}
    assert unknown == set(CODES) - {"EPISODES", "SOLUTION", "PRECISION"}
    assert all(each.value is None for each in verdict.gates if each.code in unknown)
    assert gate_of(verdict, "SUPPORT").sentence == "the log has no propensities"
    assert gate_of(verdict, "RANGE").sentence == "not applicable to this log"
    assert verdict.trust == "usable"
    assert verdict.reason == "all 3 applicable checks passed (of 15)"
    assert verdict.gap == 0.0


def test_a_self_check_within_two_standard_errors_is_chance():
    assert judged(replace(GOOD, self_check=0.6, self_check_error=0.3)).trust == "usable"
    assert judged(replace(GOOD, self_check=0.6, self_check_error=0.1)).trust == "doubtful"


def test_what_is_judged_on_the_scale_of_returns_does_not_depend_on_units():
    for k in (1e-6, 1e6):
        scaled = replace(
            GOOD, value=k * GOOD.value, error=k * 0.3, spread=k, self_check=k * 0.3,
            self_check_error=k * 0.01, gap=k * 0.6, sensitivity=k * 2.1, agreement=k * 0.5,
            agreement_error=k * 0.1,
        )  # fmt: skip
        levels = {each.code: each.level for each in judged(scaled).failed}
        assert levels == {
            "SENSITIVITY": "refused", "SELF-CHECK": "doubtful", "GAP": "doubtful",
            "PRECISION": "doubtful", "AGREEMENT": "doubtful",
        }  # fmt: skip


def test_without_spread_any_gap_is_infinite_and_none_is_none():
    flat = replace(GOOD, spread=0.0, error=0.0, self_check=0.0, gap=0.0, sensitivity=0.0)
    assert judged(flat).trust == "usable"
    assert judged(replace(flat, gap=1e-3)).trust == "refused"


def test_the_worst_gate_gives_the_reason_and_comes_first():
    mixed_up = replace(GOOD, episodes=20, coverage=0.5, truncated_weight=0.6, outside=1.0)
    verdict = judged(mixed_up)
    assert [each.code for each in verdict.failed] == ["COVERAGE", "RANGE", "EPISODES", "HORIZON"]
    assert verdict.reason == gate_of(verdict, "COVERAGE").sentence


def test_sentences_can_be_read():
    """They start small, say a number, and do not end with a stop, since more may follow."""
    for change in [{}] + [each for pair in BAD.values() for each in pair if each]:
        for gate in judged(replace(GOOD, **change)).gates:
            assert not gate.sentence.endswith(".")
            assert "{" not in gate.sentence
            assert "nan" not in gate.sentence


def test_an_answer_that_is_not_unique_is_not_told_to_have_no_solution():
    said = gate_of(judged(replace(GOOD, unique=False)), "SOLUTION").sentence
    assert "0 solution" not in said
    assert "the solution is not unique" in said


# The interval.


def test_the_gap_widens_the_interval():
    verdict = judged(GOOD)
    assert (verdict.low, verdict.high) == pytest.approx((12.3056, 12.3856))
    assert verdict.interval_with_gap == pytest.approx((12.2556, 12.4356))


# Improvement.


def reach(value, low, high):
    """An interval of a difference."""
    return Interval(value, low, high, 0.95, (high - low) / 4, "", "", 100)


@pytest.mark.parametrize(
    ("difference", "gap", "rewards", "costs"),
    [
        ((1.0, 0.5, 1.5), 0.0, "better", "worse"),
        ((1.0, 0.5, 1.5), 0.4, "better", "worse"),
        ((1.0, 0.5, 1.5), 0.6, "undecided", "undecided"),
        ((-1.0, -1.5, -0.5), 0.0, "worse", "better"),
        ((-1.0, -1.5, -0.5), 0.6, "undecided", "undecided"),
        ((0.1, -0.5, 0.7), 0.0, "undecided", "undecided"),
        ((0.5, 0.0, 1.0), 0.0, "undecided", "undecided"),
        ((math.nan, math.nan, math.nan), 0.0, "undecided", "undecided"),
    ],
)
def test_improvement_has_a_direction(difference, gap, rewards, costs):
    baseline = (3.0, 2.5, 3.5)
    one = Improvement.of(baseline, reach(*difference), gap, lower_is_better=False)
    two = Improvement.of(baseline, reach(*difference), gap, lower_is_better=True)
    assert (one.outcome, two.outcome) == (rewards, costs)
    assert (one.baseline, one.baseline_low, one.baseline_high) == baseline
    np.testing.assert_equal(one.difference, difference[0])
    np.testing.assert_equal([one.low, one.high], [difference[1] - gap, difference[2] + gap])


def two_arms(more=2.0, n=2000):
    """The second action brings more than the first."""
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, n)
    data = {
        "episode_id": np.arange(n), "obs_0": rng.normal(size=n), "action": action,
        "reward": 10.0 + more * action + rng.normal(size=n), "terminated": np.ones(n, bool),
        "truncated": np.zeros(n, bool), "behavior_prob": np.full(n, 0.5),
    }  # fmt: skip
    return sb.Log(data, actions=["first", "second"])


LINE = Custom(lambda seen: np.column_stack([np.ones(len(seen)), seen]), 2)


def always(*pi):
    return lambda seen: np.tile(pi, (len(seen), 1))


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("second", [0.1, 0.5, 0.9])
def test_improvement_over_the_logged_policy(costs, second):
    """A policy that takes the dear action more often is worse, however high its value."""
    log = two_arms()
    found = sb.evaluate(
        log, always(1 - second, second), features=LINE, gamma=0.0, lower_is_better=costs
    )
    (verdict,) = found.verdicts
    assert verdict.trust == "usable"
    more = verdict.improvement
    assert more.baseline == pytest.approx(np.mean(log.data["reward"]))
    reach = (more.high - more.low) / 2
    assert more.difference == pytest.approx(2 * (second - 0.5), abs=2 * reach)
    assert more.difference == pytest.approx(verdict.value - more.baseline)
    expected = {0.1: "worse", 0.5: "undecided", 0.9: "better"}[second]
    if costs and expected != "undecided":
        expected = {"worse": "better", "better": "worse"}[expected]
    assert more.outcome == expected


def test_the_difference_is_paired():
    """Of the logged policy itself, nearly all that is uncertain is so on both sides."""
    (verdict,) = sb.evaluate(
        two_arms(more=0.2), always(0.5, 0.5), features=LINE, gamma=0.0
    ).verdicts  # fmt: skip
    more = verdict.improvement
    assert 0 < more.high - more.low - 2 * verdict.gap < 0.3 * (verdict.high - verdict.low)


# Saved and read again.


@pytest.mark.parametrize("costs", [False, True])
def test_a_verdict_survives_json(costs):
    more = Improvement.of((1.0, 0.9, 1.1), reach(0.5, 0.1, 0.9), 0.05, costs)
    for improvement in (None, more):
        for change in [{}] + [each for pair in BAD.values() for each in pair if each]:
            verdict = judged(replace(GOOD, **change), improvement=improvement)
            again = Verdict.from_dict(json.loads(json.dumps(verdict.as_dict())))
            assert again == verdict
            assert isinstance(again.gates[0], Gate)
            assert again.failed == verdict.failed
            assert again.interval_with_gap == verdict.interval_with_gap
            assert again.as_dict() == verdict.as_dict()


FOURIER = Fourier((-3.0, -3.0), (3.0, 3.0), order=1)
LONG = "a policy with a very long name that nobody would want to read in a table " * 2


def uneven(seen):
    z = np.column_stack([seen[:, 0], -seen[:, 1], np.zeros(len(seen))])
    return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)


def lake(seed=0, episodes=400, mu=(0.5, 0.5), **extra):
    """A walk over five states, right or left, that pays at one end."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        s = 2
        while 0 <= s < 5:
            a = int(rng.random() < mu[1])
            s_next = s + (1 if a else -1)
            rows.append((episode, s, a, float(s_next == 5), not 0 <= s_next < 5))
            s = s_next
    table = np.array(rows)
    data = {
        "episode_id": table[:, 0].astype(int), "obs_0": table[:, 1],
        "action": table[:, 2].astype(int), "reward": table[:, 3],
        "terminated": table[:, 4].astype(bool), "truncated": np.zeros(len(table), bool),
        "behavior_prob": np.array(mu)[table[:, 2].astype(int)],
    }  # fmt: skip
    return sb.Log(data | extra, actions=["left", "right"])


def without_propensities():
    log = lake()
    data = {name: each for name, each in log.data.items() if name != "behavior_prob"}
    return sb.Log(data, actions=["left", "right"])


def sure():
    """Always to the right: no choice is ever seen."""
    return lake(mu=(0.0, 1.0), episodes=60)


TARGET = always(0.4, 0.6)
RESULTS = {
    "usable": lambda: sb.evaluate(lake(), TARGET, features=OneHot(5), gamma=0.95),
    "doubtful": lambda: sb.evaluate(lake(episodes=30), TARGET, features=OneHot(5), gamma=0.95),
    "refused": lambda: sb.evaluate(
        sure(), TARGET, features=OneHot(5), gamma=0.95, allow_uncovered=True
    ),
    "no propensities": lambda: sb.evaluate(
        without_propensities(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GES(0.0)
    ),
    "state values": lambda: sb.evaluate(
        lake(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GTD2(0.3)
    ),
    "path and all methods": lambda: sb.evaluate(
        lake(), TARGET, features=OneHot(5), gamma=0.95, path=True,
        methods=["fqe", "streamed", "svrg", "is", "pdis", "wis", "pdwis", "dr", "wdr"],
    ),
    "costs": lambda: sb.evaluate(
        lake(), TARGET, features=OneHot(5), gamma=0.95, lower_is_better=True
    ),
    "several, and long names": lambda: sb.evaluate(
        sb.Log(mixed(0)), {LONG: uneven, "x" * 120: always(0.2, 0.3, 0.5)}, features=FOURIER,
        gamma=0.9, methods=["wdr", "pdis"],
    ),
    "the same policy": lambda: sb.evaluate(
        lake(), always(0.5, 0.5), features=OneHot(5), gamma=0.95
    ),
    "weights that vanish": lambda: sb.evaluate(
        lake(episodes=40, mu=(0.9, 0.1)), always(0.0, 1.0), features=OneHot(5), gamma=0.95,
        methods=["is", "wis", "pdwis", "wdr"],
    ),
    "big numbers": lambda: sb.evaluate(
        lake(reward=1e9 * np.asarray(lake().data["reward"]) - 123456.789), TARGET,
        features=OneHot(5), gamma=0.95, path=True, ridge=1e-5,
    ),
    "nothing varies": lambda: sb.evaluate(
        lake(reward=np.zeros(lake().rows)), TARGET, features=OneHot(5), gamma=0.95
    ),
    "statistics alone": lambda: sb.verdict.evaluate_statistics(
        sb.Statistics.of(lake(), sb.GES(0.0), TARGET, features=OneHot(5), gamma=0.95), path=True
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
def test_words_are_the_same_from_a_result_and_from_its_json(results, name):
    live = results[name].as_dict()
    for saved in (json.loads(json.dumps(live)), json.loads(as_json(live))):
        assert format_result(saved) == format_result(live)
        assert format_result_verbose(saved) == format_result_verbose(live)
        assert find_damage(saved) is None
    for plain, verdict in zip(live["verdicts"], results[name].verdicts, strict=True):
        again = Verdict.from_dict(json.loads(as_json(plain)))
        assert again.trust == verdict.trust
        assert again.gates == verdict.gates


@pytest.mark.parametrize("name", RESULTS)
def test_all_gates_are_format_result_verbose(results, name):
    found = results[name].as_dict()
    text = format_result_verbose(found)
    for verdict in found["verdicts"]:
        for gate in verdict["gates"]:
            assert gate["code"] in text
    assert text.startswith(format_result(found))


def test_trust_is_what_was_planned(results):
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
    for name, word, costs in (("usable", "Better", ""), ("costs", "Worse", "; lower is better")):
        text = format_result(results[name].as_dict())
        assert re.match(
            rf"{word}: difference [+−][\d.]+ \(95% CI [+−][\d.]+ to [+−][\d.]+{costs}\); "
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
    return {f"{each:{form}}" for each in values for form in (".4g", "+.4g", ".3g", ".2f")}


def test_a_refused_answer_gives_no_value_but_in_the_table(results):
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
    verdict = judged(replace(GOOD, episodes=20, coverage=0.5))
    assert [code for code, _ in failed_checks(verdict.as_dict())] == ["COVERAGE", "EPISODES"]


def test_what_is_not_a_number_is_said_so_in_the_table(results):
    (line,) = [
        each for each in format_result(results["weights that vanish"].as_dict()).splitlines()
        if each.startswith("  WIS ")
    ]  # fmt: skip
    assert line.split()[:2] == ["WIS", "none"]


def test_weights_that_are_all_alike_are_reliable(results):
    plain = json.loads(as_json(results["the same policy"].as_dict()))
    assert "unreliable" not in format_result(plain)


def test_without_a_baseline_there_is_no_difference():
    assert answer(judged(GOOD).as_dict()) == (
        "inconclusive",
        "Inconclusive: no baseline is available; the estimate is reliable.",
    )


def test_doubts_do_not_lead_with_a_direction():
    """What makes an estimate doubtful may reverse it."""
    more = Improvement.of((1.0, 0.9, 1.1), reach(0.5, 0.1, 0.9), 0.05, False)
    outcome, text = answer(judged(replace(GOOD, episodes=30), improvement=more).as_dict())
    assert outcome == "doubtful"
    assert text.startswith(
        "Inconclusive: difference +0.50 (95% CI +0.05 to +0.95), but the estimate is doubtful: "
    )


@pytest.mark.parametrize("width", [40, 79, 100])
def test_text_fits_its_width(results, width):
    for result in results.values():
        text = format_result_verbose(result.as_dict(), width)
        assert all(len(line) <= width for line in text.splitlines())


def test_values_that_differ_do_not_look_alike():
    """IS and WIS of the small Open Bandit data, within an interval of .004 to each side."""
    records = [
        {"value": 0.0046296, "low": 0.0003, "high": 0.0090},
        {"value": 0.0046493, "low": 0.0004, "high": 0.0091},
    ]
    shown = [number(r["value"], k) for r, k in zip(records, distinct(records), strict=True)]
    assert shown == ["0.00463", "0.00465"]


def test_the_logged_policy_stands_beside_the_estimates(results):
    found = results["usable"]
    (line,) = [
        line
        for line in format_result(found.as_dict(), 100).splitlines()
        if line.startswith("  logged policy")
    ]
    own = found.logged
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


# Bad input.


def test_one_episode_is_too_few():
    with pytest.raises(
        sb.errors.InvalidParameter, match=r"at least two episodes, the log has 1.*Log more episodes"
    ):
        sb.evaluate(lake(episodes=1), TARGET, features=OneHot(5), gamma=0.95)


def test_too_few_draws_are_refused():
    with pytest.raises(sb.errors.InvalidParameter, match=r"5 draws are too few.*at least 20"):
        sb.evaluate(lake(), TARGET, features=OneHot(5), gamma=0.95, draws=5)


@pytest.mark.parametrize("method", ["is", "pdis", "wis", "pdwis", "dr", "wdr"])
def test_methods_by_weights_need_propensities_and_the_error_says_what_does_not(method):
    with pytest.raises(
        sb.errors.InvalidParameter,
        match=rf"method '{method}' needs propensities.*add behavior_prob, or estimate them.*"
        r"closed form with GES\(0\) or GTB needs no propensities",
    ):
        sb.evaluate(
            without_propensities(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GES(0.0),
            methods=[method],
        )  # fmt: skip


def test_the_default_rule_needs_propensities_and_the_error_says_which_does_not():
    with pytest.raises(
        sb.errors.InvalidParameter, match=r"GRetrace.*needs the probabilities.*GES\(0\) or GTB"
    ):
        sb.evaluate(without_propensities(), TARGET, features=OneHot(5), gamma=0.95)


@pytest.mark.parametrize("method", ["fqe", "dr", "wdr"])
def test_methods_by_action_values_refuse_a_rule_of_state_values(method):
    with pytest.raises(
        sb.errors.InvalidParameter,
        match=rf"method '{method}' learns action values, but GTD2\(0.3\) learns state values.*"
        "GRetrace",
    ):
        sb.evaluate(
            lake(), TARGET, features=OneHot(5), gamma=0.95, rule=sb.GTD2(0.3), methods=[method]
        )


def test_unknown_methods_are_answered_with_known_ones():
    with pytest.raises(sb.errors.SaddlebackError, match=r"'wdrr'.*wdr"):
        sb.evaluate(lake(), TARGET, features=OneHot(5), gamma=0.95, methods=["wdrr"])


def test_a_target_may_not_take_the_name_of_the_logged_policy():
    """Its sums would be those of the other."""
    with pytest.raises(sb.errors.InvalidParameter, match=r"'logged policy' is .* another name"):
        sb.evaluate(lake(), {"logged policy": TARGET}, features=OneHot(5), gamma=0.95)


# What a review found.


def two_states(n, logged, seed=0):
    """Decisions in two states, with μ(1|s) = 0.8 and 0.2, whatever is logged."""
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=n)
    mu = np.where(state == 0, 0.8, 0.2)
    action = (rng.random(n) < mu).astype(int)
    right = np.where(action == 1, mu, 1 - mu)
    return {
        "episode_id": np.arange(n), "obs_0": state.astype(float), "action": action,
        "reward": np.where(state == 0, 1.0, -1.0) * action + rng.normal(size=n),
        "terminated": np.ones(n, bool), "truncated": np.zeros(n, bool),
        "behavior_prob": np.full(n, 0.5) if logged == "half" else right,
    }  # fmt: skip


@pytest.mark.parametrize(("logged", "level"), [("half", "refused"), ("right", "usable")])
def test_errors_of_propensities_that_cancel_are_seen(logged, level):
    log = sb.Log(two_states(4000, logged))
    found = sb.evaluate(log, "uniform", features=OneHot(2), gamma=0.0)
    (gate,) = [each for each in found.verdicts[0].gates if each.code == "PROPENSITIES"]
    assert gate.level == level


def test_the_verdict_does_not_depend_on_what_is_shown():
    log = sb.Log(two_states(2000, "right"))
    one, two = (
        sb.evaluate(log, "uniform", features=OneHot(2), gamma=0.0, methods=methods).verdicts[0]
        for methods in (None, ["fqe"])
    )
    assert one == two


def test_of_a_truncated_log_the_baseline_has_its_whole_error():
    """V^μ is bootstrapped beyond the cut, and the interval has to know that."""
    base = sb.problems.random_mdp(0.95, rng=1, termination=0.01)
    mdp, mu = base.mdp, base.behaviour
    truth = float(mdp.start @ (mu * mdp.q(mu)).sum(axis=1))
    hits = 0
    for seed in range(60):
        log = sb.collect(base, episodes=100, limit=15, rng=seed)
        found = sb.evaluate(log, mu, features=OneHot(6), gamma=0.95, methods=())
        hits += found.logged.interval.low <= truth <= found.logged.interval.high
    assert hits >= 52


def test_exact_answers_are_not_refused_for_want_of_variance():
    data = two_states(500, "right") | {"reward": np.ones(500)}
    (verdict,) = sb.evaluate(sb.Log(data), "uniform", features=OneHot(2), gamma=0.0).verdicts
    assert verdict.trust == "usable"
    assert verdict.value == pytest.approx(1.0)


def test_a_path_leaves_out_what_the_log_cannot_serve():
    data = two_states(500, "right")
    del data["behavior_prob"]
    found = sb.evaluate(
        sb.Log(data), "uniform", features=OneHot(2), gamma=0.0, rule=sb.GES(0.0), path=True
    )
    assert [lam for lam, _ in found.paths["uniform"]["lambda"]] == [0.0]


def test_few_episodes_in_one_block_are_told_and_not_a_crash():
    for seed in range(12):
        data = two_states(2, "right", seed) | {"episode_id": np.array([seed, seed + 20])}
        text = sb.evaluate(
            sb.Log(data, actions=["0", "1"]), "uniform", features=OneHot(2), gamma=0.0,
            allow_uncovered=True,
        ).text  # fmt: skip
        assert text.startswith("No answer, the estimate is refused: ")


def test_a_ranking_follows_the_direction_of_the_evaluation():
    log = sb.Log(two_states(4000, "right"))
    found = sb.evaluate(
        log, {"zero": "always:0", "one": "always:1"}, features=OneHot(2), gamma=0.0,
        lower_is_better=True,
    )  # fmt: skip
    assert sb.rank(found).lower_is_better


def test_columns_that_are_no_policy_are_left_alone():
    data = two_states(300, "right") | {f"lab_{j}": np.linspace(-5, 5, 300) for j in range(3)}
    (verdict,) = sb.evaluate(sb.Log(data), "uniform", features=OneHot(2), gamma=0.0).verdicts
    assert verdict.trust == "usable"


def test_a_log_that_is_kept_says_what_the_log_says():
    log = sb.Log(mixed(2))
    kept = log.held()
    assert kept.held() is kept
    assert kept.card(0.9).text == log.card(0.9).text
    one, two = (list(each.pieces()) for each in (log, kept))
    assert [len(piece) for piece in one] == [len(piece) for piece in two]
    np.testing.assert_array_equal(log.start_states(), kept.start_states())


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("lower_is_better must be True or False, got 'no'", {"lower_is_better": "no"}),
        ("shared must be True or False, got 'x'", {"shared": "x"}),
        ("methods must be a list such as ['fqe', 'dr'], got 'dr'", {"methods": "dr"}),
        ("methods must be a list such as ['fqe', 'dr'], got 3", {"methods": 3}),
        ("ridge must be a finite number >= 0, got 'a'", {"ridge": "a"}),
        ("progress must be a function, got 3", {"progress": 3}),
        ("gamma must be a number in [0, 1], got 'x'", {"gamma": "x"}),
        ("unknown features 'polynomal'. Did you mean 'polynomial'?", {"features": "polynomal:2"}),
        ("features must be an object of saddleback.features", {"features": 3}),
        ("'²' is not an integer", {"features": "rbf:²"}),
        ("no target policy to evaluate", {"target": {}}),
        ("names of target policies must be strings, got 1", {"target": {1: "uniform"}}),
        ("a target is a function", {"target": None}),
        ("a log is read from Parquet files", {"data": 5}),
        ("low has 1 numbers, but observations have 2", {"features": "tiles:2x2", "low": [0.0]}),
        ("low is the box of features given as a text", {"low": [0.0, 0.0]}),
    ],
)  # fmt: skip
def test_wrong_types_are_our_errors(message, options):
    data = two_states(20, "right") | {"obs_1": np.zeros(20)}
    given = {"data": data, "target": "uniform", "gamma": 0.5, "features": OneHot(2)} | options
    with pytest.raises(SaddlebackError, match=re.escape(message)):
        sb.evaluate(given.pop("data"), given.pop("target"), **given)


def test_large_values_keep_the_digits_that_their_interval_supports():
    record = {"value": 123456789.0, "low": 123456000.0, "high": 123457000.0}
    assert number(record["value"], decimals(record)) == "123,456,789"
    assert number(-0.0, None, sign=True) == "+0"
